// File blocks repacked into tiles for a GPU: every type's values are preserved.
#include "kernels/cuda/linear/block_quant_packing.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "kernels/formats/file_formats.h"
#include "tests/kernels/formats/block_quant_values.h"

namespace ringside::testing {
namespace {

/// Calls check(value of the tiles, value of the file, unit of the row or 0) for every element.
template <class F>
void ForAllValues(const RandomWeight& w, const F& check) {
  const PackedWeight packed = std::move(Pack(w.host()).value());
  std::vector<float> row(static_cast<size_t>(w.cols));
  for (int64_t r = 0; r < w.rows; ++r) {
    ReadFileRow(w.host(), r, row.data());
    for (int64_t c = 0; c < w.cols; ++c) {
      check(cuda::BlockQuantValue(packed.dtype, packed.tiles.data(), packed.scales.data(), w.cols, r, c),
            row[static_cast<size_t>(c)],
            packed.dtype == DType::kBlockQuantE4M3 ? 0 : packed.scales[static_cast<size_t>(r)]);
    }
  }
}

TEST(BlockQuantPacking, EveryTypeRoundTrips) {
  for (const DType type : kBlockTypes) {
    const float steps =
        cuda::BlockQuantTypeOf(type) == DType::kBlockQuant8 ? 128 : 65;  // the largest count of a scale, and 1
    for (const auto& [rows, cols] : {std::pair{1, 256}, {70, 512}, {64, 768}}) {
      ForAllValues(MakeBlocks(type, rows, cols, 5), [&](float got, float want, float unit) {
        // A scale and an offset, of up to 2^8 units, are rounded to eleven bits.
        ASSERT_NEAR(got, want, 0x1p-12 * steps * 256 * unit) << Traits(type).name;
      });
    }
  }
}

TEST(BlockQuantPacking, ScalesOfFloat16AreExact) {
  for (const DType type :
       {DType::kQ4_0, DType::kQ8_0, DType::kQ4_1, DType::kQ5_0, DType::kQ5_1, DType::kIQ4_NL, DType::kMXFP4}) {
    ForAllValues(MakeBlocks(type, 9, 64, 6),
                 [&](float got, float want, float) { ASSERT_EQ(got, want) << Traits(type).name; });
  }
}

// Bytes have one scale per 32 inputs: the values of IQ2_S and IQ2_XS, which have two, are rounded to half a step.
TEST(BlockQuantPacking, TwoScalesAreRoundedToOne) {
  for (const DType type : {DType::kIQ2_S, DType::kIQ2_XS}) {
    ForAllValues(MakeBlocks(type, 70, 512, 8), [&](float got, float want, float unit) {
      ASSERT_NEAR(got, want, (0.5f + 0x1p-12f * 128) * 256 * unit) << Traits(type).name;
    });
  }
}

// Half a step of the scale of 32 values, which is itself rounded to eleven bits.
TEST(BlockQuantPacking, PlainValuesAreRoundedToBlockIntegers) {
  constexpr int64_t kRows = 70, kCols = 96;
  std::vector<float> values = RandomFloats(kRows * kCols, 7);
  for (size_t i = 0; i < values.size(); ++i) values[i] *= static_cast<float>(1 + i / 32 % 5 * 40);
  std::fill_n(values.begin() + 64, 32, 0.0f);
  const HostTensor host{DType::kF32, kRows, kCols, std::as_bytes(std::span(values))};
  const PackedWeight packed = std::move(Pack(host).value());
  ASSERT_EQ(packed.dtype, DType::kBlockQuant8);
  for (size_t block = 0; block < values.size(); block += 32) {
    float largest = 0;
    for (size_t i = block; i < block + 32; ++i) largest = std::max(largest, std::fabs(values[i]));
    for (size_t i = block; i < block + 32; ++i) {
      const auto r = static_cast<int64_t>(i) / kCols, c = static_cast<int64_t>(i) % kCols;
      const float got = cuda::BlockQuantValue(packed.dtype, packed.tiles.data(), packed.scales.data(), kCols, r, c);
      ASSERT_NEAR(got, values[i], largest * (0.5f / 127 + 0x1p-11f)) << r << "," << c;
    }
  }
  values[100] = NAN;
  EXPECT_EQ(Pack(host).status().code(), StatusCode::kCorruption);
}

TEST(BlockQuantPacking, TilesAddOnlyScalesToTheFileSize) {
  EXPECT_EQ(cuda::PanelBytes(DType::kBlockQuant2, 4096), 64 * 4096 * 4 / 8);
  EXPECT_EQ(cuda::PanelBytes(DType::kBlockQuant3, 4096), 64 * 4096 * 4 / 8);
  EXPECT_EQ(cuda::PanelBytes(DType::kBlockQuant4, 4096), 64 * 4096 * 5 / 8);
  EXPECT_EQ(cuda::PanelBytes(DType::kBlockQuant5, 4096), 64 * 4096 * 6 / 8);
  EXPECT_EQ(cuda::PanelBytes(DType::kBlockQuant6, 4096), 64 * 4096 * 7 / 8);
  EXPECT_EQ(cuda::PanelBytes(DType::kBlockQuantE2M1, 4096), 64 * 4096 * 9 / 16);
  EXPECT_EQ(cuda::PanelBytes(DType::kBlockQuant8, 4096), 64 * 4096 * 17 / 16);
  EXPECT_EQ(cuda::PanelBytes(DType::kBlockQuantE4M3, 4096), 64 * 4096);
  EXPECT_EQ(cuda::PanelScales(DType::kBlockQuantE4M3, 4096) * 4, 64 * 4096 / 128);
  EXPECT_FALSE(cuda::BlockQuantTypeOf(DType::kBF16));
}

/// E4M3 values of 1, with a scale per 32 values.
std::vector<std::byte> E4M3Ones(std::span<const float> scales) {
  std::vector<std::byte> out(scales.size() * 36, std::byte{0x38});
  for (size_t i = 0; i < scales.size(); ++i) std::memcpy(&out[i * 36], &scales[i], sizeof(float));
  return out;
}
Result<PackedWeight> PackE4M3(const std::vector<std::byte>& blocks, int64_t rows) {
  return Pack({DType::kScaledE4M3, rows, std::ssize(blocks) / 36 / rows * 32, blocks});
}

TEST(BlockQuantPacking, E4M3TilesHaveOneScaleAndItsRatioToThePrevious) {
  std::vector<float> scales(9, 0.5f);
  std::fill_n(scales.begin() + 4, 4, 2.0f);
  scales[8] = 0;
  const PackedWeight packed = std::move(PackE4M3(E4M3Ones(scales), 1).value());
  EXPECT_EQ(std::vector<float>(packed.scales.begin(), packed.scales.begin() + 5),
            (std::vector<float>{0.5f, 2, 1, 0.25f, 1}))
      << "a scale of 0 becomes 1";
  EXPECT_EQ(packed.scales[6], 2) << "ratio";
  for (int64_t c = 0; c < 288; ++c) {
    EXPECT_EQ(cuda::BlockQuantValue(packed.dtype, packed.tiles.data(), packed.scales.data(), 288, 0, c),
              scales[static_cast<size_t>(c / 32)]);
  }
}

TEST(BlockQuantPacking, E4M3TilesWithSeveralOrExtremeScalesAreNotPacked) {
  std::vector<float> scales(8 * 4, 0.5f);
  EXPECT_TRUE(PackE4M3(E4M3Ones(scales), 8).ok());
  scales[3] = 0.25f;  // among the inputs of a row
  EXPECT_EQ(PackE4M3(E4M3Ones(scales), 8).status().code(), StatusCode::kInvalidArgument);
  std::fill_n(scales.begin(), 4, 0.25f);  // among the rows of a tile
  EXPECT_EQ(PackE4M3(E4M3Ones(scales), 8).status().code(), StatusCode::kInvalidArgument);
  for (const float extreme : {0x1p-41f, 0x1p41f}) {
    std::ranges::fill(scales, extreme);
    EXPECT_EQ(PackE4M3(E4M3Ones(scales), 8).status().code(), StatusCode::kInvalidArgument) << extreme;
  }
  std::ranges::fill(scales, NAN);
  EXPECT_EQ(PackE4M3(E4M3Ones(scales), 8).status().code(), StatusCode::kCorruption);
  std::ranges::fill(scales, 0.5f);
  std::vector<std::byte> blocks = E4M3Ones(scales);
  blocks[100] = std::byte{0x7f};  // NaN
  EXPECT_EQ(PackE4M3(blocks, 8).status().code(), StatusCode::kCorruption);
}

TEST(BlockQuantPacking, RefusesNonFiniteAndMisshapenValues) {
  std::vector<uint8_t> block(34, 1);
  const HostTensor host{DType::kQ8_0, 1, 32, std::as_bytes(std::span(block))};
  EXPECT_TRUE(Pack(host).ok());
  block[10] = 0x80;  // -128
  EXPECT_EQ(Pack(host).status().code(), StatusCode::kInvalidArgument);
  block[10] = 1, block[0] = 0x00, block[1] = 0x7c;  // an infinite scale
  EXPECT_EQ(Pack(host).status().code(), StatusCode::kCorruption);
  std::vector<uint8_t> power(17, 1);
  const HostTensor of_powers{DType::kMXFP4, 1, 32, std::as_bytes(std::span(power))};
  EXPECT_TRUE(Pack(of_powers).ok());
  power[0] = 255;  // NaN
  EXPECT_EQ(Pack(of_powers).status().code(), StatusCode::kCorruption);
}

}  // namespace
}  // namespace ringside::testing
