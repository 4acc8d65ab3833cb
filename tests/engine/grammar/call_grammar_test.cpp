// Grammars of calls in the models' native syntaxes.
#include <gtest/gtest.h>

#include "engine/grammar/grammar_cache.h"
#include "tests/engine/grammar/byte_vocabulary.h"
#include "tests/session/tools/call_cases.h"

namespace ringside {
namespace {

class CallGrammar : public ::testing::Test {
 protected:
  /// "whole": it matches and nothing may follow; "more": it matches and more may follow; "part": it is a proper prefix
  /// of a match.
  std::string Takes(const std::string& text) {
    AnswerFormat format;
    format.calls = std::make_shared<const ToolCallRules>(rules);
    const auto grammar = cache.Get(format);
    if (!grammar.ok()) return grammar.status().param();
    GrammarMatcher matcher(*grammar);
    if (!matcher.Append(text).ok()) return "no";
    return !matcher.may_end() ? "part" : matcher.may_continue() ? "more" : "whole";
  }
  void Tool(const std::string& properties, const std::string& required) {
    rules.tools = R"({"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": )" +
                  properties + R"(, "required": )" + required + R"(, "additionalProperties": false}}})";
    rules.strict = {true};
  }

  ToolCallRules rules{.tools = kCaseTools};
  ByteVocabulary tokenizer;
  GrammarCache cache{tokenizer};
};

TEST_F(CallGrammar, AcceptsEveryGoldenCall) {
  for (const CallCase& one : CallCases()) {
    if (!one.canonical) continue;
    rules.syntax = one.syntax;
    rules.may_call = true;
    const std::string taken = Takes(one.text);
    EXPECT_TRUE(taken == "more" || taken == "whole") << taken << " of " << one.text;
    rules.must_call = true;
    size_t begin = one.message.size();
    if (one.text[begin] == '\n') ++begin;
    EXPECT_NE(Takes(one.text.substr(begin)), "no") << one.text;
    EXPECT_EQ(Takes("Hm."), "no") << one.text;
    rules.must_call = rules.may_call = false;
    EXPECT_EQ(Takes(one.text), "no") << one.text;
  }
}

TEST_F(CallGrammar, FunctionWithoutASchemaTakesNoArguments) {
  rules.tools = R"({"type": "function", "function": {"name": "f"}})";
  for (const ToolSyntax& syntax : ToolSyntaxes()) {
    rules.syntax = syntax.name;
    std::string text(syntax.opening);
    if (const size_t number = text.find('%'); number != std::string::npos) text[number] = '0';
    text += "f";
    using Form = ToolSyntax::Arguments::Form;
    const std::string empty = syntax.arguments.form == Form::kPython ? "()" : syntax.loose() ? "" : "{}";
    std::string behind = WithId(syntax.before_arguments, "aB3456789");
    if (const size_t number = behind.find('%'); number != std::string::npos) behind[number] = '0';
    text += behind + empty + WithId(syntax.after_arguments, "aB3456789") + std::string(syntax.close);
    EXPECT_NE(Takes(text), "no") << text;
    EXPECT_NE(Takes(text), "part") << text;
  }
}

TEST_F(CallGrammar, SingleCallUnlessParallelCallsAreAllowed) {
  rules.syntax = ToolSyntaxName::kQwenCoder;
  rules.must_call = true;
  const std::string one = "<tool_call>\n<function=get-now>\n</function>\n</tool_call>";
  EXPECT_EQ(Takes(one + "\n" + one), "more");
  rules.several = false;
  EXPECT_EQ(Takes(one), "whole");
}

TEST_F(CallGrammar, TaggedValuesFollowTheirSchemas) {
  rules.syntax = ToolSyntaxName::kQwenCoder;
  Tool(R"({"unit": {"enum": ["c", "kelvin"]}, "code": {"type": "string", "pattern": "^[A-Z]{2}$"},
           "short": {"type": "string", "maxLength": 3}, "n": {"type": "integer", "minimum": 0, "maximum": 9},
           "list": {"type": "array", "items": {"$ref": "#/properties/n"}}})",
       R"(["unit", "code"])");
  std::replace(rules.tools.begin(), rules.tools.end(), '\n', ' ');
  const auto call = [](const std::string& arguments) { return "<tool_call>\n<function=f>\n" + arguments; };
  const auto argument = [](const std::string& key, const std::string& value) {
    return "<parameter=" + key + ">\n" + value + "\n</parameter>\n";
  };
  const std::string begun = argument("unit", "kelvin") + argument("code", "AB"), end = "</function>\n</tool_call>";
  EXPECT_EQ(Takes(call(begun + end)), "more");
  EXPECT_EQ(Takes(call(begun + argument("n", "7") + argument("list", "[1, 2]") + end)), "more");
  EXPECT_EQ(Takes(call(begun + argument("short", "a<b") + end)), "more");
  EXPECT_EQ(Takes(call(begun + argument("short", "four"))), "no");
  EXPECT_EQ(Takes(call(argument("unit", "k"))), "no");
  EXPECT_EQ(Takes(call(argument("unit", "c") + argument("code", "Ab"))), "no");
  EXPECT_EQ(Takes(call(begun + argument("n", "12"))), "no");
  EXPECT_EQ(Takes(call(begun + argument("list", "[12]"))), "no");
  EXPECT_EQ(Takes(call(begun + argument("other", "x"))), "no");
  EXPECT_EQ(Takes(call(argument("unit", "c") + end)), "no");  // code is required
}

TEST_F(CallGrammar, TextEndsWithItsTag) {
  rules.syntax = ToolSyntaxName::kGlm;
  const std::string begun = "<tool_call>look\n<arg_key>what</arg_key>\n<arg_value>a<b</arg_value>";
  EXPECT_EQ(Takes(begun), "part");
  EXPECT_EQ(Takes(begun + "b"), "no");
  EXPECT_EQ(Takes(begun + "\n</tool_call>"), "more");
}

TEST_F(CallGrammar, GemmaValuesFollowTheirSchemas) {
  rules.syntax = ToolSyntaxName::kGemma4;
  Tool(R"({"o": {"type": "object", "properties": {"s": {"enum": ["x"]}, "n": {"type": "integer"}}, )"
       R"("required": ["s"], "additionalProperties": false}, "l": {"type": "array", "minItems": 1, "maxItems": 2, )"
       R"("items": {"type": "boolean"}}})",
       R"(["o"])");
  const std::string begun = "<|tool_call>call:f{o:{s:<|\"|>x<|\"|>";
  EXPECT_EQ(Takes(begun + "}}<tool_call|>"), "more");
  EXPECT_EQ(Takes(begun + ",n:4},l:[true,false]}<tool_call|>"), "more");
  EXPECT_EQ(Takes(begun + "},l:[]"), "no");
  EXPECT_EQ(Takes(begun + "},l:[true,true,"), "no");
  EXPECT_EQ(Takes("<|tool_call>call:f{o:{s:<|\"|>y"), "no");
  EXPECT_EQ(Takes("<|tool_call>call:f{o:{n:4"), "no");
}

TEST_F(CallGrammar, StrictRefusesNamesTheSyntaxCannotExpress) {
  rules.syntax = ToolSyntaxName::kQwenCoder;
  Tool(R"({"a b": {"type": "string"}})", "[]");
  EXPECT_EQ(Takes(""), "tools[0].parameters.properties.a b");
  rules.strict = {false};  // then any arguments are allowed
  EXPECT_EQ(Takes("<tool_call>\n<function=f>\n<parameter=x>\ny\n</parameter>\n</function>\n</tool_call>"), "more");
  rules.syntax = ToolSyntaxName::kHermes;
  rules.strict = {true};
  EXPECT_EQ(Takes("<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a b\": \"\"}}\n</tool_call>"), "more");
}

TEST_F(CallGrammar, PythonCallsAreTheWholeAnswer) {
  rules.syntax = ToolSyntaxName::kLlamaPython;
  EXPECT_EQ(Takes("[look(what=\"x\")]"), "whole");
  EXPECT_EQ(Takes("[look(sure=True"), "no");      // the required one is first
  EXPECT_EQ(Takes("Hi [look(what=1)]"), "more");  // text
  EXPECT_EQ(Takes("[a](b) and [1]"), "more");
  EXPECT_EQ(Takes("[nothing("), "no");
}

}  // namespace
}  // namespace ringside
