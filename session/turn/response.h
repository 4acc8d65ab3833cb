// The record of one answer: visibility, request, text so far, outcome. Owned by its Session, accessed under the
// session's lock only.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/trace_context.h"
#include "engine/token_sink.h"
#include "session/chat/timeline/shared_list.h"
#include "session/chat/timeline/shared_text.h"
#include "session/journal/journal.h"
#include "session/tools/tool_calls.h"
#include "session/turn/event_numbers.h"

namespace ringside {

class Tokenizer;

enum class ResponseStatus { kInProgress, kCompleted, kIncomplete, kCancelled, kFailed };

/// Response::incomplete_reason if the server could not finish the answer: it crashed or stopped, or a device, a rank or
/// an engine failed. Delivered text stays in the conversation, and a turn with an empty input continues it.
inline constexpr const char* kInterrupted = "interrupted";
/// The reason of an answer ended by FinishReason::kRepetition.
inline constexpr const char* kRepetition = "repetition";

/// Settings of the session above this server's limits: the limits that apply instead.
struct ClampedLimits {
  std::optional<int64_t> memory_len, session_len, pinned;
  bool any() const { return memory_len || session_len || pinned; }
};

/// A step of an answer's tool call: number `call`, at bytes [begin, end) of the text.
struct CallStep {
  enum class Kind : uint8_t { kBegun, kArguments, kWhole, kCut };
  Kind kind;
  uint32_t call = 0, begin = 0, end = 0;
  bool ends() const { return kind == Kind::kWhole || kind == Kind::kCut; }
};

struct Response {
  std::string id;                        // "resp_..."
  std::string item_id;                   // "msg_...": the assistant's message
  std::string conversation_id;           // "conv_..."; "" for a chain
  std::string previous_id;               // response that this one continues
  std::string adapter;                   // name of the adapter; "" = none
  std::string model_name;                // served name of its model; not stored, as the next
  const Tokenizer* tokenizer = nullptr;  // of `tokens`; not null from the turn's start or its load on
  std::string echo;                      // the request's fields as the protocol repeats them; opaque to this layer
  std::string compaction;                // opaque form of what replaced the history before the turn; "" = nothing did
  std::string request_key;               // client request id and digest, for re-attaching; "" = none
  uint64_t connection = 0;               // not stored: visible to this connection only; 0 = to its owner
  bool stored = true;                    // false: dropped with its connection
  bool warm_up = false;                  // prefill only
  bool logprobs = false;
  bool token_ids = false;  // not stored: the client receives the ids of prompt and answer
  TraceContext trace;      // of the request; not stored

  double created_at = 0;            // seconds since 1970
  double completed_at = 0;          // 0 = running
  double begun_s = 0, ended_s = 0;  // by SessionContext::uptime_s
  ResponseStatus status = ResponseStatus::kInProgress;
  FinishReason reason = FinishReason::kStop;
  /// For kIncomplete where `reason` is not sufficient: kInterrupted, "detached" (no listener for too long),
  /// "turn_timeout".
  std::string incomplete_reason;
  std::string stop_string;   // the stop string that ended it, if any
  Status error;              // of kFailed, and the cause of an interruption if known
  JournalPosition recorded;  // set when finished and durable: its last journal record

  EventCounts before;    // the session's event counts at its start
  bool begun = false;    // announced
  bool refused = false;  // not recorded: announced as failed, since nothing may acknowledge it
  bool started = false;  // its computation has started
  bool opened = false;   // its message has started; tool calls may come without one
  /// Includes its tool calls. In a continued answer: the new part, preceded by `begun_bytes` of open tool calls, which
  /// are sent again, or of text that may become one.
  std::string text;
  size_t begun_bytes = 0;
  std::string reasoning;                       // in a continued answer: the new part
  std::vector<uint32_t> reasoning_ends;        // end offset in `reasoning` of each piece as received
  bool reasoning_ended = false;                // its reasoning is complete: text or the end follows
  bool cut_in_reasoning = false;               // the turn ended before the answer started
  int64_t reasoning_tokens = 0;                // including the channels' markup
  double reasoning_ms = 0;                     // from the first token to the end of the reasoning
  std::vector<std::string> ignored_reasoning;  // names of settings that the model's template cannot honour
  std::vector<uint32_t> piece_ends;            // end offset in `text` of each piece of the message as received
  /// If keeps_tokens(): the message's tokens, including special tokens and the final one, until a newer turn ends. The
  /// first `scored_tokens` are the prompt's if it was scored.
  std::vector<OutputToken> tokens;
  size_t scored_tokens = 0;
  std::vector<uint32_t> piece_token_ends;  // end offset in `tokens` of each piece
  std::vector<float> embedding;            // if requested: TokenSink::OnEmbedded
  SharedList<TokenId> prompt_ids;          // if token_ids: the whole context of the answer
  std::vector<TokenId> output_ids;  // if token_ids, at the end: all sampled ids, including calls and the end token

  CallPlace calls = CallPlace::kNone;               // where to look for tool calls in `text`
  ToolSyntaxName syntax = ToolSyntaxName::kHermes;  // syntax of those calls
  std::vector<CallStep> call_steps;                 // parsed calls
  SharedText form;                                  // Encode(AnswerForm) of the requested form

  size_t items_before = 0;     // timeline items before this turn's input
  size_t items_end = 0;        // timeline items after this response: the next turn's start
  size_t input_items_end = 0;  // timeline items after this turn's input
  int64_t input_tokens = 0;    // the whole context of the answer
  int64_t output_tokens = 0;
  CacheReport report;
  DraftReport drafts;
  bool retokenised = false;  // the history's ids were of another tokenizer or template and were recomputed
  ClampedLimits clamped;
  int64_t tokens_evicted_before = 0, messages_evicted_before = 0;  // reported by the previous turn
  TurnTimes times;

  /// Approximate memory.
  int64_t bytes() const {
    size_t sum = sizeof(Response) + text.size() + reasoning.size() + reasoning_ends.size() * sizeof(uint32_t) +
                 adapter.size() + model_name.size() + echo.size() + compaction.size() + request_key.size() +
                 form.size();
    sum += (piece_ends.size() + piece_token_ends.size()) * sizeof(uint32_t) + call_steps.size() * sizeof(CallStep);
    sum += embedding.size() * sizeof(float) + (prompt_ids.size() + output_ids.size()) * sizeof(TokenId);
    for (const OutputToken& token : tokens) sum += sizeof(OutputToken) + token.top.size() * sizeof(TokenLogprob);
    return static_cast<int64_t>(sum);
  }
  bool keeps_tokens() const { return logprobs || token_ids; }
  bool running() const { return status == ResponseStatus::kInProgress; }
  bool interrupted() const { return status == ResponseStatus::kIncomplete && incomplete_reason == kInterrupted; }
  /// Counts of its events so far.
  EventCounts events() const {
    const bool ended = begun && !running(), message_open = opened && call_steps.empty();
    const uint64_t calls_ended = call_steps.empty() ? 0 : call_steps.back().call + call_steps.back().ends();
    const uint64_t calls_begun = call_steps.empty() ? 0 : call_steps.back().call + 1;
    return {.answers = begun && !warm_up,
            .warm_ups = begun && warm_up,
            .compactions = begun && !compaction.empty(),
            .reasoning_opened = !reasoning_ends.empty(),
            .reasoning_pieces = reasoning_ends.size(),
            .reasoning_ended = reasoning_ended,
            .opened = opened,
            .pieces = piece_ends.size(),
            .message_ended = opened && !message_open,
            .calls = calls_begun,
            .call_pieces = call_steps.size() - calls_begun - calls_ended,
            .calls_ended = calls_ended,
            .ended = ended && message_open,
            .ended_bare = ended && !message_open};
  }
  /// The message's text without tool calls.
  std::string_view message() const {
    return piece_ends.empty() ? std::string_view() : Between(begun_bytes, piece_ends.back());
  }
  std::string_view bytes_of(const CallStep& step) const { return Between(step.begin, step.end); }
  /// The tool calls so far.
  std::vector<ToolCall> tool_calls() const {
    std::vector<ToolCall> calls;
    for (const CallStep& step : call_steps) {
      if (step.kind == CallStep::Kind::kBegun) calls.push_back({std::string(bytes_of(step)), "", false});
      if (step.kind == CallStep::Kind::kArguments) calls.back().arguments += bytes_of(step);
      if (step.kind == CallStep::Kind::kWhole) calls.back().complete = true;
    }
    return calls;
  }
  /// The i-th piece of the reasoning.
  std::string_view reasoning_piece(size_t i) const {
    const size_t begin = i > 0 ? reasoning_ends[i - 1] : 0;
    return std::string_view(reasoning).substr(begin, reasoning_ends[i] - begin);
  }
  /// The i-th piece of the text.
  std::string_view piece(size_t i) const { return Between(i > 0 ? piece_ends[i - 1] : begun_bytes, piece_ends[i]); }
  /// Tokens of a piece, if kept.
  std::span<const OutputToken> piece_tokens(size_t i) const {
    if (i >= piece_token_ends.size()) return {};
    const size_t begin = i > 0 ? piece_token_ends[i - 1] : scored_tokens;
    return std::span(tokens).subspan(begin, piece_token_ends[i] - begin);
  }
  std::string_view Between(size_t begin, size_t end) const { return std::string_view(text).substr(begin, end - begin); }
};

}  // namespace ringside
