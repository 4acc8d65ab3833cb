#include "session/chat/templates/call_learning.h"

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/json/json_tree.h"
#include "engine/grammar/tools/parameter_types.h"
#include "session/chat/templates/probe_messages.h"
#include "session/tools/tool_calls.h"

namespace ringside {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kTools =
    R"({"type": "function", "function": {"name": "look", "description": "Looks up", "parameters": {"type": "object", )"
    R"("properties": {"what": {"type": "string", "description": "Words"}, "count": {"type": "integer", )"
    R"("description": "Results"}}, "required": ["what"]}}})"
    "\n"
    R"({"type": "function", "function": {"name": "now", "description": "Time", "parameters": {"type": "object", )"
    R"("properties": {"zone": {"type": "string", "description": "Place"}}, "required": []}}})";
constexpr std::string_view kHarmonyHeader = "<|start|>assistant";
constexpr std::array<std::pair<const char*, const char*>, 2> kCalls = {
    {{"look", R"({"what": "Zwa4quvx yes", "count": 3})"}, {"now", R"({"zone": "Zzb5quvx"})"}}};

/// A question, `count` calls with ids of one kind, and their results.
std::vector<ChatMessage> Conversation(size_t count, bool numbered) {
  std::vector<ChatMessage> messages = {kQuestion, {ChatRole::kAssistant, ""}};
  for (size_t i = 0; i < count; ++i) {
    const auto& [name, arguments] = kCalls[i];
    AppendToolCall(name, arguments, &messages[1].content, &messages[1].calls_at);
    const std::string number = std::to_string(i);
    messages[1].model_ids.push_back(numbered ? "functions." + std::string(name) + ':' + number : "abcdefgh" + number);
    messages.push_back({ChatRole::kTool, "Zrc" + number + "quvx", -1, {messages[1].model_ids.back()}});
  }
  return messages;
}

/// The rendered answer and everything after it; "" if the template fails.
std::string AnswerText(const TemplateRun& run, size_t count, bool numbered) {
  const Result<std::string> all = run.Text(Conversation(count, numbered), false, kTools),
                            prompt = run.Text(std::vector{kQuestion}, true, kTools);
  if (!all.ok()) return "";
  if (prompt.ok() && all->starts_with(*prompt)) {
    const size_t header = prompt->ends_with(kHarmonyHeader) ? kHarmonyHeader.size() : 0;  // a part of the call's markup
    return all->substr(prompt->size() - header);
  }
  const size_t at = all->rfind(kQuestion.content);
  return at == std::string::npos ? "" : all->substr(at + kQuestion.content.size());
}

/// Markup in the source of a template that writes tools but no calls, and the calls of its model. The first one counts.
constexpr std::pair<std::string_view, ToolSyntaxName> kSigns[] = {
    {"<|tool_call_start|>", ToolSyntaxName::kLfm2}, {"<|tool_list_start|>", ToolSyntaxName::kLfm2},
    {"<|/tool_call|>", ToolSyntaxName::kPhi4},      {"<|/tool|>", ToolSyntaxName::kPhi4},
    {"<|tool_call|>", ToolSyntaxName::kGranite},
};

bool ReadsBack(const ToolSyntax& syntax, const std::string& text, size_t count) {
  if (text.find(syntax.close) == std::string::npos) return false;
  ToolCallReader reader(syntax.alone ? CallPlace::kStart : CallPlace::kAny, syntax.name,
                        std::make_shared<ParameterTypes>(kTools));
  std::string shown;
  std::vector<ToolCall> calls;
  for (const CallPart& part : reader.Push(text, &shown)) {
    const std::string bytes = shown.substr(part.begin, part.end - part.begin);
    if (part.kind == CallPart::Kind::kCall) calls.push_back({.name = bytes, .complete = false});
    if (part.kind == CallPart::Kind::kArguments) calls.back().arguments += bytes;
    if (part.kind == CallPart::Kind::kCallEnd) calls.back().complete = true;
  }
  if (calls.size() != count) return false;
  for (size_t i = 0; i < count; ++i) {
    const auto& [name, arguments] = kCalls[i];
    const Json read = ParseJsonTree(calls[i].arguments);
    if (!calls[i].complete || calls[i].name != name || read != ParseJsonTree(arguments)) return false;
  }
  return true;
}

}  // namespace

namespace {

std::optional<LearnedCalls> LearnDroppedCalls(TemplateRun run) {
  constexpr size_t kOne = 1;
  run.set_call_form({});
  if (AnswerText(run, kOne, false).find(kCalls[0].first) != std::string::npos) return std::nullopt;  // not dropped
  for (const auto& [sign, syntax] : kSigns) {
    if (run.source().find(sign) == std::string::npos) continue;
    const CallForm form{.in_text = syntax};
    run.set_call_form(form);
    if (ReadsBack(SyntaxOf(syntax), AnswerText(run, kOne, false), kOne)) return {{syntax, form}};
  }
  return std::nullopt;
}

}  // namespace

std::optional<LearnedCalls> LearnCalls(const TemplateRun& given) {
  TemplateRun run = given;
  const Result<std::string> without = run.Text(std::vector{kQuestion}, true),
                            with = run.Text(std::vector{kQuestion}, true, kTools);
  if (!without.ok() || !with.ok() || *without == *with) return std::nullopt;
  for (const size_t count : {kCalls.size(), size_t{1}}) {
    for (const bool as_text : {false, true}) {
      run.set_call_form({.text_arguments = as_text});
      const std::array<std::string, 2> texts = {AnswerText(run, count, false), AnswerText(run, count, true)};
      for (const ToolSyntax& syntax : ToolSyntaxes()) {
        if (count > 1 && !syntax.several) continue;
        if (ReadsBack(syntax, texts[syntax.has_numbered_ids() ? 1 : 0], count))
          return {{syntax.name, {.text_arguments = as_text}}};
      }
    }
  }
  return LearnDroppedCalls(run);
}

}  // namespace ringside
