// Dequantized values of GGUF blocks, bit for bit equal to the reference's (tests/golden/make_block_golden.py).
#include <gtest/gtest.h>

#include <bit>
#include <cstring>

#include "engine/files/gguf_reader.h"
#include "kernels/backend.h"
#include "kernels/formats/file_formats.h"
#include "tests/golden_folder.h"

namespace ringside {
namespace {

using Bits = std::vector<uint32_t>;

Bits BitsOf(const std::vector<float>& values) {
  Bits bits(values.size());
  std::memcpy(bits.data(), values.data(), values.size() * sizeof(float));
  return bits;
}

class BlockValues : public ::testing::TestWithParam<DType> {
 protected:
  void SetUp() override {
    Result<GgufFile> opened = GgufFile::Open(GoldenFolder("blocks.gguf"));
    ASSERT_TRUE(opened.ok()) << opened.status().ToString();
    file_ = std::move(*opened);
    const std::string name(Traits(GetParam()).name);
    for (const FileTensor& tensor : file_->tensors()) {
      if (tensor.name == name) blocks_ = tensor.data;
      if (tensor.name == name + ".values") values_ = tensor.data;
    }
    ASSERT_EQ(blocks_.dtype, GetParam());
    ASSERT_EQ(values_.rows * values_.cols, 512);
  }
  Bits Wanted(int64_t row) const {
    Bits bits(static_cast<size_t>(values_.cols));
    std::memcpy(bits.data(), values_.bytes.data() + static_cast<size_t>(row) * bits.size() * sizeof(float),
                bits.size() * sizeof(float));
    return bits;
  }

  std::optional<GgufFile> file_;
  HostTensor blocks_, values_;
};

INSTANTIATE_TEST_SUITE_P(All, BlockValues,
                         ::testing::Values(DType::kQ4_0, DType::kQ4_1, DType::kQ5_0, DType::kQ5_1, DType::kQ8_0,
                                           DType::kQ2_K, DType::kQ3_K, DType::kQ4_K, DType::kQ5_K, DType::kQ6_K,
                                           DType::kIQ4_NL, DType::kIQ4_XS, DType::kMXFP4, DType::kIQ2_XXS,
                                           DType::kIQ2_XS, DType::kIQ2_S, DType::kIQ3_XXS, DType::kIQ3_S, DType::kIQ1_S,
                                           DType::kIQ1_M, DType::kTQ1_0, DType::kTQ2_0, DType::kNVFP4),
                         [](const auto& info) { return std::string(Traits(info.param).name); });

TEST_P(BlockValues, FileMatchesTheReference) {
  std::vector<float> row(256);
  for (int64_t r = 0; r < 2; ++r) {
    ReadFileRow(blocks_, r, row.data());
    EXPECT_EQ(BitsOf(row), Wanted(r)) << r;
  }
}

// A backend's repacked layout is lossless.
TEST_P(BlockValues, BackendMatchesTheReference) {
  const auto backend = std::move(MakeCpuBackend({.threads = 1}).value());
  const Weight table = std::move(backend->LoadWeight(blocks_).value());
  std::vector<float> row(256);
  for (int32_t r = 0; r < 2; ++r) {
    backend->Embed(table, {&r, 1}, 1, {DType::kF32, row.data(), 1, 256, 256});
    EXPECT_EQ(BitsOf(row), Wanted(r)) << r;
  }
}

}  // namespace
}  // namespace ringside
