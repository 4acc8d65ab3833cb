#include "session/turn/compaction.h"

#include <algorithm>

#include "engine/text/unicode.h"

namespace ringside {
namespace {

constexpr size_t kOutlinedMessages = 32, kOutlinedBytes = 240;  // of each

constexpr std::string_view kQuestion =
    "Summarize the conversation above so that it can continue without its earlier messages. Keep the user's goals and "
    "constraints, decisions and their reasons, names, numbers, file paths and identifiers, results of tools that are "
    "still needed, and the open steps. Write the summary only.";
constexpr std::string_view kSummaryHeading = "Summary of the conversation so far:\n";

bool IsSystem(const NewItem& item) { return item.role == ChatRole::kSystem; }

}  // namespace

size_t BeginOfExchange(const std::vector<NewItem>& items) {
  size_t begin = items.size();
  while (begin > 0 && items[begin - 1].role != ChatRole::kAssistant) --begin;
  const bool results = begin < items.size() && items[begin].role == ChatRole::kTool;
  return results && begin > 0 ? begin - 1 : begin;
}

size_t CountLeadingSystem(const std::vector<NewItem>& items) {
  return static_cast<size_t>(std::ranges::find_if_not(items, IsSystem) - items.begin());
}

NewItem AskForSummary(const std::string& instructions) {
  return {ChatRole::kUser, instructions.empty() ? std::string(kQuestion) : instructions};
}

std::string OutlineOf(const std::vector<NewItem>& items) {
  std::string outline;
  for (size_t i = items.size() - std::min(items.size(), kOutlinedMessages); i < items.size(); ++i) {
    const std::string_view text = std::string_view(items[i].text).substr(0, kOutlinedBytes);
    if (text.empty()) continue;
    outline += std::string(ChatRoleName(items[i].role)) + ": " + ToValidUtf8(text);
    outline += text.size() < items[i].text.size() ? " ...\n" : "\n";
  }
  return outline;
}

NewItem SummaryItem(std::string_view summary) {
  return {ChatRole::kUser, std::string(kSummaryHeading).append(summary)};
}

}  // namespace ringside
