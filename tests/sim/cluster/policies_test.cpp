// Admission by predicted wait, and the database that a cell shares.
#include <gtest/gtest.h>

#include "tools/sim/cluster/database.h"
#include "tools/sim/cluster/wait_limit.h"

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

TEST(Database, CommitsQueueAboveItsRate) {
  const StoreOptions options{.least_s = 0.001, .most_s = 0.008, .commits_per_s = 100};
  Database database;
  EXPECT_NEAR(database.Commit(options, 10, 1, 0, 0), 10.011, 1e-9);
  EXPECT_NEAR(database.Commit(options, 20, 1, 0, 1), 20.018, 1e-9);
  for (int i = 0; i < 99; ++i) EXPECT_GT(database.Commit(options, 20, 1, 0, 0.5), 20);
  EXPECT_NEAR(database.WaitS(20), 1, 1e-9);
  EXPECT_NEAR(database.WaitS(20.4), 0.6, 1e-9);
  EXPECT_NEAR(database.busy_s(), 1.01, 1e-9);
}

TEST(Database, FailoverDelaysCommitsAndItsEndIsUnknown) {
  const StoreOptions options;
  Database database;
  database.Pause(100, 120);
  EXPECT_GT(database.Commit(options, 101, 1, 0, 0), 120);
  EXPECT_NEAR(database.WaitS(105), 5, 1e-9) << "servers only know how long it has been away";
  EXPECT_LT(database.WaitS(120), 0.1);
}

}  // namespace
}  // namespace ringside
