#include "session/chat/template_run.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "session/chat/json_value.h"
#include "session/tools/tool_calls.h"

namespace ringside {
namespace {

using jinja::Value;
using Entries = std::vector<std::pair<Value, Value>>;

// Of conversations of a few short messages: what takes more is no template that anybody would wait for.
constexpr jinja::RenderLimits kLimits = {.steps = 200000, .bytes = 1 << 20};

/// The calls behind an answer's text, in both spellings that templates read them in: call.function.name and call.name.
Result<Value> CallsOf(const ChatMessage& message) {
  std::vector<Value> calls;
  const std::string_view text = std::string_view(message.content).substr(static_cast<size_t>(message.calls_at));
  for (const ToolCall& call : ReadToolCalls(text)) {
    ASSIGN_OR_RETURN(const Value arguments, ValueOfJson(call.arguments));
    ASSIGN_OR_RETURN(Value function, jinja::MakeMapping({{"name", call.name}, {"arguments", arguments}}));
    Entries entries = {
        {"type", "function"}, {"function", std::move(function)}, {"name", call.name}, {"arguments", arguments}};
    if (calls.size() < message.model_ids.size()) entries.emplace_back("id", message.model_ids[calls.size()]);
    ASSIGN_OR_RETURN(Value one, jinja::MakeMapping(std::move(entries)));
    calls.push_back(std::move(one));
  }
  return jinja::MakeList(std::move(calls));
}

Result<Value> MessageOf(const ChatMessage& message) {
  const size_t text_bytes = std::min(static_cast<size_t>(message.calls_at), message.content.size());
  Entries entries = {{"role", ChatRoleName(message.role)}, {"content", message.content.substr(0, text_bytes)}};
  if (message.calls_at >= 0) {
    ASSIGN_OR_RETURN(Value calls, CallsOf(message));
    entries.emplace_back("tool_calls", std::move(calls));
  }
  if (message.role == ChatRole::kTool && !message.model_ids.empty()) {
    entries.emplace_back("tool_call_id", message.model_ids.front());
  }
  return jinja::MakeMapping(std::move(entries));
}

Result<Value> ToolsOf(std::string_view lines) {
  if (lines.empty()) return Value(Value::None{});
  std::vector<Value> tools;
  while (!lines.empty()) {
    const std::string_view line = lines.substr(0, lines.find('\n'));
    lines.remove_prefix(std::min(line.size() + 1, lines.size()));
    ASSIGN_OR_RETURN(Value tool, ValueOfJson(line));
    tools.push_back(std::move(tool));
  }
  return jinja::MakeList(std::move(tools));
}

Result<std::string> Run(const jinja::Template& source, const ChatTemplate::Facts& facts, const std::tm& day,
                        std::span<const ChatMessage> messages, bool add_generation_prompt, std::string_view tools) {
  std::vector<Value> all;
  for (const ChatMessage& message : messages) {
    ASSIGN_OR_RETURN(Value one, MessageOf(message));
    all.push_back(std::move(one));
  }
  ASSIGN_OR_RETURN(Value list, jinja::MakeList(std::move(all)));
  ASSIGN_OR_RETURN(Value told, ToolsOf(tools));
  const jinja::Variables variables = {{"messages", std::move(list)}, {"tools", std::move(told)},
                                      {"documents", Value::None{}},  {"add_generation_prompt", add_generation_prompt},
                                      {"bos_token", facts.bos},      {"eos_token", facts.eos}};
  return source.Render(variables, day, kLimits);
}

}  // namespace

Result<TemplateRun> TemplateRun::FromSource(std::string_view jinja_source, const ChatTemplate::Facts& facts) {
  ASSIGN_OR_RETURN(jinja::Template source, jinja::Template::Parse(jinja_source));
  const std::time_t now = std::time(nullptr);
  std::tm today{};
  localtime_r(&now, &today);
  return TemplateRun(std::move(source), facts, today);
}

Result<std::string> TemplateRun::Text(std::span<const ChatMessage> messages, bool add_generation_prompt,
                                      std::string_view tools) const {
  return Run(template_, facts_, today_, messages, add_generation_prompt, tools);
}

Result<std::string> TemplateRun::TextOnAnotherDay(std::span<const ChatMessage> messages) const {
  std::tm day = today_;
  day.tm_year += 1;
  day.tm_mon = (day.tm_mon + 1) % 12;
  day.tm_mday = day.tm_mday % 28 + 1;
  return Run(template_, facts_, day, messages, true, {});
}

}  // namespace ringside
