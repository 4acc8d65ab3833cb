// The Responses protocol's server events as text. Every event of a response has a number: 0 created, 1 in_progress,
// 2 for a compaction of its history, if there was one, then those of the reasoning, if there is any: 2 for its item and
// its part, one for each piece, 3 for its end. Then 2 for the message and its part, a delta for each piece of text,
// then the message's end: 3 events. Tool calls follow: each 1 event for its item, one for each piece of its arguments,
// 2 for its end. Then the response's end: 1. An answer of calls alone has no message. A warm-up has 0 created and 1 the
// end. Pure; any thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "engine/text/tokenizer.h"
#include "session/event_sink.h"
#include "session/turn/event_numbers.h"
#include "session/turn/response.h"
#include "ws/content/event_numbering.h"

namespace ringside {

class EventWriter {
 public:
  enum class Framing {
    kMessages,          // each event a WebSocket message
    kServerSentEvents,  // each with its name in front; without the events that have no number
  };

  /// `tokenizer` and `model` outlive the writer. `stream_id` empty = no field.
  EventWriter(const Tokenizer& tokenizer, const std::string& model, std::string stream_id, Framing framing);

  Framing framing() const { return framing_; }
  /// The event of `response` with this number.
  std::string Numbered(const Response& response, uint64_t number) const;
  /// A delta of the message, the response's item `index`: the text that came up to the event `number`, with the
  /// logprobs of its tokens.
  std::string Delta(const Response& response, size_t index, uint64_t number, std::string_view text,
                    std::span<const OutputToken> tokens) const;
  /// The `nth` event, from 0, of a step of the answer: the reasoning's or a tool call's beginning, piece (`event`.text)
  /// or end, or the message's beginning.
  std::string Step(const TurnEvent& event, uint64_t number, size_t nth = 0) const;
  /// The number of events that Step writes for it.
  static size_t StepsOf(TurnEvent::Kind kind);
  /// Tells of messages that have left the window during this turn; "" if none have.
  std::string Evicted(const Response& response) const;
  /// The text so far, in place of events no longer kept.
  std::string Snapshot(const Response& response) const;
  /// The response waits for a slot, `position` in line.
  std::string Queued(const Response& response, int64_t position) const;

 private:
  std::string Event(const Response& response, std::string_view type, uint64_t number, std::string_view members) const;
  std::string Compacted(const Response& response, uint64_t number) const;
  std::string Opened(const TurnEvent& event, uint64_t number, size_t nth) const;
  std::string Reasoning(const TurnEvent& event, uint64_t number, size_t nth) const;
  std::string ReasoningEnded(const TurnEvent& event, uint64_t number, size_t nth) const;
  std::string Call(const TurnEvent& event, uint64_t number, size_t nth) const;
  std::string ReasoningStepOf(const Response& response, uint64_t number, uint64_t first) const;
  std::string MessageEnded(const Response& response, uint64_t number, uint64_t nth) const;
  std::string CallStepOf(const Response& response, uint64_t number, uint64_t first) const;
  std::string Ended(const Response& response, uint64_t number) const;

  const Tokenizer& tokenizer_;
  const std::string& model_;
  const std::string stream_id_;
  const Framing framing_;
};

}  // namespace ringside
