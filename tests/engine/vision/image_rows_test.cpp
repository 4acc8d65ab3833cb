#include "engine/vision/image_rows.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <vector>

namespace ringside {
namespace {

int64_t ResidentBytes() {
  int64_t all = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> all >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

// The rows of many small pictures are kept by their bytes: they may not have a huge page each.
TEST(ImageRows, SmallOnesTakeLittleMemory) {
  constexpr int64_t kPictures = 400, kRows = 4, kColumns = 256;
  const int64_t before = ResidentBytes();
  std::vector<ImageRows> kept;
  for (int64_t i = 0; i < kPictures; ++i) {
    ImageRows& rows = kept.emplace_back(DType::kF32, kRows, kColumns);
    std::fill_n(rows.Row(0), rows.bytes(), std::byte{1});
  }
  EXPECT_EQ(kept.front().bytes(), kRows * kColumns * 4);
  EXPECT_LT(ResidentBytes() - before, 64 << 20);
}

TEST(ImageRows, LargeOnesTakeTheirBytes) {
  const int64_t before = ResidentBytes();
  std::vector<ImageRows> kept;
  for (int64_t i = 0; i < 16; ++i) {  // 2.25 MiB each
    ImageRows& rows = kept.emplace_back(DType::kBF16, 1152, 1024);
    std::fill_n(rows.Row(0), rows.bytes(), std::byte{1});
    EXPECT_EQ(rows.Row(1151) + rows.row_bytes(), rows.Row(0) + rows.bytes());
  }
  EXPECT_LT(ResidentBytes() - before, (16 * 9 / 4 + 16) << 20);
}

}  // namespace
}  // namespace ringside
