#include "session/chat/template_run.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "session/tools/tool_calls.h"

namespace ringside {
namespace {

using jinja::Value;
using Entries = std::vector<std::pair<Value, Value>>;

// What takes more is no template that anybody would wait for.
jinja::RenderLimits LimitsOf(std::span<const ChatMessage> messages, std::string_view tools) {
  size_t bytes = tools.size();
  for (const ChatMessage& message : messages) bytes += message.content.size();
  return {.steps = 200000 + static_cast<int64_t>(2000 * messages.size() + 2 * bytes), .bytes = (1 << 20) + 10 * bytes};
}

std::string Changed(std::string_view text, const TextChange& change) {
  return change ? change(text) : std::string(text);
}

/// The calls behind an answer's text, in both spellings that templates read them in: call.function.name and call.name.
Result<Value> CallsOf(const ChatMessage& message, const TextChange& change) {
  std::vector<Value> calls;
  const std::string_view text = std::string_view(message.content).substr(static_cast<size_t>(message.calls_at));
  for (const ToolCall& call : ReadToolCalls(text)) {
    const std::string name = Changed(call.name, change);
    ASSIGN_OR_RETURN(const Value arguments, ValueOfJson(call.arguments, change));
    ASSIGN_OR_RETURN(Value function, jinja::MakeMapping({{"name", name}, {"arguments", arguments}}));
    Entries entries = {
        {"type", "function"}, {"function", std::move(function)}, {"name", name}, {"arguments", arguments}};
    if (calls.size() < message.model_ids.size()) {
      entries.emplace_back("id", Changed(message.model_ids[calls.size()], change));
    }
    ASSIGN_OR_RETURN(Value one, jinja::MakeMapping(std::move(entries)));
    calls.push_back(std::move(one));
  }
  return jinja::MakeList(std::move(calls));
}

/// Calls that were cut short are text.
Result<Value> MessageOf(const ChatMessage& message, const TextChange& change) {
  const bool has_calls = message.calls_at >= 0;
  Result<Value> calls = has_calls ? CallsOf(message, change) : Result<Value>(Value(Value::None{}));
  const std::string_view content = message.content;
  const std::string_view text =
      calls.ok() ? content.substr(0, std::min(static_cast<size_t>(message.calls_at), content.size())) : content;
  Entries entries = {{"role", ChatRoleName(message.role)}, {"content", Changed(text, change)}};
  if (has_calls && calls.ok()) entries.emplace_back("tool_calls", *std::move(calls));
  if (message.role == ChatRole::kTool && !message.model_ids.empty()) {
    entries.emplace_back("tool_call_id", Changed(message.model_ids.front(), change));
  }
  return jinja::MakeMapping(std::move(entries));
}

Result<Value> ToolsOf(std::string_view lines, const TextChange& change) {
  if (lines.empty()) return Value(Value::None{});
  std::vector<Value> tools;
  while (!lines.empty()) {
    const std::string_view line = lines.substr(0, lines.find('\n'));
    lines.remove_prefix(std::min(line.size() + 1, lines.size()));
    ASSIGN_OR_RETURN(Value tool, ValueOfJson(line, change));
    tools.push_back(std::move(tool));
  }
  return jinja::MakeList(std::move(tools));
}

Result<std::string> Run(const jinja::Template& source, const ChatTemplate::Facts& facts, const std::tm& day,
                        std::span<const ChatMessage> messages, bool add_generation_prompt, std::string_view tools,
                        const TextChange& change) {
  std::vector<Value> all;
  for (const ChatMessage& message : messages) {
    ASSIGN_OR_RETURN(Value one, MessageOf(message, change));
    all.push_back(std::move(one));
  }
  ASSIGN_OR_RETURN(Value list, jinja::MakeList(std::move(all)));
  ASSIGN_OR_RETURN(Value told, ToolsOf(tools, change));
  const jinja::Variables variables = {{"messages", std::move(list)}, {"tools", std::move(told)},
                                      {"documents", Value::None{}},  {"add_generation_prompt", add_generation_prompt},
                                      {"bos_token", facts.bos},      {"eos_token", facts.eos}};
  return source.Render(variables, day, LimitsOf(messages, tools));
}

}  // namespace

Result<TemplateRun> TemplateRun::FromSource(std::string_view jinja_source, const ChatTemplate::Facts& facts) {
  ASSIGN_OR_RETURN(jinja::Template parsed, jinja::Template::Parse(jinja_source));
  const std::time_t now = std::time(nullptr);
  std::tm today{};
  localtime_r(&now, &today);
  return TemplateRun(jinja_source, std::move(parsed), facts, today);
}

Result<std::string> TemplateRun::Text(std::span<const ChatMessage> messages, bool add_generation_prompt,
                                      std::string_view tools, const TextChange& change) const {
  return Run(template_, facts_, today_, messages, add_generation_prompt, tools, change);
}

Result<std::string> TemplateRun::TextOnAnotherDay(std::span<const ChatMessage> messages) const {
  std::tm day = today_;
  day.tm_year += 1;
  day.tm_mon = (day.tm_mon + 1) % 12;
  day.tm_mday = day.tm_mday % 28 + 1;
  return Run(template_, facts_, day, messages, true, {}, nullptr);
}

}  // namespace ringside
