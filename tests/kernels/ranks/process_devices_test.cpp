// Assignment of GPUs to one of several processes; tests/system/ranks/processes_test.py covers joint refusals.
#include "kernels/ranks/process_devices.h"

#include <gtest/gtest.h>

namespace ringside {
namespace {

TEST(ProcessDevicesTest, EachProcessTakesTheNextDevices) {
  EXPECT_EQ(FirstDeviceOf(0, 1, 8, 0), 0);
  EXPECT_EQ(FirstDeviceOf(0, 1, 8, 3), 3);
  EXPECT_EQ(FirstDeviceOf(0, 4, 8, 1), 4);
  EXPECT_EQ(FirstDeviceOf(2, 2, 8, 1), 4);
  EXPECT_EQ(FirstDeviceOf(0, 1, 2, 2), 2);  // one too many: refused, because no such GPU is visible
}

TEST(ProcessDevicesTest, ProcessWithExactlyItsDevicesUsesThem) {
  EXPECT_EQ(FirstDeviceOf(0, 1, 1, 5), 0);
  EXPECT_EQ(FirstDeviceOf(0, 4, 4, 1), 0);
  EXPECT_EQ(FirstDeviceOf(0, 1, 0, 1), 0);
}

}  // namespace
}  // namespace ringside
