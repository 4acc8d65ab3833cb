// The contract of every kind of group, from one rank's view: all ranks call the same functions concurrently.
#pragma once

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "kernels/ranks/comm.h"

namespace ringside::testing {

inline void CheckSums(Comm& comm) {
  for (const int64_t count : {1, 3, 1000, 300'000}) {
    std::vector<std::vector<float>> values(static_cast<size_t>(comm.ranks()));
    std::mt19937 random(1);
    for (auto& own : values) {
      for (int64_t i = 0; i < count; ++i) own.push_back(std::normal_distribution<float>(0, 100)(random));
    }
    std::vector<float> want = values.front();
    for (size_t r = 1; r < values.size(); ++r) {
      for (size_t i = 0; i < want.size(); ++i) want[i] += values[r][i];
    }
    std::vector<float>& own = values[static_cast<size_t>(comm.rank())];
    comm.AllReduceSum(own.data(), count);
    EXPECT_EQ(own, want);
  }
}

inline void CheckManyCalls(Comm& comm) {
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
}

/// Short ones, and some that are too long to be sent in one piece.
inline void CheckMessages(Comm& comm) {
  const int next = (comm.rank() + 1) % comm.ranks(), last = (comm.rank() + comm.ranks() - 1) % comm.ranks();
  for (int i = 0; i < 100; ++i) comm.Send(&i, sizeof(i), next);
  for (int i = 0; i < 100; ++i) {
    int got = -1;
    comm.Receive(&got, sizeof(got), last);
    EXPECT_EQ(got, i);
  }
  if (comm.ranks() == 1) return;
  const std::vector<int> long_one(700'000, comm.rank());
  std::vector<int> got(long_one.size());
  // The others wait for the first: a send may block until its message is received.
  if (comm.rank() > 0) comm.Receive(got.data(), got.size() * sizeof(int), last);
  comm.Send(long_one.data(), long_one.size() * sizeof(int), next);
  if (comm.rank() == 0) comm.Receive(got.data(), got.size() * sizeof(int), last);
  EXPECT_EQ(got, std::vector<int>(got.size(), last));
}

}  // namespace ringside::testing
