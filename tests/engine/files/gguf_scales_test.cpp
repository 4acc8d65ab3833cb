// Factors of NVFP4 matrices in separate tensors.
#include "engine/files/gguf_scales.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <limits>

#include "kernels/formats/file_formats.h"

namespace ringside::gguf_scales {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

constexpr uint8_t kOne = 0x38;   // E4M3
constexpr uint8_t kOnes = 0x22;  // two codes of 1

/// Blocks of NVFP4 whose values are 1, and factors for them.
class GgufScales : public ::testing::Test {
 protected:
  FileTensor Matrix(const std::string& name, const std::vector<int64_t>& shape) {
    const int64_t cols = shape.back(), rows = shape.size() == 3 ? shape[0] * shape[1] : shape[0];
    blocks_.assign(static_cast<size_t>(rows * cols / 64 * 36), std::byte{kOnes});
    for (size_t i = 0; i < blocks_.size(); ++i) {
      if (i % 36 < 4) blocks_[i] = std::byte{kOne};
    }
    return {.name = name, .shape = shape, .data = {DType::kNVFP4, rows, cols, blocks_}};
  }
  FileTensor Factors(const std::string& name, std::vector<float> values) {
    factors_ = std::move(values);
    const auto count = static_cast<int64_t>(factors_.size());
    return {.name = name, .shape = {count}, .data = {DType::kF32, 1, count, std::as_bytes(std::span(factors_))}};
  }

  std::vector<std::byte> blocks_;
  std::vector<float> factors_;
};

TEST_F(GgufScales, MultipliesExpertsByTheirFactors) {
  const FileTensor scale = Factors("a.scale", {2, 0.5f});
  std::vector<FileTensor> tensors = {Matrix("a.weight", {2, 3, 128}), scale};
  tensors.push_back({.name = "a.input_scale", .shape = {1}, .data = scale.data});
  ASSERT_TRUE(JoinGgufScales(&tensors).ok());
  ASSERT_EQ(tensors.size(), 1u);
  std::vector<std::byte> storage;
  const FileTensor whole = Whole(tensors.front(), &storage);
  for (int64_t r = 0; r < 6; ++r) {
    std::vector<float> row(128);
    ReadFileRow(whole.data, r, row.data());
    EXPECT_THAT(row, Each(r < 3 ? 2.0f : 0.5f)) << r;
  }
}

TEST_F(GgufScales, LeavesMatricesWithoutAFactorAndOtherTensors) {
  std::vector<FileTensor> tensors = {Matrix("a.weight", {3, 128}), Factors("b.scale", {2})};
  ASSERT_TRUE(JoinGgufScales(&tensors).ok());
  EXPECT_EQ(tensors.size(), 2u);
  EXPECT_EQ(tensors.front().data.dtype, DType::kNVFP4);
}

TEST_F(GgufScales, RefusesMisshapenFactors) {
  const auto refused = [&](const FileTensor& factor, const std::string& message) {
    std::vector<FileTensor> tensors = {Matrix("a.weight", {2, 3, 128}), factor};
    const Status status = JoinGgufScales(&tensors);
    EXPECT_EQ(status.code(), StatusCode::kCorruption) << message;
    EXPECT_THAT(status.message(), HasSubstr(message));
  };
  refused(Factors("a.scale", {1, 2, 3}), "'a.scale' has 3 values of F32, expected 2 of F32");
  for (const float bad : {-1.0f, std::numeric_limits<float>::infinity(), std::nanf(""), 3e38f}) {
    refused(Factors("a.scale", {1, bad}), "'a.scale' has a scale of ");
  }
  FileTensor half = Factors("a.scale", {1});
  half.data.dtype = DType::kF16;
  refused(half, "'a.scale' has 1 values of F16");
}

}  // namespace
}  // namespace ringside::gguf_scales
