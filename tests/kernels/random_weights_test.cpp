// Dummy weights: nearly normal and never zero; a slice equals that of the whole matrix, on every device.
#include "kernels/random_weights.h"

#include <gtest/gtest.h>

#include <cmath>

#include "kernels/formats/file_formats.h"
#include "tests/kernels/devices.h"

namespace ringside::testing {
namespace {

TEST(RandomWeightsTest, AreNearlyNormalAndNeverZero) {
  constexpr uint64_t kCount = 200'000;
  double sum = 0, squares = 0;
  float most = 0;
  for (uint64_t i = 0; i < kCount; ++i) {
    const float x = ringside::RandomWeight(5, i);
    ASSERT_NE(x, 0) << i;
    sum += x, squares += double{x} * x;
    most = std::max(most, std::abs(x));
  }
  EXPECT_NEAR(sum / kCount, 0, 3e-4);
  EXPECT_NEAR(std::sqrt(squares / kCount), kRandomDeviation, 1e-4);
  EXPECT_LT(most, 3.6 * kRandomDeviation);
  EXPECT_GT(most, 3.0 * kRandomDeviation);
  EXPECT_NE(ringside::RandomWeight(5, 1), ringside::RandomWeight(6, 1));
  EXPECT_EQ(ringside::RandomWeight(5, uint64_t{1} << 40), ringside::RandomWeight(5, uint64_t{1} << 40));
}

TEST(RandomWeightsTest, PartsEqualSlicesOfTheWhole) {
  const RandomMatrix whole{.seed = 3, .whole_cols = 70, .rows = {{0, 50}}, .cols = 70};
  const std::vector<float> all = RandomValues(whole);
  const RandomMatrix part{.seed = 3, .whole_cols = 70, .rows = {{40, 3}, {7, 2}}, .first_col = 33, .cols = 32};
  const std::vector<float> values = RandomValues(part);
  ASSERT_EQ(values.size(), 5u * 32);
  const size_t rows[] = {40, 41, 42, 7, 8};
  for (size_t r = 0; r < 5; ++r) {
    for (size_t c = 0; c < 32; ++c) EXPECT_EQ(values[r * 32 + c], all[rows[r] * 70 + 33 + c]);
  }
}

TEST(RandomWeightsTest, E4M3BlocksAreTheValuesRoundedToScalesOfTheWhole) {
  constexpr int64_t kRows = 200, kCols = 288;
  const RandomMatrix whole{.seed = 3, .whole_cols = kCols, .rows = {{0, kRows}}, .cols = kCols};
  const RandomMatrix part{.seed = 3, .whole_cols = kCols, .rows = {{120, 20}}, .first_col = 96, .cols = 64};
  const std::vector<float> all = RandomValues(whole);
  const std::vector<std::byte> blocks = RandomE4M3Blocks(part), of_whole = RandomE4M3Blocks(whole);
  const HostTensor host{DType::kScaledE4M3, 20, 64, blocks}, whole_host{DType::kScaledE4M3, kRows, kCols, of_whole};
  std::vector<float> row(64), whole_row(kCols);
  for (int64_t r = 0; r < 20; ++r) {
    ReadFileRow(host, r, row.data()), ReadFileRow(whole_host, 120 + r, whole_row.data());
    for (int64_t c = 0; c < 64; ++c) {
      const float value = all[At(120 + r, kCols, 96 + c)], got = row[static_cast<size_t>(c)];
      EXPECT_EQ(got, whole_row[static_cast<size_t>(96 + c)]);
      EXPECT_NEAR(got, value, std::abs(value) / 16 + 0x1p-9f * kRandomDeviation);
    }
  }
  EXPECT_FALSE(HasScalePerRow(whole_host));
}

class DeviceRandomWeights : public DeviceTest, public ::testing::WithParamInterface<std::string> {
 protected:
  void SetUp() override { Use(GetParam()); }
};
INSTANTIATE_TEST_SUITE_P(All, DeviceRandomWeights, ::testing::ValuesIn(DeviceNames()));

TEST_P(DeviceRandomWeights, EqualTheHostsInTheDeviceType) {
  const RandomMatrix matrix{
      .seed = 9, .whole_cols = 96, .rows = {{30, 20}, {100, 3}}, .first_col = 32, .cols = 64, .table = true};
  const std::vector<float> want = RandomValues(matrix);
  const Weight weight = std::move(backend_->MakeRandomWeight(matrix).value());
  ASSERT_EQ(weight.rows, 23);
  ASSERT_EQ(weight.cols, 64);
  std::vector<int32_t> ids(23);
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int32_t>(i);
  const DeviceMatrix rows(*backend_, DType::kF32, 23, 64, std::vector<float>(23 * 64));
  backend_->Embed(weight, ids, 1, rows.tensor());
  const std::vector<float> got = rows.Get();
  for (size_t i = 0; i < got.size(); ++i) EXPECT_EQ(got[i], Rounded(type_, want[i])) << i;
}

}  // namespace
}  // namespace ringside::testing
