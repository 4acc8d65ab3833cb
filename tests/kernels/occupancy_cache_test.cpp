// A per-device cache of queries, used by threads of several devices concurrently.
#include "kernels/cuda/attention/occupancy_cache.h"

#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <thread>
#include <vector>

namespace ringside::cuda {
namespace {

TEST(OccupancyCache, AsksOnceForEachNumber) {
  OccupancyCache squares;
  int asked = 0;
  for (int time = 0; time < 3; ++time) {
    for (int number = 0; number < 5; ++number) {
      EXPECT_EQ(squares.Of(number, [&] { return ++asked, number * number; }), number * number);
    }
  }
  EXPECT_EQ(asked, 5);
}

// Without the lock, answers would be lost or the process would crash.
TEST(OccupancyCache, ThreadsShareTheResult) {
  constexpr int kThreads = 4, kTimes = 50, kNumbers = 500;
  std::vector<OccupancyCache> squares(kTimes);
  std::atomic<int> wrong = 0;
  std::barrier together(kThreads);
  std::vector<std::jthread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&] {
      for (OccupancyCache& one : squares) {
        together.arrive_and_wait();
        for (int number = 0; number < kNumbers; ++number) {
          if (one.Of(number, [&] { return number * number; }) != number * number) ++wrong;
        }
      }
    });
  }
  threads.clear();
  EXPECT_EQ(wrong, 0);
}

// A query may wait for work that another thread does before it makes the same query.
TEST(OccupancyCache, CallersDoNotWaitForOneAnother) {
  OccupancyCache answers;
  std::barrier together(2);
  std::vector<std::jthread> threads;
  std::atomic<int> sum = 0;
  for (int thread = 0; thread < 2; ++thread) {
    threads.emplace_back([&] { sum += answers.Of(1, [&] { return together.arrive_and_wait(), 7; }); });
  }
  threads.clear();
  EXPECT_EQ(sum, 14);
}

}  // namespace
}  // namespace ringside::cuda
