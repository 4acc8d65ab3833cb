// Requests that carry their whole history, as chat/completions sends it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "tests/session/durable_fixture.h"

namespace ringside {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::Pair;
using ::testing::SizeIs;
using ::testing::StartsWith;

class StatelessTest : public ::testing::Test, protected TableFixture {
 protected:
  explicit StatelessTest(SessionTableOptions options = Options()) : TableFixture(std::move(options)) {}
  // A window for histories of several long texts.
  static SessionTableOptions Options() {
    SessionTableOptions options = TableFixture::Options();
    options.memory_len = 1900;
    return options;
  }

  using History = std::vector<std::string>;  // user, assistant, user, ...

  static TurnSpec Spec(const History& texts) {
    TurnSpec spec;
    spec.carries_history = true;
    spec.store = false;
    for (size_t i = 0; i < texts.size(); ++i) {
      spec.input.push_back({i % 2 == 0 ? ChatRole::kUser : ChatRole::kAssistant, texts[i]});
    }
    return spec;
  }
  static TurnSpec Prompt(std::vector<TokenId> tokens, std::string text = "") {
    TurnSpec spec = Spec({});
    spec.raw = RawPrompt{std::move(text), std::move(tokens)};
    return spec;
  }
  Status Ask(TurnSpec spec, const Caller& caller) { return table.StartTurn(caller, std::move(spec), sink).status(); }
  Status Ask(TurnSpec spec) { return Ask(std::move(spec), me); }
  // Asks, answers, and returns the engine request.
  TurnRequest Turn(TurnSpec spec, std::string_view answer) {
    EXPECT_TRUE(Ask(std::move(spec)).ok());
    TurnRequest request = engine.last();
    engine.AnswerLast(answer);
    return request;
  }
  static bool Extends(const TurnRequest& longer, const TurnRequest& shorter) {
    return longer.tokens.size() > shorter.tokens.size() &&
           std::equal(shorter.tokens.begin(), shorter.tokens.end(), longer.tokens.begin());
  }

  const Caller me{"me", 7}, other{"other", 8};
  const std::string text = std::string(400, 'x');  // long enough to be worth a fork
  std::shared_ptr<RecordingSink> sink = std::make_shared<RecordingSink>(7);
};

TEST_F(StatelessTest, HistoryContinuesAfterItsLastAnswer) {
  const TurnRequest first = Turn(Spec({"Hi"}), "Yo");
  const TurnRequest second = Turn(Spec({"Hi", "Yo", "And?"}), "So");
  const TurnRequest third = Turn(Spec({"Hi", "Yo", "And?", "So", "Then?"}), "No");
  EXPECT_EQ(second.timeline, first.timeline);
  EXPECT_EQ(third.timeline, first.timeline);
  EXPECT_TRUE(Extends(second, first) && Extends(third, second));
  EXPECT_TRUE(third.continues);
  EXPECT_THAT(engine.forks(), IsEmpty());
}

TEST_F(StatelessTest, KeepsTheSampledIdsOfAnAnswer) {
  ASSERT_TRUE(Ask(Spec({"Hi"})).ok());
  const TurnRequest first = engine.last();
  engine.Start(0);
  engine.SayAtOnce(0, "Yo");  // one id, which the tokenizer would not produce for this text
  engine.End(0);
  const TurnRequest second = Turn(Spec({"Hi", "Yo", "And?"}), "So");
  EXPECT_EQ(second.timeline, first.timeline);
  EXPECT_EQ(second.tokens[first.tokens.size()], TokenId{'x'});
}

TEST_F(StatelessTest, ChangedAnswerOrQuestionForks) {
  const TurnRequest first = Turn(Spec({text}), text);
  const TurnRequest second = Turn(Spec({text, text, "And?"}), "So");
  const TurnRequest again = Turn(Spec({text, text, "But?"}), "No");
  EXPECT_NE(again.timeline, first.timeline);
  EXPECT_THAT(engine.forks(), ElementsAre(Pair(first.timeline, again.timeline)));
  EXPECT_TRUE(again.continues);
  // Both continue from here.
  EXPECT_EQ(Turn(Spec({text, text, "And?", "So", "1"}), "2").timeline, first.timeline);
  EXPECT_EQ(Turn(Spec({text, text, "But?", "No", "1"}), "2").timeline, again.timeline);
  // The same question again: the answer is generated again.
  const TurnRequest repeated = Turn(Spec({text, text, "But?"}), "Yes");
  EXPECT_EQ(repeated.tokens, again.tokens);
  EXPECT_THAT(engine.forks(), SizeIs(2));
}

TEST_F(StatelessTest, MessagesWithACommonPrefixShareTheCache) {
  const TurnRequest first = Turn(Spec({text + "What is it?"}), "Yo");
  const TurnRequest second = Turn(Spec({text + "Who is it?"}), "Yo");
  EXPECT_THAT(engine.forks(), ElementsAre(Pair(first.timeline, second.timeline)));
  EXPECT_EQ(second.window, first.window);
}

TEST_F(StatelessTest, AnotherAnswerToTheSameHistoryBranches) {
  const TurnRequest first = Turn(Spec({text}), "Yo");
  TurnSpec another = Spec({text});
  another.may_branch = true;
  const TurnRequest second = Turn(another, "So");
  EXPECT_FALSE(first.may_branch);
  EXPECT_TRUE(second.may_branch);
  EXPECT_NE(second.timeline, first.timeline);
  EXPECT_EQ(second.tokens, first.tokens);
}

TEST_F(StatelessTest, ShortCommonPrefixIsRecomputed) {
  Turn(Spec({"Hi, you"}), std::string(300, 'y'));
  const TurnRequest second = Turn(Spec({"Hi, there"}), "Yo");
  EXPECT_THAT(engine.forks(), IsEmpty());
  EXPECT_FALSE(second.continues);
}

TEST_F(StatelessTest, OwnersShareNoCache) {
  const TurnRequest mine = Turn(Spec({text, text, text}), "Yo");
  ASSERT_TRUE(Ask(Spec({text, text, text}), other).ok());
  TurnRequest theirs = engine.last();
  engine.AnswerLast("Yo");
  EXPECT_NE(theirs.timeline, mine.timeline);
  EXPECT_NE(theirs.owner, mine.owner);
  EXPECT_FALSE(theirs.continues);
  ASSERT_TRUE(Ask(Spec({text, text, text, "Yo", "And?"}), other).ok());
  EXPECT_EQ(engine.last().timeline, theirs.timeline);
  EXPECT_THAT(engine.forks(), IsEmpty());
}

TEST_F(StatelessTest, SecondExtensionOfATimelineForks) {
  const TurnRequest first = Turn(Spec({text}), "Yo");
  ASSERT_TRUE(Ask(Spec({text, "Yo", "1"})).ok());
  ASSERT_TRUE(Ask(Spec({text, "Yo", "2"})).ok());
  const std::vector<TurnRequest> requests = engine.requests();
  EXPECT_EQ(requests[1].timeline, first.timeline);
  EXPECT_THAT(engine.forks(), ElementsAre(Pair(first.timeline, requests[2].timeline)));
  EXPECT_TRUE(Extends(requests[2], first));
  engine.Answer(1, "a");
  engine.Answer(2, "b");
}

TEST_F(StatelessTest, SharesTheCacheOfARunningTurn) {
  ASSERT_TRUE(Ask(Spec({text})).ok());
  ASSERT_TRUE(Ask(Spec({text})).ok());
  const std::vector<TurnRequest> requests = engine.requests();
  EXPECT_EQ(requests[0].tokens, requests[1].tokens);
  EXPECT_THAT(engine.forks(), ElementsAre(Pair(requests[0].timeline, requests[1].timeline)));
  engine.Answer(0, "one");
  engine.Answer(1, "two");
  EXPECT_EQ(Turn(Spec({text, "two", "?"}), "!").timeline, requests[1].timeline);
  EXPECT_EQ(Turn(Spec({text, "one", "?"}), "!").timeline, requests[0].timeline);
}

TEST_F(StatelessTest, FinalAnswerIsFollowedByAnother) {
  const TurnRequest first = Turn(Spec({text}), "Yo");
  const TurnRequest second = Turn(Spec({text, "Yo"}), "Ho");
  EXPECT_TRUE(Extends(second, first));
  EXPECT_THAT(tokenizer.Decode(second.tokens), ::testing::EndsWith("Yo<|im_end|>\n<|im_start|>assistant\n"));
}

TEST_F(StatelessTest, FailedTurnLeavesNothing) {
  ASSERT_TRUE(Ask(Spec({text})).ok());
  engine.Start(0);
  engine.End(0, FinishReason::kError, Unavailable("broken"));
  const TurnRequest again = Turn(Spec({text}), "Yo");
  EXPECT_THAT(engine.forks(), IsEmpty());
  EXPECT_FALSE(again.continues);
  EXPECT_EQ(table.stats().chains, 1);
  engine.Refuse(Overloaded("full"));
  EXPECT_EQ(Ask(Spec({"Hello"})).code(), StatusCode::kOverloaded);
  EXPECT_EQ(table.stats().chains, 1);
}

TEST_F(StatelessTest, StatelessTimelineIsFoundOnlyByItsHistory) {
  const Result<TurnTicket> ticket = table.StartTurn(me, Spec({"Hi"}), sink);
  engine.AnswerLast("Yo");
  EXPECT_EQ(table.conversations(), 0);
  EXPECT_THAT(table.ListSessions(me, "", 10)->sessions, IsEmpty());
  EXPECT_EQ(table.GetResponse({"me", 9}, ticket->response_id).status().code(), StatusCode::kNotFound);
  table.DropConnection(7);
  EXPECT_EQ(table.GetResponse(me, ticket->response_id).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(Turn(Spec({"Hi", "Yo", "And?"}), "So").timeline, engine.requests()[0].timeline);
}

TEST_F(StatelessTest, DisconnectCancelsTheTurnAndKeepsTheHistory) {
  ASSERT_TRUE(Ask(Spec({"Hi"})).ok());
  engine.Start(0);
  engine.Say(0, "Yo");
  table.DropConnection(7);
  EXPECT_THAT(engine.cancelled(), ElementsAre(engine.requests()[0].turn));
  engine.End(0, FinishReason::kCancelled);
  EXPECT_EQ(Turn(Spec({"Hi", "Yo", "And?"}), "So").timeline, engine.requests()[0].timeline);
}

TEST_F(StatelessTest, ExpiresAfterAnHourUnused) {
  const TurnRequest first = Turn(Spec({"Hi"}), "Yo");
  Turn(Spec({"Ho"}), "Yo");
  clock.AdvanceMs(3'000'000);
  Turn(Spec({"Ho", "Yo", "And?"}), "So");
  clock.AdvanceMs(1'000'000);
  ::testing::internal::CaptureStderr();
  table.Sweep();
  table.Sweep();
  const std::string log = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(log, HasSubstr("1 histories of stateless requests are deleted"));
  EXPECT_THAT(log, Not(HasSubstr("0 histories")));
  EXPECT_THAT(engine.erased(), ElementsAre(first.owner));
  EXPECT_EQ(table.stats().chains, 1);
  EXPECT_NE(Turn(Spec({"Hi", "Yo", "And?"}), "So").timeline, first.timeline);
}

TEST_F(StatelessTest, LimitsTheNumberKept) {
  for (int i = 0; i < limits::kMaxHistoriesPerOwner + 5; ++i) Turn(Spec({std::to_string(i)}), "Yo");
  EXPECT_EQ(table.stats().chains, limits::kMaxHistoriesPerOwner);
}

class ShortWindowTest : public StatelessTest {
 protected:
  ShortWindowTest() : StatelessTest(TableFixture::Options()) {}
};

TEST_F(ShortWindowTest, RefusesOverlongHistoryUnlessItMaySlide) {
  EXPECT_EQ(Ask(Spec({std::string(700, 'x')})).reason(), "context_length_exceeded");
  EXPECT_EQ(Ask(Spec({text, text, "And?"})).reason(), "context_length_exceeded");
  const auto sliding = [](TurnSpec spec) {
    spec.history_slides = true;
    return spec;
  };
  EXPECT_TRUE(Ask(sliding(Spec({text, text, text, text, "And?"}))).ok());
  EXPECT_EQ(Ask(sliding(Spec({"Hi", "Yo", std::string(700, 'x')}))).reason(), "context_length_exceeded");
  EXPECT_EQ(Ask(Spec({text, text, std::string(700, 'x')})).reason(), "context_length_exceeded");
  EXPECT_EQ(Ask(Spec({text, text, text, text, text, text})).reason(), "context_length_exceeded");  // session_len
}

TEST_F(StatelessTest, PromptIsExactlyItsTokens) {
  const TurnRequest first = Turn(Prompt({}, "Once <|im_end|>"), "upon");
  std::vector<TokenId> tokens = Bytes("Once ");
  tokens.push_back(ByteTokenizer::kImEnd);
  EXPECT_EQ(first.tokens, tokens);
  const std::vector<TokenId> answer = Bytes("upon");
  tokens.insert(tokens.end(), answer.begin(), answer.end());
  tokens.push_back(ByteTokenizer::kImEnd);
  tokens.push_back('a');
  const TurnRequest second = Turn(Prompt(tokens), " time");
  EXPECT_EQ(second.tokens, tokens);
  EXPECT_EQ(second.timeline, first.timeline);
  EXPECT_EQ(second.window.pinned, 4);
  EXPECT_EQ(Ask(Prompt({1, 300})).param(), "input");
  EXPECT_EQ(Ask(Prompt({1, -1})).param(), "input");
  EXPECT_EQ(Ask(Prompt({}, "")).param(), "input");
  EXPECT_EQ(Ask(Prompt({}, std::string(3000, 'x'))).reason(), "context_length_exceeded");
}

TEST_F(StatelessTest, PromptsWithACommonPrefixShareTheCache) {
  std::vector<TokenId> tokens(300);
  std::iota(tokens.begin(), tokens.end(), 0);
  for (TokenId& token : tokens) token %= 200;
  const TurnRequest first = Turn(Prompt(tokens), "a");
  tokens.back() = 7;
  const TurnRequest second = Turn(Prompt(tokens), "b");
  EXPECT_EQ(second.tokens, tokens);
  EXPECT_THAT(engine.forks(), ElementsAre(Pair(first.timeline, second.timeline)));
  // A chat with the same text starts with other ids.
  Turn(Spec({tokenizer.Decode(tokens)}), "c");
  EXPECT_THAT(engine.forks(), SizeIs(1));
}

TEST_F(StatelessTest, TemplateStopStringsDoNotApplyToRawPrompts) {
  ByteTokenizer bytes;
  ScriptedEngine plain_engine;
  const ChatTemplate plain = ChatTemplate::Named("plain").value();
  SessionTable plain_table(Options(), bytes, plain, plain_engine, nullptr, clock);
  ASSERT_TRUE(plain_table.StartTurn(me, Spec({"Hi"}), sink).ok());
  EXPECT_THAT(plain_engine.last().stop_strings, Not(IsEmpty()));
  plain_engine.AnswerLast("Yo");
  ASSERT_TRUE(plain_table.StartTurn(me, Prompt({}, "Hi"), sink).ok());
  EXPECT_THAT(plain_engine.last().stop_strings, IsEmpty());
  plain_engine.AnswerLast("Yo");
}

class StatelessBudgetTest : public StatelessTest {
 protected:
  StatelessBudgetTest() : StatelessTest(Options()) {}
  static SessionTableOptions Options() {
    SessionTableOptions options = StatelessTest::Options();
    options.max_bytes_per_owner = 64 << 10;
    options.max_input_tokens = 900;
    return options;
  }
};

TEST_F(StatelessBudgetTest, EvictsTheOldestForNewOnes) {
  for (int i = 0; i < 100; ++i) Turn(Spec({std::to_string(i) + text}), "Yo");
  EXPECT_LT(table.stats().chains, 20);
  EXPECT_GT(table.stats().chains, 5);
  EXPECT_EQ(Turn(Spec({"99" + text, "Yo", "And?"}), "So").timeline, engine.requests()[99].timeline);
}

TEST_F(StatelessBudgetTest, RequestsAreLimitedToTheTokensOfATurn) {
  Turn(Spec({text}), text);
  EXPECT_EQ(Ask(Spec({text, text, "And?"})).reason(), "");
  engine.AnswerLast("So");
  const Status refused = Ask(Spec({text, text, text}));
  EXPECT_EQ(refused.reason(), "context_length_exceeded");
  EXPECT_THAT(refused.message(), ::testing::HasSubstr("--max-input-tokens"));
}

class StoredStatelessTest : public DurableSessionTest {
 protected:
  void SetUp() override {
    DurableSessionTest::SetUp();
    options.memory_len = 1900;  // for whole histories
    Restart();
  }
  static TurnSpec Spec(std::vector<NewItem> input, bool store) {
    TurnSpec spec;
    spec.carries_history = true;
    spec.store = store;
    spec.input = std::move(input);
    return spec;
  }
  size_t StoredSessions() {
    size_t heads = 0;
    EXPECT_TRUE(journal->ForEachHead([&](const JournalHead&) { ++heads; }).ok());
    return heads;
  }
};

TEST_F(StoredStatelessTest, WritesNothingUnlessStored) {
  Turn(Spec({{ChatRole::kUser, "Hi"}}, false), "Yo");
  EXPECT_THAT(engine->last().owner, StartsWith("ram_"));
  EXPECT_EQ(StoredSessions(), 0u);
  const std::string id = Turn(Spec({{ChatRole::kUser, "Hi"}}, true), "Yo");
  EXPECT_THAT(engine->last().owner, StartsWith("chain_"));
  EXPECT_EQ(StoredSessions(), 1u);
  Restart();
  EXPECT_EQ(table->GetResponse(me, id).value()->text, "Yo");
}

TEST_F(StoredStatelessTest, StoredAndUnstoredHistoriesStaySeparate) {
  const std::vector<NewItem> first = {{ChatRole::kUser, "Hi"}};
  const std::vector<NewItem> second = {{ChatRole::kUser, "Hi"}, {ChatRole::kAssistant, "Yo"}, {ChatRole::kUser, "?"}};
  Turn(Spec(first, true), "Yo");
  const TimelineId stored = engine->last().timeline;
  Turn(Spec(second, false), "So");
  EXPECT_NE(engine->last().timeline, stored);
  Turn(Spec(second, true), "So");
  EXPECT_EQ(engine->last().timeline, stored);
  EXPECT_EQ(StoredSessions(), 1u);
}

// A conversation in which every request carries the whole history.
class LongStatelessTest : public StoredStatelessTest {
 protected:
  std::string Ask(const std::string& question, TurnSpec spec = {}) {
    spec.carries_history = true;
    said.push_back({ChatRole::kUser, question});
    spec.input = said;
    const std::string id = Turn(std::move(spec), "Yo");
    said.push_back({ChatRole::kAssistant, "Yo"});
    return id;
  }
  uint64_t StoredBytes(const std::string& session) { return journal->Last(session).value().bytes; }

  std::vector<NewItem> said;
};

TEST_F(LongStatelessTest, StoredHistoryIsExtended) {
  Ask(std::string(400, 'x'));
  const std::string chain = engine->last().owner;
  std::vector<uint64_t> grown;
  uint64_t bytes = StoredBytes(chain);
  for (int turn = 0; turn < 8; ++turn) {
    Ask("And?");
    EXPECT_EQ(engine->last().owner, chain);
    grown.push_back(StoredBytes(chain) - bytes);
    bytes += grown.back();
  }
  EXPECT_EQ(StoredSessions(), 1u);
  EXPECT_LE(grown.back(), grown.front() + 16);
}

TEST_F(LongStatelessTest, FindsAHistoryByItsPrefixAfterARestart) {
  const std::string first = Ask("Hi");
  Ask("And?");
  const std::string chain = engine->last().owner;
  const std::vector<TokenId> before = engine->last().tokens;
  Restart();
  Ask("Then?");
  EXPECT_EQ(engine->last().owner, chain);
  EXPECT_TRUE(std::equal(before.begin(), before.end(), engine->last().tokens.begin()));
  EXPECT_EQ(StoredSessions(), 1u);
  EXPECT_EQ(table->GetResponse(me, first).value()->text, "Yo");
}

TEST_F(LongStatelessTest, FindsSeveralHistoriesWithOnePrefixAfterARestart) {
  Ask("Hi");
  std::vector<NewItem> other = {{ChatRole::kUser, "Hi"}};
  Turn(Spec(other, true), "No");
  const std::string chain = engine->last().owner;
  EXPECT_EQ(StoredSessions(), 2u);
  Restart();
  other.push_back({ChatRole::kAssistant, "No"});
  other.push_back({ChatRole::kUser, "Why?"});
  Turn(Spec(other, true), "So");
  EXPECT_EQ(engine->last().owner, chain);
  EXPECT_EQ(StoredSessions(), 2u);
}

TEST_F(LongStatelessTest, RepeatedRequestFindsItsAnswerAfterARestart) {
  TurnSpec named;
  named.request_key = "first";
  Ask("Hi", named);
  named.request_key = "second";
  const std::string second = Ask("And?", named);
  Restart();
  said.pop_back();
  named.carries_history = true;
  named.input = said;
  const Result<TurnTicket> again = table->StartTurn(me, named, sink);
  ASSERT_TRUE(again.ok());
  EXPECT_TRUE(again->reattached);
  EXPECT_EQ(again->response_id, second);
  EXPECT_EQ(engine->count(), 0u);
}

TEST_F(LongStatelessTest, SimultaneousSimilarRequestsHaveSeparateChains) {
  ASSERT_TRUE(table->StartTurn(me, Spec({{ChatRole::kUser, "Hi"}}, true), sink).ok());
  ASSERT_TRUE(table->StartTurn(me, Spec({{ChatRole::kUser, "Hi"}}, true), sink).ok());
  const std::vector<TurnRequest> requests = engine->requests();
  EXPECT_NE(requests[0].owner, requests[1].owner);
  engine->Answer(0, "a");
  engine->Answer(1, "b");
  table->Flush();
  EXPECT_EQ(StoredSessions(), 2u);
}

TEST_F(LongStatelessTest, ANameIsFreeOnlyAfterTheDeletionOfItsChain) {
  options.max_chains_per_owner = 1;
  Restart();
  Turn(Spec({{ChatRole::kUser, "Hi"}}, true), "Yo");
  const std::string chain = engine->last().owner;
  table->Flush();  // the journal has released what it has delivered
  std::string again;
  engine->on_next_erase = [&] { again = Start(Spec({{ChatRole::kUser, "Hi"}}, true)); };
  Start(Spec({{ChatRole::kUser, "Bye"}}, true));  // evicts the first chain
  ASSERT_NE(again, "");
  EXPECT_NE(engine->last().owner, chain);
  engine->AnswerLast("So");
  table->Flush();
  const auto response = table->GetResponse(me, again);
  ASSERT_TRUE(response.ok()) << response.status().ToString();
  EXPECT_EQ((*response)->text, "So");
}

TEST_F(LongStatelessTest, InstructionsAndWindowsArePartOfTheHistory) {
  const auto brief = [](std::optional<int64_t> memory_len = std::nullopt) {
    TurnSpec spec;
    spec.instructions.emplace("Be brief.");
    spec.window.memory_len = memory_len;
    return spec;
  };
  Ask("Hi", brief());
  const std::string chain = engine->last().owner;
  Ask("And?", brief());
  EXPECT_EQ(engine->last().owner, chain);
  Ask("And?");
  EXPECT_NE(engine->last().owner, chain);
  EXPECT_EQ(tokenizer.Decode(engine->last().tokens).find("Be brief."), std::string::npos);
  Ask("And?", brief(300));
  EXPECT_NE(engine->last().owner, chain);
  EXPECT_EQ(engine->last().window.memory_len, 300);
  const std::string own = engine->last().owner;
  Ask("And?", brief(300));
  EXPECT_EQ(engine->last().owner, own);
}

TEST_F(LongStatelessTest, InMemoryHistoryDoesNotHideAStoredOne) {
  Turn(Spec({{ChatRole::kUser, "Hi"}}, false), "Yo");
  Ask("Hi");
  const std::string chain = engine->last().owner;
  Ask("And?");
  EXPECT_EQ(engine->last().owner, chain);
}

TEST_F(LongStatelessTest, InMemoryHistoryIsNeverStored) {
  const std::string first = Turn(Spec({{ChatRole::kUser, "Hi"}}, false), "Yo");
  EXPECT_THAT(engine->last().owner, StartsWith("ram_"));
  TurnSpec next;
  next.previous_response_id = first;
  next.input = {{ChatRole::kUser, "And?"}};
  next.store = false;
  const std::string second = Turn(next, "So");
  EXPECT_THAT(engine->last().owner, StartsWith("ram_"));
  EXPECT_EQ(StoredSessions(), 0u);
  next.previous_response_id = second;
  next.store = true;
  const std::string third = Turn(next, "Now");
  EXPECT_THAT(engine->last().owner, StartsWith("chain_"));
  EXPECT_THAT(tokenizer.Decode(engine->last().tokens), ::testing::HasSubstr("So"));
  Restart();
  EXPECT_EQ(table->GetResponse(me, third).value()->text, "Now");
}

}  // namespace
}  // namespace ringside
