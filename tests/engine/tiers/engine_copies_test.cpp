// The engine while caches are in flight between slots and host memory: other turns continue, no slab is reused too
// early, unwanted caches are not stored.
#include <thread>

#include "tests/engine/lagging_backend.h"
#include "tests/engine/tiers/engine_tiers.h"

namespace ringside {
namespace {

class EngineCopiesTest : public EngineTiersTest {
 protected:
  void StartLagging(EngineOptions options, EngineStorage storage = {}, int64_t host_bytes = 1 << 20) {
    tiers_ = std::make_unique<TieredStore>(std::make_unique<RamStore>(host_bytes), nullptr,
                                           TieredStoreOptions{.host_idle_ms = 0, .sweep_ms = 0});
    storage.tiers = tiers_.get();
    storage.fetch_deadline_ms = kMinute;
    options.memory_len = kWindow.memory_len;
    options.pinned_max = 8;
    options.kv_dtype = DType::kF32;
    auto started = Engine::Start(lagging_network_, tokenizer_, options, storage);
    ASSERT_TRUE(started.ok()) << started.status().ToString();
    engine_ = std::move(*started);
  }
  /// An endless decoding turn.
  SubmittedTurn Talk(TimelineId timeline) {
    SubmittedTurn turn = Turn(5000 + timeline, timeline, Tokens(10, 2), -1);
    EXPECT_TRUE(engine_->Submit(turn.request).ok());
    turn.sink->WaitForTokens(3);
    return turn;
  }
  void ExpectGoesOn(const SubmittedTurn& turn) {
    const size_t said = turn.sink->ids().size();
    turn.sink->WaitForTokens(said + 20);
    EXPECT_GE(turn.sink->ids().size(), said + 20);
  }
  void TearDown() override { engine_.reset(); }  // before the backend

  LaggingBackend lagging_{std::move(*MakeCpuBackend({.threads = 1}))};
  HashNetwork hashes_{lagging_, GetParam()};
  LaggingNetwork lagging_network_{lagging_, hashes_};
};
INSTANTIATE_TEST_SUITE_P(All, EngineCopiesTest, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "Ahead" : "InStep"; });

TEST_P(EngineCopiesTest, CopyOutDelaysOnlyTheWaitingTurn) {
  StartLagging({.slots = 2});
  SubmittedTurn talking = Talk(1);
  Say(2);
  lagging_.Hold(true);
  SubmittedTurn third = Turn(3, 3, Tokens(30, 3), 4);
  ASSERT_TRUE(engine_->Submit(third.request).ok());
  third.sink->WaitForPosition(1);
  ExpectGoesOn(talking);
  EXPECT_EQ(third.sink->ids().size(), 0u);
  EXPECT_EQ(engine_->Where(Owner(2)), CacheSource::kSlot) << "until it is somewhere else";
  EXPECT_EQ(lagging_.copies(), 1) << "one slot is enough for one turn";
  lagging_.Hold(false);
  ExpectRight(Tokens(30, 3), third.sink->Wait());
  EXPECT_EQ(lagging_.waits(), 0) << "the engine's thread waited for a copy";
  engine_->Cancel(talking.request.turn);
  ExpectRight(Tokens(10, 2), talking.sink->Wait());
  ExpectResumed(Resume(2), CacheSource::kHost);
}

TEST_P(EngineCopiesTest, NewTurnDuringTheCopyKeepsItsSlot) {
  StartLagging({.slots = 2});
  SubmittedTurn talking = Talk(1);
  Say(2);
  lagging_.Hold(true);
  SubmittedTurn third = Turn(3, 3, Tokens(30, 3), 4);
  ASSERT_TRUE(engine_->Submit(third.request).ok());
  third.sink->WaitForPosition(1);
  ExpectResumed(Resume(2), CacheSource::kSlot);  // its step used the slab: the copy is complete by then
  engine_->Cancel(talking.request.turn);
  ExpectRight(Tokens(10, 2), talking.sink->Wait());
  lagging_.Hold(false);
  ExpectRight(Tokens(30, 3), third.sink->Wait());
}

TEST_P(EngineCopiesTest, TurnUnderAnotherIdWaitsForItsOwnersCopy) {
  StartLagging({.slots = 2});
  Say(2);
  lagging_.Hold(true);
  engine_->Park(2);
  std::vector<TokenId> tokens = Tokens(30, 1);
  SubmittedTurn turn = Turn(9, 50, tokens, 2);
  turn.request.owner = Owner(2);
  ASSERT_TRUE(engine_->Submit(turn.request).ok());
  Settle();
  EXPECT_EQ(turn.sink->ids().size(), 0u);
  lagging_.Hold(false);
  const TurnEnd end = turn.sink->Wait();
  EXPECT_EQ(end.report.source, CacheSource::kHost);
  EXPECT_EQ(end.report.tokens_reused, 29);
  ExpectRight(tokens, end);
}

TEST_P(EngineCopiesTest, CacheErasedDuringTheCopyIsNotStored) {
  StartLagging({.slots = 2});
  Say(2);
  lagging_.Hold(true);
  engine_->Park(2);
  Settle();
  EXPECT_EQ(engine_->Where(Owner(2)), CacheSource::kSlot);
  ASSERT_TRUE(WaitFor([&](auto done) { engine_->Erase(2, Owner(2), done); }).ok());
  Say(4);  // the slab is reused: the copy from it completes first
  lagging_.Hold(false);
  SettleTiers();
  EXPECT_EQ(engine_->Where(Owner(2)), std::nullopt);
  EXPECT_EQ(tiers_->stats().host_objects, 0);
  ExpectResumed(Resume(4), CacheSource::kSlot);
}

TEST_P(EngineCopiesTest, ConcurrentTurnStartsWhenItsCacheIsComplete) {
  StartLagging({.slots = 2});
  Say(2);
  engine_->Park(2);
  while (engine_->Where(Owner(2)) != CacheSource::kHost) std::this_thread::yield();
  SubmittedTurn talking = Talk(1);
  lagging_.Hold(true);
  std::vector<TokenId> tokens = Tokens(30, 1);
  tokens.push_back(HashNetwork::Expected(tokens, {}, kWindow));
  tokens.push_back(5);
  SubmittedTurn back = Turn(7, 2, tokens, 6);
  ASSERT_TRUE(engine_->Submit(back.request).ok());
  while (back.sink->start().source != CacheSource::kHost) std::this_thread::yield();  // admitted
  ExpectGoesOn(talking);
  EXPECT_EQ(back.sink->ids().size(), 0u) << "but in no step yet";
  lagging_.Hold(false);
  const TurnEnd end = back.sink->Wait();
  ExpectRight(tokens, end);
  EXPECT_GT(end.report.restore_ms, back.sink->start().restore_ms);
  EXPECT_EQ(lagging_.waits(), 0);
  engine_->Cancel(talking.request.turn);
  talking.sink->Wait();
}

TEST_P(EngineCopiesTest, CopyInDelaysOnlyItsTurn) {
  StartLagging({.slots = 2});
  SubmittedTurn talking = Talk(1);
  lagging_.HoldMemory(true);
  SubmittedTurn other = Turn(3, 3, Tokens(30, 3), 4);
  ASSERT_TRUE(engine_->Submit(other.request).ok());
  other.sink->WaitForPosition(1);
  ExpectGoesOn(talking);
  EXPECT_EQ(other.sink->ids().size(), 0u);
  lagging_.HoldMemory(false);
  ExpectRight(Tokens(30, 3), other.sink->Wait());
  engine_->Cancel(talking.request.turn);
  talking.sink->Wait();
}

TEST_P(EngineCopiesTest, AdoptsAnothersCacheOnceItsMemoryArrives) {
  StartLagging({.slots = 3});
  Say(2, 20);
  SubmittedTurn talking = Talk(1);
  lagging_.HoldMemory(true);
  std::vector<TokenId> tokens = Tokens(20, 1);
  tokens.push_back(7);
  SubmittedTurn other = Turn(3, 3, tokens, 4);
  other.request.tenant = Owner(2);
  ASSERT_TRUE(engine_->Submit(other.request).ok());
  other.sink->WaitForPosition(1);
  ExpectGoesOn(talking);
  lagging_.HoldMemory(false);
  const TurnEnd end = other.sink->Wait();
  ExpectRight(tokens, end);
  EXPECT_EQ(end.report.tokens_reused, 20);
  engine_->Cancel(talking.request.turn);
  talking.sink->Wait();
}

TEST_P(EngineCopiesTest, RestoresOnceMemoryArrivesEvenForALaterTurn) {
  StartLagging({.slots = 2});
  Say(2);
  engine_->Park(2);
  while (engine_->Where(Owner(2)) != CacheSource::kHost) std::this_thread::yield();
  SubmittedTurn talking = Talk(1);
  lagging_.HoldMemory(true);
  std::vector<TokenId> tokens = Tokens(30, 1);
  tokens.push_back(5);
  SubmittedTurn back = Turn(7, 2, tokens, 6);
  ASSERT_TRUE(engine_->Submit(back.request).ok());
  back.sink->WaitForPosition(1);
  ExpectGoesOn(talking);
  engine_->Cancel(back.request.turn);
  EXPECT_EQ(back.sink->Wait().reason, FinishReason::kCancelled);
  lagging_.HoldMemory(false);
  ExpectResumed(Resume(2), CacheSource::kHost);
  engine_->Cancel(talking.request.turn);
  talking.sink->Wait();
}

TEST_P(EngineCopiesTest, LoneTurnStartsImmediately) {
  StartLagging({.slots = 2});
  Say(2);
  engine_->Park(2);
  while (engine_->Where(Owner(2)) != CacheSource::kHost) std::this_thread::yield();
  lagging_.Hold(true);
  ExpectResumed(Resume(2), CacheSource::kHost);  // the network waits for its rows, the engine does not
  EXPECT_EQ(lagging_.waits(), 0);
  lagging_.Hold(false);
}

TEST_P(EngineCopiesTest, StoresCopiesInFlightAtShutdown) {
  StartLagging({.slots = 2});
  Say(2);
  lagging_.Hold(true);
  engine_->Park(2);
  Settle();
  engine_.reset();
  ASSERT_TRUE(WaitFor([&](auto done) { tiers_->Erase("nobody", done); }).ok());
  EXPECT_TRUE(tiers_->Find(Owner(2)).has_value());
}

// Many conversations, few slots, continuous copies; some conversations are parked, forked and erased meanwhile.
TEST_P(EngineCopiesTest, EveryTokenIsCorrectUnderChurn) {
  StartLagging({.slots = 4}, {.idle_ms = 1});
  std::mt19937 random(1);
  std::map<TimelineId, std::vector<TokenId>> said;
  for (int round = 0; round < 150; ++round) {
    std::vector<std::pair<TimelineId, SubmittedTurn>> turns;
    for (int k = 0; k < 3; ++k) {
      const TimelineId timeline = 1 + (random() % 12);
      if (std::any_of(turns.begin(), turns.end(), [&](const auto& turn) { return turn.first == timeline; })) continue;
      std::vector<TokenId>& tokens = said[timeline];
      for (TokenId id : Tokens(1 + random() % 20, static_cast<uint32_t>(random()))) tokens.push_back(id);
      turns.emplace_back(timeline, Turn(static_cast<TurnId>(round * 10 + k + 1), timeline, tokens,
                                        static_cast<int64_t>(1 + random() % 4)));
      ASSERT_TRUE(engine_->Submit(turns.back().second.request).ok());
    }
    for (auto& [timeline, turn] : turns) {
      if (random() % 4 == 0) engine_->Park(timeline);
      const TurnEnd end = turn.sink->Wait();
      ASSERT_EQ(end.reason, FinishReason::kLength) << end.error.ToString();
      ExpectRight(said[timeline], end);
      said[timeline].insert(said[timeline].end(), end.output.begin(), end.output.end());
      if (random() % 8 == 0) {
        engine_->Erase(timeline, Owner(timeline), nullptr);
        said.erase(timeline);
      }
      if (said[timeline].size() > 200) said.erase(timeline);
    }
  }
  const EngineStats stats = SettledStats();
  EXPECT_GT(stats.restores_host, 50u);
  EXPECT_EQ(lagging_.waits(), 0);
}

TEST_P(EngineCopiesTest, WrittenBackCacheFreesItsSlotImmediately) {
  StartLagging({.slots = 2}, {.write_back_ms = 1});
  Say(1);
  Say(2);
  const auto stored = [&](TimelineId timeline) { return tiers_->Find(Owner(timeline)).has_value(); };
  while (!stored(1) || !stored(2)) Settle();
  EXPECT_EQ(engine_->Where(Owner(1)), CacheSource::kSlot);
  EXPECT_EQ(engine_->Where(Owner(2)), CacheSource::kSlot);
  lagging_.Hold(true);  // any copy started now would never complete
  const int64_t copies = lagging_.copies();
  EXPECT_EQ(Say(3).reason, FinishReason::kLength);
  EXPECT_EQ(engine_->Where(Owner(1)), CacheSource::kHost) << "the least recently used one went";
  ExpectResumed(Resume(2), CacheSource::kSlot);
  EXPECT_LE(lagging_.copies(), copies + 1) << "that of the third, which is idle now";
  lagging_.Hold(false);
  engine_->Close(2);  // otherwise its slot, which has more of these tokens, would be copied
  engine_->Close(3);
  ExpectResumed(Resume(1), CacheSource::kHost);
}

TEST_P(EngineCopiesTest, SkipsWriteBackWhileSlotsAreFree) {
  StartLagging({.slots = 4}, {.write_back_ms = 1});
  Say(1);
  Say(2);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  Settle();
  EXPECT_EQ(lagging_.copies(), 0);
  EXPECT_EQ(engine_->stats().written_back, 0u);
}

TEST_P(EngineCopiesTest, SkipsWriteBackWithoutHostMemory) {
  StartLagging({.slots = 1}, {.write_back_ms = 1}, /*host_bytes=*/1000);
  Say(1);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  Settle();
  EXPECT_EQ(lagging_.copies(), 0);
  EXPECT_EQ(engine_->stats().written_back, 0u);
}

TEST_P(EngineCopiesTest, TurnDuringWriteBackIsCorrectAndWrittenBackAgain) {
  StartLagging({.slots = 1}, {.write_back_ms = 1});
  Say(1);
  lagging_.Hold(true);
  while (lagging_.copies() == 0) Settle();
  ExpectResumed(Resume(1), CacheSource::kSlot);
  lagging_.Hold(false);
  while (engine_->stats().written_back < 2) Settle();
  Say(2);
  std::vector<TokenId> tokens = Tokens(30, 1);
  for (int i = 0; i < 2; ++i) tokens.push_back(i == 0 ? HashNetwork::Expected(tokens, {}, kWindow) : 5);
  const TurnEnd again = Run(Turn(77, 1, tokens, 6));
  EXPECT_EQ(again.report.source, CacheSource::kHost);
  EXPECT_EQ(again.report.tokens_reused, 31);
  ExpectRight(tokens, again);
}

TEST_P(EngineCopiesTest, ConcurrentTurnStartsIfItsCacheWillArriveDuringTheStep) {
  StartLagging({.slots = 2});
  const auto park = [&](TimelineId timeline) {
    engine_->Park(timeline);
    while (engine_->Where(Owner(timeline)) != CacheSource::kHost) std::this_thread::yield();
  };
  Say(2);
  park(2);
  ExpectResumed(Resume(2), CacheSource::kHost);  // so that the rate is known
  park(2);
  SubmittedTurn talking = Talk(1);
  lagging_.Hold(true);  // the copy completes when a step uses its slab, and not before
  std::vector<TokenId> tokens = Tokens(30, 1);
  const TurnEnd end = Run(Turn(9, 2, tokens, 4));
  EXPECT_EQ(end.report.source, CacheSource::kHost);
  ExpectRight(tokens, end);
  ExpectGoesOn(talking);
  engine_->Cancel(talking.request.turn);
  talking.sink->Wait();
}

}  // namespace
}  // namespace ringside
