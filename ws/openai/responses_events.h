// The Responses protocol's server events as text. Every event of a response has a number: 0 created, 1 in_progress, 2
// and 3 the item and its part, then a delta for each piece of text, then the end: 4 events, or 1 if no item was opened.
// A warm-up has 0 created and 1 the end. Pure; any thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "engine/text/tokenizer.h"
#include "session/event_numbers.h"
#include "session/response.h"

namespace ringside {

inline constexpr EventNumbers kResponsesNumbers{
    .answer = 2, .warm_up = 1, .opened = 2, .piece = 1, .ended = 4, .ended_bare = 1};

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
  /// A delta: the text that came up to the event `number`, with the logprobs of its tokens.
  std::string Delta(const Response& response, uint64_t number, std::string_view text,
                    std::span<const OutputToken> tokens) const;
  /// Tells of messages that have left the window during this turn; "" if none have.
  std::string Evicted(const Response& response) const;
  /// The text so far, in place of events no longer kept.
  std::string Snapshot(const Response& response) const;
  /// The response waits for a slot, `position` in line.
  std::string Queued(const Response& response, int64_t position) const;

 private:
  std::string Event(const Response& response, std::string_view type, uint64_t number, std::string_view members) const;
  std::string Opened(const Response& response, uint64_t number) const;
  std::string Ended(const Response& response, uint64_t number, uint64_t first) const;

  const Tokenizer& tokenizer_;
  const std::string& model_;
  const std::string stream_id_;
  const Framing framing_;
};

}  // namespace ringside
