// Conversations that begin alike: what one has computed is copied to others of the same account, and to nobody else.
#include <gtest/gtest.h>

#include <future>

#include "tests/engine/tiers/engine_tiers.h"

namespace ringside {
namespace {

class EnginePrefixTest : public EngineTiersTest {
 protected:
  static constexpr RingWindow kLong{4, 600, Eviction::kTurn};

  void StartLong(int64_t slots, int64_t step_tokens = 256) {
    auto started = Engine::Start(network_, tokenizer_,
                                 {.slots = slots,
                                  .memory_len = kLong.memory_len,
                                  .pinned_max = 8,
                                  .prefill_chunk = step_tokens,
                                  .step_tokens = step_tokens,
                                  .kv_dtype = DType::kF32});
    ASSERT_TRUE(started.ok()) << started.status().ToString();
    engine_ = std::move(*started);
  }
  /// A turn on a timeline of its own that begins with `shared` tokens that all have, and goes on with its own.
  static SubmittedTurn Begin(TimelineId timeline, size_t shared, size_t own = 10, const std::string& account = "") {
    std::vector<TokenId> tokens = Tokens(shared, 1);
    const std::vector<TokenId> rest = Tokens(own, 100 + static_cast<uint32_t>(timeline));
    tokens.insert(tokens.end(), rest.begin(), rest.end());
    SubmittedTurn turn = GreedyTurn(timeline, timeline, tokens, {0, static_cast<int64_t>(shared)}, kLong, 5);
    turn.request.account = account;
    return turn;
  }
  static void ExpectRightAnswer(const SubmittedTurn& turn, const TurnEnd& end) {
    std::vector<TokenId> tokens = turn.request.tokens;
    ASSERT_EQ(end.output.size(), 5u) << end.error.ToString();
    for (const TokenId id : end.output) {
      ASSERT_EQ(id, HashNetwork::Expected(tokens, turn.request.message_starts, turn.request.window));
      tokens.push_back(id);
    }
  }
  TurnEnd RunRight(const SubmittedTurn& turn) {
    const TurnEnd end = Run(turn);
    ExpectRightAnswer(turn, end);
    return end;
  }
};
INSTANTIATE_TEST_SUITE_P(All, EnginePrefixTest, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "Ahead" : "InStep"; });

TEST_P(EnginePrefixTest, ANewConversationComputesOnlyWhatNoOtherHas) {
  StartLong(4);
  EXPECT_EQ(RunRight(Begin(1, 200)).report.tokens_reused, 0);
  const TurnEnd second = RunRight(Begin(2, 200));
  EXPECT_EQ(second.report.tokens_reused, 200);
  EXPECT_EQ(second.report.tokens_computed, 10);
  EXPECT_EQ(second.report.source, CacheSource::kNew) << "it is a new conversation all the same";
  EXPECT_EQ(engine_->stats().tokens_shared, 200u);
  const TurnEnd third = RunRight(Begin(3, 150));  // its second message begins earlier
  EXPECT_EQ(third.report.tokens_reused, 150);
  // The first has not been touched.
  SubmittedTurn again = Begin(1, 200, 20);
  again.request.turn = 9;
  EXPECT_EQ(RunRight(again).report.tokens_reused, 210);
}

TEST_P(EnginePrefixTest, NothingPassesBetweenAccounts) {
  StartLong(4);
  RunRight(Begin(1, 200, 10, "a"));
  EXPECT_EQ(RunRight(Begin(2, 200, 10, "b")).report.tokens_reused, 0);
  EXPECT_EQ(RunRight(Begin(3, 200, 10, "b")).report.tokens_reused, 200);
  EXPECT_EQ(RunRight(Begin(4, 200, 10, "a")).report.tokens_reused, 200);
}

TEST_P(EnginePrefixTest, AnotherWindowOrAnOverwrittenRingIsNotShared) {
  StartLong(4);
  RunRight(Begin(1, 200));
  SubmittedTurn other = Begin(2, 200);
  other.request.window.memory_len = 300;
  EXPECT_EQ(RunRight(other).report.tokens_reused, 0);
  SubmittedTurn turns = Begin(1, 200, 1500);  // the first one's ring turns
  turns.request.turn = 9;
  RunRight(turns);
  EXPECT_EQ(RunRight(Begin(3, 200)).report.tokens_reused, 0);
}

TEST_P(EnginePrefixTest, OfAFewTokensNothingIsCopied) {
  StartLong(4);
  RunRight(Begin(1, 20));
  EXPECT_EQ(RunRight(Begin(2, 20)).report.tokens_reused, 0);
}

TEST_P(EnginePrefixTest, ManyThatComeAtOnceComputeWhatTheyShareOnce) {
  StartLong(8, 128);
  std::promise<void> held, gate;
  network_.OnStep([&, first = true, go = gate.get_future().share()]() mutable {
    if (!std::exchange(first, false)) return;
    held.set_value();
    go.wait();
  });
  std::vector<SubmittedTurn> turns = {Begin(1, 500)};
  ASSERT_TRUE(engine_->Submit(turns[0].request).ok());
  held.get_future().wait();
  for (TimelineId timeline = 2; timeline <= 8; ++timeline) {
    turns.push_back(Begin(timeline, 500));
    ASSERT_TRUE(engine_->Submit(turns.back().request).ok());
  }
  gate.set_value();
  for (const SubmittedTurn& turn : turns) ExpectRightAnswer(turn, turn.sink->Wait());
  // They wait until what is left is hardly worth it, less than 256 tokens.
  EXPECT_GT(SettledStats().tokens_shared, 7u * (500 - 256));
  EXPECT_LT(engine_->stats().tokens_prefilled, 8u * (256 + 10) + 244);
}

TEST_P(EnginePrefixTest, TheOneThatComputesForOthersMayBeCancelled) {
  StartLong(8, 64);
  std::promise<void> held, gate;
  network_.OnStep([&, first = true, go = gate.get_future().share()]() mutable {
    if (!std::exchange(first, false)) return;
    held.set_value();
    go.wait();
  });
  const SubmittedTurn first = Begin(1, 500), second = Begin(2, 500), third = Begin(3, 500);
  ASSERT_TRUE(engine_->Submit(first.request).ok());
  held.get_future().wait();
  ASSERT_TRUE(engine_->Submit(second.request).ok());
  ASSERT_TRUE(engine_->Submit(third.request).ok());
  engine_->Cancel(first.request.turn);
  gate.set_value();
  EXPECT_EQ(first.sink->Wait().reason, FinishReason::kCancelled);
  ExpectRightAnswer(second, second.sink->Wait());
  ExpectRightAnswer(third, third.sink->Wait());
}

}  // namespace
}  // namespace ringside
