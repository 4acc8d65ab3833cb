#include "engine/scheduler.h"

#include <gtest/gtest.h>

#include <numeric>
#include <random>

namespace ringside {
namespace {

TEST(Scheduler, DecodesAlwaysGetTheirRow) {
  const std::vector<int64_t> remaining = {1, 1, 500, 1};
  const auto take = PlanStep(remaining, {256, 64, 128}, 2);
  EXPECT_EQ(take, (std::vector<int64_t>{1, 1, 64, 1}));
}

TEST(Scheduler, PrefillAloneTakesItsWholeChunk) {
  const std::vector<int64_t> remaining = {500};
  EXPECT_EQ(PlanStep(remaining, {256, 64, 128}, 0), (std::vector<int64_t>{128}));
}

TEST(Scheduler, PrefillsShareEquallyAndLeaveNothingUnused) {
  const std::vector<int64_t> remaining = {500, 10, 500};
  EXPECT_EQ(PlanStep(remaining, {256, 64, 128}, 0), (std::vector<int64_t>{123, 10, 123}));
}

TEST(Scheduler, RotationDecidesWhoComesFirstWhenThereIsLessThanOneRowEach) {
  const std::vector<int64_t> remaining = {9, 9, 9};
  EXPECT_EQ(PlanStep(remaining, {2, 2, 8}, 1), (std::vector<int64_t>{0, 1, 1}));
  EXPECT_EQ(PlanStep(remaining, {2, 2, 8}, 2), (std::vector<int64_t>{1, 0, 1}));
}

TEST(Scheduler, FinishedTurnsGetNothing) {
  const std::vector<int64_t> remaining = {0, 3};
  EXPECT_EQ(PlanStep(remaining, {256, 64, 128}, 0), (std::vector<int64_t>{0, 3}));
}

TEST(Scheduler, RandomPlansKeepTheirLimitsAndNobodyStarves) {
  std::mt19937 random(7);
  for (int round = 0; round < 2000; ++round) {
    const SchedulerLimits limits{1 + static_cast<int64_t>(random() % 300), 1 + static_cast<int64_t>(random() % 80),
                                 2 + static_cast<int64_t>(random() % 200)};
    std::vector<int64_t> remaining(1 + random() % 40);
    for (auto& r : remaining) r = random() % 3 == 0 ? 1 : static_cast<int64_t>(random() % 700);
    std::vector<bool> served(remaining.size());
    for (size_t first = 0; first < remaining.size(); ++first) {
      const auto take = PlanStep(remaining, limits, first);
      int64_t prefill = 0, wanted = 0;
      bool decodes = false;
      for (size_t i = 0; i < take.size(); ++i) {
        ASSERT_GE(take[i], 0);
        ASSERT_LE(take[i], remaining[i]);
        if (remaining[i] == 1) {
          ASSERT_EQ(take[i], 1);
          decodes = true;
          continue;
        }
        ASSERT_LE(take[i], limits.prefill_chunk);
        prefill += take[i];
        wanted += std::min(remaining[i], limits.prefill_chunk);
        served[i] = served[i] || take[i] > 0;
      }
      ASSERT_EQ(prefill, std::min(wanted, decodes ? limits.mixed_tokens : limits.step_tokens));
    }
    for (size_t i = 0; i < remaining.size(); ++i) ASSERT_TRUE(served[i] || remaining[i] <= 1);
  }
}

}  // namespace
}  // namespace ringside
