// Answers with calls in every syntax of engine/grammar/tools/tool_syntax.h, and the calls that a client gets.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "engine/grammar/tools/tool_syntax.h"

namespace ringside {

/// The tools of all cases.
inline constexpr const char* kCaseTools =
    R"({"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": )"
    R"({"what": {"type": "string"}, "count": {"type": "integer"}, "deep": {"type": "object"}, )"
    R"("sure": {"type": "boolean"}, "list": {"type": "array", "items": {"type": "number"}}}, )"
    R"("required": ["what"], "additionalProperties": false}}})"
    "\n"
    R"({"type": "function", "function": {"name": "get-now", "parameters": {"type": "object", "properties": {}}}})";

struct CallCase {
  ToolSyntaxName syntax;
  std::string text;  // the message's text, then the calls
  std::string message;
  std::vector<std::pair<std::string, std::string>> calls;  // name and arguments
  bool canonical = true;                                   // whether a constrained model may write it like this
};

inline std::vector<CallCase> CallCases() {
  using Name = ToolSyntaxName;
  const std::string full = R"({"what": "a \"b\"\n<c>", "count": 3, "deep": {"k": [1, "x"]}, "sure": true})";
  const std::string json = R"({"what": "a \"b\"\n<c> }", "count": 3, "deep": {"k": [1, "x"]}, "sure": true})";
  const std::vector<std::pair<std::string, std::string>> two = {{"look", json}, {"get-now", "{}"}},
                                                         one = {{"look", json}};
  const std::string coder =
      "<tool_call>\n<function=look>\n<parameter=what>\na \"b\"\n<c>\n</parameter>\n"
      "<parameter=count>\n3\n</parameter>\n<parameter=deep>\n{\"k\": [1, \"x\"]}\n</parameter>\n"
      "<parameter=sure>\ntrue\n</parameter>\n</function>\n</tool_call>";
  return {
      {Name::kHermes, "Hm.\n<tool_call>\n{\"name\": \"look\", \"arguments\": " + json + "}\n</tool_call>", "Hm.", one},
      {Name::kLlama, R"({"name": "look", "parameters": )" + json + "}", "", one},
      {Name::kMistral,
       R"([TOOL_CALLS] [{"name": "look", "arguments": )" + json +
           R"(, "id": "aB3456789"}, {"name": "get-now", "arguments": {}, "id": "000000000"}])",
       "", two},
      {Name::kMistralTekken, R"([TOOL_CALLS][{"name": "look", "arguments": )" + json + R"(, "id": "aB3456789"}])", "",
       one},
      {Name::kMistralCallId,
       "[TOOL_CALLS]look[CALL_ID]aB3456789[ARGS]" + json + "[TOOL_CALLS]get-now[CALL_ID]000000000[ARGS]{}", "", two},
      {Name::kMistralArgs, "Hm.[TOOL_CALLS]look[ARGS]" + json + "[TOOL_CALLS]get-now[ARGS]{}", "Hm.", two},
      {Name::kDeepSeek,
       "Hm.<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>look\n```json\n" + json +
           "\n```<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>function<｜tool▁sep｜>get-now\n```json\n{}\n```"
           "<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
       "Hm.", two},
      {Name::kDeepSeekV31,
       "Hm.<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>look<｜tool▁sep｜>" + json +
           "<｜tool▁call▁end｜><｜tool▁call▁begin｜>get-now<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
       "Hm.", two},
      {Name::kKimi,
       "Hm.<|tool_calls_section_begin|><|tool_call_begin|>functions.look:0<|tool_call_argument_begin|>" + json +
           "<|tool_call_end|><|tool_call_begin|>functions.get-now:12<|tool_call_argument_begin|>{}"
           "<|tool_call_end|><|tool_calls_section_end|>",
       "Hm.", two},
      {Name::kHarmony,
       "Hm.\n<|start|>assistant to=functions.look<|channel|>commentary json<|message|>" + json + "<|call|>", "Hm.",
       one},
      {Name::kPhi4,
       R"(<|tool_call|>[{"name": "look", "arguments": )" + json +
           R"(}, {"name": "get-now", "arguments": {}}]<|/tool_call|>)",
       "", two},
      {Name::kGranite,
       R"(<|tool_call|>[{"name": "look", "arguments": )" + json + R"(}, {"name": "get-now", "arguments": {}}])", "",
       two},
      {Name::kCommandA,
       "Hm.<|START_ACTION|>[\n    {\"tool_call_id\": \"0\", \"tool_name\": \"look\", \"parameters\": " + json +
           "},\n    {\"tool_call_id\": \"1\", \"tool_name\": \"get-now\", \"parameters\": {}}\n]<|END_ACTION|>",
       "Hm.", two},
      {Name::kCommandR,
       "Hm.\nAction: ```json\n[\n    {\n        \"tool_name\": \"look\",\n        \"parameters\": " + json +
           "\n    },\n    {\n        \"tool_name\": \"get-now\",\n        \"parameters\": {}\n    }\n]```",
       "Hm.", two},
      {Name::kQwenCoder,
       "Hm.\n" + coder + "\n<tool_call>\n<function=get-now>\n</function>\n</tool_call>",
       "Hm.",
       {{"look", full}, {"get-now", "{}"}}},
      {Name::kQwenCoder,
       "<tool_call><function=look><parameter=what>x</parameter></function></tool_call>",
       "",
       {{"look", R"({"what": "x"})"}}},
      {Name::kQwenCoder,
       "<tool_call>\n<function=look>\n<parameter=what>\n\n a</parameter\n\n\n</parameter>\n</function>\n</tool_call>",
       "",
       {{"look", R"({"what": "\n a</parameter\n\n"})"}}},
      {Name::kGlm,
       "Hm.\n<tool_call>look\n<arg_key>what</arg_key>\n<arg_value>a \"b\"\n<c></arg_value>\n<arg_key>count</arg_key>\n"
       "<arg_value>3</arg_value>\n<arg_key>deep</arg_key>\n<arg_value>{\"k\": [1, \"x\"]}</arg_value>\n"
       "<arg_key>sure</arg_key>\n<arg_value>true</arg_value>\n</tool_call>\n<tool_call>get-now\n</tool_call>",
       "Hm.",
       {{"look", full}, {"get-now", "{}"}}},
      {Name::kGlm,
       "<tool_call>look<arg_key>what</arg_key><arg_value>\u4f60</arg_value></tool_call>",
       "",
       {{"look", "{\"what\": \"\u4f60\"}"}}},
      {Name::kMiniMax,
       "<minimax:tool_call>\n<invoke name=\"look\">\n<parameter name=\"what\">a \"b\"\n<c></parameter>\n"
       "<parameter name=\"count\">3</parameter>\n<parameter name=\"deep\">{\"k\": [1, \"x\"]}</parameter>\n"
       "<parameter name=\"sure\">true</parameter>\n</invoke>\n<invoke name=\"get-now\">\n</invoke>\n"
       "</minimax:tool_call>",
       "",
       {{"look", full}, {"get-now", "{}"}}},
      {Name::kSeed,
       "Hm.\n<seed:tool_call>\n<function=look>\n<parameter=what>\n</parameter>\n<parameter=list>[1, 2.5e3, -0]"
       "</parameter>\n</function>\n</seed:tool_call>",
       "Hm.",
       {{"look", R"({"what": "\n", "list": [1, 2.5e3, -0]})"}}},
      {Name::kLlamaPython,
       R"([look(what="a \"b\"\n<c>", count=3, deep={"k": [1, "x"]}, sure=True), get-now()])",
       "",
       {{"look", full}, {"get-now", "{}"}}},
      {Name::kLlamaPython,
       R"([look(what='it\'s "x"', sure=None, deep={'a': [False, {}]})])",
       "",
       {{"look", R"({"what": "it's \"x\"", "sure": null, "deep": {"a": [false, {}]}})"}},
       false},
      {Name::kLfm2,
       R"(Hm.<|tool_call_start|>[look(what="\ud83d\ude42", list=[]), get-now()]<|tool_call_end|>)",
       "Hm.",
       {{"look", R"({"what": "\ud83d\ude42", "list": []})"}, {"get-now", "{}"}}},
      {Name::kGemma4,
       "Hm.<|tool_call>call:look{what:<|\"|>a "
       "\"b\"\n<c><|\"|>,count:3,deep:{k:[1,<|\"|>x<|\"|>]},sure:true}<tool_call|>"
       "<|tool_call>call:get-now{}<tool_call|>",
       "Hm.",
       {{"look", full}, {"get-now", "{}"}}},
      {Name::kDeepSeekV32,
       "Hm.\n<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"look\">\n<｜DSML｜parameter name=\"what\" "
       "string=\"true\">a \"b\"\n<c></｜DSML｜parameter>\n<｜DSML｜parameter name=\"count\" string=\"false\">3"
       "</｜DSML｜parameter>\n<｜DSML｜parameter name=\"deep\" string=\"false\">{\"k\": [1, "
       "\"x\"]}</｜DSML｜parameter>\n"
       "<｜DSML｜parameter name=\"sure\" string=\"false\">true</｜DSML｜parameter>\n</｜DSML｜invoke>\n"
       "<｜DSML｜invoke name=\"get-now\">\n</｜DSML｜invoke>\n</｜DSML｜function_calls>",
       "Hm.",
       {{"look", full}, {"get-now", "{}"}}},
      {Name::kDeepSeekV4,
       "Hm.\n<｜DSML｜tool_calls>\n<｜DSML｜invoke name=\"look\">\n<｜DSML｜parameter name=\"what\" "
       "string=\"true\">a \"b\"\n<c></｜DSML｜parameter>\n<｜DSML｜parameter name=\"count\" string=\"false\">3"
       "</｜DSML｜parameter>\n<｜DSML｜parameter name=\"deep\" string=\"false\">{\"k\": [1, "
       "\"x\"]}</｜DSML｜parameter>\n"
       "<｜DSML｜parameter name=\"sure\" string=\"false\">true</｜DSML｜parameter>\n</｜DSML｜invoke>\n"
       "<｜DSML｜invoke name=\"get-now\">\n</｜DSML｜invoke>\n</｜DSML｜tool_calls>",
       "Hm.",
       {{"look", full}, {"get-now", "{}"}}},
  };
}

}  // namespace ringside
