// Groups whose ranks are separate processes: they give the same guarantees as threads, and an absent or failed rank
// fails the group. All processes run the whole test program in parallel:
//
//     mpirun -np 3 build/cpu/bin/processes_test
#include "kernels/ranks/processes.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <functional>
#include <thread>

#include "tests/kernels/ranks/comm_checks.h"

namespace ringside {
namespace {

constexpr std::chrono::milliseconds kLong = std::chrono::minutes(2);
Processes* processes;

/// A channel not used by any group yet.
int NextChannel() {
  static int channel = 0;
  return channel += 2;
}

class RanksTest : public ::testing::TestWithParam<int> {
 protected:
  /// Calls body(comm) for each of this process's ranks.
  static void OnAll(const std::function<void(Comm&)>& body) {
    const auto comms = processes->MakeComms(NextChannel(), {.tensor = processes->count() * GetParam()}, kLong);
    std::vector<std::thread> threads;
    for (const RankComms& rank : comms) threads.emplace_back([&] { body(*rank.layer); });
    for (std::thread& thread : threads) thread.join();
  }
};
INSTANTIATE_TEST_SUITE_P(Each, RanksTest, ::testing::Values(1, 2));

TEST_P(RanksTest, SumsInRankOrder) { OnAll(testing::CheckSums); }
TEST_P(RanksTest, ManyCallsInARow) { OnAll(testing::CheckManyCalls); }
TEST_P(RanksTest, MessagesArriveInTheirOrder) { OnAll(testing::CheckMessages); }

// Each stage is a process with its ranks: every rank communicates with the ranks of its layers, and with those at its
// position in other stages.
TEST(ProcessesTest, StagesHaveTheirOwnGroups) {
  const RankLayout layout{.tensor = 2, .stages = processes->count()};
  auto comms = processes->MakeComms(NextChannel(), layout, kLong);
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back([&, i] {
      const int rank = 2 * processes->number() + i;
      const RankComms& own = comms[static_cast<size_t>(i)];
      EXPECT_EQ(own.layer->rank(), layout.place(rank));
      EXPECT_EQ(own.stages->rank(), layout.stage(rank));
      std::vector<int> places(2), stages(static_cast<size_t>(layout.stages));
      own.layer->AllGather(&rank, sizeof(rank), places.data());
      own.stages->AllGather(&rank, sizeof(rank), stages.data());
      for (const int other : places) EXPECT_EQ(layout.stage(other), layout.stage(rank));
      for (size_t stage = 0; stage < stages.size(); ++stage) {
        EXPECT_EQ(layout.stage(stages[stage]), static_cast<int>(stage));
        EXPECT_EQ(layout.place(stages[stage]), layout.place(rank));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(ProcessesFailureTest, MissingRankFailsTheGroup) {
  const auto all = processes->MakeComm(NextChannel(), kLong);
  const auto some = processes->MakeComm(NextChannel(), std::chrono::milliseconds(50));
  Comm& comm = *some;
  if (comm.rank() != 1) {
    float sum = 1;
    comm.AllReduceSum(&sum, 1);
    EXPECT_EQ(comm.status().code(), StatusCode::kUnavailable);
    EXPECT_EQ(comm.status().message(), "rank 1 did not respond within 50 ms");
    comm.Barrier();  // at once
  }
  all->Barrier();
  EXPECT_TRUE(all->status().ok()) << "another group";
}

TEST(ProcessesFailureTest, MissingMessageFailsTheGroup) {
  const auto all = processes->MakeComm(NextChannel(), kLong);
  const auto some = processes->MakeComm(NextChannel(), std::chrono::milliseconds(20));
  if (processes->number() == 0) {
    int got = 0;
    some->Receive(&got, sizeof(got), 1);
    EXPECT_EQ(some->status().message(), "rank 1 sent no data within 20 ms");
  }
  all->Barrier();
}

TEST(ProcessesFailureTest, LeavingRankFailsTheGroup) {
  const auto comm = processes->MakeComm(NextChannel(), kLong);
  comm->Barrier();
  if (processes->number() == 1) return;
  int got = 0;
  comm->Receive(&got, sizeof(got), 1);
  EXPECT_EQ(comm->status().message(), "rank 1 has left its group");
}

TEST(ProcessesFailureTest, EarlierMessagesStillArrive) {
  const auto comm = processes->MakeComm(NextChannel(), kLong);
  int sent = processes->number();
  if (sent == 1) comm->Send(&sent, sizeof(sent), 0);
  if (sent > 0) return;
  comm->Receive(&sent, sizeof(sent), 1);
  EXPECT_EQ(sent, 1);
  EXPECT_TRUE(comm->status().ok());
}

}  // namespace
}  // namespace ringside

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  auto joined = ringside::Processes::Join(ringside::kLong);
  if (!joined.ok() || (*joined)->count() < 2) {
    std::fprintf(stderr, "not started by mpirun: %s\n", joined.status().ToString().c_str());
    return 1;
  }
  ringside::processes = joined->get();
  const int failed = RUN_ALL_TESTS();
  if (ringside::processes->number() > 0) ringside::processes->AwaitFirst();
  return ringside::processes->Leave().ok() ? failed : 1;
}
