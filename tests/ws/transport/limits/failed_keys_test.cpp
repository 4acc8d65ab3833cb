// Wrong keys: delays and log lines.
#include "ws/transport/limits/failed_keys.h"

#include <gtest/gtest.h>

#include <vector>

namespace ringside::testing {
namespace {

class FailedKeysTest : public ::testing::Test {
 protected:
  ManualClock clock_;
  std::vector<std::string> lines_;
  FailedKeys failed_{[this](const std::string& line) { lines_.push_back(line); }, clock_};

  int64_t CountMs(const std::string& address) { return failed_.Count(address).count(); }
};

TEST_F(FailedKeysTest, DelaysAnAddressAfterTheBurst) {
  for (int64_t i = 0; i < FailedKeys::kBurst; ++i) EXPECT_EQ(CountMs("10.0.0.1"), 0);
  int64_t last = 0;
  for (int i = 0; i < 20; ++i) {
    const int64_t delay = CountMs("10.0.0.1");
    EXPECT_GT(delay, last);
    last = delay;
  }
  for (int i = 0; i < 1'000; ++i) CountMs("10.0.0.1");
  EXPECT_EQ(CountMs("10.0.0.1"), FailedKeys::kMaxDelay.count());
  EXPECT_EQ(CountMs("10.0.0.2"), 0) << "another address";
  clock_.AdvanceMs(60'000);
  EXPECT_EQ(CountMs("10.0.0.1"), 0) << "forgiven";
}

TEST_F(FailedKeysTest, StateIsBoundedForAnyNumberOfAddresses) {
  for (size_t i = 0; i < 3 * FailedKeys::kMaxAddresses; ++i) CountMs("fd00::" + std::to_string(i));
  EXPECT_EQ(failed_.addresses(), FailedKeys::kMaxAddresses);
}

TEST_F(FailedKeysTest, LogsAFloodOncePerInterval) {
  for (int i = 0; i < 500; ++i) CountMs("10.0.0.1");
  ASSERT_EQ(lines_.size(), 1U);
  EXPECT_EQ(lines_[0], "keys: refused a wrong, expired or revoked key from 10.0.0.1");
  clock_.AdvanceMs(FailedKeys::kLogIntervalNs / 1'000'000);
  CountMs("10.0.0.2");
  ASSERT_EQ(lines_.size(), 2U);
  EXPECT_EQ(
      lines_[1],
      "keys: refused a wrong, expired or revoked key from 10.0.0.2; 499 more from all addresses in the last 10 s");
}

}  // namespace
}  // namespace ringside::testing
