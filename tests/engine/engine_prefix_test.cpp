// Conversations with a common prefix: computed rows are copied to other conversations of the same tenant, and to no
// others.
#include <gtest/gtest.h>

#include <functional>
#include <future>

#include "tests/engine/tiers/engine_tiers.h"

namespace ringside {
namespace {

class EnginePrefixTest : public EngineTiersTest {
 protected:
  static constexpr RingWindow kLong{4, 600, Eviction::kTurn};

  void StartLong(int64_t slots, int64_t step_tokens = 256, bool with_tiers = false, int64_t kv_bytes = 0) {
    if (with_tiers) {
      tiers_ = std::make_unique<TieredStore>(std::make_unique<RamStore>(64 << 20), nullptr,
                                             TieredStoreOptions{.host_idle_ms = 0, .sweep_ms = 0});
    }
    auto started = Engine::Start(network_, tokenizer_,
                                 {.slots = slots,
                                  .kv_bytes = kv_bytes,
                                  .memory_len = kLong.memory_len,
                                  .pinned_max = 8,
                                  .prefill_chunk = step_tokens,
                                  .step_tokens = step_tokens,
                                  .kv_dtype = DType::kF32},
                                 {.tiers = tiers_.get(), .fetch_deadline_ms = kMinute});
    ASSERT_TRUE(started.ok()) << started.status().ToString();
    engine_ = std::move(*started);
  }
  /// A turn on a new timeline with `shared` common tokens and `own` different ones.
  static SubmittedTurn Begin(TimelineId timeline, size_t shared, size_t own = 10, const std::string& tenant = "") {
    std::vector<TokenId> tokens = Tokens(shared, 1);
    const std::vector<TokenId> rest = Tokens(own, 100 + static_cast<uint32_t>(timeline));
    tokens.insert(tokens.end(), rest.begin(), rest.end());
    SubmittedTurn turn = GreedyTurn(timeline, timeline, tokens, {0, static_cast<int64_t>(shared)}, kLong, 5);
    turn.request.tenant = tenant;
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

TEST_P(EnginePrefixTest, NewConversationComputesOnlyUnsharedTokens) {
  StartLong(4);
  EXPECT_EQ(RunRight(Begin(1, 200)).report.tokens_reused, 0);
  const TurnEnd second = RunRight(Begin(2, 200));
  EXPECT_EQ(second.report.tokens_reused, 200);
  EXPECT_EQ(second.report.tokens_computed, 10);
  EXPECT_EQ(second.report.source, CacheSource::kNew) << "it is a new conversation all the same";
  EXPECT_EQ(engine_->stats().tokens_shared, 200u);
  const TurnEnd third = RunRight(Begin(3, 150));  // its second message begins earlier
  EXPECT_EQ(third.report.tokens_reused, 150);
  // The first is unchanged.
  SubmittedTurn again = Begin(1, 200, 20);
  again.request.turn = 9;
  EXPECT_EQ(RunRight(again).report.tokens_reused, 210);
}

// Six conversations in the memory of three.
TEST_P(EnginePrefixTest, ACommonPrefixIsInMemoryOnce) {
  constexpr size_t kShared = 512;
  StartLong(6, 256, false, 16 * 4096);
  for (TimelineId i = 1; i <= 6; ++i) RunRight(Begin(i, kShared));
  EXPECT_EQ(engine_->stats().slots_taken, 0u) << "no cache had to leave";
  EXPECT_EQ(engine_->stats().kv_bytes_shared, 5 * 4 * 4096) << "pages of 128 tokens";
  // One rewinds into the common prefix, and the ring of another wraps. The others stay as they are.
  SubmittedTurn rewound = Begin(2, 40);
  rewound.request.turn = 21;
  EXPECT_EQ(RunRight(rewound).report.tokens_reused, 40);
  SubmittedTurn wrapped = Begin(3, kShared, 300);
  wrapped.request.turn = 22;
  EXPECT_EQ(RunRight(wrapped).report.tokens_reused, static_cast<int64_t>(kShared + 10));
  for (const TimelineId i : {1, 4, 5, 6}) {
    SubmittedTurn again = Begin(i, kShared, 20);
    again.request.turn = 30 + i;
    EXPECT_EQ(RunRight(again).report.tokens_reused, static_cast<int64_t>(kShared + 10));
  }
  EXPECT_LT(engine_->stats().kv_bytes_shared, 5 * 4 * 4096);
  for (TimelineId i = 1; i <= 6; ++i) engine_->Close(i);
  Settle();
  EXPECT_EQ(engine_->stats().kv_bytes_used, 0);
  EXPECT_EQ(engine_->stats().kv_bytes_shared, 0);
}

// Three conversations take turns in the slots of two.
TEST_P(EnginePrefixTest, RestoredCachesShareTheirPrefixAgain) {
  constexpr size_t kShared = 512;
  StartLong(2, 256, true, 16 * 4096);
  const auto turn = [](TimelineId i, uint64_t number, size_t own) {
    SubmittedTurn out = Begin(i, kShared, own);
    out.request.turn = number, out.request.owner = "s" + std::to_string(i);
    return out;
  };
  for (TimelineId i = 1; i <= 3; ++i) RunRight(turn(i, i, 10));
  int restored = 0;
  for (uint64_t number = 9; number < 15; ++number) {
    const auto i = static_cast<TimelineId>(1 + number % 3);
    const TurnEnd end = RunRight(turn(i, number, 10 * (number / 3 - 1)));
    restored += end.report.source == CacheSource::kHost ? 1 : 0;
    EXPECT_GE(end.report.tokens_reused, static_cast<int64_t>(kShared + 10)) << number;
    EXPECT_EQ(engine_->stats().kv_bytes_shared, 4 * 4096) << number;
  }
  EXPECT_GE(restored, 3);
}

TEST_P(EnginePrefixTest, MuchLongerPrefixReplacesAShortCache) {
  StartLong(4);
  RunRight(Begin(1, 500));
  RunRight(Begin(2, 100));
  SubmittedTurn longer = Begin(2, 500);
  longer.request.turn = 9;
  const TurnEnd copied = RunRight(longer);
  EXPECT_EQ(copied.report.tokens_reused, 500);
  EXPECT_EQ(copied.report.tokens_computed, 10);
  // Not worth a copy.
  RunRight(Begin(3, 100));
  SubmittedTurn little = Begin(3, 300);
  little.request.turn = 10;
  EXPECT_EQ(RunRight(little).report.tokens_reused, 100);
  // Not of another tenant.
  RunRight(Begin(4, 100, 10, "b"));
  SubmittedTurn other = Begin(4, 500, 10, "b");
  other.request.turn = 11;
  EXPECT_EQ(RunRight(other).report.tokens_reused, 100);
}

TEST_P(EnginePrefixTest, AccountsShareNoCache) {
  StartLong(4);
  RunRight(Begin(1, 200, 10, "a"));
  EXPECT_EQ(RunRight(Begin(2, 200, 10, "b")).report.tokens_reused, 0);
  EXPECT_EQ(RunRight(Begin(3, 200, 10, "b")).report.tokens_reused, 200);
  EXPECT_EQ(RunRight(Begin(4, 200, 10, "a")).report.tokens_reused, 200);
}

TEST_P(EnginePrefixTest, DoesNotShareOtherWindowsOrOverwrittenRings) {
  StartLong(4);
  RunRight(Begin(1, 200));
  SubmittedTurn other = Begin(2, 200);
  other.request.window.memory_len = 300;
  EXPECT_EQ(RunRight(other).report.tokens_reused, 0);
  SubmittedTurn turns = Begin(1, 200, 1500);  // the first one's ring wraps
  turns.request.turn = 9;
  RunRight(turns);
  EXPECT_EQ(RunRight(Begin(3, 200)).report.tokens_reused, 0);
}

TEST_P(EnginePrefixTest, CopiesOnlyWholeTiles) {
  StartLong(4);
  TimelineId timeline = 1;
  for (const size_t shared : {15, 16, 40, 63}) {
    const std::string tenant = std::to_string(shared);
    RunRight(Begin(timeline, shared, 10, tenant));
    const TurnEnd end = RunRight(Begin(timeline + 1, shared, 10, tenant));
    EXPECT_EQ(end.report.tokens_reused, shared < 16 ? 0 : static_cast<int64_t>(shared));
    timeline += 2;
  }
}

TEST_P(EnginePrefixTest, SimultaneousTurnsComputeTheirSharedPrefixOnce) {
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
  EXPECT_EQ(SettledStats().tokens_shared, 7u * 500);
  EXPECT_EQ(engine_->stats().tokens_prefilled, 500u + 8 * 10);
}

// A timeline forked from the first one while that one's prompt is being computed.
class EngineForkTest : public EnginePrefixTest {
 protected:
  static SubmittedTurn Fork(TimelineId timeline, size_t shared, size_t own = 10) {
    SubmittedTurn turn = Begin(timeline, shared, own);
    turn.request.owner = Owner(timeline);
    turn.request.continues = true;
    turn.request.forked_from = 1;
    turn.request.forked_owner = Owner(1);
    return turn;
  }
  static SubmittedTurn Source(size_t shared, size_t own = 10) {
    SubmittedTurn turn = Begin(1, shared, own);
    turn.request.owner = Owner(1);
    return turn;
  }
  /// Runs the source, and submits the others during its n-th step.
  void SubmitAtStep(int n, const SubmittedTurn& source, const std::vector<SubmittedTurn>& others,
                    const std::function<void()>& act = nullptr) {
    network_.OnStep([&, n, act]() mutable {
      if (--n != 0) return;
      for (const SubmittedTurn& turn : others) EXPECT_TRUE(engine_->Submit(turn.request).ok());
      if (act) act();
    });
    ASSERT_TRUE(engine_->Submit(source.request).ok());
    source.sink->Wait();
  }
  /// Asserts that no cache was copied between slots and host memory.
  void ExpectNoCopies() {
    const EngineStats stats = SettledStats();
    EXPECT_EQ(stats.captures, 0u);
    EXPECT_EQ(stats.restores_host + stats.restores_disk, 0u);
  }
};
INSTANTIATE_TEST_SUITE_P(All, EngineForkTest, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "Ahead" : "InStep"; });

TEST_P(EngineForkTest, ForksWaitForTheirPromptsPrefill) {
  for (const int step : {1, 3, 7}) {
    StartLong(8, 64, /*with_tiers=*/true);
    const SubmittedTurn source = Source(500);
    std::vector<SubmittedTurn> forks;
    for (TimelineId timeline = 2; timeline <= 8; ++timeline) forks.push_back(Fork(timeline, 500));
    const int64_t before = network_.rows_computed();
    SubmitAtStep(step, source, forks);
    for (const SubmittedTurn& fork : forks) {
      const TurnEnd end = fork.sink->Wait();
      ExpectRightAnswer(fork, end);
      EXPECT_EQ(end.report.tokens_reused, 500) << "after step " << step;
      EXPECT_EQ(end.report.source, CacheSource::kSlot);
    }
    EXPECT_EQ(network_.rows_computed() - before, 500 + 8 * 14);
    ExpectNoCopies();
    engine_.reset();
  }
}

TEST_P(EngineForkTest, OneForkComputesForAllIfTheSourceIsCancelled) {
  StartLong(8, 64, /*with_tiers=*/true);
  const SubmittedTurn source = Source(500);
  std::vector<SubmittedTurn> forks;
  for (TimelineId timeline = 2; timeline <= 8; ++timeline) forks.push_back(Fork(timeline, 500));
  const int64_t before = network_.rows_computed();
  SubmitAtStep(3, source, forks, [&] { engine_->Cancel(source.request.turn); });
  for (const SubmittedTurn& fork : forks) ExpectRightAnswer(fork, fork.sink->Wait());
  EXPECT_LE(network_.rows_computed() - before, 500 + 64 + 8 * 14);
  ExpectNoCopies();
}

TEST_P(EngineForkTest, FailedSourceIsNotReused) {
  StartLong(8, 64, /*with_tiers=*/true);
  const SubmittedTurn source = Source(500), fork = Fork(2, 500);
  // The eighth step produces the source's first token.
  int step = 0;
  network_.OnStep([&] {
    ++step;
    if (step == 3) {
      EXPECT_TRUE(engine_->Submit(fork.request).ok());
    }
    network_.PoisonLogits(step == 8);
  });
  ASSERT_TRUE(engine_->Submit(source.request).ok());
  EXPECT_EQ(source.sink->Wait().reason, FinishReason::kError);
  const TurnEnd end = fork.sink->Wait();
  ExpectRightAnswer(fork, end);
  EXPECT_EQ(end.report.tokens_reused, 0);
}

TEST_P(EngineForkTest, CopiesAWrappedRing) {
  StartLong(4, 64, /*with_tiers=*/true);
  const SubmittedTurn source = Source(1500, 40);
  const TurnEnd first = RunRight(source);
  std::vector<TokenId> tokens = source.request.tokens;
  tokens.insert(tokens.end(), first.output.begin(), first.output.end());
  SubmittedTurn fork = Fork(2, 1500);
  fork.request.message_starts = {0, 1500, static_cast<int64_t>(tokens.size())};
  const std::vector<TokenId> rest = Tokens(20, 77);
  tokens.insert(tokens.end(), rest.begin(), rest.end());
  fork.request.tokens = tokens;
  const TurnEnd end = RunRight(fork);
  EXPECT_EQ(end.report.source, CacheSource::kSlot);
  EXPECT_EQ(end.report.tokens_computed, 21);
  ExpectNoCopies();
}

TEST_P(EngineForkTest, ForkOfAnEvictedSourceUsesTheTiers) {
  StartLong(1, 64, /*with_tiers=*/true);
  RunRight(Source(500));
  const TurnEnd end = RunRight(Fork(2, 500));  // the source is evicted for it
  EXPECT_EQ(end.report.tokens_reused, 500);
  EXPECT_EQ(end.report.source, CacheSource::kHost);
  const TurnEnd again = RunRight(Fork(3, 500));
  EXPECT_EQ(again.report.tokens_reused, 500);
}

TEST_P(EngineForkTest, ForkMadeBeforeItsTurnIsCopiedFromTheSlot) {
  StartLong(4, 64, /*with_tiers=*/true);
  RunRight(Source(500));
  engine_->Fork(1, 2, Owner(1), Owner(2));
  SubmittedTurn fork = Fork(2, 500);
  fork.request.forked_from = 0;
  const TurnEnd end = RunRight(fork);
  EXPECT_EQ(end.report.tokens_reused, 500);
  EXPECT_EQ(end.report.source, CacheSource::kSlot);
  EXPECT_EQ(SettledStats().restores_host, 0u);
}

TEST_P(EnginePrefixTest, TurnComputingASharedPrefixMayBeCancelled) {
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
