#include "ws/app/app_readiness.h"

#include <gtest/gtest.h>

namespace ringside {
namespace {

TEST(AppReadinessTest, WorkersAreHealthyWithinTheirLimits) {
  EXPECT_EQ(WorkersTrouble({}), "");
  EXPECT_EQ(WorkersTrouble({.longest_call_ms = kLongestCallMs - 1, .stalled_ms = kLongestStallMs - 1}), "");
  // Waits for the disk are reported as disk trouble.
  EXPECT_EQ(WorkersTrouble({.disk_waits = 64}), "");
  EXPECT_EQ(WorkersTrouble({.stalled_ms = 12'345}), "no worker has been free for 12 s");
  EXPECT_EQ(WorkersTrouble({.longest_call_ms = 61'000}), "a worker has been busy with one request for 61 s");
}

TEST(AppReadinessTest, StoreIsHealthyWhileWritesSucceed) {
  const auto writing = [](int64_t ms) {
    JournalStats stats;
    stats.writing_ms = ms;
    return stats;
  };
  EXPECT_EQ(StoreTrouble(Status::Ok(), writing(0)), "");
  EXPECT_EQ(StoreTrouble(Status::Ok(), writing(kLongestWriteMs - 1)), "");
  EXPECT_EQ(StoreTrouble(Status::Ok(), writing(7'000)), "the disk has not finished a write for 7 s");
  EXPECT_EQ(StoreTrouble({StatusCode::kUnavailable, "x", "", "storage_full"}, {}), "the disk is full");
  EXPECT_EQ(StoreTrouble(Unavailable("x"), {}), "the store cannot be written");
  EXPECT_EQ(StoreTrouble(IoError("x"), {}), "the disk has failed");
}

}  // namespace
}  // namespace ringside
