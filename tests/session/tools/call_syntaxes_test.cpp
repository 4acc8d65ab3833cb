// Every tool syntax: golden calls, split anywhere, cut anywhere, malformed, and stored in a timeline.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <set>

#include "engine/text/tokenizer_facts.h"
#include "session/tools/tool_calls.h"
#include "session/tools/value_reader.h"
#include "tests/session/tools/call_cases.h"

namespace ringside {
namespace {

using Json = nlohmann::json;

/// The parsed text: the message, the calls, and the position of each part.
struct Shown {
  std::string text, message;
  std::vector<ToolCall> calls;
  int64_t calls_at = -1;
  bool in_call = false;

  std::vector<std::pair<std::string, std::string>> Pairs() const {
    std::vector<std::pair<std::string, std::string>> pairs;
    for (const ToolCall& call : calls) pairs.emplace_back(call.name, call.arguments);
    return pairs;
  }
};

Shown Read(ToolSyntaxName syntax, const std::vector<std::string_view>& pieces) {
  static const auto types = std::make_shared<ParameterTypes>(kCaseTools);
  ToolCallReader reader(SyntaxOf(syntax).alone ? CallPlace::kStart : CallPlace::kAny, syntax, types);
  Shown shown;
  const auto note = [&](const std::vector<CallPart>& parts) {
    for (const CallPart& part : parts) {
      const std::string bytes = shown.text.substr(part.begin, part.end - part.begin);
      if (part.kind == CallPart::Kind::kText) shown.message += bytes;
      if (part.kind == CallPart::Kind::kCall) shown.calls.push_back({.name = bytes, .complete = false});
      if (part.kind == CallPart::Kind::kArguments) shown.calls.back().arguments += bytes;
      if (part.kind == CallPart::Kind::kCallEnd) shown.calls.back().complete = true;
    }
  };
  for (const std::string_view piece : pieces) note(reader.Push(piece, &shown.text));
  shown.in_call = reader.in_call();
  note(reader.Finish());
  shown.calls_at = reader.calls_at();
  return shown;
}

TEST(CallSyntaxes, EverySyntaxHasACase) {
  std::set<ToolSyntaxName> seen;
  for (const CallCase& one : CallCases()) seen.insert(one.syntax);
  EXPECT_EQ(seen.size(), ToolSyntaxes().size());
  for (const ToolSyntax& syntax : ToolSyntaxes()) EXPECT_EQ(SyntaxOf(syntax.name).name, syntax.name);
}

TEST(CallSyntaxes, ReadsGoldenCallsSplitAnywhere) {
  for (const CallCase& one : CallCases()) {
    const std::string_view text = one.text;
    for (size_t cut = 0; cut <= text.size(); ++cut) {
      const Shown shown = Read(one.syntax, {text.substr(0, cut), text.substr(cut)});
      ASSERT_EQ(shown.message, one.message) << cut << " of " << text;
      ASSERT_EQ(shown.Pairs(), one.calls) << cut << " of " << text;
      ASSERT_FALSE(shown.in_call) << text;
      ASSERT_EQ(shown.calls_at, std::ssize(one.message)) << text;
      for (const ToolCall& call : shown.calls) {
        EXPECT_TRUE(call.complete);
        EXPECT_TRUE(Json::accept(call.arguments)) << call.arguments;
      }
    }
    std::vector<std::string_view> bytes;
    for (size_t i = 0; i < text.size(); ++i) bytes.push_back(text.substr(i, 1));
    EXPECT_EQ(Read(one.syntax, bytes).Pairs(), one.calls) << text;
  }
}

// The output so far is a prefix of the complete output.
TEST(CallSyntaxes, CutAnywhere) {
  for (const CallCase& one : CallCases()) {
    for (size_t size = 0; size < one.text.size(); ++size) {
      const std::string_view text = std::string_view(one.text).substr(0, size);
      const Shown shown = Read(one.syntax, {text});
      ASSERT_LE(shown.calls.size(), one.calls.size());
      for (size_t i = 0; i < shown.calls.size(); ++i) {
        const ToolCall& call = shown.calls[i];
        EXPECT_EQ(call.name, one.calls[i].first);
        EXPECT_TRUE(one.calls[i].second.starts_with(call.arguments)) << call.arguments << " of " << one.text;
        EXPECT_EQ(call.complete, call.arguments == one.calls[i].second) << text;
        EXPECT_TRUE(call.complete || (shown.in_call && i + 1 == shown.calls.size())) << text;
      }
      // No text is lost before or after the marker is complete.
      EXPECT_EQ(shown.message, shown.calls_at < 0 ? text : std::string_view(one.message));
    }
  }
}

TEST(CallSyntaxes, AnswerTextHasNonJsonCallsInHermesSyntax) {
  for (const CallCase& one : CallCases()) {
    const Shown shown = Read(one.syntax, {one.text});
    const bool json = SyntaxOf(one.syntax).has_json();
    if (json) {
      EXPECT_EQ(shown.text, one.text);
    }
    // In both forms the calls can be parsed without the tools' schemas.
    const std::vector<ToolCall> calls = ReadToolCalls(shown.text.substr(one.message.size()));
    ASSERT_EQ(calls.size(), one.calls.size()) << shown.text;
    std::string written = one.message;
    int64_t calls_at = -1;
    for (size_t i = 0; i < calls.size(); ++i) {
      EXPECT_EQ(calls[i].name, one.calls[i].first);
      EXPECT_EQ(calls[i].arguments, one.calls[i].second);
      AppendToolCall(calls[i].name, calls[i].arguments, &written, &calls_at);
    }
    if (!json) {
      EXPECT_EQ(shown.text, written);
    }
    EXPECT_EQ(ComparableText(shown.text, calls_at), ComparableText(written, calls_at));
  }
}

TEST(CallSyntaxes, ReadsCallsOfTruncatedAnswersInTheirSyntax) {
  for (const CallCase& one : CallCases()) {
    const size_t begin = one.message.size();
    const std::vector<ToolCall> calls = ReadToolCalls(one.text.substr(begin, one.text.size() - begin));
    ASSERT_EQ(calls.size(), one.calls.size()) << one.text;
    EXPECT_EQ(calls[0].name, one.calls[0].first);
    EXPECT_EQ(Json::parse(calls[0].arguments).at("what"), Json::parse(one.calls[0].second).at("what"));
  }
}

TEST(CallSyntaxes, KeepsIdsFromTheModel) {
  const auto id = [](const std::string& text) { return ReadToolCalls(text).at(0).id; };
  EXPECT_EQ(id("[TOOL_CALLS]f[CALL_ID]aB3456789[ARGS]{}"), "aB3456789");
  EXPECT_EQ(id("<|tool_calls_section_begin|><|tool_call_begin|>functions.f:7<|tool_call_argument_begin|>{}"
               "<|tool_call_end|>"),
            "functions.f:7");
  EXPECT_EQ(id("[TOOL_CALLS]f[ARGS]{}"), "");
}

TEST(CallSyntaxes, UnknownMarkupIsText) {
  for (const CallCase& one : CallCases()) {
    for (const ToolSyntax& other : ToolSyntaxes()) {
      // Syntaxes with a common marker distinguish calls by the markup that follows it.
      const bool common = other.opening.starts_with(SyntaxOf(one.syntax).marker()) ||
                          SyntaxOf(one.syntax).opening.starts_with(other.marker());
      if (common) continue;
      const Shown shown = Read(other.name, {one.text});
      EXPECT_EQ(shown.message, one.text) << static_cast<int>(other.name);
      EXPECT_TRUE(shown.calls.empty());
    }
  }
  EXPECT_EQ(Read(ToolSyntaxName::kQwenCoder, {CallCases()[0].text}).message, CallCases()[0].text);
  EXPECT_EQ(Read(ToolSyntaxName::kGlm, {CallCases()[0].text}).message, CallCases()[0].text);
  for (const std::string text : {"[", "[look", "[a](b)", "[1, 2]", "[look] (x)"}) {
    EXPECT_EQ(Read(ToolSyntaxName::kLlamaPython, {text}).message, text);
  }
}

// The call has started but is never completed; none of its bytes become text.
TEST(CallSyntaxes, MalformedArgumentsEndTheCall) {
  const std::pair<ToolSyntaxName, std::string> cases[] = {
      {ToolSyntaxName::kQwenCoder, "<tool_call>\n<function=look>\n{\"what\": 1}"},
      {ToolSyntaxName::kQwenCoder, "<tool_call>\n<function=look>\n<parameter=>\nx"},
      {ToolSyntaxName::kQwenCoder, "<tool_call>\n<function=look>\n<parameter=count>\nmany\n</parameter>\n"},
      {ToolSyntaxName::kQwenCoder, "<tool_call>\n<function=look>\n<parameter=deep>\n{\"a\": 01}\n</parameter>\n"},
      {ToolSyntaxName::kQwenCoder, "<tool_call>\n<function=look>\n<parameter=count>\n3 4\n</parameter>\n"},
      {ToolSyntaxName::kGlm, "<tool_call>look\n<arg_key>what</arg_key>\n<value>"},
      {ToolSyntaxName::kGlm, "<tool_call>look\n<arg_key>a b</arg_key>\n<arg_value>x</arg_value>"},
      {ToolSyntaxName::kLlamaPython, "[look(1)]"},
      {ToolSyntaxName::kLlamaPython, "[look(what=x)]"},
      {ToolSyntaxName::kLlamaPython, "[look(what=\"\\x\")]"},
      {ToolSyntaxName::kLlamaPython, "[look(what=\"\\ud800\")]"},
      {ToolSyntaxName::kLlamaPython, "[look(what=[1,])]"},
      {ToolSyntaxName::kLlamaPython, "[look(what={1: 2})]"},
      {ToolSyntaxName::kLlamaPython, "[look(what=" + std::string(300, '[') + ")]"},
      {ToolSyntaxName::kGemma4, "<|tool_call>call:look{what:\"x\"}<tool_call|>"},
      {ToolSyntaxName::kGemma4, "<|tool_call>call:look{what:[}]}<tool_call|>"},
  };
  for (const auto& [syntax, text] : cases) {
    const Shown shown = Read(syntax, {text + " and more"});
    ASSERT_EQ(shown.calls.size(), 1u) << text;
    EXPECT_FALSE(shown.calls[0].complete) << text;
    EXPECT_FALSE(Json::accept(shown.calls[0].arguments)) << shown.calls[0].arguments;
    EXPECT_TRUE(shown.in_call) << text;
    EXPECT_EQ(shown.message, "");
  }
}

TEST(CallSyntaxes, ToolSchemaTypesValues) {
  const auto tool = [](const std::string& schema) {
    return R"({"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {"p": )" +
           schema + R"(}, "$defs": {"n": {"type": "number"}}}}})";
  };
  for (const std::string schema :
       {R"({"type": "string"})", "{}", "true", R"({"type": ["string", "null"]})", R"({"enum": ["a", 1]})",
        R"({"anyOf": [{"type": "integer"}, {"type": "string"}]})", R"({"$ref": "#/nowhere"})", R"({"type": 5})"}) {
    EXPECT_TRUE(ParameterTypes(tool(schema)).IsText("f", "p")) << schema;
  }
  for (const std::string schema :
       {R"({"type": "integer"})", R"({"type": "array"})", R"({"properties": {}})", R"({"const": 4})",
        R"({"enum": [1, null]})", R"({"type": ["number", "null"]})", R"({"$ref": "#/$defs/n"})",
        R"({"oneOf": [{"type": "boolean"}, {"type": "object"}]})"}) {
    EXPECT_FALSE(ParameterTypes(tool(schema)).IsText("f", "p")) << schema;
    EXPECT_TRUE(ParameterTypes(tool(schema)).IsText("g", "p"));
    EXPECT_TRUE(ParameterTypes(tool(schema)).IsText("f", "q"));
  }
  EXPECT_TRUE(ParameterTypes("no JSON\n{}\n[1]").IsText("f", "p"));
}

// Tokens that a vocabulary has for call markup must not vanish from the answer's text.
TEST(CallSyntaxes, MarkupTokensInArgumentsAreText) {
  for (const ToolSyntax& syntax : ToolSyntaxes()) {
    if (syntax.name == ToolSyntaxName::kHarmony) continue;  // ChannelReader reads its tokens and writes the markup
    for (const std::string_view markup :
         {syntax.opening, syntax.before_arguments, syntax.after_arguments, syntax.next, syntax.close}) {
      for (size_t begin = markup.find('<'); begin != std::string_view::npos; begin = markup.find('<', begin + 1)) {
        const std::string_view token = markup.substr(begin, markup.find('>', begin) + 1 - begin);
        const bool special = token.starts_with("<|") || token.starts_with("<｜");
        const bool tag = token.find("｜DSML｜") != std::string_view::npos;  // several tokens
        EXPECT_TRUE(!special || IsPartOfAnswers(tag ? "｜DSML｜" : token)) << token;
      }
    }
    EXPECT_TRUE(!syntax.reserved || syntax.marker().find('<') == std::string_view::npos ||
                syntax.marker().find("｜DSML｜") != std::string_view::npos || IsPartOfAnswers(syntax.marker()))
        << syntax.marker();
  }
}

}  // namespace
}  // namespace ringside
