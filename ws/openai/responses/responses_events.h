// Serializes the Responses protocol's server events. Sequence numbers of a response's events: 0 created, 1 in_progress,
// 2 events for a compaction of its history, if any; for the reasoning, if any: 2 for its item and part, 1 per piece, 3
// for its end; for the message: 2 for its item and part, 1 delta per piece of text, 3 for its end; for each tool call:
// 1 for its item, 1 per piece of arguments, 2 for its end; then 1 for the response's end. An answer of calls only has
// no message. A warm-up has 0 created and 1 the end. Pure.
// THREAD: any.
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
    kMessages,          // one WebSocket message per event
    kServerSentEvents,  // with event names; without unnumbered events
  };

  /// Empty `stream_id` = no field.
  EventWriter(std::string stream_id, Framing framing);

  Framing framing() const { return framing_; }
  /// The event of `response` with this number.
  std::string Numbered(const Response& response, uint64_t number) const;
  /// A delta of the message at output index `index`: text up to the event `number`, with its tokens' logprobs.
  std::string Delta(const Response& response, size_t index, uint64_t number, std::string_view text,
                    std::span<const OutputToken> tokens) const;
  /// Event `nth` (from 0) of a step: start, piece (`event`.text) or end of the reasoning or a tool call, or the
  /// message's start.
  std::string Step(const TurnEvent& event, uint64_t number, size_t nth = 0) const;
  /// Number of events that Step writes for this kind.
  static size_t StepsOf(TurnEvent::Kind kind);
  /// Reports messages that left the window during this turn; "" if there are none.
  std::string Evicted(const Response& response) const;
  /// The text so far, in place of events that are no longer kept.
  std::string Snapshot(const Response& response) const;
  /// The response is queued for a slot at `position`.
  std::string Queued(const Response& response, int64_t position) const;

 private:
  std::string Event(const Response& response, std::string_view type, uint64_t number, std::string_view members) const;
  std::string Begin(std::string_view type, size_t members_size) const;
  void End(std::string& out, const Response& response, uint64_t number) const;
  std::string Compacted(const Response& response, uint64_t number) const;
  std::string Opened(const TurnEvent& event, uint64_t number, size_t nth) const;
  std::string Reasoning(const TurnEvent& event, uint64_t number, size_t nth) const;
  std::string ReasoningEnded(const TurnEvent& event, uint64_t number, size_t nth) const;
  std::string Call(const TurnEvent& event, uint64_t number, size_t nth) const;
  std::string ReasoningStepOf(const Response& response, uint64_t number, uint64_t first) const;
  std::string MessageEnded(const Response& response, uint64_t number, uint64_t nth) const;
  std::string CallStepOf(const Response& response, uint64_t number, uint64_t first) const;
  std::string Ended(const Response& response, uint64_t number) const;

  const std::string stream_id_;
  const Framing framing_;
};

}  // namespace ringside
