#include "session/chat/templates/template_run.h"

#include <algorithm>
#include <cctype>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "base/json/json_tree.h"
#include "session/tools/call_writer.h"
#include "session/tools/tool_calls.h"

namespace ringside {
namespace {

using jinja::Value;
using Entries = std::vector<std::pair<Value, Value>>;

// A template that exceeds these limits is too slow to be used.
jinja::RenderLimits LimitsOf(std::span<const ChatMessage> messages, std::string_view tools) {
  size_t bytes = tools.size();
  for (const ChatMessage& message : messages) bytes += message.content.size() + message.reasoning.size();
  return {.steps = 200000 + static_cast<int64_t>(2000 * messages.size() + 2 * bytes), .bytes = (1 << 20) + 10 * bytes};
}

std::string Changed(std::string_view text, const TextChange& change) {
  return change ? change(text) : std::string(text);
}

/// Calls after an answer's text, accessible as call.function.name and as call.name. `as_text`: arguments are JSON text,
/// not a mapping.
Result<Value> CallsOf(const ChatMessage& message, bool as_text, const TextChange& change) {
  std::vector<Value> calls;
  const std::string_view text = std::string_view(message.content).substr(static_cast<size_t>(message.calls_at));
  for (const ToolCall& call : ReadToolCalls(text)) {
    const std::string name = Changed(call.name, change);
    ASSIGN_OR_RETURN(Value arguments, ValueOfJson(call.arguments, change));
    if (as_text) arguments = Value(Changed(call.arguments, change));
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

/// Calls that were cut are text.
Result<Value> MessageOf(const ChatMessage& message, const CallForm& form, const TextChange& change) {
  const bool has_calls = message.calls_at >= 0;
  Result<Value> calls = has_calls ? CallsOf(message, form.text_arguments, change) : Result<Value>(Value(Value::None{}));
  const std::string_view content = message.content;
  const std::string_view text =
      calls.ok() ? content.substr(0, std::min(static_cast<size_t>(message.calls_at), content.size())) : content;
  std::string said = Changed(text, change);
  if (form.in_text && has_calls && calls.ok())
    said += WriteCalls(SyntaxOf(*form.in_text), ReadToolCalls(content.substr(text.size())), change);
  Entries entries = {{"role", ChatRoleName(message.role)}, {"content", std::move(said)}};
  // Templates use one of these names.
  for (const char* name : {"reasoning_content", "reasoning", "thinking"}) {
    if (!message.reasoning.empty()) entries.emplace_back(name, Changed(message.reasoning, change));
  }
  if (has_calls && calls.ok() && !form.in_text) entries.emplace_back("tool_calls", *std::move(calls));
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

jinja::Variables VariablesOf(Value messages, Value tools, bool add_generation_prompt, const ChatTemplate::Facts& facts,
                             const jinja::Variables& more) {
  jinja::Variables all = {{"messages", std::move(messages)}, {"tools", std::move(tools)},
                          {"documents", Value::None{}},      {"add_generation_prompt", add_generation_prompt},
                          {"bos_token", facts.bos},          {"eos_token", facts.eos}};
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

Result<std::string> Run(const jinja::Template& source, const ChatTemplate::Facts& facts, const jinja::Variables& more,
                        const std::tm& day, std::span<const ChatMessage> messages, bool add_generation_prompt,
                        std::string_view tools, const CallForm& form, const TextChange& change) {
  std::vector<Value> all;
  for (const ChatMessage& message : messages) {
    ASSIGN_OR_RETURN(Value one, MessageOf(message, form, change));
    all.push_back(std::move(one));
  }
  ASSIGN_OR_RETURN(Value list, jinja::MakeList(std::move(all)));
  ASSIGN_OR_RETURN(Value told, ToolsOf(tools, change));
  return source.Render(VariablesOf(std::move(list), std::move(told), add_generation_prompt, facts, more), day,
                       LimitsOf(messages, tools));
}

constexpr const char* kImagePart = "";  // in place of a part's text

/// A message whose content is a list of text and image parts.
Result<Value> PartsMessage(ChatRole role, std::initializer_list<std::string> texts) {
  std::vector<Value> parts;
  for (const std::string& text : texts) {
    Entries entries = {{"type", "image"}};
    if (text != kImagePart) entries = {{"type", "text"}, {"text", text}};
    ASSIGN_OR_RETURN(Value part, jinja::MakeMapping(std::move(entries)));
    parts.push_back(std::move(part));
  }
  ASSIGN_OR_RETURN(Value content, jinja::MakeList(std::move(parts)));
  return jinja::MakeMapping({{"role", ChatRoleName(role)}, {"content", std::move(content)}});
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
  return Run(template_, facts_, more_, today_, messages, add_generation_prompt, tools, call_form_, change);
}

Result<TemplateRun> TemplateRun::With(std::string_view variables) const {
  const auto json = ParseOrderedJsonTree(variables);
  if (!json.is_object()) return InvalidArgument("template variables must be a JSON object");
  TemplateRun run = *this;
  for (const auto& [name, value] : json.items()) {
    ASSIGN_OR_RETURN(Value converted, ValueOfJson(value.dump()));
    run.more_.emplace_back(name, std::move(converted));
  }
  return run;
}

/// A conversation in which a message with this role has such parts.
Result<std::string> TemplateRun::TextOfParts(ChatRole role, std::initializer_list<std::string> texts) const {
  std::vector<Value> all;
  ASSIGN_OR_RETURN(const Value question, MessageOf({ChatRole::kUser, "Zqa3quvx"}, {}, nullptr));
  ASSIGN_OR_RETURN(Value parts, PartsMessage(role, texts));
  if (role == ChatRole::kAssistant) all.push_back(question);
  all.push_back(std::move(parts));
  if (role != ChatRole::kUser) all.push_back(question);
  ASSIGN_OR_RETURN(Value list, jinja::MakeList(std::move(all)));
  return template_.Render(VariablesOf(std::move(list), Value::None{}, true, facts_, more_), today_, LimitsOf({}, {}));
}

bool TemplateRun::TrimsParts(ChatRole role) const {
  const Result<std::string> plain = TextOfParts(role, {"Zpa7quvx", "Zpb8quvx"}),
                            spaced = TextOfParts(role, {" \nZpa7quvx\n ", " \nZpb8quvx\n "});
  return plain.ok() && spaced.ok() && plain->find("Zpb8quvx") != std::string::npos && *plain == *spaced;
}

std::string TemplateRun::PartSeparator(ChatRole role) const {
  constexpr size_t kLongest = 16;
  const std::string first = "Zpa7quvx", second = "Zpb8quvx";
  const Result<std::string> text = TextOfParts(role, {first, second});
  const size_t at = text.ok() ? text->find(first) : std::string::npos;
  const size_t next = at == std::string::npos ? at : text->find(second, at);
  if (next == std::string::npos || text->rfind(first) != at || text->rfind(second) != next) return "\n";
  const std::string between = text->substr(at + first.size(), next - at - first.size());
  // A template that serializes the list as JSON or Python literal has the parts' keys between the texts.
  const bool letters = std::ranges::any_of(between, [](unsigned char c) { return std::isalnum(c) != 0; });
  return letters || between.size() > kLongest ? "\n" : between;
}

std::string TemplateRun::ImageMarkup() const {
  constexpr size_t kLongest = 256;
  const std::string first = "Zpa7quvx", second = "Zpb8quvx", separator = PartSeparator(ChatRole::kUser);
  const Result<std::string> text = TextOfParts(ChatRole::kUser, {first, kImagePart, second});
  const size_t at = text.ok() ? text->find(first) : std::string::npos;
  const size_t next = at == std::string::npos ? at : text->find(second, at);
  if (next == std::string::npos) return "";
  std::string_view between = std::string_view(*text).substr(at + first.size(), next - at - first.size());
  if (between.size() > kLongest + 2 * separator.size()) return "";
  // The message's text has the separators.
  if (between.starts_with(separator)) between.remove_prefix(separator.size());
  if (between.ends_with(separator)) between.remove_suffix(separator.size());
  return std::string(between);
}

Result<std::string> TemplateRun::TextOnAnotherDay(std::span<const ChatMessage> messages) const {
  std::tm day = today_;
  day.tm_year += 1;
  day.tm_mon = (day.tm_mon + 1) % 12;
  day.tm_mday = day.tm_mday % 28 + 1;
  return Run(template_, facts_, more_, day, messages, true, {}, call_form_, nullptr);
}

}  // namespace ringside
