// Several engines that share one set of conversations: placement, stickiness, migration, and correct answers wherever a
// conversation goes. The hash network exposes any lost, stale or foreign row.
#include "engine/fleet/engine_fleet.h"

#include <gtest/gtest.h>

#include <future>
#include <map>
#include <random>
#include <set>
#include <stdexcept>
#include <thread>

#include "base/refusals/server_overload.h"
#include "tests/engine/engine_harness.h"
#include "tests/engine/failing_backend.h"
#include "tests/engine/hash_network.h"
#include "tests/engine/tiers/tiers_harness.h"

namespace ringside {
namespace {

constexpr RingWindow kWindow{4, 24, Eviction::kTurn};

class EngineFleetTest : public ::testing::Test {
 protected:
  void Start(size_t engines, int64_t slots = 8, double max_wait_s = 0) {
    fleet_.reset();
    copies_.clear();
    tiers_ = std::make_unique<TieredStore>(std::make_unique<RamStore>(int64_t{1} << 24), nullptr,
                                           TieredStoreOptions{.sweep_ms = 0});
    std::vector<std::unique_ptr<Engine>> made;
    for (size_t i = 0; i < engines; ++i) {
      Copy& copy = *copies_.emplace_back(std::make_unique<Copy>());
      EngineOptions options;
      options.slots = slots;
      options.max_wait_s = max_wait_s;
      options.memory_len = kWindow.memory_len;
      options.pinned_max = 8;
      options.kv_dtype = DType::kF32;
      auto engine =
          Engine::Start(copy.network, tokenizer_, options, {.tiers = tiers_.get(), .fetch_deadline_ms = 60'000});
      ASSERT_TRUE(engine.ok()) << engine.status().ToString();
      made.push_back(std::move(*engine));
    }
    fleet_ = std::make_unique<EngineFleet>(std::move(made));
  }
  static std::string Owner(TimelineId timeline) { return "conv_" + std::to_string(timeline); }
  /// Appends two tokens, and requests an answer of `max_tokens`.
  SubmittedTurn Begin(TimelineId timeline, int64_t max_tokens, const std::string& owner, TimelineId forked_from = 0) {
    std::vector<TokenId>& tokens = said_[timeline];
    std::mt19937 random(static_cast<uint32_t>(1000 * timeline + tokens.size()));
    for (int i = tokens.empty() ? 10 : 2; i > 0; --i)
      tokens.push_back(static_cast<TokenId>(random() % HashNetwork::kVocab));
    SubmittedTurn turn = GreedyTurn(++last_turn_, timeline, tokens, {}, kWindow, max_tokens);
    turn.request.owner = owner;
    turn.request.continues = !owner.empty() && tokens.size() > 10;
    turn.request.forked_from = forked_from;
    if (forked_from != 0) turn.request.forked_owner = Owner(forked_from);
    EXPECT_TRUE(fleet_->Submit(turn.request).ok());
    return turn;
  }
  TurnEnd Wait(TimelineId timeline, const SubmittedTurn& turn) {
    TurnEnd end = turn.sink->Wait();
    std::vector<TokenId>& tokens = said_[timeline];
    for (const TokenId id : end.output) {
      EXPECT_EQ(id, HashNetwork::Expected(tokens, {}, kWindow)) << timeline << " after " << tokens.size();
      tokens.push_back(id);
    }
    return end;
  }
  TurnEnd Say(TimelineId timeline) { return Wait(timeline, Begin(timeline, 3, Owner(timeline))); }
  /// Waits until the statistics of all engines are published.
  void Settle() {
    for (int i = 0; i < 2; ++i) {
      ASSERT_TRUE(WaitFor([&](auto done) { fleet_->Erase(0, "", done); }).ok());
    }
  }
  std::vector<int64_t> SlotsUsed() {
    Settle();
    std::vector<int64_t> used;
    for (const FleetEngine& engine : fleet_->each()) used.push_back(engine.stats.slots_used);
    return used;
  }

  struct Copy {
    FailingBackend backend{std::move(*MakeCpuBackend({.threads = 1}))};
    HashNetwork network{backend};
  };
  LetterTokenizer tokenizer_{HashNetwork::kVocab};
  std::vector<std::unique_ptr<Copy>> copies_;
  std::unique_ptr<TieredStore> tiers_;
  std::unique_ptr<EngineFleet> fleet_;
  std::map<TimelineId, std::vector<TokenId>> said_;
  TurnId last_turn_ = 0;
};

TEST_F(EngineFleetTest, ConversationsSpreadAndStayWithTheirCaches) {
  Start(3);
  for (int turn = 0; turn < 4; ++turn) {
    for (TimelineId timeline = 1; timeline <= 12; ++timeline) {
      const TurnEnd end = Say(timeline);
      EXPECT_EQ(end.report.source, turn == 0 ? CacheSource::kNew : CacheSource::kSlot);
      EXPECT_EQ(fleet_->Where(Owner(timeline)), CacheSource::kSlot);
    }
  }
  EXPECT_EQ(SlotsUsed(), (std::vector<int64_t>{4, 4, 4}));
  EXPECT_EQ(fleet_->stats().slots_used, 12);
  EXPECT_EQ(fleet_->stats().slots, 24);
  EXPECT_EQ(fleet_->timelines(0) + fleet_->timelines(1) + fleet_->timelines(2), 12u);
}

TEST_F(EngineFleetTest, NewTurnsGoToTheLeastLoadedEngine) {
  Start(2);
  const SubmittedTurn endless = Begin(1, -1, Owner(1));
  endless.sink->WaitForTokens(1);
  for (TimelineId timeline = 2; timeline <= 5; ++timeline) Say(timeline);
  EXPECT_EQ(SlotsUsed(), (std::vector<int64_t>{1, 4}));
  fleet_->Cancel(endless.request.turn);
  EXPECT_EQ(Wait(1, endless).reason, FinishReason::kCancelled);
}

TEST_F(EngineFleetTest, NewTurnsAvoidAnEngineThatWouldRefuseThem) {
  Start(2, /*slots=*/8, /*max_wait_s=*/1e-9);
  const auto long_turn = [&](TimelineId timeline) {
    SubmittedTurn turn = GreedyTurn(++last_turn_, timeline, std::vector<TokenId>(40, 7), {}, kWindow, 1);
    EXPECT_TRUE(fleet_->Submit(turn.request).ok());
    return turn;
  };
  long_turn(1).sink->Wait();  // measures the rate of engine 0
  ASSERT_TRUE(fleet_->Drain(0).ok());
  std::vector<SubmittedTurn> endless;
  for (const TimelineId timeline : {2, 3}) endless.push_back(Begin(timeline, -1, Owner(timeline)));
  for (const SubmittedTurn& turn : endless) turn.sink->WaitForTokens(1);
  ASSERT_TRUE(fleet_->Resume(0).ok());
  Settle();
  std::promise<void> held, go;
  copies_[0]->network.OnStep([&, first = true, gate = go.get_future().share()]() mutable {
    if (std::exchange(first, false)) held.set_value();
    gate.wait();
  });
  const SubmittedTurn prompt = long_turn(4);  // on engine 0, which had no turn
  held.get_future().wait();
  const SubmittedTurn other = GreedyTurn(++last_turn_, 5, std::vector<TokenId>(12, 9), {}, kWindow, 1);
  EXPECT_TRUE(fleet_->CheckWait(other.request).ok());
  EXPECT_TRUE(fleet_->Submit(other.request).ok());
  other.sink->Wait();  // on engine 1, although that has more turns
  ASSERT_TRUE(fleet_->Drain(1).ok());
  EXPECT_TRUE(ReadServerOverload(fleet_->CheckWait(GreedyTurn(99, 6, {1, 2, 3}, {}, kWindow, 1).request)));
  EXPECT_EQ(fleet_->engine(0).stats().turns_refused, 1u);
  EXPECT_EQ(fleet_->engine(1).stats().turns_refused, 0u);
  go.set_value();
  prompt.sink->Wait();
  for (const SubmittedTurn& turn : endless) fleet_->Cancel(turn.request.turn);
  for (const SubmittedTurn& turn : endless) EXPECT_EQ(turn.sink->Wait().reason, FinishReason::kCancelled);
}

TEST_F(EngineFleetTest, EvictedConversationMovesToAFreeEngine) {
  Start(2, /*slots=*/2);
  for (TimelineId timeline = 1; timeline <= 4; ++timeline) Say(timeline);
  const SubmittedTurn endless = Begin(1, -1, Owner(1));  // on the engine of 3
  endless.sink->WaitForTokens(1);
  Say(5);  // on the other engine, replacing 2
  EXPECT_EQ(fleet_->Where(Owner(2)), CacheSource::kHost);
  const TurnEnd end = Say(2);
  EXPECT_EQ(end.report.source, CacheSource::kHost);
  EXPECT_EQ(end.report.tokens_computed, 3);  // the last token of the previous answer, and the two new ones
  fleet_->Cancel(endless.request.turn);
  Wait(1, endless);
}

TEST_F(EngineFleetTest, RefusesConcurrentTurnsOfAConversation) {
  Start(2);
  const SubmittedTurn endless = Begin(1, -1, Owner(1));
  endless.sink->WaitForTokens(1);
  EXPECT_EQ(Begin(1, 3, Owner(1)).sink->Wait().error.code(), StatusCode::kBusy);
  fleet_->Cancel(endless.request.turn);
  endless.sink->Wait();
}

TEST_F(EngineFleetTest, RefusesTurnsForAFullEngine) {
  Start(2);
  SubmittedTurn turn = GreedyTurn(1, 1, {}, {}, kWindow, 1);
  EXPECT_EQ(fleet_->Submit(turn.request).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(Say(2).reason, FinishReason::kLength);
}

TEST_F(EngineFleetTest, DrainedEngineMigratesItsConversationsWithoutRecompute) {
  Start(2);
  for (TimelineId timeline = 1; timeline <= 8; ++timeline) Say(timeline);
  const SubmittedTurn endless = Begin(1, -1, Owner(1));
  endless.sink->WaitForTokens(1);
  ASSERT_TRUE(fleet_->Drain(0).ok());
  EXPECT_EQ(fleet_->each()[0].state, EngineState::kDraining) << "a turn runs";
  EXPECT_EQ(fleet_->stats().slots, 8) << "those of the other engine";
  fleet_->Cancel(endless.request.turn);
  Wait(1, endless);
  for (TimelineId timeline = 1; timeline <= 10; ++timeline) {
    const TurnEnd end = Say(timeline);
    EXPECT_NE(end.report.source, CacheSource::kRecomputed) << timeline;
    EXPECT_EQ(end.reason, FinishReason::kLength);
  }
  while (SlotsUsed()[0] > 0) std::this_thread::yield();  // their last turns may have ended before their copies were out
  EXPECT_EQ(fleet_->timelines(0), 0u);
  for (TimelineId timeline = 1; timeline <= 10; ++timeline) EXPECT_EQ(Say(timeline).reason, FinishReason::kLength);
  EXPECT_EQ(SlotsUsed()[0], 0);
  EXPECT_EQ(fleet_->each()[0].state, EngineState::kDrained);
  EXPECT_TRUE(fleet_->Drain(0).ok()) << "it is";
  ASSERT_TRUE(fleet_->Resume(0).ok());
  EXPECT_EQ(fleet_->each()[0].state, EngineState::kServing);
  EXPECT_EQ(fleet_->stats().slots, 16);
  Say(11);
  EXPECT_EQ(SlotsUsed()[0], 1);
}

TEST_F(EngineFleetTest, LastServingEngineCannotBeDrained) {
  Start(1);
  EXPECT_EQ(fleet_->Drain(0).code(), StatusCode::kMismatch);
  EXPECT_EQ(fleet_->Drain(0).reason(), "only_engine");
  EXPECT_EQ(fleet_->Drain(1).code(), StatusCode::kNotFound);
  EXPECT_EQ(fleet_->Resume(1).reason(), "engine_not_found");
  EXPECT_TRUE(fleet_->Resume(0).ok());
  EXPECT_EQ(Say(1).reason, FinishReason::kLength);
  Start(2);
  ASSERT_TRUE(fleet_->Drain(1).ok());
  EXPECT_EQ(fleet_->Drain(0).reason(), "only_engine");
  ASSERT_TRUE(fleet_->Resume(1).ok());
  EXPECT_TRUE(fleet_->Drain(0).ok());
}

TEST_F(EngineFleetTest, UnownedConversationDoesNotMigrate) {
  Start(2);
  Wait(1, Begin(1, 3, ""));
  ASSERT_TRUE(fleet_->Drain(0).ok());
  const TurnEnd end = Wait(1, Begin(1, 3, ""));
  EXPECT_EQ(end.report.source, CacheSource::kSlot);
  EXPECT_EQ(end.report.tokens_computed, 3);
  fleet_->Close(1);
  EXPECT_EQ(SlotsUsed(), (std::vector<int64_t>{0, 0}));
  EXPECT_EQ(fleet_->timelines(0), 0u);
}

TEST_F(EngineFleetTest, IdleConversationsLeaveTheBusierEngine) {
  Start(2, /*slots=*/32);
  for (TimelineId timeline = 1; timeline <= 24; ++timeline) Say(timeline);
  ASSERT_EQ(SlotsUsed(), (std::vector<int64_t>{12, 12}));
  std::vector<SubmittedTurn> endless;
  for (TimelineId timeline = 1; timeline <= 17; timeline += 2) {  // all on the first
    endless.push_back(Begin(timeline, -1, Owner(timeline)));
    endless.back().sink->WaitForTokens(1);
  }
  EXPECT_EQ(fleet_->timelines(0), 11u);  // the longest idle conversation leaves; running ones stay
  for (TimelineId timeline = 19; timeline <= 23; timeline += 2) {
    EXPECT_NE(Say(timeline).report.source, CacheSource::kRecomputed) << timeline;
  }
  for (size_t i = 0; i < endless.size(); ++i) {
    fleet_->Cancel(endless[i].request.turn);
    EXPECT_EQ(Wait(1 + 2 * i, endless[i]).reason, FinishReason::kCancelled);
  }
}

TEST_F(EngineFleetTest, ConversationsOfAFailedEngineContinueOnOthers) {
  Start(3);
  for (TimelineId timeline = 1; timeline <= 9; ++timeline) Say(timeline);
  fleet_->Park(4);  // on the first engine, like 1 and 7: the tiers have its cache
  Settle();
  while (fleet_->Where(Owner(4)) == CacheSource::kSlot) std::this_thread::yield();
  const SubmittedTurn answering = Begin(1, -1, Owner(1)), other = Begin(2, -1, Owner(2));
  answering.sink->WaitForTokens(2);
  other.sink->WaitForTokens(2);
  copies_[0]->backend.FailAfter(0);
  const TurnEnd cut = Wait(1, answering);
  EXPECT_EQ(cut.reason, FinishReason::kError);
  EXPECT_EQ(cut.error.code(), StatusCode::kUnavailable);
  EXPECT_NE(cut.error.message().find("an injected error"), std::string::npos) << cut.error.message();
  EXPECT_TRUE(fleet_->healthy());
  EXPECT_EQ(fleet_->each()[0].state, EngineState::kFailed);
  EXPECT_EQ(fleet_->stats().slots, 16) << "those of the others";
  for (int round = 0; round < 2; ++round) {
    for (const TimelineId timeline : {1, 4, 7, 3, 5, 10}) {
      const TurnEnd end = Say(timeline);  // which checks every token
      ASSERT_EQ(end.reason, FinishReason::kLength) << end.error.ToString();
      const bool lost = round == 0 && (timeline == 1 || timeline == 7), stored = round == 0 && timeline == 4;
      EXPECT_EQ(end.report.source, lost                           ? CacheSource::kRecomputed
                                   : stored                       ? CacheSource::kHost
                                   : round == 0 && timeline == 10 ? CacheSource::kNew
                                                                  : CacheSource::kSlot)
          << timeline;
    }
  }
  fleet_->Cancel(other.request.turn);
  EXPECT_EQ(Wait(2, other).reason, FinishReason::kCancelled) << "of another engine";
  EXPECT_EQ(fleet_->timelines(0), 0u);
  EXPECT_EQ(SlotsUsed()[0], 0);
}

TEST_F(EngineFleetTest, UnownedConversationOfAFailedEngineIsRecomputed) {
  Start(2);
  Wait(1, Begin(1, 3, ""));
  copies_[0]->backend.FailAfter(0);
  Wait(1, Begin(1, 3, ""));  // during which the failure is detected
  const TurnEnd end = Wait(1, Begin(1, 3, ""));
  EXPECT_EQ(end.reason, FinishReason::kLength) << end.error.ToString();
  EXPECT_EQ(end.report.tokens_reused, 0);
  EXPECT_EQ(Wait(1, Begin(1, 3, "")).report.source, CacheSource::kSlot);
}

TEST_F(EngineFleetTest, ThrowingEngineFails) {
  Start(2);
  for (TimelineId timeline = 1; timeline <= 4; ++timeline) Say(timeline);
  copies_[1]->network.OnStep([] { throw std::runtime_error("no memory for a step"); });
  const TurnEnd cut = Say(2);
  EXPECT_EQ(cut.reason, FinishReason::kError);
  EXPECT_EQ(cut.error.code(), StatusCode::kUnavailable);
  EXPECT_NE(cut.error.message().find("no memory for a step"), std::string::npos) << cut.error.message();
  EXPECT_EQ(fleet_->engine(1).status().message(), cut.error.message());
  for (TimelineId timeline = 1; timeline <= 5; ++timeline) EXPECT_EQ(Say(timeline).reason, FinishReason::kLength);
  EXPECT_EQ(SlotsUsed(), (std::vector<int64_t>{5, 0}));
}

TEST_F(EngineFleetTest, RefusesTurnsWithoutServingEngines) {
  Start(2);
  for (TimelineId timeline = 1; timeline <= 2; ++timeline) Say(timeline);
  copies_[0]->backend.FailAfter(0);
  EXPECT_EQ(Say(1).reason, FinishReason::kError);
  EXPECT_EQ(Say(1).reason, FinishReason::kLength);
  EXPECT_EQ(fleet_->Drain(1).reason(), "only_engine");
  EXPECT_EQ(fleet_->Drain(0).reason(), "engine_failed");
  EXPECT_EQ(fleet_->Resume(0).reason(), "engine_failed");
  copies_[1]->backend.FailAfter(0);
  EXPECT_EQ(Say(1).reason, FinishReason::kError);
  EXPECT_FALSE(fleet_->healthy());
  EXPECT_EQ(fleet_->Submit(GreedyTurn(++last_turn_, 3, {1, 2, 3}, {}, kWindow, 1).request).code(),
            StatusCode::kUnavailable);
}

TEST_F(EngineFleetTest, DrainedEngineServesAgainIfTheLastFails) {
  Start(2);
  for (TimelineId timeline = 1; timeline <= 2; ++timeline) Say(timeline);
  ASSERT_TRUE(fleet_->Drain(1).ok());
  copies_[0]->backend.FailAfter(0);
  EXPECT_EQ(Say(1).reason, FinishReason::kError);
  fleet_->Tick();
  EXPECT_EQ(fleet_->each()[1].state, EngineState::kServing);
  for (TimelineId timeline = 1; timeline <= 3; ++timeline) EXPECT_EQ(Say(timeline).reason, FinishReason::kLength);
}

TEST_F(EngineFleetTest, ChecksDetectAFailedIdleEngine) {
  Start(2);
  copies_[0]->backend.FailAfter(0);
  fleet_->Tick();
  while (fleet_->engine(0).healthy()) std::this_thread::yield();
  EXPECT_EQ(fleet_->each()[0].state, EngineState::kFailed);
  for (TimelineId timeline = 1; timeline <= 2; ++timeline) EXPECT_EQ(Say(timeline).reason, FinishReason::kLength);
}

TEST_F(EngineFleetTest, EraseForkParkAndSaveReachTheOwningEngine) {
  Start(2);
  for (TimelineId timeline = 1; timeline <= 4; ++timeline) Say(timeline);
  for (const TimelineId from : {1, 2}) {  // on either engine
    const TimelineId to = 10 + from;
    said_[to] = said_[from];
    fleet_->Fork(from, to, Owner(from), Owner(to));
    const TurnEnd end = Say(to);
    EXPECT_EQ(end.report.source, CacheSource::kHost);
    EXPECT_EQ(end.report.tokens_computed, 3);
  }
  fleet_->Park(3);
  fleet_->Park(4);
  Settle();
  for (const TimelineId parked : {3, 4}) {
    while (fleet_->Where(Owner(parked)) == CacheSource::kSlot) std::this_thread::yield();
    EXPECT_EQ(fleet_->Where(Owner(parked)), CacheSource::kHost);
    ASSERT_TRUE(WaitFor([&](auto done) { fleet_->Erase(0, Owner(parked), done); }).ok());
    EXPECT_EQ(fleet_->Where(Owner(parked)), std::nullopt);
    EXPECT_EQ(Say(parked).report.source, CacheSource::kRecomputed);
  }
  fleet_->SaveAll(nullptr);
  const Status saved = WaitFor([&](auto done) { fleet_->SaveAll(done); });
  EXPECT_EQ(saved.code(), StatusCode::kUnavailable) << "there is no disk";
  for (TimelineId timeline = 1; timeline <= 4; ++timeline) EXPECT_TRUE(tiers_->Find(Owner(timeline)).has_value());
}

TEST_F(EngineFleetTest, ForkRunsOnItsSourcesEngine) {
  Start(2, /*slots=*/32);
  for (const TimelineId timeline : {1, 2, 1, 2}) Say(timeline);
  const auto fork = [&](TimelineId from, TimelineId to, int64_t max_tokens) {
    said_[to] = said_[from];
    return Begin(to, max_tokens, Owner(to), from);
  };
  for (int i = 0; i < 4; ++i) {
    for (const TimelineId from : {1, 2}) {
      const TimelineId to = 10 * from + i;
      const TurnEnd end = Wait(to, fork(from, to, 3));
      EXPECT_EQ(end.report.source, CacheSource::kSlot);
      // The two new tokens and, unless another fork has it, the last token of the previous answer.
      EXPECT_EQ(end.report.tokens_computed, i == 0 ? 3 : 2);
    }
  }
  EXPECT_EQ(SlotsUsed(), (std::vector<int64_t>{5, 5}));
  // An engine with too many turns gets no more forks.
  std::vector<SubmittedTurn> endless;
  for (TimelineId to = 101; to <= 124; ++to) endless.push_back(fork(1, to, -1));
  for (const SubmittedTurn& turn : endless) turn.sink->WaitForTokens(1);
  EXPECT_GT(SlotsUsed()[1], 5);
  for (size_t i = 0; i < endless.size(); ++i) {
    fleet_->Cancel(endless[i].request.turn);
    EXPECT_EQ(Wait(101 + i, endless[i]).reason, FinishReason::kCancelled);
  }
}

TEST_F(EngineFleetTest, SingleEngineIsCalledDirectly) {
  Start(1);
  Say(1);
  Say(1);
  EXPECT_EQ(fleet_->timelines(0), 0u);  // no event to the engine is needed
  EXPECT_EQ(fleet_->Where(Owner(1)), CacheSource::kSlot);
  EXPECT_TRUE(fleet_->healthy());
}

TEST_F(EngineFleetTest, AnyOrderOfCallsGivesCorrectAnswers) {
  Start(3, /*slots=*/2);
  std::mt19937 random(7);
  for (int round = 0; round < 300; ++round) {
    const TimelineId timeline = 1 + random() % 9;
    switch (random() % 8) {
      case 0:
        fleet_->Park(timeline);
        break;
      case 1:
        (void)fleet_->Drain(random() % 3);  // refused for the last one
        break;
      case 2:
        ASSERT_TRUE(fleet_->Resume(random() % 3).ok());
        break;
      case 3:
        fleet_->Erase(timeline, Owner(timeline), nullptr);
        said_.erase(timeline);
        break;
      default:
        break;
    }
    const TurnEnd end = Say(timeline);
    ASSERT_EQ(end.reason, FinishReason::kLength) << end.error.ToString();
  }
}

}  // namespace
}  // namespace ringside
