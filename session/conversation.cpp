#include "session/conversation.h"

#include "base/limits.h"

namespace ringside {

Status Conversation::CheckItems(size_t added, const char* param) const {
  if (timeline.items().size() + added <= kMaxTimelineItems) return Status::Ok();
  return InvalidArgument("A conversation has at most " + std::to_string(kMaxTimelineItems) + " items.", param,
                         "array_above_max_length");
}

void Conversation::ForgetIds() {
  timeline.ForgetTokens();
  report = {};
  responses.DropTokens();
}

}  // namespace ringside
