// Admission by predicted wait in a running engine. Time is simulated: every step takes a millisecond.
#include <gtest/gtest.h>

#include <future>

#include "base/refusals/server_overload.h"
#include "tests/engine/engine_harness.h"
#include "tests/engine/hash_network.h"

namespace ringside {
namespace {

constexpr RingWindow kWaitWindow{0, 4096, Eviction::kToken};
constexpr size_t kRowsOfAMillisecond = 64;
constexpr double kWaitLimitS = 0.010;

class EngineWaitTest : public ::testing::Test {
 protected:
  void Start(double max_wait_s, int64_t slots = 4) {
    auto started = Engine::Start(network_, tokenizer_,
                                 {.slots = slots,
                                  .memory_len = kWaitWindow.memory_len,
                                  .pinned_max = 0,
                                  .prefill_chunk = kRowsOfAMillisecond,
                                  .step_tokens = kRowsOfAMillisecond,
                                  .max_wait_s = max_wait_s,
                                  .kv_dtype = DType::kF32},
                                 {}, clock_);
    ASSERT_TRUE(started.ok()) << started.status().ToString();
    engine_ = std::move(*started);
    network_.OnStep([this] { clock_.AdvanceMs(1); });
  }
  SubmittedTurn Turn(const std::string& tenant, size_t prompt, int64_t max_tokens = 1) {
    ++turns_;
    SubmittedTurn turn =
        GreedyTurn(turns_, turns_, Tokens(prompt, static_cast<uint32_t>(turns_)), {}, kWaitWindow, max_tokens);
    turn.request.tenant = tenant;
    return turn;
  }
  SubmittedTurn Submit(SubmittedTurn turn) {
    EXPECT_TRUE(engine_->Submit(turn.request).ok());
    return turn;
  }
  /// Runs a turn, so that the engine knows its rate.
  void Measure() {
    Submit(Turn("", 4 * kRowsOfAMillisecond)).sink->Wait();
    Settle();
  }
  /// Waits until a round has ended after all turns so far.
  void Settle() {
    for (int i = 0; i < 2; ++i) {
      std::promise<void> handled;
      engine_->Ping([&] { handled.set_value(); });
      handled.get_future().wait();
    }
  }
  /// Starts a turn and blocks its first step until Go.
  SubmittedTurn SubmitAndHold(const std::string& tenant, size_t prompt) {
    network_.OnStep([this, first = true, gate = gate_.get_future().share()]() mutable {
      clock_.AdvanceMs(1);
      if (std::exchange(first, false)) {
        held_.set_value();
        gate.wait();
      }
    });
    SubmittedTurn turn = Submit(Turn(tenant, prompt));
    held_.get_future().wait();
    return turn;
  }
  void Go() { gate_.set_value(); }
  std::optional<ServerOverload> Refusal(const SubmittedTurn& turn) {
    return ReadServerOverload(engine_->CheckWait(turn.request));
  }

  ManualClock clock_;
  std::unique_ptr<Backend> backend_ = std::move(*MakeCpuBackend({.threads = 1}));
  HashNetwork network_{*backend_};
  LetterTokenizer tokenizer_{HashNetwork::kVocab};
  std::promise<void> gate_, held_;
  TurnId turns_ = 0;
  std::unique_ptr<Engine> engine_;
};

TEST_F(EngineWaitTest, RefusesTurnsThatWouldWaitForTooLong) {
  Start(kWaitLimitS);
  Measure();
  EXPECT_FALSE(Refusal(Turn("a", 4000))) << "nothing waits";
  const SubmittedTurn first = SubmitAndHold("a", 30 * kRowsOfAMillisecond);
  const auto refused = Refusal(Turn("a", 10));
  ASSERT_TRUE(refused);
  EXPECT_GE(refused->wait_s, 0.029);
  EXPECT_LE(refused->wait_s, 0.04);
  EXPECT_EQ(refused->retry_after_s, 1);
  EXPECT_FALSE(engine_->MayAdmit(Turn("a", 10).request));
  EXPECT_EQ(engine_->stats().turns_refused, 1u);
  EXPECT_NEAR(engine_->stats().prompt_wait_s, 0.030, 0.002);
  SubmittedTurn part = Turn("a", 10);
  part.request.admitted = true;
  EXPECT_FALSE(Refusal(part)) << "of a request that was admitted";
  Go();
  EXPECT_EQ(first.sink->Wait().output.size(), 1u);
  Settle();
  EXPECT_FALSE(Refusal(Turn("a", 4000)));
  EXPECT_EQ(engine_->stats().prompt_wait_s, 0);
}

TEST_F(EngineWaitTest, AdvisesSuccessivePlacesToRefusedTurns) {
  Start(kWaitLimitS);
  Measure();
  const SubmittedTurn first = SubmitAndHold("a", 30 * kRowsOfAMillisecond);
  int64_t last_s = 0;
  for (int i = 0; i < 40; ++i) {
    const auto refused = Refusal(Turn("a", 60 * kRowsOfAMillisecond));  // each takes 60 ms
    ASSERT_TRUE(refused);
    EXPECT_GE(refused->retry_after_s, last_s);
    last_s = refused->retry_after_s;
  }
  EXPECT_EQ(last_s, 3) << "40 times 60 ms, rounded up";
  Go();
  first.sink->Wait();
}

TEST_F(EngineWaitTest, RefusesNothingWithoutALimitOrAMeasuredRate) {
  Start(/*max_wait_s=*/0);
  Measure();
  const SubmittedTurn first = SubmitAndHold("a", 30 * kRowsOfAMillisecond);
  EXPECT_FALSE(Refusal(Turn("a", 4000)));
  EXPECT_NEAR(engine_->stats().prompt_wait_s, 0.030, 0.002) << "shown nevertheless";
  Go();
  first.sink->Wait();
}

TEST_F(EngineWaitTest, RefusesNothingBeforeItKnowsItsRate) {
  Start(kWaitLimitS);
  const SubmittedTurn first = SubmitAndHold("a", 30 * kRowsOfAMillisecond);
  EXPECT_FALSE(Refusal(Turn("a", 4000)));
  Go();
  first.sink->Wait();
}

TEST_F(EngineWaitTest, QueueOfOneTenantDoesNotRefuseAnother) {
  Start(kWaitLimitS, /*slots=*/2);
  Measure();
  Submit(Turn("many", 40 * kRowsOfAMillisecond)).sink->Wait();  // a bucket of served tokens
  const SubmittedTurn first = SubmitAndHold("many", 30 * kRowsOfAMillisecond);
  std::vector<SubmittedTurn> more;
  for (int i = 0; i < 5; ++i) more.push_back(Submit(Turn("many", 4 * kRowsOfAMillisecond)));
  EXPECT_TRUE(Refusal(Turn("many", 10)));
  EXPECT_FALSE(Refusal(Turn("one", 10)));
  const SubmittedTurn other = Submit(Turn("one", 10));
  Go();
  EXPECT_LE(other.sink->Wait().times.prefill_ms, kWaitLimitS * 1e3) << "the fair order has run it first";
  for (const SubmittedTurn& turn : more) turn.sink->Wait();
  first.sink->Wait();
}

TEST_F(EngineWaitTest, HalfOfTheLimitIsForCachesInSlots) {
  Start(kWaitLimitS);
  Measure();
  SubmittedTurn cached = Turn("a", 8 * kRowsOfAMillisecond);
  cached.request.owner = "conv_cached";
  Submit(cached).sink->Wait();
  const SubmittedTurn first = SubmitAndHold("a", 7 * kRowsOfAMillisecond);
  SubmittedTurn next = Turn("a", 8 * kRowsOfAMillisecond + 10);
  next.request.known_tokens = 8 * static_cast<int64_t>(kRowsOfAMillisecond);
  next.request.owner = "conv_lost";
  EXPECT_TRUE(Refusal(next)) << "recomputes its cache";
  next.request.owner = "conv_cached";
  EXPECT_FALSE(Refusal(next));
  next.request.known_tokens = 0;
  EXPECT_TRUE(Refusal(next)) << "all of its tokens are new";
  Go();
  first.sink->Wait();
}

TEST_F(EngineWaitTest, WaitingForASlotCounts) {
  Start(kWaitLimitS, /*slots=*/1);
  Measure();
  Submit(Turn("a", 10, /*max_tokens=*/100)).sink->Wait();  // turns hold their slots for about 100 ms
  Settle();
  network_.OnStep([this, gate = gate_.get_future().share(), steps = 0]() mutable {
    clock_.AdvanceMs(1);
    if (++steps != 3) return;
    held_.set_value();
    gate.wait();
  });
  const SubmittedTurn running = Submit(Turn("a", 10, /*max_tokens=*/100));
  held_.get_future().wait();  // it decodes
  EXPECT_FALSE(Refusal(Turn("a", 1))) << "no turn waits";
  const SubmittedTurn waiting = Submit(Turn("a", 1));
  EXPECT_TRUE(Refusal(Turn("a", 1))) << "its prompt is short, but both need the slot of a long answer";
  EXPECT_FALSE(Refusal(Turn("b", 1))) << "preempts the running turn";
  Go();
  running.sink->Wait();
  waiting.sink->Wait();
}

}  // namespace
}  // namespace ringside
