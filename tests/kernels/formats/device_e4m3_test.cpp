// E4M3 GEMMs on CUDA, if a device supports them: both operands have one scale per row, and results match the rounded
// rows and weights, whichever kernel quantizes the rows.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/kernels/devices.h"
#include "tests/kernels/formats/quantized_weights.h"

namespace ringside::testing {
namespace {

class E4M3Device : public DeviceTest, public ::testing::WithParamInterface<std::string> {
 protected:
  void SetUp() override {
    Use(GetParam());
    if (IsSkipped()) return;
    if (!MultipliesInE4M3(*backend_, DType::kF8E4M3, 64, 64, 64)) GTEST_SKIP() << "no products in E4M3 here";
  }
  /// A layer of several matrices with one input.
  struct Layer {
    std::vector<RandomWeight> random;
    std::vector<Weight> loaded;
    std::vector<const Weight*> pointers;
    int64_t total = 0;
  };
  Layer MakeLayer(const std::vector<int64_t>& outputs, int64_t cols) {
    Layer layer;
    for (const int64_t n : outputs) {
      layer.random.push_back(MakeQuantizedWeight(DType::kF8E4M3, n, cols, static_cast<uint32_t>(n + cols)));
      layer.loaded.push_back(std::move(backend_->LoadWeight(layer.random.back().host()).value()));
      layer.total += n;
    }
    for (const Weight& weight : layer.loaded) layer.pointers.push_back(&weight);
    return layer;
  }
  /// Checks `base` + the product, in some of the rows and outputs: the naive loops are slow. Returns the largest error
  /// relative to the terms' magnitudes.
  double ExpectProducts(const std::vector<float>& got, const std::vector<float>& taken, const Layer& layer,
                        int64_t rows, DType out, const std::vector<float>& base) {
    double worst = 0;
    int64_t column = 0;
    const int64_t row_step = rows / 24 + 1;
    for (const RandomWeight& w : layer.random) {
      const double tolerance = E4M3SumError(w.cols);
      for (int64_t n = 0; n < w.rows; n += w.rows / 50 + 1) {
        for (int64_t r = 0; r < rows; r += row_step) {
          const Product product = Multiply(taken, w, r, n);
          const double want = base[static_cast<size_t>(column + n)] + product.sum;
          const double off = std::fabs(got[At(r, layer.total, column + n)] - want) - Rounding(out) * std::fabs(want);
          worst = std::max(worst, off / product.size);
          EXPECT_LT(off, tolerance * product.size + 1e-6) << rows << " rows of " << w.cols << " at " << r << "," << n;
          if (HasFailure()) return worst;
        }
      }
      column += w.rows;
    }
    return worst;
  }
};
INSTANTIATE_TEST_SUITE_P(All, E4M3Device, ::testing::Values("cuda_bf16_fp8", "cuda_f16_fp8"),
                         [](const auto& info) { return info.param; });

// Three times: the third is a graph replay, if steps with this row count are captured. Matrices with a multiple of 64
// outputs are adjacent and multiplied as one.
TEST_P(E4M3Device, RowsOfEveryNumber) {
  struct Shape {
    std::vector<int64_t> outputs;
    int64_t cols;
  };
  // The last ones: every number of outputs per block, and a partial last block.
  const Shape shapes[] = {{{192, 64, 64}, 576}, {{48, 16, 16}, 264}, {{512}, 4096},  {{128, 128}, 4096}, {{64}, 14336},
                          {{1040}, 512},        {{4096}, 4096},      {{6144}, 4096}, {{28672}, 256}};
  double worst = 0;
  for (const Shape& shape : shapes) {
    const Layer layer = MakeLayer(shape.outputs, shape.cols);
    const std::vector<float> bias = RandomFloats(static_cast<size_t>(layer.total), 3), zero(bias.size());
    const DeviceFloats on_device(*backend_, bias);
    for (const int64_t rows : {1, 8, 17, 64, 100, 128, 129, 512, 2048}) {
      const std::vector<float> x = RandomRounded(rows * shape.cols, 12);
      const std::vector<float> taken = rows > 16 ? RoundedToE4M3(x, shape.cols) : x;
      const DeviceMatrix in(*backend_, type_, rows, shape.cols, x, shape.cols + 16);
      for (const DType out : {DType::kF32, type_}) {
        const bool biased = out == DType::kF32;  // 16 bits would be rounded twice
        const DeviceMatrix y(*backend_, out, rows, layer.total,
                             std::vector<float>(static_cast<size_t>(rows * layer.total), 7));
        for (int round = 0; round < 3; ++round) {
          backend_->Linear({.x = in.tensor(),
                            .weights = layer.pointers,
                            .bias = biased ? on_device.data() : nullptr,
                            .y = y.tensor()});
          backend_->Synchronize();
        }
        const double error = ExpectProducts(y.Get(), taken, layer, rows, out, biased ? bias : zero);
        if (rows > 16) worst = std::max(worst, error);
        if (HasFailure()) return;
      }
    }
  }
  std::printf("sums are off by %.1e of their terms' magnitudes at most\n", worst);
}

TEST_P(E4M3Device, AccumulatesIntoTheOutput) {
  const int64_t cols = 512;
  const Layer layer = MakeLayer({256}, cols);
  const std::vector<float> half(256, 0.5f);
  for (const int64_t rows : {20, 128, 130}) {
    const std::vector<float> x = RandomRounded(rows * cols, 21);
    const DeviceMatrix in(*backend_, type_, rows, cols, x),
        y(*backend_, DType::kF32, rows, 256, std::vector<float>(static_cast<size_t>(rows * 256), 0.5f));
    backend_->Linear({.x = in.tensor(), .weights = layer.pointers, .y = y.tensor(), .accumulate = true});
    ExpectProducts(y.Get(), RoundedToE4M3(x, cols), layer, rows, DType::kF32, half);
  }
}

// As in QuantizeRow: zeros stay zeros, and a NaN affects its own row only.
TEST_P(E4M3Device, RowsAreIndependent) {
  const int64_t rows = 40, cols = 256;
  const Layer layer = MakeLayer({64}, cols);
  std::vector<float> x = RandomRounded(rows * cols, 31);
  x[At(3, cols, 7)] = std::numeric_limits<float>::quiet_NaN();
  x[At(9, cols, 100)] = std::numeric_limits<float>::infinity();
  for (int64_t c = 0; c < cols; ++c) x[At(5, cols, c)] = 0;
  for (int64_t c = 0; c < cols; ++c) x[At(6, cols, c)] *= type_ == DType::kBF16 ? 0x1p100f : 0x1p12f;
  const DeviceMatrix in(*backend_, type_, rows, cols, x),
      y(*backend_, DType::kF32, rows, 64, std::vector<float>(static_cast<size_t>(rows * 64), 7));
  backend_->Linear({.x = in.tensor(), .weights = layer.pointers, .y = y.tensor()});
  const std::vector<float> got = y.Get(), taken = RoundedToE4M3(x, cols);
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t n = 0; n < 64; ++n) {
      const float value = got[At(r, 64, n)];
      if (r == 3 || r == 9) {
        EXPECT_TRUE(std::isnan(value)) << r;
        continue;
      }
      const Product want = Multiply(taken, layer.random[0], r, n);
      ASSERT_NEAR(value, want.sum, E4M3SumError(cols) * want.size) << r << "," << n;
    }
  }
}

// Gate-up products are multiplied and quantized in one kernel, with the same result as separate ones.
TEST_P(E4M3Device, GatesTimesUpsGoOnInE4M3) {
  for (const int64_t n : {96, 264, 14336, 20000, 40008}) {
    const Layer layer = MakeLayer({64}, n);
    for (const int64_t rows : {17, 128, 300}) {
      if (n > 14336 && rows > 17) continue;  // wide rows are slow to check
      const std::vector<float> x = RandomRounded(rows * 2 * n, 41), zero(64);
      const DeviceMatrix both(*backend_, type_, rows, 2 * n, x),
          mid(*backend_, type_, rows, n, std::vector<float>(static_cast<size_t>(rows * n), 7)),
          y(*backend_, DType::kF32, rows, 64, std::vector<float>(static_cast<size_t>(rows * 64), 7));
      backend_->MultiplyActivated(both.tensor(), Activation::kSilu, mid.tensor());
      backend_->Linear({.x = mid.tensor(), .weights = layer.pointers, .y = y.tensor()});
      const std::vector<float> got_mid = mid.Get();
      for (int64_t i = 0; i < rows * n; ++i) {
        const double gate = x[At(i / n, 2 * n, i % n)], up = x[At(i / n, 2 * n, n + i % n)];
        const double want = gate / (1 + std::exp(-gate)) * up;
        ASSERT_NEAR(got_mid[static_cast<size_t>(i)], want, Rounding(type_) * std::fabs(want) + 1e-6) << i;
      }
      ExpectProducts(y.Get(), RoundedToE4M3(got_mid, n), layer, rows, DType::kF32, zero);
      if (HasFailure()) return;
    }
  }
}

// Also norms, of rows of every width with a specialized kernel, and wider ones.
TEST_P(E4M3Device, NormsGoOnInE4M3) {
  for (const int64_t cols : {64, 2048, 4096, 8192, 9216}) {
    const Layer layer = MakeLayer({64, 64}, cols);
    const std::vector<float> w = RandomFloats(static_cast<size_t>(cols), 51), b = RandomFloats(w.size(), 52), zero(128);
    const DeviceFloats weight(*backend_, w), bias(*backend_, b);
    for (const int64_t rows : {20, 130}) {
      const std::vector<float> x = RandomFloats(static_cast<size_t>(rows * cols), 53);
      const DeviceMatrix stream(*backend_, DType::kF32, rows, cols, x), normed(*backend_, type_, rows, cols, x),
          y(*backend_, DType::kF32, rows, 128, std::vector<float>(static_cast<size_t>(rows * 128), 7));
      for (const bool layer_norm : {false, true}) {
        if (layer_norm) {
          backend_->LayerNorm(stream.tensor(), weight.data(), bias.data(), 1e-5f, normed.tensor());
        } else {
          backend_->RmsNorm(stream.tensor(), weight.data(), 1e-5f, normed.tensor());
        }
        backend_->Linear({.x = normed.tensor(), .weights = layer.pointers, .y = y.tensor()});
        const std::vector<float> got = normed.Get();
        for (int64_t r = 0; r < rows; ++r) {
          double mean = 0, square = 0;
          for (int64_t c = 0; layer_norm && c < cols; ++c) mean += x[At(r, cols, c)] / static_cast<double>(cols);
          for (int64_t c = 0; c < cols; ++c)
            square += std::pow(x[At(r, cols, c)] - mean, 2) / static_cast<double>(cols);
          for (int64_t c = 0; c < cols; ++c) {
            const auto i = static_cast<size_t>(c);
            const double want = (x[At(r, cols, c)] - mean) / std::sqrt(square + 1e-5) * w[i] + (layer_norm ? b[i] : 0);
            ASSERT_NEAR(got[At(r, cols, c)], want, Rounding(type_) * std::fabs(want) + 1e-5) << r << "," << c;
          }
        }
        ExpectProducts(y.Get(), RoundedToE4M3(got, cols), layer, rows, DType::kF32, zero);
        if (HasFailure()) return;
      }
    }
  }
}

}  // namespace
}  // namespace ringside::testing
