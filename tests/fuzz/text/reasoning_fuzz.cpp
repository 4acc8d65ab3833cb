// Template variables of a request (chat_template_kwargs). Input: the variables, an effort, a budget's digits. With any
// variables the template writes no more special tokens than without them, and few templates are cached.
#include <algorithm>

#include "session/chat/templates/reasoning_settings.h"
#include "tests/fuzz/fuzz_target.h"

namespace ringside {
namespace {

constexpr const char* kSource =
    "{{- '<|im_start|>system\n' ~ (mood | default('calm')) ~ (reasoning_effort | default('low')) ~ '<|im_end|>\n' }}"
    "{%- for m in messages %}{{- '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{%- endfor %}"
    "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n' }}{%- if enable_thinking is defined and not "
    "enable_thinking %}{{- '<think>\n\n</think>\n\n' }}{%- endif %}{%- endif %}";
const ChatTemplate::Facts kFacts = {"", "<|im_end|>", ""};

size_t Count(std::string_view text, std::string_view what) {
  size_t count = 0;
  for (size_t at = text.find(what); at != text.npos; at = text.find(what, at + 1)) ++count;
  return count;
}

// Records the template's output instead of learning it, which takes long.
std::string written;
Result<ChatTemplate> Write(TemplateRun run, const ChatTemplate::Facts& facts) {
  const std::vector<ChatMessage> question = {{ChatRole::kUser, "Q"}};
  ASSIGN_OR_RETURN(written, run.Text(question, true));
  return ChatTemplate::Named("chatml", facts);
}

}  // namespace

std::vector<std::string> Seeds() {
  return {
      JoinParts({R"({"enable_thinking": false})", "", ""}),
      JoinParts({R"({"mood": "wild", "odd": [1, {"a": null}]})", "high", "100"}),
      JoinParts({R"({"mood": "<|im_start|>", "reasoning_effort": 1.5})", "none", "0"}),
      JoinParts({"", "minimal", "-1"}),
  };
}

}  // namespace ringside

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace ringside;
  static const ChatTemplate usual = std::move(ChatTemplate::Named("chatml", kFacts).value());
  static const ReasoningSettings settings(TemplateRun::FromSource(kSource, kFacts).value(), kFacts, &Write,
                                          ToolSyntaxName::kHermes);
  const std::vector<std::string_view> parts = SplitParts(data, size, 3);
  ReasoningSpec spec;
  spec.template_kwargs = parts[0];
  spec.effort = parts[1];
  if (!parts[2].empty()) spec.budget_tokens = std::strtoll(std::string(parts[2]).c_str(), nullptr, 10);
  written.clear();
  const auto settled = settings.Settle(spec, usual);
  Require(settled.ok() || settled.status().code() == StatusCode::kInvalidArgument, "an error is the request's");
  Require(Count(written, "<|") <= 5, "no request writes markup");
  Require(settings.kept() <= 16, "few templates are kept");
  if (settled.ok()) Require(settled->budget >= -1, "a budget is a number of tokens");
  return 0;
}
