#include "engine/grammar/tools/tool_syntax.h"

#include <algorithm>
#include <array>

#include "base/check.h"

namespace ringside {
namespace {

constexpr std::string_view kMistralOpening = R"([TOOL_CALLS] [{"name": ")",
                           kTekkenOpening = R"([TOOL_CALLS][{"name": ")";
constexpr size_t kMistralMarker = std::string_view("[TOOL_CALLS]").size();
constexpr std::string_view kLlamaOpening = R"({"name": ")";

// Words that models were trained on.
constexpr std::array<ToolSyntax, 4> kTable = {{
    {
        .name = ToolSyntaxName::kHermes,
        .opening = "<tool_call>\n{\"name\": \"",
        .marker_bytes = std::string_view("<tool_call>").size(),
        .reserved = true,
        .before_arguments = "\", \"arguments\": ",
        .behind_arguments = "}\n</tool_call>",
        .next = "\n<tool_call>\n{\"name\": \"",
        .close = "",
        .alone = false,
        .several = true,
        .place = ToolSyntax::Place::kSystemEnd,
        .before_tools = "# Tools\n\nYou may call one or more functions to assist with the user query.\n\n"
                        "You are provided with function signatures within <tools></tools> XML tags:\n<tools>\n",
        .between_tools = "\n",
        .behind_tools = "\n</tools>\n\nFor each function call, return a json object with function name and arguments "
                        "within <tool_call></tool_call> XML tags:\n<tool_call>\n{\"name\": <function-name>, "
                        "\"arguments\": <args-json-object>}\n</tool_call>",
        .indented = false,
        .before_result = "<tool_response>\n",
        .behind_result = "\n</tool_response>",
        .quoted = false,
        .joined = true,
    },
    {
        .name = ToolSyntaxName::kLlama,
        .opening = kLlamaOpening,
        .marker_bytes = kLlamaOpening.size(),
        .reserved = false,
        .before_arguments = "\", \"parameters\": ",
        .behind_arguments = "}",
        .next = "; {\"name\": \"",
        .close = "",
        .alone = true,
        .several = false,
        .place = ToolSyntax::Place::kUserStart,
        .before_tools = "Given the following functions, please respond with a JSON for a function call with its proper "
                        "arguments that best answers the given prompt.\n\nRespond in the format {\"name\": function "
                        "name, \"parameters\": dictionary of argument name and its value}.Do not use variables.\n\n",
        .between_tools = "\n\n",
        .behind_tools = "\n\n",
        .indented = true,
        .before_result = "<|start_header_id|>ipython<|end_header_id|>\n\n",
        .behind_result = "<|eot_id|>",
        .quoted = true,
        .joined = false,
    },
    {
        .name = ToolSyntaxName::kMistral,
        .opening = kMistralOpening,
        .marker_bytes = kMistralMarker,
        .reserved = true,
        .before_arguments = "\", \"arguments\": ",
        .behind_arguments = R"(, "id": "#########"})",
        .next = ", {\"name\": \"",
        .close = "]",
        .alone = true,
        .several = true,
        .place = ToolSyntax::Place::kBeforeUser,
        .before_tools = "[AVAILABLE_TOOLS] [",
        .between_tools = ", ",
        .behind_tools = "][/AVAILABLE_TOOLS]",
        .indented = false,
        .before_result = "[TOOL_RESULTS] {\"content\": ",
        .behind_result = R"(, "call_id": "#########"}[/TOOL_RESULTS])",
        .quoted = false,
        .joined = false,
    },
    {
        .name = ToolSyntaxName::kMistralTekken,
        .opening = kTekkenOpening,
        .marker_bytes = kMistralMarker,
        .reserved = true,
        .before_arguments = "\", \"arguments\": ",
        .behind_arguments = R"(, "id": "#########"})",
        .next = ", {\"name\": \"",
        .close = "]",
        .alone = true,
        .several = true,
        .place = ToolSyntax::Place::kBeforeUser,
        .before_tools = "[AVAILABLE_TOOLS][",
        .between_tools = ", ",
        .behind_tools = "][/AVAILABLE_TOOLS]",
        .indented = false,
        .before_result = "[TOOL_RESULTS]{\"content\": ",
        .behind_result = R"(, "call_id": "#########"}[/TOOL_RESULTS])",
        .quoted = false,
        .joined = false,
    },
}};

}  // namespace

const ToolSyntax& SyntaxOf(ToolSyntaxName name) {
  const auto index = static_cast<size_t>(name);
  CHECK_LT(index, kTable.size());
  return kTable[index];
}

std::span<const ToolSyntax> ToolSyntaxes() { return kTable; }

ToolSyntaxName SyntaxOfCalls(std::string_view calls) {
  for (const ToolSyntax& syntax : kTable) {
    std::string_view at = calls;
    if (!syntax.alone && at.starts_with('\n')) at.remove_prefix(1);
    const size_t common = std::min(at.size(), syntax.opening.size());  // it may have been cut there
    if (at.substr(0, common) == syntax.opening.substr(0, common)) return syntax.name;
  }
  return ToolSyntaxName::kHermes;
}

std::string WithId(std::string_view pattern, std::string_view id) {
  std::string text(pattern);
  if (const size_t at = text.find('#'); at != std::string::npos) text.replace(at, kModelIdBytes, id);
  return text;
}

bool FitsPattern(char pattern, char c) {
  if (pattern != '#') return pattern == c;
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

}  // namespace ringside
