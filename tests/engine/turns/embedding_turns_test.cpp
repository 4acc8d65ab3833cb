// Embedded texts: the mean of the final norm's output over their tokens, in steps of any size, batched with other
// turns, with any cache contents. The hash network's hidden states are exact in a float.
#include "tests/engine/hash_engine.h"

namespace ringside {
namespace {

class EmbeddingTurns : public HashEngineTest {
 protected:
  SubmittedTurn Make(TimelineId timeline, std::vector<TokenId> tokens) {
    SubmittedTurn turn = GreedyTurn(next_turn_++, timeline, std::move(tokens), {}, kWindow, 0);
    turn.request.embedded = true;
    return turn;
  }
  static void ExpectEmbedded(const SubmittedTurn& turn) {
    const TurnEnd end = turn.sink->Wait();
    EXPECT_EQ(end.reason, FinishReason::kStop) << end.error.ToString();
    EXPECT_TRUE(end.output.empty());
    EXPECT_EQ(end.report.tokens_computed, std::ssize(turn.request.tokens));
    EXPECT_EQ(end.report.tokens_reused, 0);
    EXPECT_EQ(turn.sink->embedding(), HashNetwork::ExpectedMean(turn.request.tokens, kWindow));
  }
};
INSTANTIATE_TEST_SUITE_P(All, EmbeddingTurns, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "Ahead" : "InStep"; });

TEST_P(EmbeddingTurns, EveryTokenCountsWhenChunkedOrBatched) {
  Start({.slots = 8, .prefill_chunk = 7, .step_tokens = 20});
  const SubmittedTurn speaks = Submit(GreedyTurn(next_turn_++, 90, Tokens(33, 4), {}, kWindow, 40));
  std::vector<SubmittedTurn> turns;
  for (const size_t length : {1, 2, 7, 8, 50, 64, 304}) {
    turns.push_back(Submit(Make(turns.size() + 1, Tokens(length, static_cast<uint32_t>(length)))));
  }
  for (const SubmittedTurn& turn : turns) ExpectEmbedded(turn);
  const TurnEnd end = speaks.sink->Wait();
  ExpectRight(speaks, end);
  EXPECT_EQ(end.output.size(), 40u);
  EXPECT_TRUE(speaks.sink->embedding().empty());
}

TEST_P(EmbeddingTurns, DoesNotUseTheCache) {
  Start({.slots = 4, .prefill_chunk = 32, .step_tokens = 64});
  const std::vector<TokenId> tokens = Tokens(150, 1);
  Submit(GreedyTurn(next_turn_++, 1, tokens, {}, kWindow, 1)).sink->Wait();
  // The timeline's own cache, and that of another one with the same beginning.
  for (const TimelineId timeline : {1, 2}) ExpectEmbedded(Submit(Make(timeline, tokens)));
}

TEST_P(EmbeddingTurns, CancelledTurnReturnsNoEmbedding) {
  Start({.slots = 1, .prefill_chunk = 1, .step_tokens = 1});
  const SubmittedTurn turn = Make(1, Tokens(200, 3));
  network_.OnStep([&] {
    if (network_.rows_computed() > 20) engine_->Cancel(turn.request.turn);
  });
  Submit(turn);
  EXPECT_EQ(turn.sink->Wait().reason, FinishReason::kCancelled);
  EXPECT_TRUE(turn.sink->embedding().empty());
}

TEST_P(EmbeddingTurns, NonFiniteValuesAreAnError) {
  Start({.slots = 1});
  network_.PoisonLogits(true);
  const SubmittedTurn turn = Submit(Make(1, Tokens(20, 3)));
  const TurnEnd end = turn.sink->Wait();
  EXPECT_EQ(end.reason, FinishReason::kError);
  EXPECT_EQ(end.error.code(), StatusCode::kUnavailable) << end.error.ToString();
  EXPECT_TRUE(turn.sink->embedding().empty());
}

TEST_P(EmbeddingTurns, RefusesInputLongerThanTheWindow) {
  Start({.slots = 1});
  const Status refused = engine_->Submit(Make(1, Tokens(305, 3)).request);
  EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(refused.reason(), "context_length_exceeded");
  EXPECT_EQ(refused.param(), "input");
}

TEST_P(EmbeddingTurns, NetworkWithoutHiddenStatesRefusesEmbedding) {
  network_.TellHiddenStates(false);
  Start({.slots = 1});
  const Status refused = engine_->Submit(Make(1, Tokens(5, 3)).request);
  EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(refused.reason(), "unsupported_value");
}

}  // namespace
}  // namespace ringside
