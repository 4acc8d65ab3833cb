// The rule of admission by predicted wait.
#include "engine/overload/wait_limit.h"

#include <gtest/gtest.h>

namespace ringside {
namespace {

TEST(WaitLimit, IdleEngineAdmitsPromptsOfAnyLength) {
  WaitLimit limit(0.5);
  EXPECT_EQ(limit.Refuse(1, 0, 100), std::nullopt);
}

TEST(WaitLimit, AdmittedTurnsWaitNoLongerThanTheLimit) {
  WaitLimit limit(1);
  for (double wait_s = 0.01; wait_s < 3; wait_s += 0.01) {
    for (const double own_s : {0.0, 0.001, 0.2, 5.0}) {
      if (!limit.Refuse(1, wait_s, own_s)) {
        EXPECT_LE(wait_s, 1);
      }
    }
  }
}

TEST(WaitLimit, HalfOfTheLimitIsForCheapTurns) {
  WaitLimit limit(1);
  EXPECT_EQ(limit.Refuse(1, 0.9, 0.001), std::nullopt) << "its cache is resident";
  EXPECT_NE(limit.Refuse(1, 0.9, 0.2), std::nullopt);
  EXPECT_EQ(limit.Refuse(1, 0.5, 10), std::nullopt) << "an expensive turn is admitted at half of the limit";
  EXPECT_NE(limit.Refuse(1, 0.6, 10), std::nullopt);
}

TEST(WaitLimit, RetriesArriveAtTheRateAtWhichTheyCanBeServed) {
  WaitLimit limit(1);
  double last_s = *limit.Refuse(1, 5, 0.5);
  EXPECT_GE(last_s, 5);
  for (int i = 0; i < 50; ++i) {
    const double next_s = *limit.Refuse(1, 5, 0.5);
    EXPECT_NEAR(next_s - last_s, 0.5, 1e-9);
    last_s = next_s;
  }
  EXPECT_NEAR(*limit.Refuse(21, 5, 0.5), last_s - 20 + 0.5, 1e-9) << "the refused work is done as time passes";
}

TEST(WaitLimit, AdviceIsBounded) {
  WaitLimit limit(0.1);
  EXPECT_EQ(*limit.Refuse(1, 0.2, 0.001), WaitLimit::kLeastRetryS);
  for (int i = 0; i < 1000; ++i) EXPECT_LE(*limit.Refuse(1, 30, 1), WaitLimit::kMostRetryS);
  EXPECT_LE(*limit.Refuse(1, 1, 1), WaitLimit::kMostRetryS);
}

}  // namespace
}  // namespace ringside
