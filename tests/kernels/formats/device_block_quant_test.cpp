// Block-quantized weights of 4 to 8 bits, on CUDA, if there is a device: each row count uses a different kernel path,
// and all give the product with the dequantized matrix.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <random>

#include "tests/kernels/devices.h"
#include "tests/kernels/formats/block_quant_values.h"
#include "tests/kernels/gated_layer.h"

namespace ringside::testing {
namespace {

class BlockQuantDevice : public DeviceTest, public ::testing::WithParamInterface<std::string> {
 protected:
  void SetUp() override { Use(GetParam()); }

  Weight Load(const RandomWeight& w) {
    Weight out = std::move(backend_->LoadWeight(w.host()).value());
    EXPECT_EQ(out.dtype, *cuda::BlockQuantTypeOf(w.dtype));
    return out;
  }
  /// Relative to the terms' magnitudes. For up to four rows of inputs that are not too long, the integers are used
  /// exactly, on top of 128 or 1,024, in float32 sums, if there are enough inputs and the outputs end with tiles; the
  /// other paths round weights and scales to the type.
  double Tolerance(int64_t rows, int64_t cols, bool tiles = true) const {
    return rows <= 2 && cols >= 64 && cols <= 4096 && tiles ? 1e-4 : 2 * Rounding(type_);
  }

  void ExpectProducts(const RandomWeight& w, int64_t rows, DType out) {
    const Weight weight = Load(w);
    const Weight* const weights[] = {&weight};
    const std::vector<float> x = RandomRounded(rows * w.cols, 12);
    DeviceMatrix in(*backend_, type_, rows, w.cols, x),
        y(*backend_, out, rows, w.rows, std::vector<float>(static_cast<size_t>(rows * w.rows), -7.0f));
    backend_->Linear({.x = in.tensor(), .weights = weights, .y = y.tensor()});
    const std::vector<float> got = y.Get();
    for (int64_t r = 0; r<rows; r += rows> 40 ? 13 : 1) {
      for (int64_t n = 0; n<w.rows; n += w.rows> 400 ? 7 : 1) {
        const Product want = Multiply(x, w, r, n);
        ASSERT_NEAR(got[At(r, w.rows, n)], want.sum,
                    Tolerance(rows, w.cols) * want.size + Rounding(out) * std::fabs(want.sum) + 1e-6)
            << Traits(w.dtype).name << ", " << rows << " x " << w.rows << " x " << w.cols << " at " << r << "," << n;
      }
    }
  }
};
INSTANTIATE_TEST_SUITE_P(All, BlockQuantDevice, ::testing::Values("cuda_bf16", "cuda_f16"),
                         [](const auto& info) { return info.param; });

TEST_P(BlockQuantDevice, LinearOfEveryShape) {
  struct Shape {
    int64_t outputs, cols;
  };
  for (const DType type : kBlockTypes) {
    for (const Shape s : {Shape{192, 512}, {70, 256}, {1000, 256}, {20, 14336}, {9, 768}}) {
      const RandomWeight w = MakeBlockQuant(type, s.outputs, s.cols, 11);
      for (const int64_t rows : {1, 2, 4, 5, 8, 17, 64, 65, 128, 129, 300, 1100}) {
        if (rows * s.outputs * s.cols > 20'000'000) continue;
        ExpectProducts(w, rows, rows % 2 == 0 ? DType::kF32 : type_);
      }
    }
  }
}

TEST_P(BlockQuantDevice, ShortBlocksOfPartialTiles) {
  for (const DType type : {DType::kQ4_1, DType::kQ5_0, DType::kMXFP4, DType::kIQ4_NL, DType::kQ8_0}) {
    for (const int64_t cols : {32, 96, 576}) {
      const RandomWeight w = MakeBlockQuant(type, 130, cols, 13);
      for (const int64_t rows : {1, 3, 6, 40, 200}) ExpectProducts(w, rows, DType::kF32);
    }
  }
}

// Few rows of x are quantized to integers: each group of inputs by its own maximum, and zeros stay zeros.
TEST_P(BlockQuantDevice, InputsOfAnyMagnitude) {
  constexpr int64_t kOutputs = 80, kInputs = 512, kGroup = 32;
  const float small = type_ == DType::kF16 ? 1e-3f : 1e-30f, large = type_ == DType::kF16 ? 1e2f : 1e25f;
  for (const DType type : {DType::kQ2_K, DType::kQ3_K, DType::kQ4_K, DType::kQ5_0, DType::kQ6_K, DType::kMXFP4,
                           DType::kIQ4_NL, DType::kQ8_0}) {
    const RandomWeight w = MakeBlockQuant(type, kOutputs, kInputs, 17);
    const Weight weight = Load(w);
    const Weight* const weights[] = {&weight};
    for (const int64_t rows : {1, 2, 3, 4}) {
      std::vector<float> x = RandomRounded(rows * kInputs, 18);
      for (size_t i = 0; i < x.size(); ++i) {  // row r has the groups from its first on, all of one magnitude
        const int64_t r = static_cast<int64_t>(i) / kInputs, group = static_cast<int64_t>(i) % kInputs / kGroup;
        x[i] = group < r * 5 ? 0 : Rounded(type_, x[i] * (r % 2 == 0 ? small : large));
      }
      DeviceMatrix in(*backend_, type_, rows, kInputs, x),
          y(*backend_, DType::kF32, rows, kOutputs, std::vector<float>(static_cast<size_t>(rows * kOutputs)));
      backend_->Linear({.x = in.tensor(), .weights = weights, .y = y.tensor()});
      const std::vector<float> got = y.Get();
      for (int64_t r = 0; r < rows; ++r) {
        for (int64_t n = 0; n < kOutputs; ++n) {
          const Product want = Multiply(x, w, r, n);
          ASSERT_NEAR(got[At(r, kOutputs, n)], want.sum, Tolerance(rows, kInputs) * want.size)
              << Traits(type).name << ", " << rows << " rows, at " << r << "," << n;
        }
      }
    }
  }
}

TEST_P(BlockQuantDevice, NonFiniteValuesStayInTheirRow) {
  constexpr int64_t kOutputs = 48, kInputs = 512, kRows = 3;
  for (const DType type : {DType::kQ2_K, DType::kQ3_K, DType::kQ4_K, DType::kQ6_K, DType::kQ8_0}) {
    const RandomWeight w = MakeBlockQuant(type, kOutputs, kInputs, 19);
    const Weight weight = Load(w);
    const Weight* const weights[] = {&weight};
    for (const float no_number : {NAN, INFINITY}) {
      std::vector<float> x = RandomRounded(kRows * kInputs, 20);
      x[kInputs + 77] = no_number;
      DeviceMatrix in(*backend_, type_, kRows, kInputs, x),
          y(*backend_, DType::kF32, kRows, kOutputs, std::vector<float>(kRows * kOutputs));
      backend_->Linear({.x = in.tensor(), .weights = weights, .y = y.tensor()});
      const std::vector<float> got = y.Get();
      for (int64_t i = 0; i < kRows * kOutputs; ++i) {
        ASSERT_EQ(std::isfinite(got[static_cast<size_t>(i)]), i / kOutputs != 1) << Traits(type).name << " at " << i;
      }
    }
  }
}

// Of one type and of two, with whole panels, whole tiles and neither.
TEST_P(BlockQuantDevice, SeveralWeightsWithBiasAndSum) {
  for (const auto& sizes : {std::array<int64_t, 3>{64, 128, 70}, {24, 40, 8}, {24, 7, 9}}) {
    for (const auto& [first, last] : {std::pair(DType::kQ4_K, DType::kQ4_K),
                                      {DType::kQ4_K, DType::kQ6_K},
                                      {DType::kQ2_K, DType::kQ4_K},
                                      {DType::kQ3_K, DType::kQ4_K}}) {
      for (const int64_t rows : {1, 3, 5, 40, 100, 150, 260}) {
        const int64_t cols = 512, total = sizes[0] + sizes[1] + sizes[2];
        std::vector<RandomWeight> random;
        std::vector<Weight> loaded;
        for (const int64_t n : sizes) {
          random.push_back(MakeBlockQuant(random.size() == 2 ? last : first, n, cols, static_cast<uint32_t>(60 + n)));
          loaded.push_back(Load(random.back()));
        }
        const Weight* const weights[] = {&loaded[0], &loaded[1], &loaded[2]};
        const std::vector<float> x = RandomRounded(rows * cols, 64), b = RandomFloats(static_cast<size_t>(total), 65);
        DeviceMatrix in(*backend_, type_, rows, cols, x, cols + 16),
            y(*backend_, DType::kF32, rows, total, std::vector<float>(static_cast<size_t>(rows * total), 0.5f),
              total + 9);
        const DeviceFloats bias(*backend_, b);
        backend_->Linear(
            {.x = in.tensor(), .weights = weights, .bias = bias.data(), .y = y.tensor(), .accumulate = true});
        const std::vector<float> got = y.Get();
        int64_t column = 0;
        for (const RandomWeight& w : random) {
          for (int64_t n = 0; n < w.rows; ++n, ++column) {
            for (int64_t r = 0; r<rows; r += rows> 20 ? 9 : 1) {
              const Product want = Multiply(x, w, r, n);
              ASSERT_NEAR(got[At(r, total, column)], 0.5 + b[static_cast<size_t>(column)] + want.sum,
                          Tolerance(rows, cols, sizes[1] % 8 == 0) * (want.size + 1))
                  << rows << " rows at " << r << "," << column;
            }
          }
        }
      }
    }
  }
}

TEST_P(BlockQuantDevice, NormLinearAndActivationInARow) {
  constexpr int64_t kInputs = 256;
  for (const DType type : {DType::kQ4_K, DType::kQ5_K, DType::kQ6_K, DType::kQ8_0}) {
    for (const int64_t n : {64, 96, 100}) {
      const RandomWeight gate = MakeBlockQuant(type, n, kInputs, 9), up = MakeBlockQuant(type, n, kInputs, 10);
      Load(gate), Load(up);  // they stay in blocks
      for (const int64_t rows : {1, 4, 7, 24, 33, 90, 200}) {
        ExpectNormLinearAndActivation(*backend_, rows, gate, up, Tolerance(rows, kInputs, n % 8 == 0));
      }
    }
  }
}

// Both kinds of norms, for rows that a block holds at once and for longer ones, fused with the layer or separate.
TEST_P(BlockQuantDevice, NormsOfBothKindsBeforeRowsOfEveryLength) {
  constexpr int64_t kOutputs = 40;
  for (const DType type : {DType::kQ2_K, DType::kQ3_K, DType::kQ4_K, DType::kQ6_K, DType::kQ8_0}) {
    for (const int64_t cols : {512, 4096, 8192, 16384}) {
      const RandomWeight w = MakeBlockQuant(type, kOutputs, cols, 21);
      const Weight weight = Load(w);
      const Weight* const weights[] = {&weight};
      const std::vector<float> scale = RandomFloats(static_cast<size_t>(cols), 22),
                               shift = RandomFloats(static_cast<size_t>(cols), 23);
      const DeviceFloats by(*backend_, scale), plus(*backend_, shift);
      for (const int64_t rows : {1, 2, 3, 4}) {
        for (const bool layer_norm : {false, true}) {
          const std::vector<float> x = RandomFloats(static_cast<size_t>(rows * cols), 24);
          DeviceMatrix stream(*backend_, DType::kF32, rows, cols, x), normed(*backend_, type_, rows, cols, x),
              y(*backend_, DType::kF32, rows, kOutputs, std::vector<float>(static_cast<size_t>(rows * kOutputs)));
          if (layer_norm) {
            backend_->LayerNorm(stream.tensor(), by.data(), plus.data(), 1e-5f, normed.tensor());
          } else {
            backend_->RmsNorm(stream.tensor(), by.data(), 1e-5f, normed.tensor());
          }
          backend_->Linear({.x = normed.tensor(), .weights = weights, .y = y.tensor()});
          const std::vector<float> got = y.Get(), got_normed = normed.Get();
          const std::vector<double> want = Normed(x, rows, scale, layer_norm ? &shift : nullptr);
          for (int64_t r = 0; r < rows; ++r) {
            for (int64_t i = 0; i < cols; ++i) {
              const double value = want[At(r, cols, i)];
              ASSERT_NEAR(got_normed[At(r, cols, i)], value, Rounding(type_) * std::fabs(value) + 1e-5)
                  << rows << " rows of " << cols << ", at " << r << "," << i;
            }
            for (int64_t n = 0; n < kOutputs; ++n) {
              const Product product = Multiply(got_normed, w, r, n);
              ASSERT_NEAR(got[At(r, kOutputs, n)], product.sum, Tolerance(rows, cols) * product.size + 1e-6)
                  << Traits(type).name << ", " << rows << " rows of " << cols << ", at " << r << "," << n;
            }
          }
        }
      }
    }
  }
}

// As in real files: a matrix with more bits is separate, or among the others.
TEST_P(BlockQuantDevice, NormAndLayersOfTwoTypesInARow) {
  constexpr int64_t kInputs = 512;
  for (const auto& [first, second] : {std::pair(DType::kQ4_K, DType::kQ6_K),
                                      {DType::kQ5_K, DType::kQ6_K},
                                      {DType::kQ6_K, DType::kQ4_K},
                                      {DType::kQ2_K, DType::kQ4_K},
                                      {DType::kQ3_K, DType::kQ4_K},
                                      {DType::kQ8_0, DType::kQ6_K}}) {
    for (const int64_t n : {64, 96, 3000}) {
      const RandomWeight gate = MakeBlockQuant(first, n, kInputs, 9), up = MakeBlockQuant(second, n, kInputs, 10);
      for (const int64_t rows : {1, 2, 4, 7, 20, 33, 90, 150}) {
        ExpectNormLinearAndActivation(*backend_, rows, gate, up, Tolerance(rows, kInputs));
      }
    }
  }
}

// GPTQ act-order: weights of one order, of another and of none share a layer.
TEST_P(BlockQuantDevice, AppliesAnInputPermutation) {
  for (const auto& [cols, some_rows] :
       {std::pair<int64_t, std::vector<int64_t>>{512, {1, 3, 40, 200}}, {14336, {1200}}}) {
    std::vector<int32_t> orders[2];
    for (uint32_t i = 0; i < 2; ++i) {
      orders[i].resize(static_cast<size_t>(cols));
      std::iota(orders[i].begin(), orders[i].end(), 0);
      std::shuffle(orders[i].begin(), orders[i].end(), std::mt19937(31 + i));
    }
    const std::span<const int32_t> of[] = {orders[0], orders[0], orders[1], {}};
    std::vector<RandomWeight> random;
    std::vector<Weight> loaded;
    for (uint32_t i = 0; i < 4; ++i) {
      random.push_back(MakeBlockQuant(i == 1 ? DType::kQ4_K : DType::kQ4_Z, 64, cols, 33 + i));
      HostTensor host = random[i].host();
      host.order = of[i];
      loaded.push_back(std::move(backend_->LoadWeight(host).value()));
      EXPECT_TRUE(HasGroupScales(loaded[i].dtype));
    }
    for (const std::vector<size_t>& some : {std::vector<size_t>{0, 1, 2}, {3, 0, 0}}) {
      for (const int64_t rows : some_rows) {
        std::vector<const Weight*> weights;
        for (const size_t i : some) weights.push_back(&loaded[i]);
        const std::vector<float> x = RandomRounded(rows * cols, 38);
        DeviceMatrix in(*backend_, type_, rows, cols, x),
            y(*backend_, DType::kF32, rows, 3 * 64, std::vector<float>(static_cast<size_t>(rows * 3 * 64)));
        backend_->Linear({.x = in.tensor(), .weights = weights, .y = y.tensor()});
        const std::vector<float> got = y.Get();
        for (int64_t r = 0; r < rows; r += std::max<int64_t>(1, rows / 7)) {
          for (int64_t n = 0; n < 3 * 64; n += 5) {
            const size_t i = some[static_cast<size_t>(n / 64)];
            std::vector<float> row(static_cast<size_t>(cols));
            for (int64_t c = 0; c < cols; ++c) {
              row[static_cast<size_t>(c)] = x[At(r, cols, of[i].empty() ? c : of[i][static_cast<size_t>(c)])];
            }
            const Product want = Multiply(row, random[i], 0, n % 64);
            ASSERT_NEAR(got[At(r, 3 * 64, n)], want.sum, Tolerance(rows, cols) * want.size + 1e-6)
                << rows << " rows of " << cols << " at " << r << "," << n;
          }
        }
      }
    }
  }
}

TEST_P(BlockQuantDevice, TablesStayInBlocks) {
  for (const DType type : kBlockTypes) {
    const RandomWeight w = MakeBlockQuant(type, 77, 512, 51);
    HostTensor host = w.host();
    host.table = true;
    const Weight table = std::move(backend_->LoadWeight(host).value());
    EXPECT_EQ(table.dtype, *cuda::BlockQuantTypeOf(type));
    const std::vector<int32_t> ids = {76, 0, 15, 16, 64};
    DeviceMatrix y(*backend_, DType::kF32, 5, 512, std::vector<float>(5 * 512, 3.0f));
    backend_->Embed(table, ids, 2, y.tensor());
    const std::vector<float> got = y.Get();
    for (size_t i = 0; i < ids.size(); ++i) {
      for (int64_t c = 0; c < 512; ++c) {
        const double want = 2 * w.values[At(ids[i], 512, c)];
        ASSERT_NEAR(got[At(static_cast<int64_t>(i), 512, c)], want, 2e-6 * (1 + std::fabs(want)))
            << Traits(type).name << " at " << i << "," << c;
      }
    }
  }
}

TEST_P(BlockQuantDevice, UnpacksValuesThatPackingWouldChange) {
  std::vector<uint8_t> block(34 * 4, 0x80);
  for (size_t b = 0; b < 4; ++b) block[b * 34] = 0, block[b * 34 + 1] = 0x3c;  // scale 1, integers -128
  const Weight weight = std::move(backend_->LoadWeight({DType::kQ8_0, 4, 32, std::as_bytes(std::span(block))}).value());
  EXPECT_EQ(weight.dtype, type_);
  block[1] = 0x7c;
  EXPECT_EQ(backend_->LoadWeight({DType::kQ8_0, 4, 32, std::as_bytes(std::span(block))}).status().code(),
            StatusCode::kCorruption);
}

// With a fixed order a row's bits are the same alone and batched.
TEST_P(BlockQuantDevice, FixedOrderIsIndependentOfTheBatch) {
  Use(GetParam() + "_fixed");
  if (IsSkipped()) return;
  const RandomWeight w = MakeBlockQuant(DType::kQ4_K, 150, 512, 11);
  const Weight weight = Load(w);
  const Weight* const weights[] = {&weight};
  const int64_t rows = 70;
  const std::vector<float> x = RandomRounded(rows * 512, 12), zero(static_cast<size_t>(rows * 150));
  DeviceMatrix in(*backend_, type_, rows, 512, x), y(*backend_, DType::kF32, rows, 150, zero),
      alone(*backend_, DType::kF32, rows, 150, zero);
  backend_->Linear({.x = in.tensor(), .weights = weights, .y = y.tensor()});
  for (int64_t r = 0; r < rows; ++r) {
    backend_->Linear({.x = in.tensor().Rows(r, 1), .weights = weights, .y = alone.tensor().Rows(r, 1)});
  }
  EXPECT_EQ(y.Get(), alone.Get());
}

// With a fixed order weights are dequantized into a shared buffer before they are multiplied: a product must never use
// the previous ones.
TEST_P(BlockQuantDevice, FixedOrderMultipliesExpandedValues) {
  Use(GetParam() + "_fixed");
  if (IsSkipped()) return;
  constexpr int64_t kOutputs = 1024, kInputs = 2048;
  const RandomWeight random[] = {MakeBlockQuant(DType::kQ4_K, kOutputs, kInputs, 21),
                                 MakeBlockQuant(DType::kQ4_K, kOutputs, kInputs, 22)};
  const Weight weights[] = {Load(random[0]), Load(random[1])};
  const std::vector<float> x = RandomRounded(kInputs, 12);
  DeviceMatrix in(*backend_, type_, 1, kInputs, x),
      y(*backend_, DType::kF32, 1, kOutputs, std::vector<float>(kOutputs));
  std::vector<float> first[2];
  for (int i = 0; i < 40; ++i) {
    const auto which = static_cast<size_t>(i % 2);
    const Weight* const weight[] = {&weights[which]};
    backend_->Linear({.x = in.tensor(), .weights = weight, .y = y.tensor()});
    const std::vector<float> got = y.Get();
    if (first[which].empty()) {
      first[which] = got;
      for (int64_t n = 0; n < kOutputs; n += 17) {
        const Product want = Multiply(x, random[which], 0, n);
        ASSERT_NEAR(got[static_cast<size_t>(n)], want.sum, 2 * Rounding(type_) * want.size + 1e-6) << i << " at " << n;
      }
    }
    ASSERT_EQ(got, first[which]) << i;
  }
}

}  // namespace
}  // namespace ringside::testing
