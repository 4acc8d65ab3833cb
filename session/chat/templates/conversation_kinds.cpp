#include "session/chat/templates/conversation_kinds.h"

#include <algorithm>
#include <utility>

namespace ringside {

void KindReader::Add(const Message& message) {
  const auto has = [&](std::string_view word) { return message.text.find(word) != std::string_view::npos; };
  const bool answers = message.role == ChatRole::kAssistant;
  if (answers && (has("<think>") || has("</think>"))) kinds_ |= kWithThinking;
  if (std::ranges::any_of(tags_, has)) kinds_ |= kWithTags;
  if (message.reasoning) kinds_ |= kWithReasoning;
  if (message.calls || message.role == ChatRole::kTool) kinds_ |= kWithTools;
  if (message.role == ChatRole::kUser && has("<tool_response>"))
    kinds_ |= kWithTools;  // templates take it for a result
  const bool first = !std::exchange(begun_, true), behind_system = std::exchange(behind_system_, false);
  if (message.role == ChatRole::kSystem) {
    kinds_ |= first ? kWithSystem : kWithLateSystem;
    behind_system_ = first;
    return;
  }
  if (behind_system && TrimText(message.text).empty()) kinds_ |= kBlankBehindSystem;
  if (message.role == ChatRole::kTool) return;  // the question waits still
  if (answers != asked_) kinds_ |= kOutOfTurn;
  if (!message.calls) asked_ = !answers;
}

}  // namespace ringside
