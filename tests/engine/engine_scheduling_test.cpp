// Allocation of slots and steps, and the waiting reasons reported to turns. Time is simulated: every step takes a
// millisecond.
#include <gtest/gtest.h>

#include <future>

#include "tests/engine/engine_harness.h"
#include "tests/engine/hash_network.h"

namespace ringside {
namespace {

constexpr RingWindow kLongWindow{0, 4096, Eviction::kToken};
constexpr int64_t kRowsOfAStep = 64;

class EngineSchedulingTest : public ::testing::TestWithParam<bool> {
 protected:
  void Start(int64_t slots) {
    auto started = Engine::Start(network_, tokenizer_,
                                 {.slots = slots,
                                  .memory_len = kLongWindow.memory_len,
                                  .pinned_max = 0,
                                  .prefill_chunk = kRowsOfAStep,
                                  .step_tokens = kRowsOfAStep,
                                  .kv_dtype = DType::kF32},
                                 {}, clock_);
    ASSERT_TRUE(started.ok()) << started.status().ToString();
    engine_ = std::move(*started);
    network_.OnStep([this] { clock_.AdvanceMs(1); });
  }
  void Go() { gate_.set_value(); }

  SubmittedTurn Submit(const std::string& tenant, size_t prompt, int64_t max_tokens) {
    ++turns_;
    SubmittedTurn turn =
        GreedyTurn(turns_, turns_, Tokens(prompt, static_cast<uint32_t>(turns_)), {}, kLongWindow, max_tokens);
    turn.request.tenant = tenant;
    EXPECT_TRUE(engine_->Submit(turn.request).ok());
    return turn;
  }
  // Starts a turn and blocks its first step until Go: everything submitted meanwhile is considered when the next step
  // is planned.
  SubmittedTurn SubmitAndHold(const std::string& tenant, size_t prompt, int64_t max_tokens) {
    network_.OnStep([this, first = true, gate = gate_.get_future().share()]() mutable {
      clock_.AdvanceMs(1);
      if (std::exchange(first, false)) {
        held_.set_value();
        gate.wait();
      }
    });
    SubmittedTurn turn = Submit(tenant, prompt, max_tokens);
    held_.get_future().wait();
    return turn;
  }
  static void ExpectRight(const SubmittedTurn& turn, const TurnEnd& end) {
    std::vector<TokenId> tokens = turn.request.tokens;
    for (const TokenId id : end.output) {
      ASSERT_EQ(id, HashNetwork::Expected(tokens, {}, kLongWindow));
      tokens.push_back(id);
    }
  }

  ManualClock clock_;
  std::unique_ptr<Backend> backend_ = std::move(*MakeCpuBackend({.threads = 1}));
  HashNetwork network_{*backend_, GetParam()};
  LetterTokenizer tokenizer_{HashNetwork::kVocab};
  std::promise<void> gate_, held_;
  TurnId turns_ = 0;
  std::unique_ptr<Engine> engine_;
};

INSTANTIATE_TEST_SUITE_P(All, EngineSchedulingTest, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "Ahead" : "InStep"; });

TEST_P(EngineSchedulingTest, AssignsSlotsToAccountsRoundRobin) {
  Start(1);
  const SubmittedTurn first = SubmitAndHold("many", 10, 3);
  const SubmittedTurn second = Submit("many", 10, 3), third = Submit("many", 10, 3), other = Submit("one", 10, 3);
  Go();
  for (const SubmittedTurn* turn : {&first, &second, &third, &other}) ExpectRight(*turn, turn->sink->Wait());
  EXPECT_TRUE(other.sink->positions().empty()) << "a new turn of a tenant without running turns preempts at once";
  EXPECT_EQ(second.sink->positions().back(), 1);
  EXPECT_EQ(third.sink->positions().back(), 1);
  EXPECT_LT(second.sink->positions().size(), third.sink->positions().size());
}

TEST_P(EngineSchedulingTest, OverservedAccountYields) {
  Start(1);
  const SubmittedTurn first = SubmitAndHold("many", 3000, 3);
  const SubmittedTurn second = Submit("many", 10, 3), other = Submit("one", 10, 3);
  Go();
  for (const SubmittedTurn* turn : {&first, &second, &other}) ExpectRight(*turn, turn->sink->Wait());
  EXPECT_TRUE(other.sink->positions().empty());
  EXPECT_EQ(second.sink->positions().back(), 1);
}

TEST_P(EngineSchedulingTest, ShortPromptOvertakesALongOne) {
  Start(4);
  const SubmittedTurn first = SubmitAndHold("", kRowsOfAStep, 3);
  const SubmittedTurn longer = Submit("", 20 * kRowsOfAStep, 3), shorter = Submit("", 10, 3);
  Go();
  const TurnEnd of_first = first.sink->Wait(), of_longer = longer.sink->Wait(), of_shorter = shorter.sink->Wait();
  ExpectRight(longer, of_longer);
  ExpectRight(shorter, of_shorter);
  EXPECT_LE(of_shorter.times.prefill_ms, 4);
  EXPECT_GE(of_longer.times.prefill_ms, 20);
}

TEST_P(EngineSchedulingTest, PrefillsPromptsOneAtATime) {
  Start(4);
  const SubmittedTurn first = SubmitAndHold("", kRowsOfAStep, 1);
  const SubmittedTurn second = Submit("", 8 * kRowsOfAStep, 1), third = Submit("", 8 * kRowsOfAStep, 1);
  Go();
  const TurnTimes of_second = second.sink->Wait().times, of_third = third.sink->Wait().times;
  EXPECT_LE(of_second.prefill_ms, 10);
  EXPECT_GE(of_third.prefill_ms, 16);
  EXPECT_LE(of_second.others_ms, 2);
  EXPECT_GE(of_third.others_ms, 6);  // while the second was computed
  EXPECT_LE(of_third.others_ms, of_third.prefill_ms - 7);
}

TEST_P(EngineSchedulingTest, ReportsTheSlotWaitTime) {
  Start(1);
  const SubmittedTurn first = SubmitAndHold("", 10, 20);
  const SubmittedTurn second = Submit("", 10, 3);
  Go();
  const TurnTimes of_first = first.sink->Wait().times, of_second = second.sink->Wait().times;
  EXPECT_EQ(of_first.slot_ms, 0);
  EXPECT_GE(of_second.slot_ms, 18);
  EXPECT_LE(of_second.slot_ms, of_second.queue_ms);
}

TEST_P(EngineSchedulingTest, StepsRunAheadDuringPrefill) {
  Start(4);
  const SubmittedTurn first = SubmitAndHold("", 10, 60);
  std::vector<SubmittedTurn> others;
  for (size_t i = 0; i < 3; ++i) others.push_back(Submit("", 5 * kRowsOfAStep, 1 + static_cast<int64_t>(i)));
  Go();
  ExpectRight(first, first.sink->Wait());
  for (const SubmittedTurn& turn : others) ExpectRight(turn, turn.sink->Wait());
  // All steps but the first, and the one that would follow the last token.
  const auto steps = static_cast<int64_t>(engine_->stats().steps);
  if (GetParam()) {
    EXPECT_GE(network_.steps_ahead(), steps - 3);
  } else {
    EXPECT_EQ(network_.steps_ahead(), 0);
  }
}

}  // namespace
}  // namespace ringside
