// Turns of models that do not write call arguments as JSON: events, the stored item, and cut answers.
#include <gmock/gmock.h>

#include <fstream>
#include <sstream>

#include "engine/grammar/grammar.h"
#include "tests/golden_folder.h"
#include "tests/session/durable_fixture.h"

namespace ringside {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::string kLookTool =
    R"({"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": )"
    R"({"what": {"type": "string"}, "count": {"type": "integer"}}, "required": ["what"], )"
    R"("additionalProperties": false}}})";

struct TaggedFamily {
  const char* file;
  std::string call;   // look({"what": "a b", "count": 3})
  std::string first;  // up to "a"
};

class TranscodedTurns : public DurableSessionTest, public ::testing::WithParamInterface<TaggedFamily> {
 protected:
  void SetUp() override {
    std::ifstream in(GoldenFolder("chat_template/") + GetParam().file + "_calls.jinja");
    std::stringstream source;
    source << in.rdbuf();
    chat = std::move(ChatTemplate::Recognise(source.str(), {"<s>", "<|im_end|>"}).value());
    DurableSessionTest::SetUp();
    Close();
    options = TableFixture::Options();
    options.session_len = 9000;
    options.memory_len = 4000;
    options.pinned_max = 1024;
    Open();
  }
  static TurnSpec WithTools(TurnSpec spec) {
    spec.tools = ToolSet{.lines = kLookTool, .names = {"look"}, .strict = {true}};
    return spec;
  }
  Item LastItem(const std::string& conversation) { return table->GetItems(me, conversation)->back(); }
  std::vector<ToolCall> Calls(const std::string& id) { return table->GetResponse(me, id).value()->tool_calls(); }

  const std::string kArguments = R"({"what": "a b", "count": 3})";
  const std::string kStored = "<tool_call>\n{\"name\": \"look\", \"arguments\": " + kArguments + "}\n</tool_call>";
};

TEST_P(TranscodedTurns, ArgumentsAreSentAndStoredAsJson) {
  const std::string conversation = NewConversation();
  const std::string id = Start(WithTools(Ask("Hi", conversation)));
  EXPECT_TRUE(GrammarMatcher(engine->last().grammar).Append(GetParam().call).ok());
  engine->Start(0);
  engine->SayAtOnce(0, GetParam().call);
  engine->End(0);
  table->Flush();
  EXPECT_THAT(sink->lines(), ElementsAre("begun 0", "call 2 look", "arguments 3 " + kArguments,
                                         "call ended 4 " + kArguments, "ended 6 completed"));
  EXPECT_EQ(std::string(LastItem(conversation).text), kStored);
  EXPECT_EQ(LastItem(conversation).calls_at, 0);
  // The template writes the call and its result in the model's syntax.
  TurnSpec next = Ask("", conversation);
  next.input = {{.role = ChatRole::kTool, .text = "42", .call_ids = ToolCallId("call_", LastItem(conversation).id, 0)}};
  Start(std::move(next));
  const std::string prompt = tokenizer.Decode(engine->last().tokens);
  EXPECT_THAT(prompt, HasSubstr("42"));
  EXPECT_THAT(prompt, HasSubstr(GetParam().first));
  engine->Answer(1, "So 42.");
  table->Flush();
  const auto items = table->GetItems(me, conversation)->From(0);
  Restart();
  EXPECT_EQ(table->GetItems(me, conversation)->From(0), items);
  ASSERT_EQ(Calls(id).size(), 1u);
  EXPECT_EQ(Calls(id)[0].arguments, kArguments);
}

TEST_P(TranscodedTurns, ArgumentsStream) {
  Start(WithTools(Ask("Hi")));
  engine->Start(0);
  engine->Say(0, GetParam().call);
  engine->End(0);
  table->Flush();
  std::string arguments;
  size_t pieces = 0;
  for (const std::string& line : sink->lines()) {
    if (!line.starts_with("arguments ")) continue;
    arguments += line.substr(line.find(' ', std::string("arguments ").size()) + 1);
    ++pieces;
  }
  EXPECT_EQ(arguments, kArguments);
  EXPECT_GT(pieces, 3u);
}

TEST_P(TranscodedTurns, TruncatedAnswerContinuesInItsSyntax) {
  const std::string& call = GetParam().call;
  for (size_t size = 1; size < call.size(); ++size) {
    const std::string conversation = NewConversation();
    const std::string first = Start(WithTools(Ask("Hi", conversation)));
    const size_t turn = engine->requests().size() - 1;
    engine->Start(turn);
    engine->SayAtOnce(turn, call.substr(0, size));
    engine->End(turn, FinishReason::kLength);
    table->Flush();
    EXPECT_EQ(std::string(LastItem(conversation).text), call.substr(0, size));
    const std::string more = Start({.conversation = conversation});
    ASSERT_NE(engine->last().matcher, nullptr);
    engine->Start(turn + 1);
    engine->SayAtOnce(turn + 1, call.substr(size));
    engine->End(turn + 1);
    table->Flush();
    ASSERT_EQ(Calls(more).size(), 1u) << size;
    EXPECT_EQ(Calls(more)[0].arguments, kArguments) << size;
    EXPECT_EQ(std::string(LastItem(conversation).text), kStored) << size;
    EXPECT_EQ(LastItem(conversation).calls_at, 0);
  }
}

TEST_P(TranscodedTurns, CrashInACallLosesNothing) {
  const std::string conversation = NewConversation();
  const std::string id = Start(WithTools(Ask("Hi", conversation)));
  engine->Start(0);
  engine->Say(0, GetParam().first);
  table->Flush();
  Restart();
  ASSERT_EQ(Calls(id).size(), 1u);
  EXPECT_EQ(Calls(id)[0].arguments, "{\"what\": \"a");
  EXPECT_FALSE(Calls(id)[0].complete);
  EXPECT_EQ(std::string(LastItem(conversation).text), GetParam().first);
  const std::string more = Start({.conversation = conversation});
  engine->Start(0);
  engine->SayAtOnce(0, GetParam().call.substr(GetParam().first.size()));
  engine->End(0);
  table->Flush();
  EXPECT_EQ(Calls(more).at(0).arguments, kArguments);
  EXPECT_EQ(std::string(LastItem(conversation).text), kStored);
}

TEST_P(TranscodedTurns, FindsTheClientsHistory) {
  TurnSpec spec = WithTools(Ask("Hi"));
  spec.carries_history = true;
  Start(spec);
  engine->Start(0);
  engine->SayAtOnce(0, GetParam().call);
  engine->End(0);
  table->Flush();
  const auto known = std::ssize(engine->last().tokens);
  NewItem call = {.role = ChatRole::kAssistant, .call_ids = "call_1"};
  AppendToolCall("look", R"({"what":"a b","count":3})", &call.text, &call.calls_at);
  spec.input = {spec.input[0], call, {.role = ChatRole::kTool, .text = "42", .call_ids = "call_1"}};
  Start(spec);
  EXPECT_EQ(engine->requests().size(), 2u);
  EXPECT_TRUE(engine->last().continues);
  EXPECT_GT(std::ssize(engine->last().tokens), known);
}

TEST_P(TranscodedTurns, RequiredCallIsSingleUnlessParallelCallsAreRequested) {
  for (const bool parallel : {false, true}) {
    TurnSpec spec = WithTools(Ask("Hi"));
    spec.choice().mode = ToolChoice::Mode::kRequired;
    spec.choice().parallel = parallel;
    Start(spec);
    GrammarMatcher matcher(engine->last().grammar);
    EXPECT_TRUE(matcher.Append(GetParam().call).ok());
    EXPECT_TRUE(matcher.may_end());
    EXPECT_EQ(matcher.may_continue(), parallel);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Families, TranscodedTurns,
    ::testing::Values(
        TaggedFamily{
            "qwen3_coder",
            "<tool_call>\n<function=look>\n<parameter=what>\na b\n</parameter>\n<parameter=count>\n3\n</parameter>\n"
            "</function>\n</tool_call>",
            "<tool_call>\n<function=look>\n<parameter=what>\na"},
        TaggedFamily{"glm45",
                     "<tool_call>look\n<arg_key>what</arg_key>\n<arg_value>a b</arg_value>\n<arg_key>count</arg_key>\n"
                     "<arg_value>3</arg_value>\n</tool_call>",
                     "<tool_call>look\n<arg_key>what</arg_key>\n<arg_value>a"}));

}  // namespace
}  // namespace ringside
