// Groups whose ranks are in processes of their own: what threads promise, they promise, and a rank that does not come
// or leaves fails them as well. Every process runs all of it at the same time:
//
//     mpirun -np 3 build/cpu/bin/processes_test
#include "kernels/processes.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <functional>
#include <thread>

#include "tests/kernels/comm_checks.h"

namespace ringside {
namespace {

constexpr std::chrono::milliseconds kLong = std::chrono::minutes(2);
Processes* processes;

/// A channel that no group has had.
int NextChannel() {
  static int channel = 0;
  return channel++;
}

class ProcessesTest : public ::testing::TestWithParam<int> {
 protected:
  /// body(comm) for each of this process's ranks.
  static void OnAll(const std::function<void(Comm&)>& body) {
    const auto comms = processes->MakeComms(NextChannel(), GetParam(), kLong);
    std::vector<std::thread> threads;
    for (const auto& comm : comms) threads.emplace_back([&] { body(*comm); });
    for (std::thread& thread : threads) thread.join();
  }
};
INSTANTIATE_TEST_SUITE_P(RanksEach, ProcessesTest, ::testing::Values(1, 2));

TEST_P(ProcessesTest, SumsAreTakenInTheOrderOfTheRanks) { OnAll(testing::CheckSums); }
TEST_P(ProcessesTest, ManyCallsInARow) { OnAll(testing::CheckManyCalls); }
TEST_P(ProcessesTest, MessagesArriveInTheirOrder) { OnAll(testing::CheckMessages); }

TEST(ProcessesFailureTest, ARankThatDoesNotComeFailsTheGroup) {
  const auto all = processes->MakeComms(NextChannel(), 1, kLong);
  const auto some = processes->MakeComms(NextChannel(), 1, std::chrono::milliseconds(50));
  Comm& comm = *some.front();
  if (comm.rank() != 1) {
    float sum = 1;
    comm.AllReduceSum(&sum, 1);
    EXPECT_EQ(comm.status().code(), StatusCode::kUnavailable);
    EXPECT_EQ(comm.status().message(), "rank 1 did not answer within 50 ms");
    comm.Barrier();  // at once
  }
  all.front()->Barrier();
  EXPECT_TRUE(all.front()->status().ok()) << "another group";
}

TEST(ProcessesFailureTest, AMessageThatNobodySendsFailsTheGroup) {
  const auto all = processes->MakeComms(NextChannel(), 1, kLong);
  const auto some = processes->MakeComms(NextChannel(), 1, std::chrono::milliseconds(20));
  if (processes->number() == 0) {
    int got = 0;
    some.front()->Receive(&got, sizeof(got), 1);
    EXPECT_EQ(some.front()->status().message(), "rank 1 sent nothing within 20 ms");
  }
  all.front()->Barrier();
}

TEST(ProcessesFailureTest, ARankThatLeavesFailsTheGroup) {
  auto comms = processes->MakeComms(NextChannel(), 1, kLong);
  comms.front()->Barrier();
  if (processes->number() == 1) return;
  int got = 0;
  comms.front()->Receive(&got, sizeof(got), 1);
  EXPECT_EQ(comms.front()->status().message(), "rank 1 has left its group");
}

TEST(ProcessesFailureTest, WhatWasSentBeforeArrivesAllTheSame) {
  auto comms = processes->MakeComms(NextChannel(), 1, kLong);
  int sent = processes->number();
  if (sent == 1) comms.front()->Send(&sent, sizeof(sent), 0);
  if (sent > 0) return;
  comms.front()->Receive(&sent, sizeof(sent), 1);
  EXPECT_EQ(sent, 1);
  EXPECT_TRUE(comms.front()->status().ok());
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
  return RUN_ALL_TESTS();
}
