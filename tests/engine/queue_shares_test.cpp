// Each tenant's share of the queue.
#include "engine/overload/queue_shares.h"

#include <gtest/gtest.h>

#include <vector>

namespace ringside {
namespace {

/// Number of accepted turns per tenant when `tenants` tenants submit in turn until all are refused.
std::vector<int64_t> Fill(QueueShares& shares, int64_t tenants) {
  std::vector<int64_t> accepted(static_cast<size_t>(tenants));
  for (bool any = true; any;) {
    any = false;
    for (size_t i = 0; i < accepted.size(); ++i) {
      if (!shares.Enter(std::to_string(i)).ok()) continue;
      ++accepted[i];
      any = true;
    }
  }
  return accepted;
}

TEST(QueueShares, LoneAccountMayFillTheQueue) {
  for (const int64_t limit : {1, 2, 7, 256}) {
    QueueShares shares(limit, 0);
    EXPECT_EQ(Fill(shares, 1), std::vector<int64_t>{limit});
  }
}

TEST(QueueShares, AccountsHaveEqualSharesWithRoomForNewOnes) {
  for (const int64_t tenants : {2, 3, 5, 20}) {
    QueueShares shares(210, 0);
    const std::vector<int64_t> accepted = Fill(shares, tenants);
    for (const int64_t own : accepted) EXPECT_NEAR(static_cast<double>(own), 420.0 / (1 + tenants), 1) << tenants;
    EXPECT_TRUE(shares.Enter("new").ok()) << tenants;
    EXPECT_EQ(shares.Enter("0").code(), StatusCode::kOverloaded) << tenants;
  }
}

TEST(QueueShares, QueuesAtMostTwiceTheLimit) {
  QueueShares shares(4, 0);
  for (int i = 0; i < 8; ++i) EXPECT_TRUE(shares.Enter("tenant " + std::to_string(i)).ok()) << i;
  EXPECT_EQ(shares.Enter("new").code(), StatusCode::kOverloaded);
  shares.Leave("tenant 3");
  EXPECT_TRUE(shares.Enter("new").ok());
}

TEST(QueueShares, AccountThatFilledTheQueueIsRefusedUntilItDrains) {
  QueueShares shares(6, 0);
  for (int i = 0; i < 6; ++i) EXPECT_TRUE(shares.Enter("first").ok());
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(shares.Enter("second").ok()) << i;
  EXPECT_FALSE(shares.Enter("second").ok()) << "three of twelve are left, and it has as many";
  shares.Admit("first");
  EXPECT_FALSE(shares.Enter("first").ok()) << "it has more than its share";
  EXPECT_TRUE(shares.Enter("second").ok());
}

TEST(QueueShares, FreeSlotsDoNotCountAsQueuePlaces) {
  QueueShares shares(1, 2);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(shares.Enter("a").ok()) << i;
  EXPECT_FALSE(shares.Enter("a").ok());
  shares.Admit("a");
  shares.Admit("a");
  EXPECT_FALSE(shares.Enter("a").ok()) << "the slots are taken";
  shares.SetFreeSlots(1);
  EXPECT_TRUE(shares.Enter("a").ok());
}

TEST(QueueShares, PreemptedTurnMayExceedTheShare) {
  QueueShares shares(2, 1);
  ASSERT_TRUE(shares.Enter("a").ok());
  shares.Admit("a");
  ASSERT_TRUE(shares.Enter("a").ok());
  ASSERT_TRUE(shares.Enter("a").ok());
  shares.Requeue("a");
  EXPECT_FALSE(shares.Enter("a").ok());
  EXPECT_TRUE(shares.Enter("b").ok()) << "three of four wait";
  shares.Leave("a");
  shares.Leave("a");
  EXPECT_TRUE(shares.Enter("a").ok());
}

}  // namespace
}  // namespace ringside
