// Serializes the Realtime protocol's server events. One writer per socket, whose events it numbers.
// THREAD: any.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "session/chat/timeline/timeline.h"
#include "session/event_sink.h"
#include "session/tokens_by_owner.h"
#include "ws/content/response_objects.h"

namespace ringside {

/// Settings of a response's request, for its events.
struct RealtimeAsked {
  std::string conversation;       // "" = outside the conversation
  std::string previous_item;      // last item before it in the conversation; "" = none
  std::string max_output_tokens;  // as JSON
  std::string metadata;           // as JSON
  TokenShare tokens;              // tokens left in the owner's bucket
};

class RealtimeWriter {
 public:
  /// An event; `members` is JSON without the braces.
  std::string Event(std::string_view type, const std::string& members) const;
  /// `event_id`: id of the client event that caused the error; "" = none.
  std::string Error(const Status& status, std::string_view event_id, int64_t retry_after_ms = 0) const;
  /// All messages for this event, in order; for a piece of text, the message with `event`'s text.
  std::vector<std::string> Events(const TurnEvent& event, const RealtimeAsked& asked) const;

 private:
  std::vector<std::string> Opened(const Response& response, const RealtimeAsked& asked) const;
  std::vector<std::string> MessageEnded(const Response& response, const RealtimeAsked& asked) const;
  std::vector<std::string> Call(const TurnEvent& event, const RealtimeAsked& asked) const;
  std::vector<std::string> Ended(const Response& response, const RealtimeAsked& asked) const;

  mutable std::atomic<uint64_t> events_{0};
};

/// A message item. `status` "in_progress": without content.
std::string RealtimeMessage(std::string_view id, ChatRole role, std::string_view status, std::string_view text);
/// The client's view of an item, which may be several items: a message and tool calls. `named`: the client's own id of
/// the first one, "" = none.
std::vector<ItemView> RealtimeViewsOf(const Item& item, const std::string& named);
/// Id of the last item of an answer.
std::string LastItemOf(const Response& response);
/// "item": ..., preceded by "previous_item_id".
std::string RealtimeItemMembers(std::string_view previous, const std::string& item);

}  // namespace ringside
