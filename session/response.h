// What the server remembers of one answer: who may see it, what was asked, the text so far, how it ended. Owned by its
// Session and read or changed under the session's lock only.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "engine/token_sink.h"
#include "session/event_numbers.h"
#include "session/journal/journal.h"

namespace ringside {

enum class ResponseStatus { kInProgress, kCompleted, kIncomplete, kCancelled, kFailed };

/// What of a session's own settings is more than this server has: the server's limits, which hold instead.
struct ClampedLimits {
  std::optional<int64_t> memory_len, session_len, pinned;
  bool any() const { return memory_len || session_len || pinned; }
};

struct Response {
  std::string id;               // "resp_..."
  std::string item_id;          // "msg_...", of the assistant's message
  std::string conversation_id;  // "conv_..."; "" for a chain
  std::string previous_id;      // the response that this one continues
  std::string echo;             // the request's fields as the wire repeats them; opaque to this layer
  std::string request_key;      // client request id and digest, for re-attaching; "" = none
  uint64_t connection = 0;      // not stored: visible to this connection only; 0 = to its owner
  bool stored = true;           // false: gone with its connection
  bool warm_up = false;         // prefill only
  bool logprobs = false;

  double created_at = 0;    // seconds since 1970
  double completed_at = 0;  // 0 = running
  ResponseStatus status = ResponseStatus::kInProgress;
  FinishReason reason = FinishReason::kStop;
  /// For kIncomplete, where `reason` does not say it: "interrupted" (the server died in mid answer; the answer can be
  /// continued), "detached" (nobody heard it for too long).
  std::string incomplete_reason;
  std::string stop_string;  // that ended it, if one did
  Status error;
  JournalPosition recorded;  // finished and durable: the journal's last record of it

  EventCounts before;  // what had happened in its session when it began
  bool begun = false;  // it was announced
  bool opened = false;
  std::string text;
  std::vector<uint32_t> piece_ends;        // offset in `text` behind each piece, as it came
  std::vector<OutputToken> tokens;         // with logprobs asked for: every token of the text, until a newer turn ends
  std::vector<uint32_t> piece_token_ends;  // offset in `tokens` behind each piece

  size_t items_before = 0;     // items of the timeline before this turn's input
  size_t items_end = 0;        // items of the timeline after this response; what it continues from
  size_t input_items_end = 0;  // of these, the input ends here
  int64_t input_tokens = 0;    // the whole context of the answer
  int64_t output_tokens = 0;
  CacheReport report;
  bool retokenised = false;  // the history's ids were another tokenizer's or template's: they were made anew
  ClampedLimits clamped;
  int64_t tokens_evicted_before = 0, messages_evicted_before = 0;  // what the turn before had reported
  TurnTimes times;

  /// Memory held, about.
  int64_t bytes() const {
    size_t sum = sizeof(Response) + text.size() + echo.size() + request_key.size();
    sum += (piece_ends.size() + piece_token_ends.size()) * sizeof(uint32_t);
    for (const OutputToken& token : tokens) sum += sizeof(OutputToken) + token.top.size() * sizeof(TokenLogprob);
    return static_cast<int64_t>(sum);
  }
  bool running() const { return status == ResponseStatus::kInProgress; }
  /// What has happened to it so far.
  EventCounts events() const {
    const bool ended = begun && !running();
    return {.answers = begun && !warm_up,
            .warm_ups = begun && warm_up,
            .opened = opened,
            .pieces = piece_ends.size(),
            .ended = ended && opened,
            .ended_bare = ended && !opened};
  }
  /// The i-th piece of the text.
  std::string_view piece(size_t i) const {
    const size_t begin = i > 0 ? piece_ends[i - 1] : 0;
    return std::string_view(text).substr(begin, piece_ends[i] - begin);
  }
  /// Its tokens, where they are kept.
  std::span<const OutputToken> piece_tokens(size_t i) const {
    if (i >= piece_token_ends.size()) return {};
    const size_t begin = i > 0 ? piece_token_ends[i - 1] : 0;
    return std::span(tokens).subspan(begin, piece_token_ends[i] - begin);
  }
};

}  // namespace ringside
