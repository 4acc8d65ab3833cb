// 8-bit weights: every number of E4M3, rounding against a search, rows against their error bounds.
#include "kernels/formats/row_quantization.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <set>

#include "kernels/cuda/linear/w8_layout.h"
#include "kernels/formats/half.h"
#include "tests/kernels/reference.h"

namespace ringside::testing {
namespace {

/// The definition: (-1)^s 2^(e - 7) 1.m, or 2^-6 0.m where e is 0.
double ValueOfE4M3(int bits) {
  const int exponent = bits >> 3 & 15, fraction = bits & 7;
  const double magnitude =
      exponent == 0 ? std::ldexp(fraction / 8.0, -6) : std::ldexp(1 + fraction / 8.0, exponent - 7);
  return bits & 0x80 ? -magnitude : magnitude;
}

TEST(RowQuantization, EveryE4M3ValueRoundTrips) {
  for (int bits = 0; bits < 256; ++bits) {
    const auto byte = static_cast<uint8_t>(bits);
    if ((bits & 0x7f) == 0x7f) {
      EXPECT_TRUE(std::isnan(E4M3ToFloat(byte)));
      continue;
    }
    EXPECT_EQ(E4M3ToFloat(byte), ValueOfE4M3(bits));
    EXPECT_EQ(FloatToE4M3(E4M3ToFloat(byte)), bits);
  }
  EXPECT_EQ(E4M3ToFloat(0x7e), 448);
  EXPECT_EQ(E4M3ToFloat(0x01), 0x1p-9f);
  EXPECT_EQ(FloatToE4M3(1e9f), 0x7e);
  EXPECT_EQ(FloatToE4M3(-std::numeric_limits<float>::infinity()), 0xfe);
  EXPECT_EQ(FloatToE4M3(std::numeric_limits<float>::quiet_NaN()), 0x7f);
}

TEST(RowQuantization, E4M3RoundsToNearestTiesToEven) {
  std::vector<float> values = RandomFloats(20000, 1, 3);
  for (size_t i = 0; i < values.size(); ++i) values[i] = std::ldexp(values[i], static_cast<int>(i % 18) - 11);
  for (int bits = 0; bits < 0x7e; ++bits) {  // the midpoints
    values.push_back(static_cast<float>((ValueOfE4M3(bits) + ValueOfE4M3(bits + 1)) / 2));
  }
  for (const float x : values) {
    if (std::fabs(x) > 448) continue;
    double least = 1e9;
    for (int bits = 0; bits < 0x7f; ++bits) least = std::min(least, std::fabs(std::fabs(x) - ValueOfE4M3(bits)));
    const uint8_t got = FloatToE4M3(x);
    EXPECT_EQ(std::fabs(static_cast<double>(x) - ValueOfE4M3(got)), least) << x;
    const bool tie = least > 0 && std::fabs(std::fabs(x) - ValueOfE4M3((got & 0x7f) ^ 1)) == least;
    if (tie) {
      EXPECT_EQ(got & 1, 0) << x;
    }
    EXPECT_EQ(std::signbit(x), (got & 0x80) != 0) << x;
  }
}

TEST(RowQuantization, RowsStayWithinHalfAStep) {
  for (const DType dtype : {DType::kI8, DType::kF8E4M3}) {
    for (const float size : {1e-30f, 1e-3f, 1.0f, 1e20f}) {
      const std::vector<float> row = RandomFloats(1000, 3, size);
      float largest = 0;
      for (const float x : row) largest = std::max(largest, std::fabs(x));
      std::vector<uint8_t> q(row.size());
      const float scale = QuantizeRow(dtype, row, q.data());
      EXPECT_FLOAT_EQ(scale, largest / (dtype == DType::kI8 ? 127 : 448));
      for (size_t i = 0; i < row.size(); ++i) {
        const double value = static_cast<double>(scale) * QuantizedValue(dtype, q[i]), x = row[i];
        // E4M3: 2^-4 of the number, or half of the smallest step.
        const double step = dtype == DType::kI8 ? 0.5 * scale : std::max(std::fabs(x) / 16, 0x1p-10 * scale);
        ASSERT_LE(std::fabs(value - x), step * (1 + 1e-5)) << Traits(dtype).name << " " << x;
      }
      const auto at = static_cast<size_t>(
          std::max_element(row.begin(), row.end(), [](float a, float b) { return std::fabs(a) < std::fabs(b); }) -
          row.begin());
      EXPECT_EQ(std::fabs(QuantizedValue(dtype, q[at])), dtype == DType::kI8 ? 127 : 448);
    }
  }
}

TEST(RowQuantization, ZeroTinyAndNonFiniteRows) {
  for (const DType dtype : {DType::kI8, DType::kF8E4M3}) {
    for (const float x : {0.0f, -0.0f, 1e-42f}) {
      std::vector<float> row(5, x);
      std::vector<uint8_t> q(5, 9);
      EXPECT_EQ(QuantizeRow(dtype, row, q.data()), 0);
      EXPECT_EQ(q, std::vector<uint8_t>(5, 0));
    }
    for (const float x : {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
      std::vector<float> row = {1, x, 2};
      std::vector<uint8_t> q(3, 9);
      EXPECT_TRUE(std::isnan(QuantizeRow(dtype, row, q.data())));
      EXPECT_EQ(q, std::vector<uint8_t>(3, 0));
    }
  }
}

TEST(RowQuantization, NamesAreTheCommandLineNames) {
  EXPECT_EQ(QuantizationNamed("int8"), DType::kI8);
  EXPECT_EQ(QuantizationNamed("fp8"), DType::kF8E4M3);
  for (const char* name : {"none", "", "int4", "INT8"}) EXPECT_FALSE(QuantizationNamed(name)) << name;
}

TEST(W8Layout, AGroupIsAPermutation) {
  std::set<int> places;
  for (int i = 0; i < cuda::kW8Group; ++i) places.insert(cuda::W8Position(i));
  EXPECT_EQ(places.size(), 16u);
  EXPECT_EQ(*places.begin(), 0);
  EXPECT_EQ(*places.rbegin(), 15);
  EXPECT_EQ(cuda::W8Position(8), 1);
  EXPECT_EQ(cuda::W8Position(1), 2);
  EXPECT_EQ(cuda::W8RowBytes(576), 576);
  EXPECT_EQ(cuda::W8RowBytes(33), 48);
}

// Bit 15 and the magnitude below: a number in a low byte; one in a high byte after a byte swap.
TEST(W8Layout, RowsHaveTheTensorCoreLayout) {
  std::vector<uint8_t> row(32), placed(32), floats(32);
  for (int i = 0; i < 32; ++i) row[static_cast<size_t>(i)] = static_cast<uint8_t>(i * 37 % 255 - 127);
  cuda::PackW8Row(DType::kI8, row, placed.data());
  cuda::PackW8Row(DType::kF8E4M3, row, floats.data());
  for (size_t i = 0; i < 32; ++i) {
    const size_t place = i / 16 * 16 + static_cast<size_t>(cuda::W8Position(static_cast<int>(i % 16)));
    uint32_t half = placed[place & ~size_t{1}] | placed[place | 1] << 8;
    if (place % 2 == 1) half = (half >> 8 | half << 8) & 0xffff;
    const int magnitude = static_cast<int>(half & 0x7f);
    EXPECT_EQ(half & 0x8000 ? -magnitude : magnitude, static_cast<int8_t>(row[i])) << i;
    EXPECT_EQ(floats[place], row[i]) << i;
  }
}

}  // namespace
}  // namespace ringside::testing
