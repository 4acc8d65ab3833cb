// 8-bit weights on CUDA, if there is a device: each row count uses a different kernel path, and all give the product of
// the rounded rows with the dequantized matrix.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/kernels/devices.h"
#include "tests/kernels/formats/quantized_weights.h"
#include "tests/kernels/gated_layer.h"

namespace ringside::testing {
namespace {

class W8Device : public DeviceTest, public ::testing::WithParamInterface<std::string> {
 protected:
  void SetUp() override {
    Use(GetParam());
    weight_type_ = *QuantizationOf(GetParam());
  }
  /// Relative to the terms' magnitudes. Many rows, and rows of odd lengths, convert the weights to the type of x: each
  /// term is off by at most one rounding, and all may be in one direction. (Below f16's normal numbers it is 2^-25 per
  /// input, which is part of the additional allowance.) Sums are float32: k terms have an error of about sqrt(k) 2^-24.
  double Tolerance(int64_t rows, int64_t outputs, int64_t cols) const {
    if (MultipliesInE4M3(*backend_, weight_type_, rows, outputs, cols)) return E4M3SumError(cols);
    return rows <= 128 && cols % 8 == 0 && cols >= 64 ? 3e-6 : Rounding(type_);
  }
  /// The values of x used by products with `outputs` outputs.
  std::vector<float> TakenOf(const std::vector<float>& x, int64_t rows, int64_t outputs, int64_t cols) const {
    return MultipliesInE4M3(*backend_, weight_type_, rows, outputs, cols) ? RoundedToE4M3(x, cols) : x;
  }
  void ExpectProducts(int64_t rows, int64_t outputs, int64_t cols, DType out);

  DType weight_type_ = DType::kI8;
};
INSTANTIATE_TEST_SUITE_P(All, W8Device, ::testing::ValuesIn(W8DeviceNames()),
                         [](const auto& info) { return info.param; });

void W8Device::ExpectProducts(int64_t rows, int64_t outputs, int64_t cols, DType out) {
  const RandomWeight w = MakeQuantizedWeight(weight_type_, outputs, cols, 11);
  const Weight weight = std::move(backend_->LoadWeight(w.host()).value());
  EXPECT_EQ(weight.dtype, weight_type_);
  const Weight* const weights[] = {&weight};
  const std::vector<float> x = RandomRounded(rows * cols, 12);
  DeviceMatrix in(*backend_, type_, rows, cols, x),
      y(*backend_, out, rows, outputs, std::vector<float>(static_cast<size_t>(rows * outputs), -7.0f));
  backend_->Linear({.x = in.tensor(), .weights = weights, .y = y.tensor()});
  const std::vector<float> got = y.Get(), taken = TakenOf(x, rows, outputs, cols);
  // Checks only some of many rows: the naive loops are slow.
  for (int64_t r = 0; r<rows; r += rows> 40 ? 13 : 1) {
    for (int64_t n = 0; n<outputs; n += outputs> 2000 ? 7 : 1) {
      const Product want = Multiply(taken, w, r, n);
      ASSERT_NEAR(got[At(r, outputs, n)], want.sum,
                  Tolerance(rows, outputs, cols) * want.size + Rounding(out) * std::fabs(want.sum) + 1e-6)
          << rows << " x " << outputs << " x " << cols << " at " << r << "," << n;
    }
  }
}

TEST_P(W8Device, LinearOfEveryShape) {
  struct Shape {
    int64_t outputs, cols;
  };
  for (const Shape s : {Shape{192, 576}, {70, 96}, {3000, 64}, {130, 264}, {20, 14336}, {257, 72}, {50, 30}, {9, 33}}) {
    for (const int64_t rows : {1, 2, 4, 5, 8, 17, 32, 64, 65, 300}) {
      if (rows * s.outputs * s.cols > 30'000'000) continue;
      for (const DType out : {DType::kF32, type_}) ExpectProducts(rows, s.outputs, s.cols, out);
    }
  }
}

TEST_P(W8Device, SeveralWeightsWithBiasAndSum) {
  for (const int64_t rows : {1, 3, 5, 20, 40, 100}) {
    for (const int64_t cols : {256, 100}) {
      std::vector<RandomWeight> random;
      std::vector<Weight> loaded;
      for (const int64_t n : {24, 40, 7}) {
        random.push_back(MakeQuantizedWeight(weight_type_, n, cols, static_cast<uint32_t>(60 + n)));
        loaded.push_back(std::move(backend_->LoadWeight(random.back().host()).value()));
      }
      const Weight* const weights[] = {&loaded[0], &loaded[1], &loaded[2]};
      const std::vector<float> x = RandomRounded(rows * cols, 64), b = RandomFloats(71, 65);
      DeviceMatrix in(*backend_, type_, rows, cols, x, cols + 16),
          y(*backend_, DType::kF32, rows, 71, std::vector<float>(static_cast<size_t>(rows * 71), 0.5f), 80);
      const DeviceFloats bias(*backend_, b);
      backend_->Linear(
          {.x = in.tensor(), .weights = weights, .bias = bias.data(), .y = y.tensor(), .accumulate = true});
      const std::vector<float> got = y.Get();
      int64_t column = 0;
      for (const RandomWeight& w : random) {
        for (int64_t n = 0; n < w.rows; ++n, ++column) {
          for (int64_t r = 0; r < rows; ++r) {
            const Product want = Multiply(x, w, r, n);
            ASSERT_NEAR(got[At(r, 71, column)], 0.5 + b[static_cast<size_t>(column)] + want.sum,
                        Tolerance(rows, 71, cols) * (want.size + 1))
                << rows << " rows of " << cols << " at " << r << "," << column;
          }
        }
      }
    }
  }
}

TEST_P(W8Device, NormLinearAndActivationInARow) {
  constexpr int64_t kInputs = 256;
  const RandomWeight gate = MakeQuantizedWeight(weight_type_, 96, kInputs, 9),
                     up = MakeQuantizedWeight(weight_type_, 96, kInputs, 10);
  for (const int64_t rows : {1, 4, 7, 33}) {
    ExpectNormLinearAndActivation(*backend_, rows, gate, up, Tolerance(rows, 96, kInputs),
                                  MultipliesInE4M3(*backend_, weight_type_, rows, 96, kInputs));
  }
}

TEST_P(W8Device, TablesAreAlwaysIntegers) {
  const RandomWeight w = MakeQuantizedWeight(DType::kI8, 37, 100, 51);
  HostTensor host = w.host();
  host.table = true;
  const Weight table = std::move(backend_->LoadWeight(host).value());
  EXPECT_EQ(table.dtype, DType::kI8);
  const std::vector<int32_t> ids = {36, 0, 15, 16, 36};
  const std::vector<int64_t> positions = {1, 2, 3, 4, 36};
  DeviceMatrix y(*backend_, DType::kF32, 5, 100, std::vector<float>(500, 3.0f));
  backend_->Embed(table, ids, 1, y.tensor());
  backend_->AddPositions(table, positions, y.tensor());
  const std::vector<float> got = y.Get();
  for (size_t i = 0; i < ids.size(); ++i) {
    for (int64_t c = 0; c < 100; ++c) {
      const double want = w.values[At(ids[i], 100, c)] + w.values[At(positions[i], 100, c)];
      ASSERT_NEAR(got[At(static_cast<int64_t>(i), 100, c)], want, 1e-6 * (1 + std::fabs(want)));
    }
  }
}

// As embedding and as output head, for few rows and many.
TEST_P(W8Device, LargeTablesAreBlockIntegersIfBatchesMultiplyThem) {
  constexpr int64_t kTokens = 1500, kInputs = 1024;
  const std::vector<float> values = RandomRounded(kTokens * kInputs, 52);
  HostTensor host{DType::kF32, kTokens, kInputs, std::as_bytes(std::span(values))};
  host.table = true;
  const Weight table = std::move(backend_->LoadWeight(host).value());
  if (weight_type_ == DType::kF8E4M3) {  // depends on the device
    const bool has_kernel = MultipliesInE4M3(*backend_, weight_type_, 64, 64, 64);
    EXPECT_EQ(table.dtype, has_kernel ? DType::kBlockQuant8 : DType::kI8);
  }
  float largest = 0;
  for (const float x : values) largest = std::max(largest, std::fabs(x));
  const float step = largest / 127;
  const std::vector<int32_t> ids = {1499, 0, 64, 700};
  DeviceMatrix embedded(*backend_, DType::kF32, 4, kInputs, std::vector<float>(4 * kInputs));
  backend_->Embed(table, ids, 1, embedded.tensor());
  const std::vector<float> got = embedded.Get();
  for (int64_t i = 0; i < 4 * kInputs; ++i) {
    ASSERT_NEAR(got[static_cast<size_t>(i)], values[At(ids[static_cast<size_t>(i / kInputs)], kInputs, i % kInputs)],
                0.51f * step);
  }
  const Weight* const weights[] = {&table};
  for (const int64_t rows : {1, 5, 40, 100}) {
    const std::vector<float> x = RandomRounded(rows * kInputs, 53);
    DeviceMatrix in(*backend_, type_, rows, kInputs, x),
        y(*backend_, DType::kF32, rows, kTokens, std::vector<float>(static_cast<size_t>(rows * kTokens), -7.0f));
    backend_->Linear({.x = in.tensor(), .weights = weights, .y = y.tensor()});
    const std::vector<float> logits = y.Get();
    double off = 0, size = 0;
    for (int64_t r = 0; r < rows; r += 3) {
      for (int64_t n = 0; n < kTokens; n += 7) {
        double want = 0;
        for (int64_t c = 0; c < kInputs; ++c) want += double{x[At(r, kInputs, c)]} * double{values[At(n, kInputs, c)]};
        off += std::pow(logits[At(r, kTokens, n)] - want, 2), size += want * want;
      }
    }
    // Rounding errors are uniform within half a step, 0.3 of it in norm; values are at least a quarter of the maximum
    // in norm.
    EXPECT_LT(std::sqrt(off / size), 4 * 0.3 / 127 + 2 * Rounding(type_)) << rows;
  }
}

TEST_P(W8Device, RefusesNonFiniteValues) {
  std::vector<float> values(64, 1.0f);
  values[40] = INFINITY;
  const HostTensor host{DType::kF32, 4, 16, std::as_bytes(std::span(values))};
  EXPECT_EQ(backend_->LoadWeight(host).status().code(), StatusCode::kCorruption);
}

// With a fixed order a row's bits are the same alone and batched.
TEST_P(W8Device, FixedOrderIsIndependentOfTheBatch) {
  Use(GetParam() + "_fixed");
  if (IsSkipped()) return;
  const RandomWeight w = MakeQuantizedWeight(weight_type_, 150, 320, 11);
  const Weight weight = std::move(backend_->LoadWeight(w.host()).value());
  const Weight* const weights[] = {&weight};
  const int64_t rows = 70;
  const std::vector<float> x = RandomRounded(rows * 320, 12), zero(static_cast<size_t>(rows * 150));
  DeviceMatrix in(*backend_, type_, rows, 320, x), y(*backend_, DType::kF32, rows, 150, zero),
      alone(*backend_, DType::kF32, rows, 150, zero);
  backend_->Linear({.x = in.tensor(), .weights = weights, .y = y.tensor()});
  for (int64_t r = 0; r < rows; ++r) {
    backend_->Linear({.x = in.tensor().Rows(r, 1), .weights = weights, .y = alone.tensor().Rows(r, 1)});
  }
  EXPECT_EQ(y.Get(), alone.Get());

  // Also a norm before one row.
  const std::vector<float> ones(320, 1.0f);
  const DeviceFloats norm(*backend_, ones);
  DeviceMatrix stream(*backend_, DType::kF32, rows, 320, x), normed(*backend_, type_, rows, 320, x);
  backend_->RmsNorm(stream.tensor(), norm.data(), 1e-5f, normed.tensor());
  backend_->Linear({.x = normed.tensor(), .weights = weights, .y = y.tensor()});
  for (int64_t r = 0; r < rows; ++r) {
    backend_->RmsNorm(stream.tensor().Rows(r, 1), norm.data(), 1e-5f, normed.tensor().Rows(r, 1));
    backend_->Linear({.x = normed.tensor().Rows(r, 1), .weights = weights, .y = alone.tensor().Rows(r, 1)});
  }
  EXPECT_EQ(y.Get(), alone.Get());
}

}  // namespace
}  // namespace ringside::testing
