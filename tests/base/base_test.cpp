#include <gtest/gtest.h>
#include <sys/resource.h>

#include <thread>

#include "base/bounded_queue.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/open_files.h"
#include "base/status.h"

namespace ringside {
namespace {

Result<int> Half(int n) {
  if (n % 2 != 0) return InvalidArgument("odd", "n");
  return n / 2;
}
Status HalveTwice(int n, int* out) {
  ASSIGN_OR_RETURN(const int once, Half(n));
  ASSIGN_OR_RETURN(*out, Half(once));
  return Status::Ok();
}

TEST(Status, ErrorsPropagateWithTheirParameter) {
  int quarter = 0;
  EXPECT_TRUE(HalveTwice(12, &quarter).ok());
  EXPECT_EQ(quarter, 3);
  const Status failed = HalveTwice(6, &quarter);
  EXPECT_EQ(failed.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(failed.param(), "n");
  EXPECT_EQ(failed.ToString(), "invalid_argument: odd");
}

TEST(StatusDeathTest, ReadingAFailedResultAborts) {
  EXPECT_DEATH({ [[maybe_unused]] const int value = Half(3).value(); }, "invalid_argument: odd");
}

TEST(CheckDeathTest, PrintsBothValues) { EXPECT_DEATH(CHECK_EQ(1 + 1, 3), "1 \\+ 1 == 3 \\(2 vs 3\\)"); }

TEST(OpenFiles, ShareFollowsTheLimitWithinBounds) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit lower = before;
  lower.rlim_cur = 256;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &lower), 0);
  EXPECT_EQ(ShareOfOpenFiles(4, 1, 1024), 64);
  EXPECT_EQ(ShareOfOpenFiles(8, 64, 256), 64);
  EXPECT_EQ(ShareOfOpenFiles(2, 1, 100), 100);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
}

TEST(BoundedQueue, RefusesWhenFullAndKeepsTheItem) {
  BoundedQueue<std::string> queue(2);
  EXPECT_TRUE(queue.TryPush("a"));
  EXPECT_TRUE(queue.TryPush("b"));
  std::string third = "c";
  EXPECT_FALSE(queue.TryPush(std::move(third)));
  EXPECT_EQ(third, "c");
  EXPECT_TRUE(queue.PushUrgent("d"));
  EXPECT_EQ(queue.Drain(false), (std::vector<std::string>{"a", "b", "d"}));
}

TEST(BoundedQueue, CloseWakesWaitersAndRefusesItems) {
  BoundedQueue<int> queue(2);
  std::thread closer([&] { queue.Close(); });
  EXPECT_TRUE(queue.Drain(true).empty());
  closer.join();
  EXPECT_FALSE(queue.TryPush(1));
  EXPECT_FALSE(queue.PushUrgent(1));
}

TEST(BoundedQueue, TimedWaitReturnsAnItemOrNothing) {
  BoundedQueue<int> queue(2);
  EXPECT_TRUE(queue.DrainWithin(std::chrono::nanoseconds(0)).empty());
  EXPECT_TRUE(queue.DrainWithin(std::chrono::milliseconds(1)).empty());
  std::thread producer([&] { queue.PushUrgent(7); });
  EXPECT_EQ(queue.DrainWithin(std::chrono::hours(1)), std::vector<int>{7});
  producer.join();
  std::thread closer([&] { queue.Close(); });
  EXPECT_TRUE(queue.DrainWithin(std::chrono::hours(1)).empty());
  closer.join();
}

TEST(ManualClock, AdvancesOnlyOnRequest) {
  ManualClock clock;
  EXPECT_EQ(clock.MonotonicNs(), 0);
  clock.AdvanceMs(1500);
  EXPECT_EQ(clock.MonotonicNs(), 1'500'000'000);
  EXPECT_DOUBLE_EQ(clock.WallSeconds(), 1.5);
}

}  // namespace
}  // namespace ringside
