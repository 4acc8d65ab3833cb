// Answers that may, must or must not call tools: the texts that their grammar accepts.
#include <gtest/gtest.h>

#include "engine/grammar/grammar_cache.h"
#include "tests/engine/grammar/byte_vocabulary.h"

namespace ringside {
namespace {

std::string Tool(const std::string& name, const std::string& parameters) {
  return R"({"type": "function", "function": {"name": ")" + name + R"(", "parameters": )" + parameters + "}}";
}
std::string Call(const std::string& name, const std::string& arguments) {
  return "<tool_call>\n{\"name\": \"" + name + "\", \"arguments\": " + arguments + "}\n</tool_call>";
}

const std::string kWeather = Tool(
    "weather",
    R"({"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"], "additionalProperties": false})");
const std::string kTime = Tool("time", R"({"type": "object", "properties": {}, "additionalProperties": false})");

class ToolCallGrammar : public ::testing::Test {
 protected:
  Result<std::shared_ptr<const Grammar>> Make() {
    AnswerFormat format = answer;
    format.calls = std::make_shared<const ToolCallRules>(rules);
    return cache.Get(format);
  }
  /// "whole": it matches and nothing may follow; "more": it matches and more may follow; "part": it is a proper prefix
  /// of a match.
  std::string Takes(const std::string& text) {
    const auto grammar = Make();
    if (!grammar.ok()) return grammar.status().ToString();
    GrammarMatcher matcher(*grammar);
    if (!matcher.Append(text).ok()) return "no";
    return !matcher.may_end() ? "part" : matcher.may_continue() ? "more" : "whole";
  }

  ToolCallRules rules{.tools = kWeather + "\n" + kTime};
  AnswerFormat answer;
  ByteVocabulary tokenizer;
  GrammarCache cache{tokenizer};
};

TEST_F(ToolCallGrammar, AllowsTextThenCalls) {
  EXPECT_EQ(Takes(""), "more");
  EXPECT_EQ(Takes("Hi <tool"), "more");
  EXPECT_EQ(Takes("\xC3\xA9 <<tool_calls>"), "more");
  EXPECT_EQ(Takes("Hi\n" + Call("time", "{}")), "more");
  EXPECT_EQ(Takes(Call("time", "{}") + "\n" + Call("weather", R"({"city": "Bonn"})")), "more");
  EXPECT_EQ(Takes("<tool_call>"), "part");
  EXPECT_EQ(Takes("<tool_call> "), "no");
  EXPECT_EQ(Takes(Call("time", "{}") + "."), "no");
  EXPECT_EQ(Takes(Call("tim", "{}")), "no");
  EXPECT_EQ(Takes(Call("weather", "{}")), "no");
  EXPECT_EQ(Takes(Call("weather", R"({"city":"</tool_call>"})")), "more");
  EXPECT_EQ(Takes(Call("weather", R"({"city":1})")), "no");
}

TEST_F(ToolCallGrammar, FollowsTheToolChoice) {
  rules.several = false;
  EXPECT_EQ(Takes("Hi\n" + Call("time", "{}")), "whole");
  rules.must_call = true;
  EXPECT_EQ(Takes(Call("time", "{}")), "whole");
  EXPECT_EQ(Takes(""), "part");
  EXPECT_EQ(Takes("H"), "no");
  rules.several = true;
  EXPECT_EQ(Takes(Call("time", "{}")), "more");
  rules.names = {"weather"};
  EXPECT_EQ(Takes(Call("time", "{}")), "no");
  EXPECT_EQ(Takes(Call("weather", R"({"city":"a"})")), "more");
  rules.must_call = rules.may_call = false;
  EXPECT_EQ(Takes("Hi"), "more");
  EXPECT_EQ(Takes("<tool_call"), "more");
  EXPECT_EQ(Takes("<tool_call>"), "no");
}

TEST_F(ToolCallGrammar, FormatReplacesTheText) {
  answer.kind = AnswerFormat::Kind::kJsonSchema;
  answer.text = R"({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]})";
  EXPECT_EQ(Takes(R"({"a": "<tool_call>"})"), "whole");
  EXPECT_EQ(Takes(Call("time", "{}")), "more");
  EXPECT_EQ(Takes("Hi"), "no");
  rules.may_call = false;
  EXPECT_EQ(Takes(Call("time", "{}")), "no");
  EXPECT_EQ(Takes(R"({"a": ""})"), "whole");
}

TEST_F(ToolCallGrammar, RefusesAnUnsupportedSchema) {
  const std::string multiple = R"({"type": "object", "properties": {"n": {"type": "integer", "multipleOf": 3}}})";
  rules.tools = kTime + "\n" + Tool("f", multiple);
  EXPECT_EQ(Takes(Call("f", R"({"x": [1]})")), "more");  // any object
  EXPECT_EQ(Takes(Call("f", "1")), "no");
  rules.strict = {true, true};
  rules.schema_param = ".function.parameters";
  EXPECT_EQ(Make().status().param(), "tools[1].function.parameters.properties.n.multipleOf");
  rules.tools = Tool("f", R"({"type": "string"})");  // arguments must be an object
  EXPECT_EQ(Make().status().param(), "tools[0].function.parameters");
  rules.strict.clear();
  EXPECT_EQ(Takes(Call("f", "{}")), "more");
}

TEST_F(ToolCallGrammar, FunctionWithoutParametersTakesNoArguments) {
  rules.tools = R"({"type": "function", "function": {"name": "f"}})";
  for (const bool strict : {true, false}) {
    rules.strict = {strict};
    EXPECT_EQ(Takes(Call("f", "{}")), "more");
    EXPECT_EQ(Takes(Call("f", R"({"any": null})")), "no");
  }
  rules.any_arguments = true;
  EXPECT_EQ(Takes(Call("f", R"({"any": null})")), "no");
  rules.tools = Tool("f", R"({"type": "object"})");
  EXPECT_EQ(Takes(Call("f", R"({"any": null})")), "more");
}

TEST_F(ToolCallGrammar, RefusesSchemasTooLargeInTotal) {
  const std::string large = R"({"type": "object", "properties": {"s": {"type": "string", "maxLength": 20000}}})";
  rules.tools.clear();
  for (int i = 0; i < 16; ++i) rules.tools += (i > 0 ? "\n" : "") + Tool("f" + std::to_string(i), large);
  EXPECT_EQ(Takes(Call("f3", R"({"x": 1})")), "more");
  rules.strict.assign(16, true);
  EXPECT_EQ(Make().status().code(), StatusCode::kInvalidArgument);
  EXPECT_TRUE(Make().status().param().starts_with("tools[")) << Make().status().param();
}

TEST_F(ToolCallGrammar, RefusesAnUnknownToolName) {
  rules.names = {"time", "f"};
  EXPECT_EQ(Make().status().param(), "tool_choice");
}

TEST_F(ToolCallGrammar, CacheDistinguishesChoices) {
  ASSERT_TRUE(Make().ok());
  ASSERT_TRUE(Make().ok());
  EXPECT_EQ(cache.size(), 1u);
  rules.must_call = true;
  ASSERT_TRUE(Make().ok());
  rules.names = {"time"};
  ASSERT_TRUE(Make().ok());
  rules.tools = kTime;
  ASSERT_TRUE(Make().ok());
  rules.syntax = ToolSyntaxName::kLlama;
  ASSERT_TRUE(Make().ok());
  EXPECT_EQ(cache.size(), 5u);
}

TEST_F(ToolCallGrammar, LlamaCallsAreTheWholeAnswer) {
  rules.syntax = ToolSyntaxName::kLlama;
  const std::string call = R"({"name": "weather", "parameters": {"city": "Bonn"}})";
  EXPECT_EQ(Takes(call), "whole");  // one at a time
  EXPECT_EQ(Takes(R"({"name": "weather", "parameters": {}})"), "no");
  EXPECT_EQ(Takes(R"({"name": "f", "parameters": {}})"), "no");
  EXPECT_EQ(Takes("Hi " + call), "more");  // text
  EXPECT_EQ(Takes(R"({"name": )"), "more");
  rules.must_call = true;
  EXPECT_EQ(Takes(call), "whole");
  EXPECT_EQ(Takes("Hi"), "no");
  rules.must_call = rules.may_call = false;
  EXPECT_EQ(Takes(R"({"name": "w)"), "no");
  EXPECT_EQ(Takes(R"([{"name": "w)"), "more");
}

TEST_F(ToolCallGrammar, MistralCallsHaveIds) {
  rules.syntax = ToolSyntaxName::kMistral;
  const std::string call = R"({"name": "time", "arguments": {}, "id": "aB3456789"})";
  EXPECT_EQ(Takes("[TOOL_CALLS] [" + call + "]"), "whole");
  EXPECT_EQ(Takes("[TOOL_CALLS] [" + call + ", " + call + "]"), "whole");
  EXPECT_EQ(Takes("[TOOL_CALLS] [" + call), "part");
  EXPECT_EQ(Takes("[TOOL_CALLS][" + call + "]"), "no");
  EXPECT_EQ(Takes(R"([TOOL_CALLS] [{"name": "time", "arguments": {}, "id": "aB345678"})"), "no");
  EXPECT_EQ(Takes(R"([TOOL_CALLS] [{"name": "time", "arguments": {}, "id": "aB34-6789"})"), "no");
  EXPECT_EQ(Takes("Hi"), "more");
  EXPECT_EQ(Takes("Hi[TOOL_CALLS]"), "no");
  rules.several = false;
  EXPECT_EQ(Takes("[TOOL_CALLS] [" + call + ", "), "no");
  rules.syntax = ToolSyntaxName::kMistralTekken;
  EXPECT_EQ(Takes("[TOOL_CALLS][" + call + "]"), "whole");
  EXPECT_EQ(Takes("[TOOL_CALLS] [" + call + "]"), "no");
}

TEST(ToolNames, MustBeExpressibleInCalls) {
  EXPECT_TRUE(IsToolName("get_weather-2"));
  for (const std::string& name : {std::string(), std::string(65, 'a'), std::string("a b"), std::string("a\"b"),
                                  std::string("<|im_end|>"), std::string("\xC3\xA9")}) {
    EXPECT_FALSE(IsToolName(name)) << name;
    EXPECT_FALSE(IsCallableName(name)) << name;
  }
  EXPECT_TRUE(IsCallableName("get_weather-2"));
  EXPECT_TRUE(IsCallableName("mcp__files.read"));
  for (const char* name : {"a.b", ".a", "a.", "a.b.c", "."}) EXPECT_FALSE(IsToolName(name)) << name;
  for (const char* name : {".a", "a.", "a.b.c", "."}) EXPECT_FALSE(IsCallableName(name)) << name;
}

}  // namespace
}  // namespace ringside
