// Turns of reasoning models: events and their numbers, the journal, continued answers, and reasoning in the histories
// of sessions and of stateless requests.
#include <gmock/gmock.h>

#include "base/bytes.h"
#include "session/chat/templates/reasoning_settings.h"
#include "tests/session/durable_fixture.h"

namespace ringside {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

const std::string kThinkOpen = "<think>\n", kThinkClose = "\n</think>\n\n";

class ReasoningTurns : public DurableSessionTest {
 protected:
  void SetUp() override {
    chat = std::move(ChatTemplate::Named("qwen3").value());
    DurableSessionTest::SetUp();
  }
  /// Asks; the model samples this text and ends.
  std::string Reason(TurnSpec spec, std::string_view sampled, FinishReason reason = FinishReason::kStop) {
    const std::string id = Start(std::move(spec));
    const size_t index = engine->count() - 1;
    engine->Start(index);
    engine->Sample(index, sampled);
    engine->End(index, reason);
    table->Flush();
    return id;
  }
  static TurnSpec PrepareContinuation(const std::string& conversation) {
    TurnSpec spec = Ask("", conversation);
    spec.input.clear();
    return spec;
  }
  static TurnSpec History(std::vector<NewItem> items) {
    TurnSpec spec;
    spec.input = std::move(items);
    spec.carries_history = true;
    return spec;
  }
  std::shared_ptr<const Response> Got(const std::string& response) { return table->GetResponse(me, response).value(); }
  Item LastItem(const std::string& conversation) { return table->GetItems(me, conversation)->back(); }
  std::string LastPrompt() { return tokenizer.Decode(engine->last().tokens); }
};

TEST_F(ReasoningTurns, ListenersGetReasoningBeforeTheMessage) {
  const std::string id = Reason(Ask("Hi", NewConversation()), kThinkOpen + "Hm" + kThinkClose + "Yo");
  const std::vector<std::string> lines = {
      "begun 0",  "reasoning opened 2", "reasoning 3 H", "reasoning 4 m",     "reasoning ended 5 Hm",
      "opened 6", "text 8 Y",           "text 9 o",      "ended 10 completed"};
  EXPECT_EQ(sink->lines(), lines);
  EXPECT_EQ(Events(id), lines) << "and who comes late";
  const auto response = Got(id);
  EXPECT_EQ(response->reasoning, "Hm");
  EXPECT_EQ(response->message(), "Yo");
  EXPECT_EQ(response->reasoning_tokens, static_cast<int64_t>((kThinkOpen + "Hm" + "\n</think>").size()));
  EXPECT_FALSE(response->cut_in_reasoning);
  EXPECT_THAT(response->ignored_reasoning, IsEmpty());
}

TEST_F(ReasoningTurns, ReplaysFromEveryEvent) {
  const std::string id = Reason(Ask("Hi", NewConversation()), kThinkOpen + "Hm" + kThinkClose + "Yo");
  const std::vector<std::string> all = Events(id);
  for (uint64_t from = 0; from < 14; ++from) {
    const auto late = std::make_shared<RecordingSink>(99);
    ASSERT_TRUE(table->Replay(me, id, from, late).ok());
    std::vector<std::string> expected;
    for (size_t i = 0; i < all.size(); ++i) {
      const uint64_t next =
          i + 1 < all.size() ? std::stoull(all[i + 1].substr(all[i + 1].find_first_of("0123456789"))) : 14;
      if (next > from) expected.push_back(all[i]);
    }
    EXPECT_EQ(late->lines(), expected) << from;
  }
}

TEST_F(ReasoningTurns, AnswerWithoutReasoningIsUnchanged) {
  const std::string id = Reason(Ask("Hi", NewConversation()), "Yo");
  EXPECT_THAT(sink->lines(), ElementsAre("begun 0", "opened 2", "text 4 Y", "text 5 o", "ended 6 completed"));
  EXPECT_EQ(Got(id)->reasoning_tokens, 0);
  EXPECT_EQ(Reason(Ask("Hi", NewConversation()), kThinkOpen + kThinkClose + "Yo").empty(), false);
  EXPECT_THAT(sink->lines(), Not(::testing::Contains(HasSubstr("reasoning")))) << "nor one whose reasoning is empty";
}

TEST_F(ReasoningTurns, LogprobsCoverTheMessageOnly) {
  TurnSpec spec = Ask("Hi", NewConversation());
  spec.sampling.logprobs = 0;
  const std::string id = Reason(std::move(spec), kThinkOpen + "Hm" + kThinkClose + "Yo");
  std::string names;
  const std::shared_ptr<const Response> got = Got(id);
  for (const OutputToken& token : got->tokens) names += tokenizer.TokenName(token.id);
  EXPECT_THAT(names, ::testing::EndsWith("Yo<|im_end|>"));
  EXPECT_THAT(names, Not(HasSubstr("Hm")));
}

TEST_F(ReasoningTurns, RestartRestoresReasoning) {
  const std::string conversation = NewConversation();
  const std::string id = Reason(Ask("Hi", conversation), kThinkOpen + "Hm" + kThinkClose + "Yo");
  const std::vector<std::string> before = Events(id);
  const auto live = Got(id);
  Restart();
  EXPECT_EQ(Events(id), before);
  const auto stored = Got(id);
  EXPECT_EQ(stored->reasoning, live->reasoning);
  EXPECT_EQ(stored->reasoning_tokens, live->reasoning_tokens);
  EXPECT_EQ(LastItem(conversation).reasoning, "Hm");
  EXPECT_EQ(LastItem(conversation).text, "Yo");
}

TEST_F(ReasoningTurns, TokenizerChangeKeepsReasoning) {
  const std::string id = Reason(Ask("Hi", NewConversation()), kThinkOpen + "Hm" + kThinkClose + "Yo");
  const std::vector<std::string> before = Events(id);
  Close();
  tokenizer = ByteTokenizer(1000);
  options.end_of_turn = {tokenizer.im_end()};
  Open();
  EXPECT_EQ(Events(id), before);
  EXPECT_EQ(Got(id)->reasoning, "Hm");
  EXPECT_EQ(Got(id)->message(), "Yo");
}

TEST_F(ReasoningTurns, ReasoningThatFollowsTextIsNotShown) {
  for (const std::string first : {"", "Hm"}) {
    const std::string id = Start(Ask("Hi", NewConversation()));
    const size_t index = engine->count() - 1;
    engine->Start(index);
    const std::shared_ptr<TokenSink> tokens = engine->last().sink;
    if (!first.empty()) tokens->OnTokens({.tokens = {}, .text = "", .reasoning = first});
    tokens->OnTokens({.tokens = {}, .text = "Y", .reasoning_ended = true});
    tokens->OnTokens({.tokens = {}, .text = "", .reasoning = "late"});
    tokens->OnTokens({.tokens = {}, .text = "o", .reasoning_ended = true});
    engine->End(index);
    table->Flush();
    EXPECT_EQ(Got(id)->message(), "Yo");
    EXPECT_EQ(Got(id)->reasoning, first);
    const std::vector<std::string> heard = sink->lines();
    const auto own = std::find(heard.rbegin(), heard.rend(), "begun 0").base() - 1;
    EXPECT_EQ(std::vector<std::string>(own, heard.end()), Events(id)) << "live and replayed";
    Restart();
    EXPECT_EQ(Got(id)->reasoning, first);
  }
}

TEST_F(ReasoningTurns, SessionKeepsTheSampledIds) {
  const std::string conversation = NewConversation();
  Reason(Ask("Hi", conversation), kThinkOpen + "Hm" + kThinkClose + "Yo");
  const std::vector<TokenId> first = engine->last().tokens;
  EXPECT_THAT(NextPrompt(conversation),
              HasSubstr(kThinkOpen + "Hm" + kThinkClose + "Yo<|im_end|>\n<|im_start|>user\n?"));
}

TEST_F(ReasoningTurns, EveryEndKeepsTheReasoning) {
  const std::string sampled = kThinkOpen + "Hm</thi";
  for (const bool crash : {false, true}) {
    const std::string conversation = NewConversation();
    const std::string id = Start(Ask("Hi", conversation));
    const size_t index = engine->count() - 1;
    engine->Start(index);
    engine->Sample(index, sampled);
    table->Flush();
    if (!crash) engine->End(index, FinishReason::kError, Unavailable("rank 1 is gone"));
    crash ? Restart() : (void)table->Flush();
    EXPECT_TRUE(Got(id)->interrupted());
    EXPECT_EQ(Got(id)->reasoning, "Hm</thi") << "with what was held back";
    EXPECT_TRUE(Got(id)->cut_in_reasoning);
    EXPECT_FALSE(Got(id)->opened);
    EXPECT_EQ(LastItem(conversation).reasoning, "Hm</thi");
    EXPECT_EQ(LastItem(conversation).text, "");

    const std::string more = Start(PrepareContinuation(conversation));
    const size_t next = engine->count() - 1;
    EXPECT_THAT(LastPrompt(), ::testing::EndsWith(sampled));
    engine->Start(next);
    engine->Sample(next, "nk>Yo");
    engine->End(next);
    table->Flush();
    EXPECT_EQ(Got(more)->message(), "Yo");
    EXPECT_EQ(LastItem(conversation).text, "Yo");
    EXPECT_FALSE(Got(more)->cut_in_reasoning);
    Restart();
    EXPECT_EQ(LastItem(conversation).text, "Yo");
    EXPECT_EQ(Got(more)->message(), "Yo");
  }
}

TEST_F(ReasoningTurns, AnswerTruncatedInTextContinuesAsText) {
  const std::string conversation = NewConversation();
  Reason(Ask("Hi", conversation), kThinkOpen + "Hm" + kThinkClose + "Yo", FinishReason::kLength);
  const std::string id = Reason(PrepareContinuation(conversation), " <think>x</think>");
  EXPECT_EQ(Got(id)->message(), " <think>x</think>");
  EXPECT_EQ(Got(id)->reasoning, "");
  EXPECT_EQ(LastItem(conversation).text, "Yo <think>x</think>");
  EXPECT_EQ(LastItem(conversation).reasoning, "Hm");
}

TEST_F(ReasoningTurns, StopStringsDoNotApplyToReasoning) {
  TurnSpec spec = Ask("Hi", NewConversation());
  spec.stop_strings = {"m"};
  const std::string id = Start(std::move(spec));
  engine->Start(0);
  engine->Sample(0, kThinkOpen + "Hm" + kThinkClose + "Yo");
  engine->End(0);
  table->Flush();
  EXPECT_EQ(Got(id)->reasoning, "Hm");
  EXPECT_EQ(Got(id)->message(), "Yo");
}

TEST_F(ReasoningTurns, FindsStatelessHistoryWithAndWithoutReasoning) {
  const std::string answer = "Yo" + std::string(300, '.');
  Reason(History({{ChatRole::kUser, "Hi"}}), kThinkOpen + "Hm" + kThinkClose + answer);
  const std::vector<TokenId> sampled = engine->last().tokens;
  const TimelineId timeline = engine->last().timeline;
  Start(History({{ChatRole::kUser, "Hi"}, {ChatRole::kAssistant, answer}, {ChatRole::kUser, "?"}}));
  EXPECT_EQ(engine->last().timeline, timeline);
  EXPECT_THAT(LastPrompt(), HasSubstr("Hm"));
  engine->AnswerLast("!");
  table->Flush();
  NewItem with{ChatRole::kAssistant, answer};
  with.reasoning = "Hm";
  Start(History(
      {{ChatRole::kUser, "Hi"}, with, {ChatRole::kUser, "?"}, {ChatRole::kAssistant, "!"}, {ChatRole::kUser, "x"}}));
  EXPECT_EQ(engine->last().timeline, timeline);
}

TEST_F(ReasoningTurns, EditsKeepUnaffectedReasoning) {
  const std::string conversation = NewConversation();
  Reason(Ask("Hi", conversation), kThinkOpen + "Hm" + kThinkClose + "Yo");
  const SharedList<Item> items = *table->GetItems(me, conversation);
  ASSERT_TRUE(table->DeleteItem(me, conversation, items[0].id).ok());
  table->Flush();
  EXPECT_EQ(LastItem(conversation).reasoning, "Hm");
  EXPECT_THAT(NextPrompt(conversation), HasSubstr(kThinkOpen + "Hm" + kThinkClose + "Yo<|im_end|>"));
}

TEST_F(ReasoningTurns, ReasoningCountsTowardsMemoryAndDisk) {
  const auto told = [&](const std::string& thought) {
    const std::string conversation = NewConversation();
    const auto response = Got(Reason(Ask("Hi", conversation), kThinkOpen + thought + kThinkClose + "Yo"));
    return std::pair(response->bytes(), journal->Last(conversation)->bytes);
  };
  const auto little = told("a"), much = told(std::string(501, 'a'));
  EXPECT_GE(much.first, little.first + 500);
  EXPECT_GE(much.second, little.second + 500);
  Timeline timeline;
  timeline.AddItem({.text = "a"});
  const int64_t before = timeline.bytes();
  timeline.AddItem({.text = "a", .reasoning = std::string(500, 'a')});
  EXPECT_GE(timeline.bytes(), 2 * before + 500);
}

TEST_F(ReasoningTurns, RecordsWithoutReasoningKeepTheOlderFormat) {
  ByteWriter tokens;
  tokens.String("x");
  tokens.Bool(false);
  tokens.Unsigned(1);
  tokens.Signed('x');
  const TokensRecord record{.tokens = {OutputToken{'x'}}, .text = "x"};
  EXPECT_EQ(Encode(record, false).payload, tokens.Take());
  const TokensRecord reasoned{
      .tokens = {OutputToken{'x'}}, .reasoning = "x", .reasoning_tokens = 1, .reasoning_ended = true};
  const TokensRecord read = *DecodeTokens(Encode(reasoned, false).payload);
  EXPECT_EQ(read.reasoning, "x");
  EXPECT_EQ(read.reasoning_tokens, 1);
  EXPECT_TRUE(read.reasoning_ended);
  const EndRecord end{.reasoning_tokens = 3, .cut_in_reasoning = true};
  EXPECT_EQ(DecodeEnd(Encode(end).payload)->reasoning_tokens, 3);
  EXPECT_TRUE(DecodeEnd(Encode(end).payload)->cut_in_reasoning);
  EXPECT_EQ(Encode(EndRecord{}).payload.size() + 1 + 1 + 8, Encode(end).payload.size());
}

TEST_F(ReasoningTurns, OffRendersAnEmptyBlockWithoutASwitch) {
  TurnSpec spec = Ask("Hi", NewConversation());
  spec.reasoning.mode = ReasoningSpec::Mode::kOff;
  const std::string id = Reason(std::move(spec), "Yo <think>");
  EXPECT_THAT(LastPrompt(), ::testing::EndsWith("assistant\n<think>\n\n</think>\n\n"));
  EXPECT_EQ(Got(id)->message(), "Yo <think>");
  EXPECT_THAT(Got(id)->ignored_reasoning, IsEmpty());
}

TEST_F(ReasoningTurns, EngineEnforcesTheBudget) {
  TurnSpec spec = Ask("Hi", NewConversation());
  spec.reasoning.budget_tokens = 7;
  const std::string id = Start(std::move(spec));
  EXPECT_EQ(engine->last().reasoning_budget, 7);
  EXPECT_THAT(Got(id)->ignored_reasoning, IsEmpty());
}

TEST_F(ReasoningTurns, ListsAndStoresIgnoredSettings) {
  TurnSpec spec = Ask("Hi", NewConversation());
  spec.reasoning.effort = "high";
  spec.reasoning.template_kwargs = R"({"foo": 1})";
  const std::string id = Reason(std::move(spec), "Yo");
  EXPECT_THAT(Got(id)->ignored_reasoning, ElementsAre("template_kwargs.foo", "effort"));
  Restart();
  EXPECT_THAT(Got(id)->ignored_reasoning, ElementsAre("template_kwargs.foo", "effort"));
}

TEST_F(ReasoningTurns, ModelWithoutChannelsReportsUnsupportedSettings) {
  Close();
  chat = std::move(ChatTemplate::Named("chatml").value());
  Open();
  TurnSpec spec = Ask("Hi", NewConversation());
  spec.reasoning = {.mode = ReasoningSpec::Mode::kOn, .effort = "low", .budget_tokens = 5};
  const std::string id = Reason(std::move(spec), kThinkOpen + "Hm" + kThinkClose + "Yo");
  EXPECT_THAT(Got(id)->ignored_reasoning, ElementsAre("mode", "effort", "budget_tokens"));
  EXPECT_EQ(Got(id)->message(), kThinkOpen + "Hm" + kThinkClose + "Yo");
  TurnSpec off = Ask("Hi", NewConversation());
  off.reasoning.mode = ReasoningSpec::Mode::kOff;
  EXPECT_THAT(Got(Reason(std::move(off), "Yo"))->ignored_reasoning, IsEmpty()) << "it does not reason anyway";
}

TEST_F(ReasoningTurns, RefusesInvalidKwargs) {
  for (const char* kwargs : {"[]", "{", "1", R"({"a": [[[[[[1]]]]]]})"}) {
    TurnSpec spec = Ask("Hi", NewConversation());
    spec.reasoning.template_kwargs = kwargs;
    const auto ticket = table->StartTurn(me, std::move(spec), sink);
    ASSERT_FALSE(ticket.ok()) << kwargs;
    EXPECT_EQ(ticket.status().code(), StatusCode::kInvalidArgument);
    EXPECT_EQ(ticket.status().param(), "chat_template_kwargs");
  }
}

// A template that re-renders every turn and includes only the last answer's reasoning.
class ReasoningAnew : public ReasoningTurns {
 protected:
  void SetUp() override {
    const char* source =
        "{%- set ns = namespace(last=-1) %}{%- for m in messages %}{%- if m.role == 'user' %}"
        "{%- set ns.last = loop.index0 %}{%- endif %}{%- endfor %}"
        "{%- for m in messages %}{{- '<|im_start|>' + m.role + '\n' }}"
        "{%- if m.role == 'assistant' and m.reasoning_content and loop.index0 > ns.last %}"
        "{{- '<think>\n' + m.reasoning_content + '\n</think>\n\n' }}{%- endif %}"
        "{{- m.content + ('/no' if loop.index0 < ns.last and m.role == 'user' else '') + '<|im_end|>\n' }}{%- endfor %}"
        "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\n' }}"
        "{%- if enable_thinking is defined and not enable_thinking %}{{- '<think>\n\n</think>\n\n' }}{%- endif %}{%- "
        "endif %}";
    chat = std::move(ChatTemplate::Recognise(source, {"", "<|im_end|>"}).value());
    ASSERT_TRUE(chat->renders_whole());
    DurableSessionTest::SetUp();
  }
};

TEST_F(ReasoningAnew, RecomputesOnlyTheLastAnswer) {
  const std::string conversation = NewConversation();
  Reason(Ask("Hi", conversation), kThinkOpen + "Hm" + kThinkClose + "Yo");
  Reason(Ask("And", conversation), kThinkOpen + "Well" + kThinkClose + "No");
  const std::vector<TokenId> second = engine->last().tokens;
  Start(Ask("?", conversation));
  const std::string prompt = LastPrompt();
  EXPECT_THAT(prompt, Not(HasSubstr("Well")));
  EXPECT_THAT(prompt, HasSubstr("<|im_start|>assistant\nNo<|im_end|>"));
  const std::vector<TokenId> third = engine->last().tokens;
  const auto same = std::ranges::mismatch(second, third).in1 - second.begin();
  EXPECT_GE(tokenizer.Decode({second.begin(), second.begin() + same}), "<|im_start|>user\nHi/no<|im_end|>\n");
}

TEST_F(ReasoningAnew, UsesTheTemplatesSwitch) {
  TurnSpec spec = Ask("Hi", NewConversation());
  spec.reasoning.effort = "none";
  const std::string id = Reason(std::move(spec), "Yo");
  EXPECT_THAT(LastPrompt(), ::testing::EndsWith("assistant\n<think>\n\n</think>\n\n"));
  EXPECT_EQ(Got(id)->message(), "Yo");
  EXPECT_THAT(Got(id)->ignored_reasoning, IsEmpty());
}

}  // namespace
}  // namespace ringside
