// The engine and the tiers: an evicted cache is restored, from the tier named in the report.
#include "tests/engine/tiers/engine_tiers.h"

#include <thread>

namespace ringside {
namespace {

INSTANTIATE_TEST_SUITE_P(All, EngineTiersTest, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "Ahead" : "InStep"; });

TEST_P(EngineTiersTest, RestoresAnEvictedCacheFromHostMemory) {
  StartInMemory({.slots = 1});
  Say(1);
  EXPECT_EQ(engine_->Where(Owner(1)), CacheSource::kSlot);
  Say(2);
  EXPECT_EQ(engine_->Where(Owner(1)), CacheSource::kHost);
  EXPECT_EQ(engine_->Where(Owner(3)), std::nullopt);
  const int64_t before = network_.rows_computed();
  const TurnEnd end = Resume(1);
  ExpectResumed(end, CacheSource::kHost);
  EXPECT_GT(end.report.restore_ms, 0);
  EXPECT_EQ(network_.rows_computed() - before, 2 + 5);  // the report's two, and all answer tokens but the last
  const EngineStats stats = SettledStats();
  EXPECT_EQ(stats.restores_host, 1u);
  EXPECT_EQ(stats.captures, 2u);
  EXPECT_GT(stats.captured_bytes, 0u);
  EXPECT_GT(stats.restored_bytes, 0u);
}

TEST_P(EngineTiersTest, RestoresFromDiskAndFromBothTiers) {
  StartInMemory({.slots = 1}, {.fetch_deadline_ms = kMinute});
  Say(1);
  engine_->Park(1);
  MoveToDisk();
  EXPECT_EQ(engine_->Where(Owner(1)), CacheSource::kDisk);
  ExpectResumed(Resume(1), CacheSource::kDisk);
  EXPECT_EQ(SettledStats().restores_disk, 1u);
}

TEST_P(EngineTiersTest, WarmUpRestoresTheCache) {
  StartInMemory({.slots = 1}, {.fetch_deadline_ms = kMinute});
  Say(1);
  engine_->Park(1);
  MoveToDisk();
  std::vector<TokenId> tokens = Tokens(30, 1);
  tokens.push_back(HashNetwork::Expected(tokens, {}, kWindow));
  const TurnEnd warm = Run(Turn(1, 1, tokens, 0));
  EXPECT_EQ(warm.reason, FinishReason::kStop);
  EXPECT_EQ(warm.report.source, CacheSource::kDisk);
  EXPECT_EQ(warm.report.tokens_reused, 30);
  EXPECT_EQ(warm.report.tokens_computed, 1);
  const TurnEnd end = Resume(1);
  EXPECT_EQ(end.report.source, CacheSource::kSlot);
  EXPECT_EQ(end.report.tokens_computed, 1);
}

TEST_P(EngineTiersTest, PrefetchLoadsIntoHostMemory) {
  StartInMemory({.slots = 1});
  Say(1);
  engine_->Park(1);
  MoveToDisk();
  engine_->Prefetch(Owner(1));
  while (engine_->Where(Owner(1)) != CacheSource::kHost) std::this_thread::yield();
  ExpectResumed(Resume(1), CacheSource::kHost);
}

TEST_P(EngineTiersTest, SavesAndFreesIdleCachesOnly) {
  StartInMemory({.slots = 2}, {.idle_ms = 1000}, 1 << 20, clock_);
  Say(1);
  SubmittedTurn busy = Turn(1, 2, Tokens(10, 2), -1);
  ASSERT_TRUE(engine_->Submit(busy.request).ok());
  busy.sink->WaitForTokens(3);
  EXPECT_EQ(engine_->Where(Owner(1)), CacheSource::kSlot);
  clock_.AdvanceMs(999);
  const size_t told = busy.sink->ids().size();
  busy.sink->WaitForTokens(told + 5);  // steps during which nothing was idle long enough
  EXPECT_EQ(engine_->Where(Owner(1)), CacheSource::kSlot);
  clock_.AdvanceMs(1);
  while (engine_->Where(Owner(1)) != CacheSource::kHost) std::this_thread::yield();
  EXPECT_EQ(engine_->Where(Owner(2)), CacheSource::kSlot);
  engine_->Cancel(1);
  ExpectRight(Tokens(10, 2), busy.sink->Wait());
  EXPECT_EQ(SettledStats().slots_taken, 0u);
  ExpectResumed(Resume(1), CacheSource::kHost);
}

// The engine's thread sleeps without work; idle timeouts must wake it.
TEST_P(EngineTiersTest, IdleEngineSavesIdleCaches) {
  StartInMemory({.slots = 2}, {.idle_ms = 20});
  Say(1);
  while (engine_->Where(Owner(1)) != CacheSource::kHost) std::this_thread::yield();
  while (engine_->stats().slots_used != 0) std::this_thread::yield();
  ExpectResumed(Resume(1), CacheSource::kHost);
}

TEST_P(EngineTiersTest, ParkSavesAndForgets) {
  StartInMemory({.slots = 2});
  Say(1);
  engine_->Park(1);
  engine_->Park(77);  // unknown: no effect
  ExpectResumed(Resume(1), CacheSource::kHost);
  // The same conversation under another number.
  engine_->Park(1);
  std::vector<TokenId> tokens = Tokens(30, 1);
  SubmittedTurn turn = Turn(9, 50, tokens, 2);
  turn.request.owner = Owner(1);
  const TurnEnd end = Run(turn);
  EXPECT_EQ(end.report.source, CacheSource::kHost);
  EXPECT_EQ(end.report.tokens_reused, 29);
  ExpectRight(tokens, end);
}

TEST_P(EngineTiersTest, ParkDuringAnAnswerSavesAfterwards) {
  StartInMemory({.slots = 1});
  SubmittedTurn turn = Turn(1, 1, Tokens(10, 2), -1);
  ASSERT_TRUE(engine_->Submit(turn.request).ok());
  turn.sink->WaitForTokens(3);
  engine_->Park(1);
  Settle();
  turn.sink->WaitForTokens(turn.sink->ids().size() + 3);
  EXPECT_EQ(engine_->Where(Owner(1)), CacheSource::kSlot);
  engine_->Cancel(1);
  const TurnEnd end = turn.sink->Wait();
  Settle();
  EXPECT_EQ(engine_->Where(Owner(1)), CacheSource::kHost);
  std::vector<TokenId> tokens = Tokens(10, 2);
  tokens.insert(tokens.end(), end.output.begin(), end.output.end());
  const TurnEnd next = Run(Turn(2, 1, tokens, 4));
  EXPECT_EQ(next.report.source, CacheSource::kHost);
  EXPECT_EQ(next.report.tokens_computed, 1);
  ExpectRight(tokens, next);
}

TEST_P(EngineTiersTest, UnownedCacheIsNeverSaved) {
  StartInMemory({.slots = 1}, {.idle_ms = 0});
  const auto say = [&](TurnId id, TimelineId timeline, uint64_t seed) {
    SubmittedTurn turn = Turn(id, timeline, Tokens(30, 1), seed);
    turn.request.owner.clear();
    return Run(turn);
  };
  say(1, 1, 1);
  Settle();
  EXPECT_EQ(SettledStats().slots_used, 1) << "idle or not, it has nowhere to go";
  say(2, 2, 2);  // takes the only slot
  EXPECT_EQ(say(3, 1, 6).report.source, CacheSource::kRecomputed);
  EXPECT_EQ(tiers_->stats().stored, 0u);
}

TEST_P(EngineTiersTest, CapturesAreIncremental) {
  StartInMemory({.slots = 1});
  std::vector<TokenId> tokens = Tokens(24, 1);
  Run(Turn(1, 1, tokens, 0));
  engine_->Park(1);
  SettleTiers();
  const uint64_t whole = engine_->stats().captured_bytes;
  Run(Turn(2, 1, tokens, 0));  // no new tokens at all
  engine_->Park(1);
  SettleTiers();
  EXPECT_EQ(SettledStats().captured_bytes, whole);
  EXPECT_EQ(SettledStats().captures, 1u);
  const uint64_t stored = tiers_->stats().stored;
  tokens.push_back(7);
  Run(Turn(3, 1, tokens, 0));
  engine_->Park(1);
  SettleTiers();
  EXPECT_EQ(tiers_->stats().stored, stored + 1);
  // The pinned chunk is unchanged.
  EXPECT_LT(SettledStats().captured_bytes - whole, whole);
}

TEST_P(EngineTiersTest, EraseRemovesEveryCopy) {
  StartInMemory({.slots = 4}, {.fetch_deadline_ms = kMinute});
  for (TimelineId timeline = 1; timeline <= 4; ++timeline) Say(timeline);
  engine_->Park(2);
  engine_->Park(3);
  MoveToDisk();
  engine_->Prefetch(Owner(2));
  SubmittedTurn running = Turn(1, 5, Tokens(10, 2), -1);
  ASSERT_TRUE(engine_->Submit(running.request).ok());
  running.sink->WaitForTokens(2);
  engine_->Park(5);  // takes effect after the erasure below, which must win
  for (TimelineId timeline = 1; timeline <= 5; ++timeline) {
    const Status erased = WaitFor([&](auto done) { engine_->Erase(timeline, Owner(timeline), done); });
    EXPECT_TRUE(erased.ok()) << erased.ToString();
    EXPECT_EQ(engine_->Where(Owner(timeline)), std::nullopt) << timeline;
  }
  EXPECT_EQ(running.sink->Wait().reason, FinishReason::kCancelled);
  const TieredStoreStats stats = tiers_->stats();
  EXPECT_EQ(stats.host_objects + stats.disk_objects, 0);
  EXPECT_EQ(Resume(2).report.source, CacheSource::kNew);
}

TEST_P(EngineTiersTest, EraseFindsTheOwnerUnderAnyTimeline) {
  StartInMemory({.slots = 2});
  Say(1);
  const Status erased = WaitFor([&](auto done) { engine_->Erase(0, Owner(1), done); });
  EXPECT_TRUE(erased.ok());
  EXPECT_EQ(SettledStats().slots_used, 0);
  EXPECT_EQ(engine_->Where(Owner(1)), std::nullopt);
}

TEST_P(EngineTiersTest, ErasedTimelineCanStartAgain) {
  StartInMemory({.slots = 1});
  Say(1);
  engine_->Erase(1, Owner(1), nullptr);
  Say(1);
  engine_->Park(1);
  ExpectResumed(Resume(1), CacheSource::kHost);
}

TEST_P(EngineTiersTest, ForkRecomputesNothing) {
  StartInMemory({.slots = 2}, {.fetch_deadline_ms = kMinute});
  Say(1);
  engine_->Fork(1, 2, Owner(1), Owner(2));
  ExpectResumed(Resume(2), CacheSource::kHost);
  ExpectResumed(Resume(1), CacheSource::kSlot);
  // From memory, and from disk.
  engine_->Park(1);
  engine_->Fork(1, 3, Owner(1), Owner(3));
  ExpectResumed(Resume(3), CacheSource::kHost, 31);  // the first has answered in the meantime
  for (const TimelineId timeline : {2, 3}) engine_->Close(timeline);
  MoveToDisk();
  engine_->Fork(0, 4, Owner(1), Owner(4));
  ExpectResumed(Resume(4), CacheSource::kHost, 31);
  // A timeline without a name can be forked out of its slot.
  SubmittedTurn nameless = Turn(1, 8, Tokens(30, 1), 1);
  nameless.request.owner.clear();
  Run(nameless);
  engine_->Fork(8, 9, "", Owner(9));
  ExpectResumed(Resume(9), CacheSource::kHost);
}

TEST_P(EngineTiersTest, ForkOfARunningTurnReusesItsCache) {
  StartInMemory({.slots = 2});
  std::promise<void> begun, asked;
  int steps = 0;
  network_.OnStep([&, wait = asked.get_future().share()] {
    if (++steps != 5) return;
    begun.set_value();
    wait.wait();
  });
  SubmittedTurn running = Turn(1, 1, Tokens(30, 1), 100);
  ASSERT_TRUE(engine_->Submit(running.request).ok());
  begun.get_future().wait();  // in the step that computes the fifth token
  engine_->Fork(1, 2, Owner(1), Owner(2));
  asked.set_value();
  const TurnEnd end = running.sink->Wait();
  ExpectRight(Tokens(30, 1), end);
  // The fork was made when the fifth token was sampled but not computed.
  std::vector<TokenId> tokens = Tokens(30, 1);
  tokens.insert(tokens.end(), end.output.begin(), end.output.begin() + 5);
  const TurnEnd fork = Run(Turn(2, 2, tokens, 3));
  EXPECT_EQ(fork.report.source, CacheSource::kHost);
  EXPECT_EQ(fork.report.tokens_reused, 34);
  EXPECT_EQ(fork.report.tokens_computed, 1);
  ExpectRight(tokens, fork);
}

TEST_P(EngineTiersTest, ErasedForkStaysErased) {
  StartInMemory({.slots = 1});
  Say(1);
  for (TimelineId fork = 100; fork < 150; ++fork) {
    engine_->Fork(1, fork, Owner(1), Owner(fork));
    const Status erased = WaitFor([&](auto done) { engine_->Erase(fork, Owner(fork), done); });
    ASSERT_TRUE(erased.ok());
  }
  ASSERT_TRUE(WaitFor([&](auto done) { engine_->SaveAll(done); }).ok());
  for (TimelineId fork = 100; fork < 150; ++fork) ASSERT_EQ(engine_->Where(Owner(fork)), std::nullopt) << fork;
}

TEST_P(EngineTiersTest, SaveAllWritesEverythingToDisk) {
  StartInMemory({.slots = 4}, {.fetch_deadline_ms = kMinute});
  Say(1);
  Say(2);
  engine_->Park(2);
  SubmittedTurn running = Turn(1, 3, Tokens(10, 2), -1);
  ASSERT_TRUE(engine_->Submit(running.request).ok());
  running.sink->WaitForTokens(2);
  ASSERT_TRUE(WaitFor([&](auto done) { engine_->SaveAll(done); }).ok());
  EXPECT_EQ(tiers_->stats().disk_objects, 3);
  engine_->Cancel(1);
  ExpectRight(Tokens(10, 2), running.sink->Wait());
}

TEST_P(EngineTiersTest, SaveAllWritesMoreThanHostMemoryHolds) {
  StartInMemory({.slots = 8}, {}, /*host_bytes=*/8 << 10, SystemClock::Instance(), {.least_waiting_bytes = 0});
  for (TimelineId timeline = 1; timeline <= 8; ++timeline) Say(timeline);
  ASSERT_TRUE(WaitFor([&](auto done) { engine_->SaveAll(done); }).ok());
  EXPECT_EQ(tiers_->stats().disk_objects, 8);
  EXPECT_EQ(tiers_->stats().dropped, 0u);
}

}  // namespace
}  // namespace ringside
