// Turns whose answer must match a grammar: sampled tokens, and when they end, alongside unconstrained turns.
#include <gtest/gtest.h>

#include "engine/engine.h"
#include "engine/grammar/grammar_cache.h"
#include "tests/engine/engine_harness.h"
#include "tests/engine/hash_network.h"

namespace ringside {
namespace {

constexpr RingWindow kGrammarWindow{4, 24, Eviction::kTurn};
constexpr TokenId kEnd = 90;  // an id that ends the answer; as text it is the letter M

class GrammarTurnTest : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    EngineOptions options{.slots = 4};
    options.memory_len = kGrammarWindow.memory_len;
    options.pinned_max = 8;
    options.kv_dtype = DType::kF32;
    engine_ = std::move(*Engine::Start(network_, tokenizer_, options));
  }
  SubmittedTurn Turn(TurnId id, const std::string& regex, int64_t max_tokens = 50) {
    SubmittedTurn turn = GreedyTurn(id, id, {1, 2, 3, 4, 5, static_cast<TokenId>(id)}, {}, kGrammarWindow, max_tokens);
    turn.request.stop_ids = {kEnd};
    if (!regex.empty()) turn.request.grammar = *grammars_.Get({.kind = AnswerFormat::Kind::kRegex, .text = regex});
    return turn;
  }
  TurnEnd Run(const SubmittedTurn& turn) {
    const Status accepted = engine_->Submit(turn.request);
    EXPECT_TRUE(accepted.ok()) << accepted.ToString();
    return turn.sink->Wait();
  }
  static bool Matches(const SubmittedTurn& turn) {
    GrammarMatcher matcher(turn.request.grammar);
    return matcher.Append(turn.request.begun + turn.sink->text()).ok() && matcher.may_end();
  }

  std::unique_ptr<Backend> backend_ = std::move(*MakeCpuBackend({.threads = 1}));
  HashNetwork network_{*backend_, GetParam()};
  LetterTokenizer tokenizer_{HashNetwork::kVocab};
  GrammarCache grammars_{tokenizer_};
  std::unique_ptr<Engine> engine_;
};

INSTANTIATE_TEST_SUITE_P(All, GrammarTurnTest, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "Ahead" : "InStep"; });

TEST_P(GrammarTurnTest, AnswerMatchesTheGrammarAndEnds) {
  const SubmittedTurn turn = Turn(1, "(AB|CD){3}E?F");
  const TurnEnd end = Run(turn);
  EXPECT_EQ(end.reason, FinishReason::kStop) << end.error.ToString();
  EXPECT_TRUE(Matches(turn)) << turn.sink->text();
  EXPECT_EQ(end.output.size(), turn.sink->text().size());  // no step for an end of turn
}

TEST_P(GrammarTurnTest, SampledAnswersMatchTheGrammar) {
  for (TurnId id = 1; id <= 20; ++id) {
    SubmittedTurn turn = Turn(id, "[A-F]{2,5}(XYZ|Q){1,2}");
    turn.request.sampling.temperature = 1.5;
    turn.request.sampling.seed = id;
    turn.request.sampling.logprobs = 2;
    turn.request.sampling.repetition_penalty = id % 2 == 0 ? 1.0 : 1.3;
    EXPECT_EQ(Run(turn).reason, FinishReason::kStop);
    EXPECT_TRUE(Matches(turn)) << turn.sink->text();
    for (const float logprob : turn.sink->logprobs()) EXPECT_LE(logprob, 0);
  }
}

TEST_P(GrammarTurnTest, StopStringEndsTheText) {
  SubmittedTurn turn = Turn(1, "ABCDEF(GH)*");
  turn.request.stop_strings = {"DE"};
  const TurnEnd end = Run(turn);
  EXPECT_EQ(end.reason, FinishReason::kStop) << end.error.ToString();
  EXPECT_EQ(turn.sink->text(), "ABC");
}

TEST_P(GrammarTurnTest, EndOfTurnOnlyWhereTheGrammarMayEnd) {
  // It is also the letter M: as text it is not sampled, and it ends nothing before the grammar does.
  for (TurnId id = 1; id <= 10; ++id) {
    SubmittedTurn turn = Turn(id, "A{4}[A-Z]*", 200);
    turn.request.sampling.logit_bias = {{kEnd, 100.0f}};
    const TurnEnd end = Run(turn);
    EXPECT_EQ(end.reason, FinishReason::kStop);
    EXPECT_EQ(turn.sink->text(), "AAAA");
    EXPECT_EQ(end.output.back(), kEnd);
  }
}

TEST_P(GrammarTurnTest, MinTokensAndLengths) {
  SubmittedTurn turn = Turn(1, "A+");
  turn.request.sampling.min_tokens = 6;
  turn.request.sampling.logit_bias = {{kEnd, 100.0f}};
  Run(turn);
  EXPECT_EQ(turn.sink->text().size(), 6u);
  const SubmittedTurn cut = Turn(2, "A{40}", 7);
  EXPECT_EQ(Run(cut).reason, FinishReason::kLength);
  EXPECT_EQ(cut.sink->text(), "AAAAAAA");
  const SubmittedTurn exact = Turn(3, "A{7}", 7);
  EXPECT_EQ(Run(exact).reason, FinishReason::kStop);  // it is complete
  const SubmittedTurn short_of_min = Turn(4, "AB");
  EXPECT_EQ(Run(short_of_min).reason, FinishReason::kStop);
}

TEST_P(GrammarTurnTest, StopStringsEndAGrammarTurn) {
  SubmittedTurn turn = Turn(1, "ABCD");
  turn.request.stop_strings = {"BC"};
  EXPECT_EQ(Run(turn).reason, FinishReason::kStop);
  EXPECT_EQ(turn.sink->text(), "A");
}

TEST_P(GrammarTurnTest, ContinuesAnExistingAnswer) {
  SubmittedTurn turn = Turn(1, "(ABC|XYZ){2}");
  turn.request.continues_answer = true;
  turn.request.begun = "XYZA";
  EXPECT_EQ(Run(turn).reason, FinishReason::kStop);
  EXPECT_EQ(turn.sink->text(), "BC");
  SubmittedTurn read = Turn(4, "(ABC|XYZ){2}");  // already compiled by another thread
  const auto matcher = std::make_shared<GrammarMatcher>(read.request.grammar);
  ASSERT_TRUE(matcher->Append("XYZA").ok());
  read.request.continues_answer = true;
  read.request.matcher = matcher;
  EXPECT_EQ(Run(read).reason, FinishReason::kStop);
  EXPECT_EQ(read.sink->text(), "BC");
  SubmittedTurn whole = Turn(2, "ABC");
  whole.request.continues_answer = true;
  whole.request.begun = "ABC";
  const TurnEnd end = Run(whole);
  EXPECT_EQ(end.reason, FinishReason::kStop);
  EXPECT_TRUE(end.output.empty());
  SubmittedTurn wrong = Turn(3, "ABC");
  wrong.request.continues_answer = true;
  wrong.request.begun = "B";
  EXPECT_EQ(Run(wrong).reason, FinishReason::kError);
}

TEST_P(GrammarTurnTest, NoAllowedTokenIsAClientError) {
  SubmittedTurn turn = Turn(1, "a");  // the vocabulary has capitals only
  const TurnEnd end = Run(turn);
  EXPECT_EQ(end.reason, FinishReason::kError);
  EXPECT_EQ(end.error.code(), StatusCode::kInvalidArgument);
}

// The mask is computed during the step that it is for.
TEST_P(GrammarTurnTest, RunsAhead) {
  const SubmittedTurn turn = Turn(1, "[A-F]{30}");
  Run(turn);
  EXPECT_TRUE(Matches(turn));
  EXPECT_EQ(network_.steps_ahead(), GetParam() ? 30 : 0);  // its completion is detected after the next step has been
                                                           // launched
}

// An unconstrained turn in the same batch gives its usual output.
TEST_P(GrammarTurnTest, OtherTurnsAreUnaffected) {
  SubmittedTurn alone = Turn(7, "", 30);
  alone.request.stop_ids.clear();
  Run(alone);
  SubmittedTurn beside = Turn(7, "", 30);
  beside.request.stop_ids.clear();
  beside.request.timeline = 70;
  const SubmittedTurn bound = Turn(8, "(AB){8}");
  ASSERT_TRUE(engine_->Submit(bound.request).ok());
  Run(beside);
  bound.sink->Wait();
  EXPECT_EQ(beside.sink->ids(), alone.sink->ids());
  EXPECT_TRUE(Matches(bound));
}

}  // namespace
}  // namespace ringside
