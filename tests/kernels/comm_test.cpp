// What ranks say to one another: sums in one order with the same bits everywhere, blocks in the order of the ranks,
// messages in the order in which they were sent; and a group with a rank that does not come, or leaves, fails for good
// instead of waiting for it.
#include "kernels/comm.h"

#include <gtest/gtest.h>

#include <functional>
#include <random>
#include <thread>

namespace ringside {
namespace {

/// body(comm) on a thread for each rank.
void OnAll(int ranks, const std::function<void(Comm&)>& body) {
  const auto comms = MakeThreadComms(ranks, std::chrono::minutes(2));
  std::vector<std::thread> threads;
  for (const auto& comm : comms) threads.emplace_back([&] { body(*comm); });
  for (std::thread& thread : threads) thread.join();
}

class CommTest : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, CommTest, ::testing::Values(1, 2, 3, 4, 8));

TEST_P(CommTest, SumsAreTakenInTheOrderOfTheRanks) {
  for (const int64_t count : {1, 3, 1000}) {
    std::vector<std::vector<float>> values(static_cast<size_t>(GetParam()));
    std::mt19937 random(1);
    for (auto& own : values) {
      for (int64_t i = 0; i < count; ++i) own.push_back(std::normal_distribution<float>(0, 100)(random));
    }
    std::vector<float> want = values.front();
    for (size_t r = 1; r < values.size(); ++r) {
      for (size_t i = 0; i < want.size(); ++i) want[i] += values[r][i];
    }
    OnAll(GetParam(), [&](Comm& comm) {
      std::vector<float>& own = values[static_cast<size_t>(comm.rank())];
      comm.AllReduceSum(own.data(), count);
      EXPECT_EQ(own, want);
    });
  }
}

TEST_P(CommTest, ManyCallsInARow) {
  OnAll(GetParam(), [&](Comm& comm) {
    for (int i = 0; i < 500; ++i) {
      float sum = static_cast<float>(comm.rank() + i);
      comm.AllReduceSum(&sum, 1);
      EXPECT_EQ(sum, static_cast<float>(comm.ranks() * (comm.ranks() - 1) / 2 + comm.ranks() * i));
      const int mine = 100 * i + comm.rank();
      std::vector<int> all(static_cast<size_t>(comm.ranks()));
      comm.AllGather(&mine, sizeof(mine), all.data());
      for (int r = 0; r < comm.ranks(); ++r) EXPECT_EQ(all[static_cast<size_t>(r)], 100 * i + r);
      int said = comm.rank() == i % comm.ranks() ? i : -1;
      comm.Broadcast(&said, sizeof(said), i % comm.ranks());
      EXPECT_EQ(said, i);
    }
    comm.Barrier();
    EXPECT_TRUE(comm.status().ok());
  });
}

TEST_P(CommTest, MessagesArriveInTheirOrder) {
  OnAll(GetParam(), [&](Comm& comm) {
    const int next = (comm.rank() + 1) % comm.ranks(), last = (comm.rank() + comm.ranks() - 1) % comm.ranks();
    for (int i = 0; i < 100; ++i) comm.Send(&i, sizeof(i), next);
    for (int i = 0; i < 100; ++i) {
      int got = -1;
      comm.Receive(&got, sizeof(got), last);
      EXPECT_EQ(got, i);
    }
  });
}

TEST(CommFailureTest, ARankThatDoesNotComeFailsTheGroup) {
  const auto comms = MakeThreadComms(3, std::chrono::milliseconds(50));
  std::thread other([&] { comms[2]->Barrier(); });
  float sum = 1;
  comms[0]->AllReduceSum(&sum, 1);
  other.join();
  for (const auto& comm : comms) {
    EXPECT_EQ(comm->status().code(), StatusCode::kUnavailable);
    EXPECT_EQ(comm->status().message(), "rank 1 did not answer within 50 ms");
    comm->Barrier();  // at once
  }
}

TEST(CommFailureTest, ARankThatLeavesFailsTheGroup) {
  auto comms = MakeThreadComms(2, std::chrono::minutes(2));
  std::thread leaves([&] { comms[1].reset(); });
  comms[0]->Barrier();
  leaves.join();
  EXPECT_EQ(comms[0]->status().message(), "rank 1 has left its group");
}

TEST(CommFailureTest, AMessageThatNobodySendsFailsTheGroup) {
  const auto comms = MakeThreadComms(2, std::chrono::milliseconds(20));
  int got = 0;
  comms[0]->Receive(&got, sizeof(got), 1);
  EXPECT_EQ(comms[0]->status().message(), "rank 1 sent nothing within 20 ms");
}

}  // namespace
}  // namespace ringside
