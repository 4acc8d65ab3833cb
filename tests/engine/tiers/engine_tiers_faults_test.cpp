// Faults in engine and tiers: a cache that cannot be restored is recomputed, and other turns are not delayed.
#include <future>

#include "tests/engine/tiers/engine_tiers.h"

namespace ringside {
namespace {

TEST_P(EngineTiersTest, RecomputesADamagedCache) {
  StartInMemory({.slots = 1}, {.fetch_deadline_ms = kMinute});
  Say(1);
  engine_->Park(1);
  MoveToDisk();
  gate_->Damage();
  ExpectRecomputed(Resume(1));
  EXPECT_EQ(SettledStats().fetches_failed, 1u);
  EXPECT_EQ(tiers_->stats().damaged, 1u);
}

TEST_P(EngineTiersTest, RecomputesACacheOfAnotherModel) {
  TierFolder folder;
  const auto start = [&](uint8_t model) {
    EngineStorage storage{.tiers = &folder.Open(1 << 20, 1 << 20), .fetch_deadline_ms = kMinute};
    storage.fingerprint.fill(model);
    Start({.slots = 1}, storage);
  };
  start(1);
  Say(1);
  ASSERT_TRUE(WaitFor([&](auto done) { engine_->SaveAll(done); }).ok());
  engine_.reset();
  start(2);
  ExpectRecomputed(Resume(1));
  EXPECT_EQ(SettledStats().fetches_failed, 1u);
  // Caches saved now belong to this model.
  engine_->Park(1);
  EXPECT_EQ(Run(Turn(9, 1, Tokens(30, 1), 6)).report.source, CacheSource::kHost);
}

TEST_P(EngineTiersTest, RecomputesACacheOfAnotherWindow) {
  StartInMemory({.slots = 1});
  Say(1);
  engine_->Park(1);
  std::vector<TokenId> tokens = Tokens(32, 1);
  SubmittedTurn turn = Turn(1, 1, tokens, 3);
  turn.request.window.memory_len = 20;
  const TurnEnd end = Run(turn);
  EXPECT_EQ(end.report.source, CacheSource::kRecomputed);
  EXPECT_EQ(end.report.tokens_reused, 0);
  for (const TokenId id : end.output) {
    ASSERT_EQ(id, HashNetwork::Expected(tokens, {}, turn.request.window));
    tokens.push_back(id);
  }
}

TEST_P(EngineTiersTest, DivergedTranscriptReusesItsPrefix) {
  StartInMemory({.slots = 1});
  Say(1, 20);
  engine_->Park(1);
  std::vector<TokenId> tokens = Tokens(20, 1);
  tokens[15] = (tokens[15] + 1) % HashNetwork::kVocab;
  const TurnEnd end = Run(Turn(1, 1, tokens, 5));
  EXPECT_EQ(end.report.source, CacheSource::kHost);
  EXPECT_EQ(end.report.tokens_reused, 15);
  EXPECT_EQ(end.report.tokens_computed, 5);
  ExpectRight(tokens, end);
}

TEST_P(EngineTiersTest, LostFromTheTiersIsReportedAsRecomputed) {
  StartInMemory({.slots = 1});
  SubmittedTurn turn = Turn(1, 1, Tokens(32, 1), 6);
  turn.request.continues = true;
  ExpectRecomputed(Run(turn));
  EXPECT_EQ(Run(Turn(2, 2, Tokens(32, 1), 6)).report.source, CacheSource::kNew);
}

TEST_P(EngineTiersTest, HangingStorageCostsOnlyTheDeadline) {
  StartInMemory({.slots = 3}, {.fetch_deadline_ms = 500}, 1 << 20, clock_);
  Say(1);
  engine_->Park(1);
  MoveToDisk();
  gate_->Shut();
  std::vector<TokenId> tokens = Tokens(30, 1);
  tokens.push_back(HashNetwork::Expected(tokens, {}, kWindow));
  tokens.push_back(5);
  SubmittedTurn waits = Turn(1, 1, tokens, 6);
  ASSERT_TRUE(engine_->Submit(waits.request).ok());
  gate_->WaitForVisitors(1);
  // Others continue: whole turns start and end while the storage thread is blocked.
  ExpectRight(Tokens(30, 1), Say(2));
  clock_.AdvanceMs(499);
  ExpectRight(Tokens(30, 1), Say(3));
  EXPECT_EQ(SettledStats().turns_waiting, 1);
  EXPECT_EQ(SettledStats().fetches_late, 0u);
  clock_.AdvanceMs(1);
  engine_->Cancel(12345);  // wakes the engine, whose clock is stopped
  const TurnEnd end = waits.sink->Wait();
  ExpectRecomputed(end);
  ExpectRight(tokens, end);
  EXPECT_EQ(SettledStats().fetches_late, 1u);
  gate_->Open();  // the result arrives after it was abandoned
  Settle();
  EXPECT_EQ(SettledStats().restores_disk, 0u);
  tokens.insert(tokens.end(), end.output.begin(), end.output.end());
  EXPECT_EQ(Run(Turn(2, 1, tokens, 6)).report.source, CacheSource::kSlot);
}

// With one slot there is one fetch at a time.
TEST_P(EngineTiersTest, HangingFetchDelaysNoEarlierTurn) {
  for (const bool forks : {false, true}) {
    StartInMemory({.slots = 1});
    Say(1, 60);
    engine_->Park(1);
    MoveToDisk();
    Say(2);
    engine_->Park(2);
    SettleTiers();
    gate_->Shut();
    std::vector<TokenId> tokens = Tokens(60, 1);
    tokens.push_back(HashNetwork::Expected(tokens, {}, kWindow));
    tokens.push_back(5);
    SubmittedTurn waits = Turn(1, forks ? 4 : 1, tokens, 6);
    if (forks) {
      waits.request.tenant = Turn(1, 1, tokens, 6).request.tenant;
      waits.request.forked_from = 1;
      waits.request.forked_owner = Owner(1);
    }
    ASSERT_TRUE(engine_->Submit(waits.request).ok());
    gate_->WaitForVisitors(1);
    ExpectRight(Tokens(30, 1), Say(3));  // nothing is stored
    // The waiting turn's tenant has been served more, so this one is first in the queue.
    ExpectResumed(Resume(2), CacheSource::kHost);
    EXPECT_EQ(SettledStats().turns_waiting, 1);
    gate_->Open();
    const TurnEnd end = waits.sink->Wait();
    EXPECT_EQ(end.report.tokens_reused, 60);
    ExpectRight(tokens, end);
  }
}

TEST_P(EngineTiersTest, FetchOfAnErasedTimelineIsHarmless) {
  StartInMemory({.slots = 4}, {.fetch_deadline_ms = kMinute});
  for (TimelineId timeline = 1; timeline <= 4; ++timeline) Say(timeline);
  for (TimelineId timeline = 1; timeline <= 4; ++timeline) engine_->Park(timeline);
  MoveToDisk();
  gate_->Shut();
  std::vector<SubmittedTurn> turns;
  for (TimelineId timeline = 1; timeline <= 4; ++timeline) {
    turns.push_back(Turn(timeline, timeline, Tokens(30, 1), 4));
    ASSERT_TRUE(engine_->Submit(turns.back().request).ok());
  }
  gate_->WaitForVisitors(1);
  engine_->Close(1);
  engine_->Cancel(2);
  Status erased = Unavailable("not told yet");
  std::promise<void> told;
  engine_->Erase(3, Owner(3), [&](const Status& status) {
    erased = status;
    told.set_value();
  });
  for (const size_t i : {0, 1, 2}) EXPECT_EQ(turns[i].sink->Wait().reason, FinishReason::kCancelled);
  gate_->Open();
  told.get_future().wait();
  EXPECT_TRUE(erased.ok()) << erased.ToString();
  // The fourth was unaffected; the others may be restored or recomputed.
  const TurnEnd fourth = turns[3].sink->Wait();
  EXPECT_EQ(fourth.report.source, CacheSource::kDisk);
  ExpectRight(Tokens(30, 1), fourth);
  ExpectResumed(Resume(1), engine_->Where(Owner(1)).value());
  ExpectResumed(Resume(2), engine_->Where(Owner(2)).value());
  EXPECT_EQ(Resume(3).report.source, CacheSource::kNew);
}

// Caches read for waiting turns occupy host memory: at most as many as there are slots.
TEST_P(EngineTiersTest, ManyWaitingTurnsAllGetTheirCaches) {
  StartInMemory({.slots = 2}, {.fetch_deadline_ms = kMinute});
  std::vector<SubmittedTurn> turns;
  for (TimelineId timeline = 1; timeline <= 12; ++timeline) Say(timeline);
  for (TimelineId timeline = 1; timeline <= 12; ++timeline) engine_->Park(timeline);
  MoveToDisk();
  gate_->Shut();
  for (TimelineId timeline = 1; timeline <= 12; ++timeline) {
    turns.push_back(Turn(timeline, timeline, Tokens(30, 1), 4));
    ASSERT_TRUE(engine_->Submit(turns.back().request).ok());
  }
  gate_->WaitForVisitors(1);
  gate_->Open();
  for (auto& turn : turns) {
    const TurnEnd end = turn.sink->Wait();
    EXPECT_TRUE(end.report.source == CacheSource::kHost || end.report.source == CacheSource::kDisk);
    EXPECT_EQ(end.report.tokens_reused, 29);
    ExpectRight(Tokens(30, 1), end);
  }
  // Each new turn preempts at most one other turn, which is then restored once more.
  const EngineStats stats = SettledStats();
  EXPECT_GE(stats.restores_host + stats.restores_disk, 12u);
  EXPECT_LE(stats.restores_host + stats.restores_disk, 24u);
}

TEST_P(EngineTiersTest, EngineMayStopDuringFetches) {
  StartInMemory({.slots = 1}, {.fetch_deadline_ms = kMinute});
  Say(1);
  engine_->Park(1);
  MoveToDisk();
  gate_->Shut();
  SubmittedTurn turn = Turn(1, 1, Tokens(30, 1), 4);
  ASSERT_TRUE(engine_->Submit(turn.request).ok());
  gate_->WaitForVisitors(1);
  engine_.reset();
  EXPECT_EQ(turn.sink->Wait().reason, FinishReason::kCancelled);
  gate_->Open();
}

TEST_P(EngineTiersTest, RefusesASecondTurnDuringAFetch) {
  StartInMemory({.slots = 2}, {.fetch_deadline_ms = kMinute});
  Say(1);
  engine_->Park(1);
  MoveToDisk();
  gate_->Shut();
  SubmittedTurn first = Turn(1, 1, Tokens(30, 1), 4), second = Turn(2, 1, Tokens(30, 1), 4);
  ASSERT_TRUE(engine_->Submit(first.request).ok());
  ASSERT_TRUE(engine_->Submit(second.request).ok());
  gate_->WaitForVisitors(1);
  gate_->Open();
  EXPECT_EQ(first.sink->Wait().reason, FinishReason::kLength);
  const TurnEnd end = second.sink->Wait();
  EXPECT_EQ(end.reason, FinishReason::kError);
  EXPECT_EQ(end.error.code(), StatusCode::kBusy);
}

// Stuck storage blocks no turn: caches are captured under pressure, offered, refused, and turns continue.
TEST_P(EngineTiersTest, EvictionNeverWaitsForStorage) {
  StartInMemory({.slots = 2}, {}, /*host_bytes=*/8 << 10, SystemClock::Instance(), {.queue = 4});
  Say(1);
  engine_->Park(1);
  MoveToDisk();
  gate_->Shut();
  engine_->Prefetch(Owner(1));  // the answering thread is now blocked at the gate
  gate_->WaitForVisitors(1);
  for (TimelineId timeline = 10; timeline < 60; ++timeline) ExpectRight(Tokens(30, 1), Say(timeline));
  const EngineStats stats = SettledStats();
  EXPECT_EQ(stats.slots_taken, 48u);
  EXPECT_EQ(stats.captures, 49u);       // plus the parked one
  EXPECT_EQ(stats.saves_refused, 44u);  // four are queued
  ExpectRecomputed(Resume(40));
  gate_->Open();
}

TEST_P(EngineTiersTest, FailedTurnsCacheIsNotKept) {
  StartInMemory({.slots = 2});
  Say(1);
  engine_->Park(1);
  network_.PoisonLogits(true);
  std::vector<TokenId> tokens = Tokens(30, 1);
  const TurnEnd end = Run(Turn(1, 1, tokens, 4));
  EXPECT_EQ(end.report.source, CacheSource::kHost);
  EXPECT_EQ(end.reason, FinishReason::kError);
  network_.PoisonLogits(false);
  ASSERT_TRUE(WaitFor([&](auto done) { engine_->SaveAll(done); }).ok());
  EXPECT_EQ(engine_->Where(Owner(1)), std::nullopt);
  ExpectRecomputed(Resume(1));
}

TEST_P(EngineTiersTest, ChoosesTheFasterOfRestoreAndRecompute) {
  StartInMemory({.slots = 1}, {.fetch_deadline_ms = kMeasured}, 1 << 20, clock_);
  // A step takes a second of the clock: computing is slow, so stored caches are always loaded.
  network_.OnStep([&] { clock_.AdvanceMs(1000); });
  Say(1);
  EXPECT_GT(SettledStats().prefill_tokens_per_second, 0);
  engine_->Park(1);
  MoveToDisk();
  ExpectResumed(Resume(1), CacheSource::kDisk);  // and measures the disk's speed
  engine_->Park(1);
  MoveToDisk();
  // Now a step takes a nanosecond, faster than any disk.
  network_.OnStep([&] { clock_.AdvanceNs(1); });
  for (TimelineId timeline = 100; timeline < 200; ++timeline) Say(timeline);
  const uint64_t before = SettledStats().recomputed_instead;
  const TurnEnd end = Run(Turn(1, 1, Tokens(32, 1), 6));
  EXPECT_EQ(end.report.source, CacheSource::kRecomputed);
  EXPECT_EQ(SettledStats().recomputed_instead, before + 1);
}

TEST_P(EngineTiersTest, LimitsOwnerNames) {
  StartInMemory({.slots = 1});
  SubmittedTurn turn = Turn(1, 1, Tokens(5, 1), 1);
  turn.request.owner = std::string(129, 'x');
  EXPECT_EQ(engine_->Submit(turn.request).code(), StatusCode::kInvalidArgument);
  engine_->Prefetch("");
  engine_->Fork(1, 2, Owner(1), std::string(129, 'x'));
  EXPECT_TRUE(WaitFor([&](auto done) { engine_->Erase(0, "", done); }).ok());
}

TEST_P(EngineTiersTest, EveryCallWorksWithoutTiers) {
  Start({.slots = 1}, {});
  Say(1);
  engine_->Fork(1, 2, Owner(1), Owner(2));
  engine_->Prefetch(Owner(1));
  EXPECT_TRUE(WaitFor([&](auto done) { engine_->SaveAll(done); }).ok());
  EXPECT_EQ(engine_->Where(Owner(1)), CacheSource::kSlot);
  EXPECT_EQ(Resume(2).report.source, CacheSource::kNew);
  ExpectRecomputed(Resume(1));
  engine_->Park(1);
  EXPECT_TRUE(WaitFor([&](auto done) { engine_->Erase(2, Owner(2), done); }).ok());
  EXPECT_EQ(SettledStats().slots_used, 0);
}

}  // namespace
}  // namespace ringside
