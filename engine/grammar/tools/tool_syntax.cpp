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
using Form = ToolSyntax::Arguments::Form;

constexpr size_t Bytes(std::string_view text) { return text.size(); }

// Texts that the models were trained on.
constexpr std::array<ToolSyntax, static_cast<size_t>(kLastToolSyntax) + 1> kTable = {{
    {
        .name = ToolSyntaxName::kHermes,
        .opening = "<tool_call>\n{\"name\": \"",
        .marker_bytes = std::string_view("<tool_call>").size(),
        .reserved = true,
        .before_arguments = "\", \"arguments\": ",
        .after_arguments = "}\n</tool_call>",
        .next = "\n<tool_call>\n{\"name\": \"",
        .close = "",
        .alone = false,
        .several = true,
        .place = ToolSyntax::Place::kSystemEnd,
        .before_tools = "# Tools\n\nYou may call one or more functions to assist with the user query.\n\n"
                        "You are provided with function signatures within <tools></tools> XML tags:\n<tools>\n",
        .between_tools = "\n",
        .after_tools = "\n</tools>\n\nFor each function call, return a json object with function name and arguments "
                       "within <tool_call></tool_call> XML tags:\n<tool_call>\n{\"name\": <function-name>, "
                       "\"arguments\": <args-json-object>}\n</tool_call>",
        .indented = false,
        .before_result = "<tool_response>\n",
        .after_result = "\n</tool_response>",
        .quoted = false,
        .joined = true,
    },
    {
        .name = ToolSyntaxName::kLlama,
        .opening = kLlamaOpening,
        .marker_bytes = kLlamaOpening.size(),
        .reserved = false,
        .before_arguments = "\", \"parameters\": ",
        .after_arguments = "}",
        .next = "; {\"name\": \"",
        .close = "",
        .alone = true,
        .several = false,
        .place = ToolSyntax::Place::kUserStart,
        .before_tools = "Given the following functions, please respond with a JSON for a function call with its proper "
                        "arguments that best answers the given prompt.\n\nRespond in the format {\"name\": function "
                        "name, \"parameters\": dictionary of argument name and its value}.Do not use variables.\n\n",
        .between_tools = "\n\n",
        .after_tools = "\n\n",
        .indented = true,
        .before_result = "<|start_header_id|>ipython<|end_header_id|>\n\n",
        .after_result = "<|eot_id|>",
        .quoted = true,
        .joined = false,
    },
    {
        .name = ToolSyntaxName::kMistral,
        .opening = kMistralOpening,
        .marker_bytes = kMistralMarker,
        .reserved = true,
        .before_arguments = "\", \"arguments\": ",
        .after_arguments = R"(, "id": "#########"})",
        .next = ", {\"name\": \"",
        .close = "]",
        .alone = true,
        .several = true,
        .place = ToolSyntax::Place::kBeforeUser,
        .before_tools = "[AVAILABLE_TOOLS] [",
        .between_tools = ", ",
        .after_tools = "][/AVAILABLE_TOOLS]",
        .indented = false,
        .before_result = "[TOOL_RESULTS] {\"content\": ",
        .after_result = R"(, "call_id": "#########"}[/TOOL_RESULTS])",
        .quoted = false,
        .joined = false,
    },
    {
        .name = ToolSyntaxName::kMistralTekken,
        .opening = kTekkenOpening,
        .marker_bytes = kMistralMarker,
        .reserved = true,
        .before_arguments = "\", \"arguments\": ",
        .after_arguments = R"(, "id": "#########"})",
        .next = ", {\"name\": \"",
        .close = "]",
        .alone = true,
        .several = true,
        .place = ToolSyntax::Place::kBeforeUser,
        .before_tools = "[AVAILABLE_TOOLS][",
        .between_tools = ", ",
        .after_tools = "][/AVAILABLE_TOOLS]",
        .indented = false,
        .before_result = "[TOOL_RESULTS]{\"content\": ",
        .after_result = R"(, "call_id": "#########"}[/TOOL_RESULTS])",
        .quoted = false,
        .joined = false,
    },
    {
        .name = ToolSyntaxName::kMistralCallId,
        .opening = "[TOOL_CALLS]",
        .marker_bytes = kMistralMarker,
        .reserved = true,
        .before_arguments = "[CALL_ID]#########[ARGS]",
        .after_arguments = "",
        .next = "[TOOL_CALLS]",
        .close = "",
        .alone = false,
        .several = true,
        .place = ToolSyntax::Place::kBeforeUser,
        .before_tools = "[AVAILABLE_TOOLS][",
        .between_tools = ", ",
        .after_tools = "][/AVAILABLE_TOOLS]",
        .before_result = "[TOOL_RESULTS]#########[TOOL_CONTENT]",
        .after_result = "[/TOOL_RESULTS]",
    },
    {
        .name = ToolSyntaxName::kMistralArgs,
        .opening = "[TOOL_CALLS]",
        .marker_bytes = kMistralMarker,
        .reserved = true,
        .before_arguments = "[ARGS]",
        .after_arguments = "",
        .next = "[TOOL_CALLS]",
        .close = "",
        .alone = false,
        .several = true,
        .place = ToolSyntax::Place::kBeforeUser,
        .before_tools = "[AVAILABLE_TOOLS][",
        .between_tools = ", ",
        .after_tools = "][/AVAILABLE_TOOLS]",
        .before_result = "[TOOL_RESULTS]",
        .after_result = "[/TOOL_RESULTS]",
    },
    {
        .name = ToolSyntaxName::kDeepSeek,
        .opening = "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>",
        .marker_bytes = Bytes("<｜tool▁calls▁begin｜>"),
        .reserved = true,
        .before_arguments = "\n```json\n",
        .after_arguments = "\n```<｜tool▁call▁end｜>",
        .next = "\n<｜tool▁call▁begin｜>function<｜tool▁sep｜>",
        .close = "<｜tool▁calls▁end｜>",
        .alone = false,
        .several = true,
    },
    {
        .name = ToolSyntaxName::kDeepSeekV31,
        .opening = "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>",
        .marker_bytes = Bytes("<｜tool▁calls▁begin｜>"),
        .reserved = true,
        .before_arguments = "<｜tool▁sep｜>",
        .after_arguments = "<｜tool▁call▁end｜>",
        .next = "<｜tool▁call▁begin｜>",
        .close = "<｜tool▁calls▁end｜>",
        .alone = false,
        .several = true,
    },
    {
        .name = ToolSyntaxName::kKimi,
        .opening = "<|tool_calls_section_begin|><|tool_call_begin|>functions.",
        .marker_bytes = Bytes("<|tool_calls_section_begin|>"),
        .reserved = true,
        .before_arguments = ":%<|tool_call_argument_begin|>",
        .after_arguments = "<|tool_call_end|>",
        .next = "<|tool_call_begin|>functions.",
        .close = "<|tool_calls_section_end|>",
        .alone = false,
        .several = true,
    },
    {
        .name = ToolSyntaxName::kPhi4,
        .opening = "<|tool_call|>[{\"name\": \"",
        .marker_bytes = Bytes("<|tool_call|>"),
        .reserved = true,
        .before_arguments = "\", \"arguments\": ",
        .after_arguments = "}",
        .next = ", {\"name\": \"",
        .close = "]<|/tool_call|>",
        .alone = false,
        .several = true,
    },
    {
        .name = ToolSyntaxName::kGranite,
        .opening = "<|tool_call|>[{\"name\": \"",
        .marker_bytes = Bytes("<|tool_call|>"),
        .reserved = true,
        .before_arguments = "\", \"arguments\": ",
        .after_arguments = "}",
        .next = ", {\"name\": \"",
        .close = "]",
        .alone = false,
        .several = true,
    },
    {
        .name = ToolSyntaxName::kCommandA,
        .opening = "<|START_ACTION|>[\n    {\"tool_call_id\": \"%\", \"tool_name\": \"",
        .marker_bytes = Bytes("<|START_ACTION|>"),
        .reserved = true,
        .before_arguments = "\", \"parameters\": ",
        .after_arguments = "}",
        .next = ",\n    {\"tool_call_id\": \"%\", \"tool_name\": \"",
        .close = "\n]<|END_ACTION|>",
        .alone = false,
        .several = true,
    },
    {
        .name = ToolSyntaxName::kCommandR,
        .opening = "Action: ```json\n[\n    {\n        \"tool_name\": \"",
        .marker_bytes = Bytes("Action: ```json"),
        .reserved = true,
        .before_arguments = "\",\n        \"parameters\": ",
        .after_arguments = "\n    }",
        .next = ",\n    {\n        \"tool_name\": \"",
        .close = "\n]```",
        .alone = false,
        .several = true,
    },
    {
        .name = ToolSyntaxName::kQwenCoder,
        .opening = "<tool_call>\n<function=",
        .marker_bytes = Bytes("<tool_call>"),
        .reserved = true,
        .before_arguments = ">\n",
        .after_arguments = "</function>\n</tool_call>",
        .next = "\n<tool_call>\n<function=",
        .close = "",
        .alone = false,
        .several = true,
        .arguments = {Form::kTagged, "<parameter=", ">\n", "\n</parameter>\n"},
    },
    {
        .name = ToolSyntaxName::kGlm,
        .opening = "<tool_call>",
        .marker_bytes = Bytes("<tool_call>"),
        .reserved = true,
        .before_arguments = "\n",
        .after_arguments = "</tool_call>",
        .next = "\n<tool_call>",
        .close = "",
        .alone = false,
        .several = true,
        .arguments = {Form::kTagged, "<arg_key>", "</arg_key>\n<arg_value>", "</arg_value>\n"},
    },
    {
        .name = ToolSyntaxName::kMiniMax,
        .opening = "<minimax:tool_call>\n<invoke name=\"",
        .marker_bytes = Bytes("<minimax:tool_call>"),
        .reserved = true,
        .before_arguments = "\">\n",
        .after_arguments = "</invoke>\n",
        .next = "<invoke name=\"",
        .close = "</minimax:tool_call>",
        .alone = false,
        .several = true,
        .arguments = {Form::kTagged, "<parameter name=\"", "\">", "</parameter>\n"},
    },
    {
        .name = ToolSyntaxName::kSeed,
        .opening = "<seed:tool_call>\n<function=",
        .marker_bytes = Bytes("<seed:tool_call>"),
        .reserved = true,
        .before_arguments = ">\n",
        .after_arguments = "</function>\n</seed:tool_call>",
        .next = "\n<seed:tool_call>\n<function=",
        .close = "",
        .alone = false,
        .several = true,
        .arguments = {Form::kTagged, "<parameter=", ">", "</parameter>\n"},
    },
    {
        .name = ToolSyntaxName::kLlamaPython,
        .opening = "[",
        .marker_bytes = 1,
        .reserved = false,
        .before_arguments = "",
        .after_arguments = "",
        .next = ", ",
        .close = "]",
        .alone = true,
        .several = true,
        .arguments = {.form = Form::kPython},
    },
    {
        .name = ToolSyntaxName::kLfm2,
        .opening = "<|tool_call_start|>[",
        .marker_bytes = Bytes("<|tool_call_start|>"),
        .reserved = true,
        .before_arguments = "",
        .after_arguments = "",
        .next = ", ",
        .close = "]<|tool_call_end|>",
        .alone = false,
        .several = true,
        .arguments = {.form = Form::kPython},
    },
    {
        .name = ToolSyntaxName::kGemma4,
        .opening = "<|tool_call>call:",
        .marker_bytes = Bytes("<|tool_call>"),
        .reserved = true,
        .before_arguments = "",
        .after_arguments = "<tool_call|>",
        .next = "<|tool_call>call:",
        .close = "",
        .alone = false,
        .several = true,
        .arguments = {.form = Form::kGemma},
    },
    {
        .name = ToolSyntaxName::kDeepSeekV32,
        .opening = "<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"",
        .marker_bytes = Bytes("<｜DSML｜function_calls>"),
        .reserved = true,
        .before_arguments = "\">\n",
        .after_arguments = "</｜DSML｜invoke>\n",
        .next = "<｜DSML｜invoke name=\"",
        .close = "</｜DSML｜function_calls>",
        .alone = false,
        .several = true,
        .arguments = {Form::kTagged, "<｜DSML｜parameter name=\"", "\" string=\"true\">", "</｜DSML｜parameter>\n",
                      "\" string=\"false\">"},
    },
    {
        .name = ToolSyntaxName::kDeepSeekV4,
        .opening = "<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"",
        .marker_bytes = Bytes("<｜DSML｜tool_calls>"),
        .reserved = true,
        .before_arguments = "\">\n",
        .after_arguments = "</｜DSML｜invoke>\n",
        .next = "<｜DSML｜invoke name=\"",
        .close = "</｜DSML｜tool_calls>",
        .alone = false,
        .several = true,
        .arguments = {Form::kTagged, "<｜DSML｜parameter name=\"", "\" string=\"true\">", "</｜DSML｜parameter>\n",
                      "\" string=\"false\">"},
    },
    {
        // A separate message, which ends the turn. Sampled headers have other forms, which ChannelReader reads.
        .name = ToolSyntaxName::kHarmony,
        .opening = "<|start|>assistant to=functions.",
        .marker_bytes = Bytes("<|start|>assistant to=functions."),
        .reserved = true,
        .before_arguments = "<|channel|>commentary json<|message|>",
        .after_arguments = "<|call|>",
        .next = "<|start|>assistant to=functions.",
        .close = "",
        .alone = false,
        .several = false,
    },
}};

/// True if `text`, possibly truncated, starts with the pattern, whose newlines are optional if it is `loose`.
bool BeginsAs(std::string_view pattern, bool loose, std::string_view text) {
  for (size_t digits = 0; !pattern.empty() && !text.empty();) {
    if (FitsPattern(pattern.front(), text.front())) {
      if (pattern.front() != '%')
        pattern.remove_prefix(1);
      else if (++digits > kMaxNumberDigits)
        return false;
      text.remove_prefix(1);
    } else if ((pattern.front() == '%' && digits > 0) || (pattern.front() == '\n' && loose)) {
      pattern.remove_prefix(1);
    } else {
      return false;
    }
  }
  return true;
}

}  // namespace

const ToolSyntax& SyntaxOf(ToolSyntaxName name) {
  const auto index = static_cast<size_t>(name);
  CHECK_LT(index, kTable.size());
  return kTable[index];
}

std::span<const ToolSyntax> ToolSyntaxes() { return kTable; }

bool BeginsAsCalls(const ToolSyntax& syntax, std::string_view calls) {
  if (!syntax.alone && calls.starts_with('\n')) calls.remove_prefix(1);
  return BeginsAs(syntax.opening, syntax.loose(), calls);
}

ToolSyntaxName SyntaxOfCalls(std::string_view calls) {
  for (const ToolSyntax& syntax : kTable) {
    if (BeginsAsCalls(syntax, calls)) return syntax.name;
  }
  return ToolSyntaxName::kHermes;
}

std::string WithId(std::string_view pattern, std::string_view id) {
  std::string text(pattern);
  if (const size_t at = text.find('#'); at != std::string::npos) text.replace(at, kModelIdBytes, id);
  return text;
}

bool FitsPattern(char pattern, char c) {
  const bool digit = c >= '0' && c <= '9';
  if (pattern == '%') return digit;
  if (pattern != '#') return pattern == c;
  return digit || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

bool IsBareKey(std::string_view key) {
  constexpr std::string_view kOthers = "_-.$@/";
  return !key.empty() && key.size() <= kMaxKeyBytes && std::ranges::all_of(key, [&](char c) {
    return FitsPattern('#', c) || kOthers.find(c) != std::string_view::npos;
  });
}

}  // namespace ringside
