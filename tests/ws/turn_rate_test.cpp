// The retry delay for refused clients.
#include "ws/turn_rate.h"

#include <gtest/gtest.h>

namespace ringside {
namespace {

constexpr int64_t kMs = 1'000'000;

TEST(TurnRateTest, FollowsTheRateOfTheLastEnds) {
  TurnRate rate;
  EXPECT_EQ(rate.RetryAfterMs(10, 0), TurnRate::kUnknownMs);
  int64_t now = 5'000'000 * kMs;
  rate.OnEnd(now);
  EXPECT_EQ(rate.RetryAfterMs(10, now), TurnRate::kUnknownMs);
  for (int i = 0; i < 100; ++i) rate.OnEnd(now += 400 * kMs);
  // One turn ends every 400 ms; with 10 waiting there is room for another after 6 ends.
  EXPECT_EQ(rate.RetryAfterMs(0, now), 400);
  EXPECT_EQ(rate.RetryAfterMs(10, now), 2400);
  // Faster: only the last 32 ends count.
  for (int i = 0; i < 32; ++i) rate.OnEnd(now += 100 * kMs);
  EXPECT_EQ(rate.RetryAfterMs(10, now), 600);
}

TEST(TurnRateTest, StallLengthensTheEstimate) {
  TurnRate rate;
  for (int64_t now = 0; now <= 10; ++now) rate.OnEnd(now * 100 * kMs);
  EXPECT_EQ(rate.RetryAfterMs(8, 1000 * kMs), 500);
  EXPECT_EQ(rate.RetryAfterMs(8, 11'000 * kMs), 5500);
}

TEST(TurnRateTest, StaysWithinItsBounds) {
  TurnRate rate;
  for (int64_t now = 0; now < 10; ++now) rate.OnEnd(now * kMs);
  EXPECT_EQ(rate.RetryAfterMs(0, 9 * kMs), TurnRate::kLeastMs);
  EXPECT_EQ(rate.RetryAfterMs(1'000'000, 3'600'000 * kMs), TurnRate::kMostMs);
}

}  // namespace
}  // namespace ringside
