// The Realtime protocol's server events as text. One writer a socket, whose events it numbers; any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "session/chat/timeline.h"
#include "session/event_sink.h"
#include "session/tokens_by_owner.h"
#include "ws/content/response_objects.h"

namespace ringside {

/// What a response was asked with, for its events.
struct RealtimeAsked {
  std::string conversation;       // "" = the answer is no part of one
  std::string previous_item;      // the conversation's last item before it; "" = none
  std::string max_output_tokens;  // as JSON
  std::string metadata;           // as JSON
  TokenShare tokens;              // that its owner may have computed
};

class RealtimeWriter {
 public:
  /// An event; `members` is JSON, as it stands between the braces.
  std::string Event(std::string_view type, const std::string& members) const;
  /// `event_id` is the client event's that is answered; "" = it had none.
  std::string Error(const Status& status, std::string_view event_id, int64_t retry_after_ms = 0) const;
  /// All events that tell of this, in order; of a piece of text, the one that has `event`'s text.
  std::vector<std::string> Events(const TurnEvent& event, const RealtimeAsked& asked) const;

 private:
  std::vector<std::string> Opened(const Response& response, const RealtimeAsked& asked) const;
  std::vector<std::string> MessageEnded(const Response& response, const RealtimeAsked& asked) const;
  std::vector<std::string> Call(const TurnEvent& event, const RealtimeAsked& asked) const;
  std::vector<std::string> Ended(const Response& response, const RealtimeAsked& asked) const;

  mutable std::atomic<uint64_t> events_{0};
};

/// A message. `status` "in_progress": it has no content yet.
std::string RealtimeMessage(std::string_view id, ChatRole role, std::string_view status, std::string_view text);
/// An item of a conversation as clients see it, which may be several: a message and tool calls. `named` is what a
/// client has called the first of them, "" = nothing.
std::vector<ItemView> RealtimeViewsOf(const Item& item, const std::string& named);
/// The id of the last item of an answer.
std::string LastItemOf(const Response& response);
/// "item": ..., and "previous_item_id" before it.
std::string RealtimeItemMembers(std::string_view previous, const std::string& item);

}  // namespace ringside
