// The database that a cell shares.
#include <gtest/gtest.h>

#include "tools/sim/cluster/database.h"

namespace ringside {
namespace {

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
