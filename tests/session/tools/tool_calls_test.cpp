// Tool calls parsed from answers: whole, split anywhere, cut anywhere, and text that only resembles one.
#include "session/tools/tool_calls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "session/tools/answer_form.h"

namespace ringside {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

const std::string kOne = "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n</tool_call>";
const std::string kTwo = "<tool_call>\n{\"name\": \"g-2\", \"arguments\": {}}\n</tool_call>";

/// The events for a client, one line each.
class Told {
 public:
  explicit Told(CallPlace place = CallPlace::kAny, ToolSyntaxName syntax = ToolSyntaxName::kHermes)
      : reader_(place, syntax) {}
  void Push(std::string_view text) { Note(reader_.Push(text, &all_)); }
  std::vector<std::string> Finish() {
    Note(reader_.Finish());
    return lines_;
  }
  const ToolCallReader& reader() const { return reader_; }

 private:
  void Note(const std::vector<CallPart>& parts) {
    for (const CallPart& part : parts) {
      const std::string bytes = all_.substr(part.begin, part.end - part.begin);
      static constexpr const char* kNames[] = {"text ", "call ", "arguments ", "end"};
      const std::string name = kNames[static_cast<size_t>(part.kind)];
      const bool piece = part.kind == CallPart::Kind::kText || part.kind == CallPart::Kind::kArguments;
      if (piece && !lines_.empty() && lines_.back().starts_with(name)) {
        lines_.back() += bytes;
      } else {
        lines_.push_back(name + bytes);
      }
    }
  }

  ToolCallReader reader_;
  std::string all_;
  std::vector<std::string> lines_;
};

std::vector<std::string> Read(std::string_view text, CallPlace place = CallPlace::kAny) {
  Told told(place);
  told.Push(text);
  return told.Finish();
}

TEST(ToolCalls, ReadsTextThenCalls) {
  EXPECT_THAT(
      Read("Let me see.\n" + kOne + "\n" + kTwo),
      ElementsAre("text Let me see.", "call f", "arguments {\"a\": 1}", "end", "call g-2", "arguments {}", "end"));
  EXPECT_THAT(Read(kOne), ElementsAre("call f", "arguments {\"a\": 1}", "end"));
  EXPECT_THAT(Read("Hi"), ElementsAre("text Hi"));
  EXPECT_THAT(Read(""), IsEmpty());
  Told told;
  told.Push("ab\n" + kOne);
  EXPECT_EQ(told.reader().calls_at(), 2);
}

TEST(ToolCalls, ReadsCallsInAnyChunks) {
  const std::string texts[] = {
      "Let me see.\n\n" + kOne + "\n" + kTwo, "< <t <tool_call <tool_call>\n{\"name\": f <tool_call>" + kOne,
      "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"s\": \"</tool_call> \\\" } \\\\\", \"l\": [{}, "
      "\"{\"]}}\n</tool_call>\n",
      "a\n\n\nb\n<tool_call>\n{\"name\": \"\", \"arguments\": {}}", kOne + "\n" + kOne + " and more\n" + kTwo};
  for (const std::string& text : texts) {
    for (const CallPlace place : {CallPlace::kAny, CallPlace::kStart, CallPlace::kNone}) {
      const std::vector<std::string> whole = Read(text, place);
      for (size_t cut = 0; cut <= text.size(); ++cut) {
        Told told(place);
        told.Push(text.substr(0, cut));
        told.Push(text.substr(cut));
        ASSERT_EQ(told.Finish(), whole) << cut << " of " << text;
      }
      Told bytes(place);
      for (const char c : text) bytes.Push({&c, 1});
      ASSERT_EQ(bytes.Finish(), whole) << text;
    }
  }
}

TEST(ToolCalls, BracketsAndMarkupInStringsAreText) {
  EXPECT_THAT(Read("<tool_call>\n{\"name\": \"f\", \"arguments\": {\"s\": \"}\\\"}</tool_call>\"}}\n</tool_call>"),
              ElementsAre("call f", "arguments {\"s\": \"}\\\"}</tool_call>\"}", "end"));
}

TEST(ToolCalls, CallLookalikesAreText) {
  for (const std::string text :
       {"<tool_call>", "<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>",
        "<tool_call>\n{\"name\": \"\", \"arguments\": {}}", "<tool_call>\n{\"name\": \"a b\", \"arguments\": {}}",
        "<tool_call>\n{\"name\": \"f\", \"arguments\": 1}",
        "<tool_call>\n{\"name\": \"<|im_end|>\", \"arguments\": {}}", "<Tool_call>\n"}) {
    EXPECT_THAT(Read(text + "?"), ElementsAre("text " + text + "?"));
  }
  const std::string long_name(65, 'n');
  EXPECT_THAT(Read("<tool_call>\n{\"name\": \"" + long_name + "\", \"arguments\": {}}"),
              ElementsAre("text <tool_call>\n{\"name\": \"" + long_name + "\", \"arguments\": {}}"));
  for (const std::string name : {"a.b.c", ".a", "a."}) {
    const std::string text = "<tool_call>\n{\"name\": \"" + name + "\", \"arguments\": {}}";
    EXPECT_THAT(Read(text), ElementsAre("text " + text));
  }
  EXPECT_THAT(Read("<tool_call>\n{\"name\": \"files.read\", \"arguments\": {}}"),
              ElementsAre("call files.read", "arguments {}", "end"));
  // A call after it is parsed.
  EXPECT_THAT(Read("<tool_call>" + kTwo), ElementsAre("text <tool_call>", "call g-2", "arguments {}", "end"));
}

TEST(ToolCalls, ReadsCallsAtTheStartOnly) {
  EXPECT_THAT(Read("{\"a\": \"" + kTwo + "\"}", CallPlace::kStart), ElementsAre("text {\"a\": \"" + kTwo + "\"}"));
  EXPECT_THAT(Read(kTwo, CallPlace::kStart), ElementsAre("call g-2", "arguments {}", "end"));
  EXPECT_THAT(Read("\n" + kTwo, CallPlace::kStart), ElementsAre("call g-2", "arguments {}", "end"));
  EXPECT_THAT(Read(kTwo, CallPlace::kNone), ElementsAre("text " + kTwo));
}

TEST(ToolCalls, CutAnywhere) {
  const std::string text = "Hm\n" + kOne;
  for (size_t size = 0; size <= text.size(); ++size) {
    Told told;
    told.Push(text.substr(0, size));
    const bool in_call = told.reader().in_call();
    const std::vector<std::string> lines = told.Finish();
    const size_t arguments = text.find("{\"a\"");
    if (size >= 3 + 11) {  // the opening is complete: what follows is not text
      EXPECT_EQ(told.reader().calls_at(), 2) << size;
      EXPECT_EQ(lines.front(), "text Hm") << size;
    } else {
      EXPECT_EQ(told.reader().calls_at(), -1) << size;
      EXPECT_EQ(lines.empty() ? "" : lines.front(), size == 0 ? "" : "text " + text.substr(0, size));
    }
    EXPECT_EQ(in_call, size > arguments && size < arguments + 8) << size;
    EXPECT_EQ(lines.size() > 1, size > arguments) << size;
  }
}

TEST(ToolCalls, RoundTripsCalls) {
  std::string text = "Hm";
  int64_t calls_at = -1;
  AppendToolCall("f", "{\"a\": 1}", &text, &calls_at);
  AppendToolCall("g-2", "{}", &text, &calls_at);
  EXPECT_EQ(text, "Hm\n" + kOne + "\n" + kTwo);
  EXPECT_EQ(calls_at, 2);
  const std::vector<ToolCall> calls = ReadToolCalls(text.substr(2));
  ASSERT_EQ(calls.size(), 2u);
  EXPECT_EQ(calls[0].name, "f");
  EXPECT_EQ(calls[0].arguments, "{\"a\": 1}");
  EXPECT_TRUE(calls[1].complete);
  std::string alone;
  calls_at = -1;
  AppendToolCall("f", "{\"a\": 1}", &alone, &calls_at);
  EXPECT_EQ(alone, kOne);
  EXPECT_EQ(calls_at, 0);
}

TEST(ToolCalls, TruncatedCallEndsTheText) {
  for (const std::string_view cut : {"{", "{\"a\"", R"({"a": "}\")", R"({"a": [1])", R"({"a": "}
</tool_call>)"}) {
    std::string text;
    int64_t calls_at = -1;
    AppendToolCall("g-2", "{}", &text, &calls_at);
    AppendToolCall("f", cut, &text, &calls_at);
    EXPECT_EQ(text, kTwo + "\n<tool_call>\n{\"name\": \"f\", \"arguments\": " + std::string(cut));
    const std::vector<ToolCall> calls = ReadToolCalls(text);
    ASSERT_EQ(calls.size(), 2u);
    EXPECT_EQ(calls[1].arguments, cut);
    EXPECT_FALSE(calls[1].complete);
  }
}

TEST(ToolCalls, ComparesIgnoringWhiteSpace) {
  std::string spaced, compact;
  int64_t a = -1, b = -1;
  AppendToolCall("f", "{\"k\": [1, {\"s\": \"a \\\" b\"}]}", &spaced, &a);
  AppendToolCall("f", "{\"k\":[1,{\"s\":\"a \\\" b\"}]}", &compact, &b);
  EXPECT_NE(spaced, compact);
  EXPECT_EQ(ComparableText(spaced, a), ComparableText(compact, b));
  EXPECT_NE(ComparableText(spaced, a), ComparableText("", -1));
  EXPECT_EQ(ComparableText("a b", -1), "a b");
  EXPECT_EQ(ToolCallId("call_", "msg_abc", 3), "call_abc_3");
}

TEST(ToolCalls, FindsTheFirstCallOfAContinuedAnswer) {
  constexpr auto kHermes = ToolSyntaxName::kHermes, kLlama = ToolSyntaxName::kLlama;
  constexpr auto kAny = CallPlace::kAny, kStart = CallPlace::kStart;
  EXPECT_EQ(FirstCall("Hm\n<tool_call>\n{", 2, kAny, kHermes), 2u);
  EXPECT_EQ(FirstCall("Hm <", -1, kAny, kHermes), 3u);  // it may become one
  EXPECT_EQ(FirstCall("Hm <", -1, kStart, kHermes), 4u);
  EXPECT_EQ(FirstCall("Hm <", -1, CallPlace::kNone, kHermes), 4u);
  EXPECT_EQ(FirstCall("<tool_call", -1, kStart, kHermes), 0u);
  EXPECT_EQ(FirstCall("", -1, kAny, kHermes), 0u);
  EXPECT_EQ(FirstCall("{", -1, kAny, kHermes), 1u);
  EXPECT_EQ(FirstCall("{", -1, kStart, kLlama), 0u);
  EXPECT_EQ(FirstCall("Hm {", -1, kStart, kLlama), 4u);
  EXPECT_EQ(FirstCall("[TOOL_CALLS", -1, kStart, ToolSyntaxName::kMistral), 0u);
}

TEST(AnswerForms, TokenAndByteFormsAgree) {
  EXPECT_EQ(Encode(AnswerForm{}), "");
  AnswerForm form{{.kind = AnswerFormat::Kind::kJsonSchema, .text = "{}", .param = "p"},
                  {ToolChoice::Mode::kRequired, {"f", "g"}, false}};
  const std::string bytes = Encode(form);
  const AnswerForm read = DecodeAnswerForm(bytes).value();
  EXPECT_EQ(Encode(read), bytes);
  EXPECT_EQ(read.format.kind, AnswerFormat::Kind::kJsonSchema);
  EXPECT_EQ(read.format.text, "{}");
  EXPECT_EQ(read.choice.names, (std::vector<std::string>{"f", "g"}));
  EXPECT_FALSE(read.choice.several);
  for (size_t length = 1; length < bytes.size(); ++length) {
    EXPECT_FALSE(DecodeAnswerForm(bytes.substr(0, length)).ok()) << length;
  }
  EXPECT_FALSE(DecodeAnswerForm(bytes + "x").ok());
  form.format.name = "person";
  const std::string named = Encode(form);
  EXPECT_EQ(DecodeAnswerForm(named)->format.name, "person");
  EXPECT_EQ(DecodeAnswerForm(named)->format.text, "{}");
  for (size_t length = 1; length < named.size(); ++length) {
    EXPECT_FALSE(DecodeAnswerForm(named.substr(0, length)).ok()) << length;
  }
  for (const char kind : {'\x05', '\x07', '\x0d', '\x10'}) {
    EXPECT_FALSE(DecodeAnswerForm(kind + named.substr(1)).ok()) << static_cast<int>(kind);
  }
  form.choice.names.assign(129, "");  // more than the limit of tools
  EXPECT_FALSE(DecodeAnswerForm(Encode(form)).ok());
}

TEST(AnswerForms, RequiredCallIsSingleUnlessParallelCallsAreEnabled) {
  for (const bool parallel : {false, true}) {
    const AnswerForm form{{}, {.mode = ToolChoice::Mode::kRequired, .parallel = parallel}};
    EXPECT_EQ(form.choice.takes_several(), parallel);
    const AnswerForm read = DecodeAnswerForm(Encode(form)).value();
    EXPECT_EQ(read.choice.takes_several(), parallel);
  }
  EXPECT_TRUE(ToolChoice{}.takes_several());
  EXPECT_FALSE((ToolChoice{.several = false, .parallel = true}).takes_several());
}

struct Written {
  ToolSyntaxName syntax;
  std::string text;  // a call of f with {"a": {"b": "}"}}, and, where several are allowed, one of g-2
  size_t calls;
};

std::vector<Written> InOtherSyntaxes() {
  const std::string two = R"({"name": "f", "arguments": {"a": {"b": "}"}}, "id": "aB3456789"}, )"
                          R"({"name": "g-2", "arguments": {}, "id": "000000000"}])";
  return {{ToolSyntaxName::kLlama, R"({"name": "f", "parameters": {"a": {"b": "}"}}})", 1},
          {ToolSyntaxName::kMistral, "[TOOL_CALLS] [" + two, 2},
          {ToolSyntaxName::kMistralTekken, "[TOOL_CALLS][" + two, 2}};
}

TEST(ToolSyntax, ReadsCallsSplitAnywhere) {
  for (const auto& [syntax, text, calls] : InOtherSyntaxes()) {
    std::vector<std::string> expected = {"call f", R"(arguments {"a": {"b": "}"}})", "end"};
    if (calls > 1) expected.insert(expected.end(), {"call g-2", "arguments {}", "end"});
    for (size_t cut = 0; cut <= text.size(); ++cut) {
      Told told(CallPlace::kStart, syntax);
      told.Push(text.substr(0, cut));
      told.Push(text.substr(cut));
      ASSERT_EQ(told.Finish(), expected) << cut << " of " << text;
      EXPECT_EQ(told.reader().calls_at(), 0);
      // Cut here, it is text only while its marker is incomplete.
      Told part(CallPlace::kStart, syntax);
      part.Push(text.substr(0, cut));
      const std::vector<std::string> lines = part.Finish();
      const bool marked = cut >= SyntaxOf(syntax).marker_bytes;
      EXPECT_EQ(part.reader().calls_at(), marked ? 0 : -1) << text.substr(0, cut);
      EXPECT_EQ(!lines.empty() && lines.front().starts_with("text"), cut > 0 && !marked) << text.substr(0, cut);
    }
  }
}

TEST(ToolSyntax, CallLookalikesAreText) {
  for (const auto& [syntax, text, calls] : InOtherSyntaxes()) {
    for (const std::string& other : {"Hm " + text, " " + text, text.substr(0, text.find('f')) + "two words",
                                     text.substr(0, text.find('f') + 1) + R"(", "age": 3})"}) {
      Told told(CallPlace::kStart, syntax);
      told.Push(other);
      EXPECT_THAT(told.Finish(), ElementsAre("text " + other));
      EXPECT_EQ(told.reader().calls_at(), -1);
    }
  }
}

TEST(ToolSyntax, CallsRecordTheirSyntax) {
  for (const auto& [syntax, text, calls] : InOtherSyntaxes()) {
    EXPECT_EQ(SyntaxOfCalls(text), syntax);
    EXPECT_EQ(SyntaxOfCalls(text.substr(0, SyntaxOf(syntax).opening.size())), syntax);
    const std::vector<ToolCall> read = ReadToolCalls(text);
    ASSERT_EQ(read.size(), calls);
    EXPECT_EQ(read[0].name, "f");
    EXPECT_TRUE(read[0].complete);
    EXPECT_EQ(read[0].id, calls > 1 ? "aB3456789" : "");
    // The same calls, whoever wrote them.
    std::string ours;
    int64_t at = -1;
    for (const ToolCall& call : read) AppendToolCall(call.name, call.arguments, &ours, &at);
    EXPECT_EQ(SyntaxOfCalls(ours), ToolSyntaxName::kHermes);
    EXPECT_EQ(ComparableText(ours, 0), ComparableText(text, 0));
  }
  EXPECT_EQ(SyntaxOfCalls("\n" + kOne), ToolSyntaxName::kHermes);
}

TEST(ToolSyntax, IdIsAlphanumeric) {
  const std::string text = R"([TOOL_CALLS] [{"name": "f", "arguments": {}, "id": "</s>56789"}])";
  ASSERT_EQ(ReadToolCalls(text).size(), 1u);
  EXPECT_EQ(ReadToolCalls(text)[0].id, "");
  EXPECT_EQ(ModelCallId("call_0123456789abcdef_0"), "89abcdef0");
  EXPECT_EQ(ModelCallId("aB3456789"), "aB3456789");
  EXPECT_EQ(ModelCallId("</s>"), "00000000s");
  EXPECT_EQ(ModelCallId(""), "000000000");
}

}  // namespace
}  // namespace ringside
