// What the server remembers of one answer: who may see it, what was asked, the text so far, how it ended. Owned by its
// Session and read or changed under the session's lock only.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "engine/token_sink.h"
#include "session/journal/journal.h"

namespace ringside {

enum class ResponseStatus { kInProgress, kCompleted, kIncomplete, kCancelled, kFailed };

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
  Status error;
  JournalPosition recorded;  // finished and durable: the journal's last record of it

  // Wire events are numbered 0 created, 1 in_progress, 2 and 3 the item and its part, then the deltas, then the end
  // (4 events, or 1 if no item was opened); a warm-up has 0 created and 1 the end. The session-wide number of an event
  // is first_seq + its own.
  uint64_t first_seq = 0;
  int64_t next_sequence = 0;
  bool opened = false;
  std::string text;
  std::vector<uint32_t> delta_ends;        // offset in `text` behind each delta
  std::vector<OutputToken> tokens;         // with logprobs asked for: every token of the text, until a newer turn ends
  std::vector<uint32_t> delta_token_ends;  // offset in `tokens` behind each delta

  size_t items_before = 0;     // items of the timeline before this turn's input
  size_t items_end = 0;        // items of the timeline after this response; what it continues from
  size_t input_items_end = 0;  // of these, the input ends here
  int64_t input_tokens = 0;    // the whole context of the answer
  int64_t output_tokens = 0;
  CacheReport report;
  int64_t tokens_evicted_before = 0, messages_evicted_before = 0;  // what the turn before had reported
  TurnTimes times;

  /// Memory held, about.
  int64_t bytes() const {
    size_t sum = sizeof(Response) + text.size() + echo.size() + request_key.size();
    sum += (delta_ends.size() + delta_token_ends.size()) * sizeof(uint32_t);
    for (const OutputToken& token : tokens) sum += sizeof(OutputToken) + token.top.size() * sizeof(TokenLogprob);
    return static_cast<int64_t>(sum);
  }
  bool running() const { return status == ResponseStatus::kInProgress; }
  static constexpr int64_t kFirstDelta = 4;  // its wire number
  /// Wire number of the first event of the end.
  int64_t end_sequence() const {
    return opened ? kFirstDelta + static_cast<int64_t>(delta_ends.size()) : (warm_up ? 1 : 2);
  }
};

}  // namespace ringside
