// Turns with tool calls: events and their numbers, state after a restart and for a returning client, and that a
// returned history matches the sampled timeline.
#include <gmock/gmock.h>

#include <fstream>
#include <sstream>

#include "base/bytes.h"
#include "engine/grammar/grammar.h"
#include "tests/golden_folder.h"
#include "tests/session/durable_fixture.h"

namespace ringside {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

const std::string kLine =
    R"({"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}}}})";
const std::string kCall = "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n</tool_call>";

ToolSet Tools() { return {.lines = kLine, .names = {"f"}, .strict = {true}}; }

SessionTableOptions Roomy() {
  SessionTableOptions options = TableFixture::Options();
  options.session_len = 9000;
  options.memory_len = 4000;
  options.pinned_max = 1024;
  return options;
}

class ToolTurns : public DurableSessionTest {
 protected:
  void SetUp() override {
    DurableSessionTest::SetUp();
    Close();
    options = Roomy();
    Open();
  }
  static TurnSpec WithTools(TurnSpec spec) {
    spec.tools = Tools();
    return spec;
  }
  /// A conversation whose answer was cut after this text.
  std::string CutAfter(const std::string& said) {
    std::string conversation = NewConversation();
    Start(WithTools(Ask("Hi", conversation)));
    engine->Start(0);
    engine->SayAtOnce(0, said);
    engine->End(0, FinishReason::kLength);
    table->Flush();
    return conversation;
  }
  static NewItem Result(std::string text) {
    return {.role = ChatRole::kTool, .text = std::move(text), .call_ids = "call_x"};
  }
  std::shared_ptr<const Response> Get(const std::string& id) { return table->GetResponse(me, id).value(); }
  Item LastItem(const std::string& conversation) { return table->GetItems(me, conversation)->back(); }
  /// Events replayed to a listener that arrives after the end.
  std::vector<std::string> Replayed(const std::string& response, uint64_t from = 0) {
    const auto late = std::make_shared<CountingSink>();
    EXPECT_TRUE(table->Replay(me, response, from, late).ok());
    return late->lines;
  }

  /// Only numbers: the number of events, and that each count belongs to one response.
  struct CountingSink final : EventSink {
    const EventNumbers& numbers() const override { return RecordingSink().numbers(); }
    void OnEvent(const TurnEvent&) override {}
    void OnReplay(const ResponseCopies& responses, uint64_t from) override {
      for (const auto& response : responses) {
        lines.push_back(std::to_string(from) + " to " + std::to_string(numbers().Of(response->events())));
        lines.emplace_back(response->message());
        for (const ToolCall& call : response->tool_calls()) {
          lines.push_back(call.name + call.arguments + (call.complete ? "" : " cut"));
        }
      }
    }
    uint64_t connection() const override { return 99; }
    std::vector<std::string> lines;
  };
};

TEST_F(ToolTurns, SeparatesTextAndCall) {
  const std::string conversation = NewConversation();
  const std::string id = Start(WithTools(Ask("Hi", conversation)));
  engine->Start(0);
  engine->Say(0, "Hm");
  engine->SayAtOnce(0, "\n" + kCall);
  engine->End(0);
  table->Flush();
  EXPECT_THAT(sink->lines(), ElementsAre("begun 0", "opened 2", "text 4 H", "text 5 m", "message ended 6", "call 9 f",
                                         "arguments 10 {\"a\": 1}", "call ended 11 {\"a\": 1}", "ended 13 completed"));
  const auto response = Get(id);
  EXPECT_EQ(response->message(), "Hm");
  EXPECT_EQ(response->text, "Hm\n" + kCall);
  const Item item = LastItem(conversation);
  EXPECT_EQ(item.calls_at, 2);
  EXPECT_EQ(item.call_ids, "");
}

TEST_F(ToolTurns, CallsWithoutTextHaveNoMessage) {
  const std::string id = Start(WithTools(Ask("Hi")));
  engine->Start(0);
  engine->SayAtOnce(0, kCall + "\n" + kCall);
  engine->End(0);
  table->Flush();
  EXPECT_THAT(sink->lines(),
              ElementsAre("begun 0", "call 2 f", "arguments 3 {\"a\": 1}", "call ended 4 {\"a\": 1}", "call 6 f",
                          "arguments 7 {\"a\": 1}", "call ended 8 {\"a\": 1}", "ended 10 completed"));
  EXPECT_FALSE(Get(id)->opened);
  EXPECT_EQ(Get(id)->tool_calls().size(), 2u);
}

TEST_F(ToolTurns, EmptyAnswerIsAnEmptyMessage) {
  Start(WithTools(Ask("Hi")));
  engine->Start(0);
  engine->End(0);
  table->Flush();
  EXPECT_THAT(sink->lines(), ElementsAre("begun 0", "opened 2", "ended 4 completed"));
}

TEST_F(ToolTurns, AnswerTruncatedInACallReportsIt) {
  const std::string conversation = CutAfter(kCall.substr(0, kCall.find(": 1")));
  EXPECT_THAT(sink->lines(),
              ElementsAre("begun 0", "call 2 f", "arguments 3 {\"a\"", "call cut 4 {\"a\"", "ended 6 incomplete"));
  EXPECT_FALSE(LastItem(conversation).complete);
  EXPECT_EQ(LastItem(conversation).calls_at, 0);
}

TEST_F(ToolTurns, AnswerTruncatedInACallContinuesAsOneAnswer) {
  const std::string whole = "Hm\n" + kCall, begun = whole.substr(0, whole.find(": 1")), conversation = CutAfter(begun);
  sink = std::make_shared<RecordingSink>(7);
  const std::string id = Start({.conversation = conversation});
  EXPECT_EQ(engine->last().begun, begun);
  EXPECT_TRUE(engine->last().continues_answer);
  engine->Start(1);
  engine->SayAtOnce(1, whole.substr(begun.size()));
  engine->End(1);
  table->Flush();
  // The text is delivered once, the call as a whole.
  EXPECT_THAT(sink->lines(), ElementsAre("begun 0", "call 2 f", "arguments 3 {\"a\"", "arguments 4 : 1}",
                                         "call ended 5 {\"a\": 1}", "ended 7 completed"));
  EXPECT_EQ(Get(id)->message(), "");
  EXPECT_EQ(LastItem(conversation).text, whole);
  EXPECT_EQ(LastItem(conversation).calls_at, 2);
  EXPECT_TRUE(LastItem(conversation).complete);
  const auto items = table->GetItems(me, conversation)->From(0);
  const std::vector<std::string> told = Replayed(id);
  EXPECT_EQ(told[2], "f{\"a\": 1}");
  Restart();
  EXPECT_EQ(table->GetItems(me, conversation)->From(0), items);
  EXPECT_EQ(Replayed(id), told);
}

TEST_F(ToolTurns, RepeatedlyCutCallContinues) {
  const auto cut = [](const char* text) { return kCall.find(text); };
  const std::string conversation = CutAfter(kCall.substr(0, cut("f\"")));  // before its name
  Start({.conversation = conversation});
  engine->Start(1);
  engine->Say(1, kCall.substr(cut("f\""), cut(": 1") - cut("f\"")));
  table->Flush();
  Restart();
  EXPECT_EQ(LastItem(conversation).text, kCall.substr(0, cut(": 1")));
  const std::string id = Start({.conversation = conversation});
  engine->Answer(engine->count() - 1, kCall.substr(cut(": 1")));
  table->Flush();
  EXPECT_EQ(Replayed(id)[2], "f{\"a\": 1}");
  EXPECT_EQ(LastItem(conversation).text, kCall);
  EXPECT_EQ(LastItem(conversation).calls_at, 0);
}

TEST_F(ToolTurns, PossibleCallTextIsSentOnce) {
  const std::string conversation = NewConversation();
  for (const std::string& more : {std::string(" b>."), kCall.substr(6)}) {
    const size_t turn = engine->count();
    Start(WithTools(Ask("Hi", conversation)));
    engine->Answer(turn, "Hm " + kCall.substr(0, 6), FinishReason::kLength);
    table->Flush();
    const std::string id = Start({.conversation = conversation});
    engine->Answer(turn + 1, more);
    table->Flush();
    const bool call = more != " b>.";
    EXPECT_EQ(Get(id)->message(), call ? "" : more);
    EXPECT_EQ(Get(id)->tool_calls().size(), call ? 1u : 0u);
    EXPECT_EQ(LastItem(conversation).text, "Hm " + kCall.substr(0, 6) + more);
    EXPECT_EQ(LastItem(conversation).calls_at, call ? 3 : -1);
  }
}

TEST_F(ToolTurns, ContinuingACallRequiresItsTools) {
  const std::string conversation = CutAfter(kCall.substr(0, kCall.find(": 1")));
  TurnSpec none{.conversation = conversation}, without = none, other = none;
  none.choice().mode = ToolChoice::Mode::kNone;
  without.tools.emplace();
  other.tools = {.lines = R"({"type": "function", "function": {"name": "g"}})", .names = {"g"}, .strict = {true}};
  for (const TurnSpec& spec : {none, without, other}) {
    const Status refused = table->StartTurn(me, spec, sink).status();
    EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument);
    EXPECT_EQ(refused.param(), "tool_choice");
  }
  EXPECT_TRUE(table->StartTurn(me, {.conversation = conversation}, sink).ok());
}

// Also after a restart, in a fork, and in an export.
TEST_F(ToolTurns, ContinuedAnswerKeepsItsFormat) {
  const std::string conversation = NewConversation();
  TurnSpec spec = WithTools(Ask("Hi", conversation));
  spec.format = {.kind = AnswerFormat::Kind::kJsonSchema, .text = R"({"type": "integer"})", .param = "p"};
  spec.choice().mode = ToolChoice::Mode::kNone;
  const std::string id = Start(spec);
  engine->Answer(0, "1", FinishReason::kLength);
  table->Flush();
  const std::string copy = table->ImportSession(me, table->ExportSession(me, conversation).value())->id;
  Restart();
  for (TurnSpec next :
       {TurnSpec{.previous_response_id = id}, TurnSpec{.conversation = copy}, TurnSpec{.conversation = conversation}}) {
    next.stop_strings = {"2"};
    Start(next);
    EXPECT_EQ(engine->last().stop_strings, next.stop_strings);
    EXPECT_EQ(engine->last().begun, "1");
    EXPECT_NE(engine->last().matcher, nullptr);
    ASSERT_NE(engine->last().grammar, nullptr);
    EXPECT_TRUE(GrammarMatcher(engine->last().grammar).Append("12").ok());
    EXPECT_FALSE(GrammarMatcher(engine->last().grammar).Append("1 and").ok());
  }
  engine->Answer(engine->count() - 1, "2", FinishReason::kLength);
  table->Flush();
  TurnSpec free{.conversation = conversation};
  free.format.emplace();
  Start(free);  // any text, if requested
  EXPECT_TRUE(GrammarMatcher(engine->last().grammar).Append("1 and").ok());
  engine->Answer(engine->count() - 1, ".");
  table->Flush();
  Start(Ask("Hi", conversation));  // the next turn has its own format
  EXPECT_TRUE(GrammarMatcher(engine->last().grammar).Append("One").ok());
}

TEST_F(ToolTurns, RestartRestoresCallsAndResults) {
  const std::string conversation = NewConversation();
  TurnSpec spec = WithTools(Ask("Hi", conversation));
  spec.instructions = "Be kind.";
  const std::string id = Turn(std::move(spec), "Hm\n" + kCall);
  TurnSpec next = Ask("", conversation);
  next.input = {Result("42")};
  const std::string second = Turn(std::move(next), "So 42.");
  const std::vector<std::string> first_told = Replayed(id), second_told = Replayed(second);
  EXPECT_EQ(first_told[1], "Hm");
  EXPECT_EQ(first_told[2], "f{\"a\": 1}");
  const auto items = table->GetItems(me, conversation)->From(0);
  Restart();
  EXPECT_EQ(table->GetItems(me, conversation)->From(0), items);
  EXPECT_EQ(Replayed(id), first_told);
  EXPECT_EQ(Replayed(second), second_told);
  // The tool list stays in effect until a request changes it.
  Start(Ask("And?", conversation));
  EXPECT_THAT(tokenizer.Decode(engine->last().tokens), HasSubstr(kLine));
  EXPECT_NE(engine->last().grammar, nullptr);
  engine->AnswerLast("Hm");
  table->Flush();
  TurnSpec without = Ask("And?", conversation);
  without.tools.emplace();
  Start(std::move(without));
  EXPECT_THAT(tokenizer.Decode(engine->last().tokens), Not(HasSubstr("# Tools")));
  EXPECT_EQ(engine->last().grammar, nullptr);
}

TEST_F(ToolTurns, CallCutByACrashIsKept) {
  const std::string conversation = NewConversation();
  const std::string id = Start(WithTools(Ask("Hi", conversation)));
  engine->Start(0);
  engine->Say(0, "Hm\n" + kCall.substr(0, kCall.find(": 1")));
  table->Flush();
  Restart();
  EXPECT_EQ(Replayed(id)[2], "f{\"a\" cut");
  EXPECT_EQ(Get(id)->incomplete_reason, "interrupted");
  EXPECT_EQ(LastItem(conversation).calls_at, 2);
}

TEST_F(ToolTurns, ExportIncludesTools) {
  const std::string conversation = NewConversation();
  Turn(WithTools(Ask("Hi", conversation)), kCall);
  const auto items = table->GetItems(me, conversation)->From(0);
  const std::string bytes = table->ExportSession(me, conversation).value();
  const std::string copy = table->ImportSession(me, bytes)->id;
  EXPECT_EQ(table->GetItems(me, copy)->From(0).size(), items.size());
  EXPECT_EQ(LastItem(copy).calls_at, 0);
  Start(Ask("And?", copy));
  EXPECT_THAT(tokenizer.Decode(engine->last().tokens), HasSubstr(kLine));
}

TEST_F(ToolTurns, ToolChoiceRequiresATool) {
  const auto param = [&](TurnSpec spec) { return table->StartTurn(me, std::move(spec), sink).status().param(); };
  TurnSpec required = Ask("Hi");
  required.choice().mode = ToolChoice::Mode::kRequired;
  EXPECT_EQ(param(required), "tool_choice");
  TurnSpec named = WithTools(Ask("Hi"));
  named.choice().names = {"g"};
  EXPECT_EQ(param(named), "tool_choice");
  TurnSpec regex = WithTools(Ask("Hi"));
  regex.format = {.kind = AnswerFormat::Kind::kRegex, .text = "a", .param = "p"};
  EXPECT_EQ(param(regex), "p");
  regex.choice().mode = ToolChoice::Mode::kNone;
  EXPECT_TRUE(table->StartTurn(me, regex, sink).ok());
}

TEST_F(ToolTurns, MarkupIsTextWithoutTools) {
  const std::string conversation = NewConversation();
  const std::string id = Turn(Ask("Hi", conversation), kCall);
  EXPECT_EQ(Get(id)->message(), kCall);
  EXPECT_EQ(LastItem(conversation).calls_at, -1);
}

/// Turns of a model whose template has its own tool-call syntax.
class OwnSyntax : public ToolTurns, public ::testing::WithParamInterface<ToolSyntaxName> {
 protected:
  void SetUp() override {
    const bool llama = GetParam() == ToolSyntaxName::kLlama;
    const std::string file = llama                                    ? "llama3.1"
                             : GetParam() == ToolSyntaxName::kMistral ? "mistral_v3"
                                                                      : "mistral_tekken";
    std::ifstream in(GoldenFolder("chat_template/") + file + "_tools.jinja");
    std::stringstream source;
    source << in.rdbuf();
    chat = std::move(ChatTemplate::Recognise(source.str(), {"<s>", "</s>"}).value());
    ToolTurns::SetUp();
  }
  std::string Call() const {
    const ToolSyntax& syntax = SyntaxOf(GetParam());
    return std::string(syntax.opening) + "f" + std::string(syntax.before_arguments) + "{\"a\": 1}" +
           WithId(syntax.after_arguments, "aB3456789") + std::string(syntax.close);
  }
};

TEST_P(OwnSyntax, CallIsReportedLikeAnyOther) {
  const std::string conversation = NewConversation();
  const std::string id = Start(WithTools(Ask("Hi", conversation)));
  ASSERT_NE(engine->last().grammar, nullptr);
  EXPECT_TRUE(GrammarMatcher(engine->last().grammar).Append(Call()).ok());
  EXPECT_FALSE(GrammarMatcher(engine->last().grammar).Append(std::string(SyntaxOf(GetParam()).opening) + "g").ok());
  engine->Start(0);
  engine->SayAtOnce(0, Call());
  engine->End(0);
  table->Flush();
  EXPECT_THAT(sink->lines(), ElementsAre("begun 0", "call 2 f", "arguments 3 {\"a\": 1}", "call ended 4 {\"a\": 1}",
                                         "ended 6 completed"));
  EXPECT_EQ(LastItem(conversation).calls_at, 0);
  const std::vector<std::string> told = Replayed(id);
  EXPECT_EQ(told[2], "f{\"a\": 1}");
  TurnSpec next = Ask("", conversation);
  next.input = {Result("42")};
  const std::string second = Turn(std::move(next), "So 42.");
  EXPECT_EQ(Get(second)->message(), "So 42.");
  EXPECT_THAT(tokenizer.Decode(engine->last().tokens), HasSubstr(std::string(SyntaxOf(GetParam()).before_result)));
  const auto items = table->GetItems(me, conversation)->From(0);
  Restart();
  EXPECT_EQ(table->GetItems(me, conversation)->From(0), items);
  EXPECT_EQ(Replayed(id), told);
}

TEST_P(OwnSyntax, CallCutByACrashIsKept) {
  const std::string conversation = NewConversation();
  const std::string id = Start(WithTools(Ask("Hi", conversation)));
  engine->Start(0);
  engine->Say(0, Call().substr(0, Call().find(": 1")));
  table->Flush();
  Restart();
  EXPECT_EQ(Replayed(id)[2], "f{\"a\" cut");
  EXPECT_EQ(LastItem(conversation).calls_at, 0);
  const std::string more = Start({.conversation = conversation});
  engine->Start(0);
  engine->SayAtOnce(0, Call().substr(Call().find(": 1")));
  engine->End(0);
  table->Flush();
  EXPECT_EQ(Replayed(more)[2], "f{\"a\": 1}");
  EXPECT_EQ(LastItem(conversation).text, Call());
}

TEST_P(OwnSyntax, ContinuedTextDoesNotBecomeACall) {
  const std::string conversation = NewConversation();
  Start(WithTools(Ask("Hi", conversation)));
  engine->Answer(0, "So: ", FinishReason::kLength);
  table->Flush();
  const std::string id = Start({.conversation = conversation});
  engine->Answer(1, R"({"name": "f", "parameters": {}})");
  table->Flush();
  EXPECT_EQ(Get(id)->message(), R"({"name": "f", "parameters": {}})");
  EXPECT_EQ(LastItem(conversation).calls_at, -1);
}

TEST_P(OwnSyntax, AnotherModelContinuesWithTheCalls) {
  const std::string conversation = NewConversation();
  Turn(WithTools(Ask("Hi", conversation)), Call());
  Close();
  chat = std::move(ChatTemplate::Named("chatml").value());
  Open();
  TurnSpec next = Ask("", conversation);
  next.input = {Result("42")};
  Turn(std::move(next), "So 42.");
  EXPECT_THAT(tokenizer.Decode(engine->last().tokens), HasSubstr(kCall + "<|im_end|>"));
}

INSTANTIATE_TEST_SUITE_P(Syntaxes, OwnSyntax,
                         ::testing::Values(ToolSyntaxName::kLlama, ToolSyntaxName::kMistral,
                                           ToolSyntaxName::kMistralTekken));

// An item and a timeline head as an older version encoded them.
TEST(ToolRecords, ReadsOlderRecords) {
  ByteWriter out;
  for (int i = 0; i < 3; ++i) out.Signed(0);  // keeps nothing
  out.Unsigned(1);                            // item
  out.String("msg_a");
  out.Byte(1);
  out.String("Hi");
  out.Bool(true);
  out.Bool(false);
  out.Signed(-1);
  out.Signed(-1);
  out.Byte(0);
  out.Unsigned(0);  // tokens
  out.Unsigned(0);  // starts
  out.Bool(true);
  out.String("Be kind.");
  out.Signed(0);
  out.Signed(-1);
  out.Byte(0);
  out.Bool(false);
  const std::string old = out.Take();
  const TimelineRecord record = DecodeTimeline(old).value();
  EXPECT_EQ(record.patch.items.at(0).role, ChatRole::kUser);
  EXPECT_EQ(record.patch.items.at(0).calls_at, -1);
  EXPECT_EQ(record.patch.instructions, "Be kind.");
  EXPECT_FALSE(record.patch.tools);
  EXPECT_EQ(Encode(record).payload, old);  // the encoding without tools is unchanged
}

class StatelessTools : public ::testing::Test, protected TableFixture {
 protected:
  StatelessTools() : TableFixture(Roomy()) {}
  static TurnSpec Spec(std::vector<NewItem> input) {
    TurnSpec spec;
    spec.carries_history = true;
    spec.store = false;
    spec.input = std::move(input);
    spec.tools = Tools();
    return spec;
  }
  static NewItem Called(std::string text, std::string_view arguments) {
    NewItem item{ChatRole::kAssistant, std::move(text)};
    AppendToolCall("f", arguments, &item.text, &item.calls_at);
    item.call_ids = "theirs\n";
    return item;
  }
  TurnRequest Ask(TurnSpec spec) {
    EXPECT_TRUE(table.StartTurn({"me", 7}, std::move(spec), sink).ok());
    return engine.last();
  }
  std::shared_ptr<RecordingSink> sink = std::make_shared<RecordingSink>(7);
  const NewItem hi{ChatRole::kUser, "Hi"}, result{.role = ChatRole::kTool, .text = "42", .call_ids = "theirs"};
};

TEST_F(StatelessTools, HistoryWithCallsReusesTheSampledIds) {
  const TurnRequest first = Ask(Spec({hi}));
  engine.AnswerLast("Hm\n" + kCall);
  // Independently of the blanks in the arguments.
  const TurnRequest second = Ask(Spec({hi, Called("Hm", R"({"a":1})"), result}));
  EXPECT_EQ(second.timeline, first.timeline);
  EXPECT_TRUE(std::equal(first.tokens.begin(), first.tokens.end(), second.tokens.begin()));
  EXPECT_THAT(tokenizer.Decode(second.tokens),
              HasSubstr("Hm\n" + kCall + "<|im_end|>\n<|im_start|>user\n<tool_response>\n42"));
  engine.AnswerLast("So.");
  const TurnRequest other = Ask(Spec({hi, Called("Hm", R"({"a": 2})"), result}));
  EXPECT_NE(other.timeline, first.timeline);
}

TEST_F(StatelessTools, OtherToolsMakeAnotherHistory) {
  const TurnRequest first = Ask(Spec({hi}));
  engine.AnswerLast("Yo");
  TurnSpec without = Spec({hi, {ChatRole::kAssistant, "Yo"}, hi});
  without.tools.emplace();
  const TurnRequest second = Ask(without);
  EXPECT_NE(second.timeline, first.timeline);
  EXPECT_THAT(tokenizer.Decode(second.tokens), Not(HasSubstr("# Tools")));
}

}  // namespace
}  // namespace ringside
