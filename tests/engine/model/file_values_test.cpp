// Conversions of a file's tensors (engine/model/weights/file_values.h).
#include "engine/model/weights/file_values.h"

#include <gtest/gtest.h>

namespace ringside {
namespace {

constexpr int64_t kRows = 12, kCols = 32;

float ValueAt(int64_t row, int64_t col) { return static_cast<float>((row * 37 + col * 5) % 101 - 50); }

/// The values in Q8_0 with a scale of 1, or in float32.
std::vector<std::byte> Stored(DType dtype) {
  std::vector<std::byte> out;
  for (int64_t row = 0; row < kRows; ++row) {
    if (dtype == DType::kQ8_0) out.insert(out.end(), {std::byte{0x00}, std::byte{0x3c}});
    for (int64_t col = 0; col < kCols; ++col) {
      const float value = ValueAt(row, col);
      const auto* bytes = reinterpret_cast<const std::byte*>(&value);
      if (dtype == DType::kQ8_0)
        out.push_back(static_cast<std::byte>(static_cast<int8_t>(value)));
      else
        out.insert(out.end(), bytes, bytes + sizeof(value));
    }
  }
  return out;
}

// Every second row of a matrix, in heads of three rows.
TEST(FileValues, HeadsOfAnyTypeAreTransposed) {
  for (const DType dtype : {DType::kF32, DType::kQ8_0}) {
    const std::vector<std::byte> bytes = Stored(dtype);
    FileTensor tensor{.name = "w", .shape = {kRows, kCols}};
    tensor.data = {.dtype = dtype, .rows = kRows, .cols = kCols, .bytes = bytes};
    const auto got = TransposedHeads(tensor, std::vector<int64_t>{0, 2, 4, 6, 8, 10}, 3);
    ASSERT_TRUE(got.ok()) << got.status().ToString();
    for (int64_t i = 0; i < 6; ++i) {
      for (int64_t col = 0; col < kCols; ++col) {
        EXPECT_EQ((*got)[static_cast<size_t>(i / 3 * 3 * kCols + col * 3 + i % 3)], ValueAt(2 * i, col));
      }
    }
  }
}

}  // namespace
}  // namespace ringside
