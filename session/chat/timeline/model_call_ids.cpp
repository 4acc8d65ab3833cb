#include "session/chat/timeline/model_call_ids.h"

#include <algorithm>
#include <charconv>

#include "session/tools/tool_calls.h"

namespace ringside {

ModelCallIds::ModelCallIds(const SharedList<Item>& items, size_t first, ToolSyntaxName syntax)
    : numbered_(SyntaxOf(syntax).has_numbered_ids()) {
  while (first > 0 && items[first - 1].role == ChatRole::kTool) --first;
  if (first > 0) Next(items[first - 1]);
}

std::vector<std::string> ModelCallIds::Next(const Item& item) {
  if (item.role == ChatRole::kTool) {
    // A sampled call is identified by the number at the end of its public id.
    const std::string& id = item.call_ids;
    for (const auto& [known, numbered] : numbered_ids_) {
      if (known == id || id.ends_with('_' + known)) return {numbered};
    }
    size_t number = made_.size();
    std::from_chars(id.data() + std::min(id.rfind('_') + 1, id.size()), id.data() + id.size(), number);
    const bool sampled =
        number < made_.size() && !made_[number].empty() && id.ends_with(ToolCallId("", answer_, number));
    return {sampled ? made_[number] : ModelCallId(id)};
  }
  answer_ = item.id;
  made_.clear();
  numbered_ids_.clear();
  std::vector<std::string> ids;
  if (item.calls_at < 0) return ids;
  std::string_view given = item.call_ids;
  for (const ToolCall& call : ReadToolCalls(std::string_view(item.text).substr(static_cast<size_t>(item.calls_at)))) {
    const std::string_view id = given.substr(0, given.find('\n'));
    given.remove_prefix(std::min(id.size() + 1, given.size()));
    const std::string known = id.empty() ? ToolCallId("", item.id, ids.size()) : std::string(id);
    if (numbered_) {
      const std::string own = "functions." + call.name + ':' + std::to_string(calls_++);
      ids.push_back(call.id.starts_with("functions.") ? call.id : own);
      numbered_ids_.emplace_back(known, ids.back());
      continue;
    }
    ids.push_back(call.id.empty() ? ModelCallId(known) : call.id);
    made_.push_back(call.id);
  }
  return ids;
}

}  // namespace ringside
