// E4M3 weights with a scale per block of 128 x 128 (Qwen's and DeepSeek's FP8 checkpoints), on every kind of device: a
// GPU keeps 8 bits per element and computes the CPU's products, whatever kernel a number of rows selects.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/kernels/devices.h"
#include "tests/kernels/formats/block_quant_values.h"
#include "tests/kernels/gated_layer.h"

namespace ringside::testing {
namespace {

constexpr DType kType = DType::kScaledE4M3;

class E4M3Blocks : public DeviceTest, public ::testing::WithParamInterface<std::string> {
 protected:
  void SetUp() override { Use(GetParam()); }

  bool on_gpu() const { return GetParam() != "cpu"; }
  /// Relative to the terms' magnitudes. Values are exact in 16 bits and sums are float32. More than 1,024 rows, devices
  /// without the kernel for more than four rows, and a fixed order round scaled values to 16 bits, and so do matrices
  /// between which a panel of 64 outputs would straddle (`whole`: none).
  double Tolerance(int64_t rows, bool whole = true) const {
    const bool has_kernel = rows <= 4 || (rows <= 1024 && whole && backend_->multiplies_in_e4m3());
    const bool rounds = on_gpu() && (HasFixedOrder(GetParam()) || !has_kernel);
    return rounds ? 2 * Rounding(type_) : 1e-5;
  }
  /// Several matrices with one input.
  struct Layer {
    std::vector<RandomWeight> random;
    int64_t total = 0;
  };
  static Layer MakeLayer(const std::vector<int64_t>& outputs, int64_t cols) {
    Layer layer;
    for (const int64_t n : outputs) {
      layer.random.push_back(MakeBlocks(kType, n, cols, static_cast<uint32_t>(n + cols)));
      layer.total += n;
    }
    return layer;
  }
  /// 0.5 + bias + x W^T.
  static std::vector<float> Products(Backend& backend, const Layer& layer, const std::vector<float>& x, int64_t rows,
                                     const std::vector<float>& bias) {
    std::vector<Weight> loaded;
    std::vector<const Weight*> weights;
    for (const RandomWeight& w : layer.random) {
      loaded.push_back(std::move(backend.LoadWeight(w.host()).value()));
      EXPECT_TRUE(loaded.back().dtype == kType || loaded.back().dtype == DType::kBlockQuantE4M3);
    }
    for (const Weight& weight : loaded) weights.push_back(&weight);
    const int64_t cols = layer.random.front().cols;
    const DeviceMatrix in(backend, backend.activation_dtype(), rows, cols, x),
        y(backend, DType::kF32, rows, layer.total, std::vector<float>(static_cast<size_t>(rows * layer.total), 0.5f));
    const DeviceFloats on_device(backend, bias);
    backend.Linear(
        {.x = in.tensor(), .weights = weights, .bias = on_device.data(), .y = y.tensor(), .accumulate = true});
    return y.Get();
  }
  /// Compares with naive loops, and with the CPU.
  void ExpectProducts(const std::vector<int64_t>& outputs, int64_t cols, int64_t rows, bool whole) {
    const Layer layer = MakeLayer(outputs, cols);
    const std::vector<float> x = RandomRounded(rows * cols, 12),
                             bias = RandomFloats(static_cast<size_t>(layer.total), 13);
    const auto cpu = MakeDevice("cpu");
    const std::vector<float> got = Products(*backend_, layer, x, rows, bias),
                             of_cpu = Products(*cpu, layer, x, rows, bias);
    for (int64_t r = 0; r < rows; r += rows / 16 + 1) {
      int64_t column = 0;
      for (const RandomWeight& w : layer.random) {
        for (int64_t n = 0; n < w.rows; ++n, ++column) {
          if (w.rows > 300 && n % 7 != 0) continue;
          const Product product = Multiply(x, w, r, n);
          const double want = 0.5 + bias[static_cast<size_t>(column)] + product.sum,
                       bound = Tolerance(rows, whole) * (product.size + 1);
          ASSERT_NEAR(got[At(r, layer.total, column)], want, bound)
              << rows << " rows of " << cols << ", outputs " << layer.total << ", at " << r << "," << column;
          ASSERT_NEAR(got[At(r, layer.total, column)], of_cpu[At(r, layer.total, column)], bound + 1e-5);
        }
      }
    }
  }
};
INSTANTIATE_TEST_SUITE_P(All, E4M3Blocks, ::testing::Values("cpu", "cuda_bf16", "cuda_f16", "cuda_bf16_fixed"),
                         [](const auto& info) { return info.param; });

// Sizes are not multiples of a block, a panel, or a K tile.
TEST_P(E4M3Blocks, OfEverySize) {
  for (const auto& [outputs, cols] :
       {std::pair<int64_t, int64_t>{200, 416}, {70, 160}, {128, 256}, {264, 1056}, {20, 5120}, {1000, 288}}) {
    for (const int64_t rows : {1, 2, 4, 5, 16, 33, 64, 100, 1030}) {
      if (rows * outputs * cols > 20'000'000) continue;
      ExpectProducts({outputs}, cols, rows, true);
    }
  }
}

// Queries, keys and values: with whole panels, whole tiles and neither.
TEST_P(E4M3Blocks, SeveralMatricesOfOneInput) {
  for (const int64_t rows : {1, 3, 7, 40, 64}) {
    ExpectProducts({192, 64, 136}, 544, rows, true);
    ExpectProducts({136, 24, 40}, 544, rows, false);
    ExpectProducts({130, 7, 9}, 544, rows, false);
  }
}

TEST_P(E4M3Blocks, NormGateAndUpInARow) {
  constexpr int64_t kInputs = 288;
  for (const int64_t n : {64, 136, 100}) {
    const RandomWeight gate = MakeBlocks(kType, n, kInputs, 9), up = MakeBlocks(kType, n, kInputs, 10);
    for (const int64_t rows : {1, 4, 7, 33, 64, 90}) {
      const double tolerance = Tolerance(rows, n % 64 == 0) + (n % 8 == 0 ? 0 : 2 * Rounding(type_));
      ExpectNormLinearAndActivation(*backend_, rows, gate, up, tolerance);
    }
  }
}

// Alone, in a batch, and after other rows.
TEST_P(E4M3Blocks, RowIsIndependentOfTheBatch) {
  if (!HasFixedOrder(GetParam())) GTEST_SKIP() << "not promised";
  constexpr int64_t kRows = 70, kCols = 544;
  const Layer layer = MakeLayer({192, 64, 40}, kCols);
  const std::vector<float> x = RandomRounded(kRows * kCols, 12), bias(static_cast<size_t>(layer.total), 0.25f),
                           together = Products(*backend_, layer, x, kRows, bias);
  for (const auto& [first, rows] : {std::pair<int64_t, int64_t>{0, 1}, {5, 1}, {69, 1}, {3, 4}, {10, 33}}) {
    const std::vector<float> some(x.begin() + first * kCols, x.begin() + (first + rows) * kCols),
        want(together.begin() + first * layer.total, together.begin() + (first + rows) * layer.total);
    EXPECT_EQ(Products(*backend_, layer, some, rows, bias), want) << rows << " rows from " << first;
  }
}

// One byte per element; a scale and its ratio to the previous one per 8 x 128 elements.
TEST_P(E4M3Blocks, TakeEightBitsOnAGpu) {
  if (!on_gpu()) GTEST_SKIP() << "a CPU stores a scale per 32 elements";
  for (const bool expert : {false, true}) {
    const RandomWeight random = MakeBlocks(kType, 1024, 2048, 3);
    HostTensor host = random.host();
    host.expert = expert;
    const Weight weight = std::move(backend_->LoadWeight(host).value());
    EXPECT_EQ(weight.dtype, DType::kBlockQuantE4M3);
    EXPECT_EQ(weight.data.bytes(), size_t{1024} * 2048);
    EXPECT_EQ(weight.scales.bytes(), size_t{1024} * 2048 / 128);
    EXPECT_FALSE(weight.order);
  }
}

}  // namespace
}  // namespace ringside::testing
