// Prompts with log probabilities: each token's is the network's output for the previous tokens, in steps of any size,
// batched with other turns, with any cache contents. The hash network gives one token of 97 a logit of 10, all others
// 0.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/engine/hash_engine.h"

namespace ringside {
namespace {

const float kBest = static_cast<float>(10 - std::log(std::exp(10.0) + HashNetwork::kVocab - 1));

class EngineScoringTest : public HashEngineTest {
 protected:
  /// About half of the tokens are the likeliest after their prefix.
  static std::vector<TokenId> LikelyTokens(size_t n, uint32_t seed) {
    std::vector<TokenId> tokens = Tokens(1, seed);
    while (tokens.size() < n) {
      const bool likely = Tokens(1, seed + static_cast<uint32_t>(tokens.size())).front() % 2 == 0;
      tokens.push_back(likely ? HashNetwork::Expected(tokens, {}, kWindow) : tokens.back());
    }
    return tokens;
  }
  SubmittedTurn Submit(TimelineId timeline, std::vector<TokenId> tokens, int64_t max_tokens, bool scored) {
    SubmittedTurn turn = GreedyTurn(next_turn_++, timeline, std::move(tokens), {}, kWindow, max_tokens);
    turn.request.scored = scored;
    turn.request.sampling.logprobs = 1;
    return HashEngineTest::Submit(std::move(turn));
  }
  static void ExpectScored(const SubmittedTurn& turn) {
    const std::vector<TokenId>& tokens = turn.request.tokens;
    const std::vector<OutputToken> scored = turn.sink->scored();
    ASSERT_EQ(scored.size(), tokens.size());
    EXPECT_EQ(scored.front().id, tokens.front());
    EXPECT_TRUE(scored.front().top.empty()) << "nothing precedes it";
    for (size_t i = 1; i < tokens.size(); ++i) {
      const std::vector<TokenId> before(tokens.begin(), tokens.begin() + static_cast<ptrdiff_t>(i));
      const TokenId best = HashNetwork::Expected(before, {}, kWindow);
      ASSERT_EQ(scored[i].id, tokens[i]) << i;
      ASSERT_EQ(scored[i].top.size(), 1u) << i;
      ASSERT_EQ(scored[i].top[0].id, best) << i;
      ASSERT_NEAR(scored[i].top[0].logprob, kBest, 1e-5) << i;
      ASSERT_NEAR(scored[i].logprob, tokens[i] == best ? kBest : kBest - 10, 1e-5) << i;
    }
  }
};
INSTANTIATE_TEST_SUITE_P(All, EngineScoringTest, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "Ahead" : "InStep"; });

TEST_P(EngineScoringTest, ScoresEveryTokenWhenChunkedOrBatched) {
  Start({.slots = 8, .prefill_chunk = 7, .step_tokens = 20});
  std::vector<SubmittedTurn> turns;
  for (const size_t length : {1, 2, 7, 8, 50, 64}) {
    const auto timeline = static_cast<TimelineId>(turns.size() + 1);
    turns.push_back(Submit(timeline, LikelyTokens(length, static_cast<uint32_t>(length)), timeline % 2 == 0 ? 0 : 5,
                           /*scored=*/true));
  }
  turns.push_back(Submit(90, Tokens(33, 4), 20, /*scored=*/false));
  for (const SubmittedTurn& turn : turns) {
    const TurnEnd end = turn.sink->Wait();
    EXPECT_EQ(end.reason, FinishReason::kLength) << end.error.ToString();
    EXPECT_EQ(std::ssize(end.output), turn.request.max_tokens);
    ExpectRight(turn, end);
    if (turn.request.scored) ExpectScored(turn);
  }
  EXPECT_TRUE(turns.back().sink->scored().empty());
}

TEST_P(EngineScoringTest, DoesNotReadTheCacheButLeavesAUsableOne) {
  Start({.slots = 4, .prefill_chunk = 32, .step_tokens = 64});
  const std::vector<TokenId> tokens = LikelyTokens(150, 1);
  SubmittedTurn first = Submit(1, tokens, 1, /*scored=*/false);
  first.sink->Wait();
  // The timeline's own cache, and that of another one with the same beginning.
  for (const TimelineId timeline : {1, 2}) {
    const SubmittedTurn scored = Submit(timeline, tokens, 0, /*scored=*/true);
    const TurnEnd end = scored.sink->Wait();
    EXPECT_EQ(end.report.tokens_reused, 0) << timeline;
    EXPECT_EQ(end.report.tokens_computed, 150) << timeline;
    ExpectScored(scored);
  }
  const SubmittedTurn after = Submit(2, tokens, 3, /*scored=*/false);
  const TurnEnd end = after.sink->Wait();
  EXPECT_EQ(end.report.tokens_reused, 149);
  ExpectRight(after, end);
}

TEST_P(EngineScoringTest, RefusesUnscorableRequests) {
  Start({.slots = 2});
  TurnRequest request = GreedyTurn(1, 1, Tokens(10, 1), {}, kWindow, 0).request;
  request.scored = true;
  EXPECT_EQ(engine_->Submit(request).code(), StatusCode::kInvalidArgument) << "without log probabilities";
  request.sampling.logprobs = 0;
  request.tokens = Tokens(305, 1);
  EXPECT_EQ(engine_->Submit(request).reason(), "context_length_exceeded") << "more than the window shows";
  request.tokens.resize(304);
  EXPECT_TRUE(engine_->Submit(request).ok());
}

TEST_P(EngineScoringTest, NetworkFailureEndsTheTurnWithoutScores) {
  Start({.slots = 2, .prefill_chunk = 16});
  network_.PoisonLogits(true);
  const SubmittedTurn turn = Submit(1, Tokens(40, 1), 0, /*scored=*/true);
  EXPECT_EQ(turn.sink->Wait().reason, FinishReason::kError);
  EXPECT_TRUE(turn.sink->scored().empty());
  network_.PoisonLogits(false);
  const SubmittedTurn again = Submit(1, Tokens(40, 1), 0, /*scored=*/true);
  EXPECT_EQ(again.sink->Wait().reason, FinishReason::kLength);
  ExpectScored(again);
}

}  // namespace
}  // namespace ringside
