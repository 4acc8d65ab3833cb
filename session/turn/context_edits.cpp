#include "session/turn/context_edits.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "session/tools/tool_calls.h"

namespace ringside {
namespace {

constexpr std::string_view kNoArguments = "{}";

/// A call in the history.
struct HistoryCall {
  size_t item = 0, call = 0;
  std::string name;
};
using CallsById = std::map<std::string, HistoryCall, std::less<>>;

bool Contains(const std::vector<std::string>& names, const std::string& name) {
  return std::ranges::find(names, name) != names.end();
}

CallsById CallsIn(const std::vector<NewItem>& items) {
  CallsById calls;
  for (size_t i = 0; i < items.size(); ++i) {
    if (items[i].calls_at < 0) continue;
    std::string_view ids = items[i].call_ids;
    size_t number = 0;
    for (ToolCall& call :
         ReadToolCalls(std::string_view(items[i].text).substr(static_cast<size_t>(items[i].calls_at)))) {
      const size_t end = std::min(ids.find('\n'), ids.size());
      calls.insert_or_assign(std::string(ids.substr(0, end)), HistoryCall{i, number++, std::move(call.name)});
      ids.remove_prefix(std::min(end + 1, ids.size()));
    }
  }
  return calls;
}

/// Replaces the arguments of the calls whose numbers are in `cleared`.
void ClearArguments(const std::set<size_t>& cleared, NewItem* item) {
  const auto begin = static_cast<size_t>(item->calls_at);
  const std::vector<ToolCall> calls = ReadToolCalls(std::string_view(item->text).substr(begin));
  item->text.resize(begin);
  item->calls_at = -1;
  for (size_t i = 0; i < calls.size(); ++i) {
    const bool clears = cleared.contains(i) && calls[i].complete;
    AppendToolCall(calls[i].name, clears ? kNoArguments : calls[i].arguments, &item->text, &item->calls_at);
  }
}

AppliedEdit Apply(const ClearToolUses& edit, const TextTokens& tokens, std::vector<NewItem>* items) {
  const CallsById calls = CallsIn(*items);
  std::vector<NewItem> next = *items;
  const int64_t placeholder = tokens(kClearedResult);
  int64_t clearable = CountToolUses(*items) - edit.keep;
  AppliedEdit applied;
  std::map<size_t, std::set<size_t>> arguments;  // cleared, by item
  for (NewItem& item : next) {
    if (item.role != ChatRole::kTool || clearable-- <= 0) continue;
    const auto call = calls.find(item.call_ids);
    const std::string name = call == calls.end() ? "" : call->second.name;
    if (Contains(edit.excluded, name)) continue;
    const bool inputs = call != calls.end() && (edit.clears_inputs || Contains(edit.cleared_inputs, name));
    if (inputs) arguments[call->second.item].insert(call->second.call);
    const bool longer = item.text.size() > kClearedResult.size();  // else the placeholder would save nothing
    if (longer) applied.tokens += tokens(item.text) - placeholder;
    if (longer) item.text = kClearedResult;
    if (longer) item.images.clear();
    if (longer) item.part_begins.clear();
    applied.count += longer || inputs ? 1 : 0;
  }
  for (const auto& [index, cleared] : arguments) {
    const int64_t before = tokens(next[index].text);
    ClearArguments(cleared, &next[index]);
    applied.tokens += before - tokens(next[index].text);
  }
  if (applied.count == 0 || applied.tokens < edit.clear_at_least) return {};
  *items = std::move(next);
  return applied;
}

AppliedEdit Apply(const ClearThinking& edit, const TextTokens& tokens, std::vector<NewItem>* items) {
  AppliedEdit applied;
  int64_t kept = 0;  // turns with reasoning, counted from the end
  bool counted = false;
  for (auto item = items->rbegin(); item != items->rend(); ++item) {
    if (item->role == ChatRole::kUser) counted = false;
    if (item->reasoning.empty()) continue;
    if (!std::exchange(counted, true)) ++kept;
    if (edit.keep < 0 || kept <= edit.keep) continue;
    applied.count = kept - edit.keep;
    applied.tokens += tokens(item->reasoning);
    item->reasoning.clear();
    item->reasoning_cleared = true;
  }
  return applied;
}

}  // namespace

int64_t CountToolUses(const std::vector<NewItem>& items) {
  return std::ranges::count_if(items, [](const NewItem& item) { return item.role == ChatRole::kTool; });
}

AppliedEdit ApplyEdit(const ContextEdit& edit, const TextTokens& tokens, std::vector<NewItem>* items) {
  return std::visit([&](const auto& made) { return Apply(made, tokens, items); }, edit);
}

}  // namespace ringside
