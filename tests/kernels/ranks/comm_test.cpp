// Communication between ranks: sums in one order with the same bits everywhere, blocks in rank order, messages in
// sending order; and a group with a rank that is absent, or leaves, fails permanently instead of hanging.
#include "kernels/ranks/comm.h"

#include <gtest/gtest.h>

#include <functional>
#include <thread>

#include "tests/kernels/ranks/comm_checks.h"

namespace ringside {
namespace {

/// Calls body(comm) on one thread per rank.
void OnAll(int ranks, const std::function<void(Comm&)>& body) {
  const auto comms = MakeThreadComms(ranks, std::chrono::minutes(2));
  std::vector<std::thread> threads;
  for (const auto& comm : comms) threads.emplace_back([&] { body(*comm); });
  for (std::thread& thread : threads) thread.join();
}

class CommTest : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, CommTest, ::testing::Values(1, 2, 3, 4, 8));

TEST_P(CommTest, SumsInRankOrder) { OnAll(GetParam(), testing::CheckSums); }
TEST_P(CommTest, ManyCallsInARow) { OnAll(GetParam(), testing::CheckManyCalls); }
TEST_P(CommTest, MessagesArriveInTheirOrder) { OnAll(GetParam(), testing::CheckMessages); }

TEST(CommFailureTest, MissingRankFailsTheGroup) {
  const auto comms = MakeThreadComms(3, std::chrono::milliseconds(50));
  std::thread other([&] { comms[2]->Barrier(); });
  float sum = 1;
  comms[0]->AllReduceSum(&sum, 1);
  other.join();
  for (const auto& comm : comms) {
    EXPECT_EQ(comm->status().code(), StatusCode::kUnavailable);
    EXPECT_EQ(comm->status().message(), "rank 1 did not respond within 50 ms");
    comm->Barrier();  // at once
  }
}

TEST(CommFailureTest, LeavingRankFailsTheGroup) {
  auto comms = MakeThreadComms(2, std::chrono::minutes(2));
  std::thread leaves([&] { comms[1].reset(); });
  comms[0]->Barrier();
  leaves.join();
  EXPECT_EQ(comms[0]->status().message(), "rank 1 has left its group");
}

TEST(CommFailureTest, MissingMessageFailsTheGroup) {
  const auto comms = MakeThreadComms(2, std::chrono::milliseconds(20));
  int got = 0;
  comms[0]->Receive(&got, sizeof(got), 1);
  EXPECT_EQ(comms[0]->status().message(), "rank 1 sent no data within 20 ms");
}

TEST(RankCommsTest, RanksHaveTensorAndPipelineGroups) {
  const RankLayout layout{.tensor = 2, .stages = 3};
  std::vector<RankComms> all = MakeThreadComms(layout, std::chrono::minutes(2));
  ASSERT_EQ(std::ssize(all), layout.ranks());
  EXPECT_EQ(layout.stage(0), 2) << "the last stage's come first";
  std::vector<std::thread> threads;
  for (int rank = 0; rank < layout.ranks(); ++rank) {
    threads.emplace_back([&, rank] {
      RankComms& comms = all[static_cast<size_t>(rank)];
      EXPECT_EQ(comms.ranks(), 6);
      EXPECT_EQ(comms.layer->rank(), layout.place(rank));
      EXPECT_EQ(comms.stages->rank(), layout.stage(rank));
      int stages[2], places[3];
      comms.layer->AllGather(&rank, sizeof(rank), stages);
      comms.stages->AllGather(&rank, sizeof(rank), places);
      for (const int other : stages) EXPECT_EQ(layout.stage(other), layout.stage(rank));
      for (const int other : places) EXPECT_EQ(layout.place(other), layout.place(rank));
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(all[3].status().ok());
  all[2].stages.reset();
  all[0].stages->Barrier();
  EXPECT_EQ(all[0].status().message(), "stage 1 has left its group");
  EXPECT_TRUE(all[1].status().ok());
}

TEST(RankCommsTest, SingleRankHasNoPeers) {
  const std::vector<RankComms> all = MakeThreadComms(RankLayout{}, std::chrono::minutes(2));
  ASSERT_EQ(all.size(), 1u);
  EXPECT_TRUE(all[0].layer == nullptr && all[0].stages == nullptr && all[0].status().ok());
}

}  // namespace
}  // namespace ringside
