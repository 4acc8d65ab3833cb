// Every operation on every kind of device - the CPU, CUDA in bfloat16, CUDA in float16 - against naive loops in double,
// within the rounding of the device's element type. Unavailable devices are skipped.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>

#include "kernels/formats/file_formats.h"
#include "kernels/formats/half.h"
#include "tests/kernels/devices.h"
#include "tests/kernels/formats/block_quant_values.h"
#include "tests/kernels/gated_layer.h"

namespace ringside::testing {
namespace {

class Device : public DeviceTest, public ::testing::WithParamInterface<std::string> {
 protected:
  void SetUp() override {
    Use(GetParam());
    unit_ = Rounding(type_);
  }

  double unit_ = 0;
};
INSTANTIATE_TEST_SUITE_P(All, Device, ::testing::ValuesIn(DeviceNames()), [](const auto& info) { return info.param; });

TEST_P(Device, MemoryIsZeroedAndCopied) {
  Buffer a = std::move(backend_->Allocate(1000).value()), b = std::move(backend_->Allocate(1000).value());
  std::vector<uint8_t> bytes(1000, 7);
  backend_->CopyToHost(bytes.data(), a.data(), 1000);
  backend_->Synchronize();
  EXPECT_EQ(bytes, std::vector<uint8_t>(1000, 0));
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(i);
  const std::vector<uint8_t> want = bytes;
  backend_->CopyToDevice(a.data(), bytes.data(), 1000);
  backend_->CopyOnDevice(b.data(), a.data(), 1000);
  backend_->Synchronize();
  std::fill(bytes.begin(), bytes.end(), uint8_t{0});
  backend_->CopyToHost(bytes.data(), b.data(), 1000);
  backend_->Synchronize();
  EXPECT_EQ(bytes, want);
  EXPECT_EQ(backend_->Allocate(size_t{1} << 60).status().code(), StatusCode::kOverloaded);
}

// They take three uploads: the host fills one buffer while the device copies the other.
TEST_P(Device, LargeWeightsArriveWhole) {
  if (GetParam() == "cpu") GTEST_SKIP() << "the CPU has its own layout";
  const int64_t rows = 20'000, cols = 2048;
  std::vector<float> values(static_cast<size_t>(rows * cols));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i * 2654435761u >> 25 & 0x7f);
  std::vector<uint16_t> halves(values.size());
  for (size_t i = 0; i < values.size(); ++i) halves[i] = FloatToHalf(values[i]);
  const DType half = DType::kF16;
  for (const HostTensor& host : {HostTensor{DType::kF32, rows, cols, std::as_bytes(std::span(values))},
                                 HostTensor{half, rows, cols, std::as_bytes(std::span(halves))}}) {
    const Weight weight = std::move(backend_->LoadWeight(host).value());
    std::vector<std::byte> got(weight.data.bytes());
    backend_->CopyToHost(got.data(), weight.data.data(), got.size());
    backend_->Synchronize();
    const HostTensor loaded{weight.dtype, rows, cols, got};
    std::vector<float> row(static_cast<size_t>(cols));
    for (int64_t r = 0; r < rows; ++r) {
      ReadFileRow(loaded, r, row.data());
      ASSERT_TRUE(std::equal(row.begin(), row.end(), values.begin() + r * cols)) << "row " << r;
    }
  }
}

// In a separate process: after an illegal address the device is unusable.
TEST_P(Device, FailureIsPermanent) {
  if (GetParam() == "cpu") GTEST_SKIP() << "a GPU's memory errors are told, not signalled";
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto fail = [this] {
    backend_->Activate({type_, reinterpret_cast<void*>(uintptr_t{4096}), 1, 512, 512}, Activation::kGeluErf);
    backend_->Synchronize();
    backend_->WaitFor(backend_->Submit());  // continues without harm
    const bool allocates = backend_->Allocate(16).ok();
    const Status status = backend_->status();
    std::_Exit(status.code() == StatusCode::kUnavailable && allocates ? 76 : 1);
  };
  EXPECT_EXIT(fail(), ::testing::ExitedWithCode(76), "the device has failed");
}

TEST_P(Device, EmbedTakesRowsOfEveryFileType) {
  for (const DType dtype : kAllTypes) {
    const bool grouped = GetParam() != "cpu" && cuda::BlockQuantTypeOf(dtype);
    const RandomWeight w = grouped ? MakeBlockQuant(dtype, 37, 512, 51) : MakeRandomWeight(dtype, 37, 512, 51);
    const Weight table = std::move(backend_->LoadWeight(w.host()).value());
    const std::vector<int32_t> ids = {36, 0, 15, 16, 17, 31, 32, 5, 36};
    const std::vector<int64_t> positions = {1, 2, 3, 4, 5, 6, 7, 8, 36};
    DeviceMatrix y(*backend_, DType::kF32, 9, 512, std::vector<float>(9 * 512, 3.0f));
    backend_->Embed(table, ids, 1, y.tensor());
    backend_->AddPositions(table, positions, y.tensor());
    const std::vector<float> got = y.Get();
    for (int64_t i = 0; i < 9; ++i) {
      for (int64_t c = 0; c < 512; ++c) {
        const double first = w.values[At(ids[static_cast<size_t>(i)], 512, c)],
                     second = w.values[At(positions[static_cast<size_t>(i)], 512, c)];
        ASSERT_NEAR(got[At(i, 512, c)], first + second, unit_ * (std::fabs(first) + std::fabs(second)) + 1e-6)
            << Traits(dtype).name;
      }
    }
  }
}

TEST_P(Device, Norms) {
  for (const int64_t n : {8, 100, 576, 1024, 2048, 4096, 8192, 16384}) {
    for (const bool layer : {false, true}) {
      const int64_t rows = n == 576 ? 300 : 5;
      const std::vector<float> x = RandomFloats(static_cast<size_t>(rows * n), 1, 3),
                               w = RandomFloats(static_cast<size_t>(n), 2), b = RandomFloats(static_cast<size_t>(n), 3);
      DeviceMatrix in(*backend_, DType::kF32, rows, n, x), out(*backend_, type_, rows, n, x);
      const DeviceFloats weight(*backend_, w), bias(*backend_, b);
      if (layer) {
        backend_->LayerNorm(in.tensor(), weight.data(), bias.data(), 1e-5f, out.tensor());
      } else {
        backend_->RmsNorm(in.tensor(), weight.data(), 1e-5f, out.tensor());
        backend_->RmsNorm(in.tensor(), weight.data(), 1e-5f, in.tensor());
      }
      const std::vector<float> got = out.Get(), in_place = in.Get();
      for (int64_t r = 0; r < rows; ++r) {
        double mean = 0, var = 0;
        for (int64_t i = 0; layer && i < n; ++i) mean += x[At(r, n, i)] / static_cast<double>(n);
        for (int64_t i = 0; i < n; ++i) var += std::pow(x[At(r, n, i)] - mean, 2) / static_cast<double>(n);
        for (int64_t i = 0; i < n; ++i) {
          const size_t c = static_cast<size_t>(i);
          const double want = (x[At(r, n, i)] - mean) / std::sqrt(var + 1e-5) * w[c] + (layer ? b[c] : 0);
          ASSERT_NEAR(got[At(r, n, i)], want, unit_ * std::fabs(want) + 2e-5);
          if (!layer) {
            ASSERT_NEAR(in_place[At(r, n, i)], want, 2e-5);
          }
        }
      }
    }
  }
}

// Adjacent queries and keys, as in a layer: each with its own norm, and none for the values after them.
TEST_P(Device, RmsNormHeads) {
  const int64_t rows = 6, queries = 5, keys = 2, values = 1;
  for (const int64_t d : {22, 24, 128, 200, 640}) {
    const int64_t heads = queries + keys + values;
    const std::vector<float> x = RandomRounded(rows * heads * d, 1), w = RandomFloats(static_cast<size_t>(d), 2),
                             v = RandomFloats(static_cast<size_t>(d), 3);
    DeviceMatrix y(*backend_, type_, rows, heads * d, x);
    const DeviceFloats query_weight(*backend_, w), key_weight(*backend_, v);
    backend_->RmsNormHeads(y.tensor().Columns(0, queries * d), queries, query_weight.data(), 1e-6f);
    backend_->RmsNormHeads(y.tensor().Columns(queries * d, keys * d), keys, key_weight.data(), 1e-6f);
    const std::vector<float> got = y.Get();
    for (int64_t h = 0; h < rows * heads; ++h) {
      double sum = 0;
      for (int64_t i = 0; i < d; ++i) sum += std::pow(x[At(h, d, i)], 2);
      const double factor = 1 / std::sqrt(sum / static_cast<double>(d) + 1e-6);
      for (int64_t i = 0; i < d; ++i) {
        const int64_t head = h % heads;
        const double by = head >= queries + keys ? 1 : factor * (head < queries ? w : v)[static_cast<size_t>(i)];
        const double want = x[At(h, d, i)] * by;
        ASSERT_NEAR(got[At(h, d, i)], want, unit_ * std::fabs(want) + 1e-5) << d;
      }
    }
  }
}

TEST_P(Device, ActivationsAndGather) {
  const int64_t rows = 3, n = 700;
  const std::vector<float> x = RandomRounded(rows * 2 * n, 5, 4);
  DeviceMatrix both(*backend_, type_, rows, 2 * n, x), y(*backend_, type_, rows, n, RandomRounded(rows * n, 6));
  backend_->MultiplyActivated(both.tensor(), Activation::kSilu, y.tensor());
  const std::vector<float> product = y.Get();
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t i = 0; i < n; ++i) {
      const double gate = x[At(r, 2 * n, i)], want = gate / (1 + std::exp(-gate)) * x[At(r, 2 * n, n + i)];
      ASSERT_NEAR(product[At(r, n, i)], want, unit_ * std::fabs(want) + 1e-6);
    }
  }
  for (const bool approximate : {false, true}) {
    DeviceMatrix g(*backend_, type_, rows, 2 * n, x);
    backend_->Activate(g.tensor(), approximate ? Activation::kGeluTanh : Activation::kGeluErf);
    const std::vector<float> got = g.Get();
    for (size_t i = 0; i < x.size(); ++i) {
      const double v = x[i], u = std::sqrt(2 / M_PI) * (v + 0.044715 * v * v * v);
      const double want = approximate ? 0.5 * v * (1 + std::tanh(u)) : 0.5 * v * std::erfc(-v / std::sqrt(2.0));
      ASSERT_NEAR(got[i], want, unit_ * std::fabs(want) + 3e-6) << v;
    }
  }
  DeviceMatrix stream(*backend_, DType::kF32, rows, 2 * n, x), picked(*backend_, DType::kF32, 2, 2 * n, x);
  const std::vector<int64_t> wanted = {2, 0};
  backend_->GatherRows(stream.tensor(), wanted, picked.tensor());
  const std::vector<float> got = picked.Get();
  EXPECT_EQ(std::vector<float>(got.begin(), got.begin() + 2 * n),
            std::vector<float>(x.begin() + 2 * 2 * n, x.begin() + 3 * 2 * n));
  EXPECT_EQ(std::vector<float>(got.begin() + 2 * n, got.end()), std::vector<float>(x.begin(), x.begin() + 2 * n));
}

// Weights that the device rounds add an error proportional to the square root of their number, int8 activations one of
// their step.
TEST_P(Device, LinearOfEveryFileType) {
  for (const DType dtype : kAllTypes) {
    const RandomWeight w = MakeRandomWeight(dtype, 70, 512, 11);
    const Weight weight = std::move(backend_->LoadWeight(w.host()).value());
    const Weight* const weights[] = {&weight};
    const std::vector<float> x = RandomRounded(20 * 512, 12);
    DeviceMatrix in(*backend_, type_, 20, 512, x),
        y(*backend_, DType::kF32, 20, 70, std::vector<float>(20 * 70, -7.0f));
    backend_->Linear({.x = in.tensor(), .weights = weights, .y = y.tensor()});
    const std::vector<float> got = y.Get();
    for (int64_t r = 0; r < 20; ++r) {
      for (int64_t n = 0; n < 70; ++n) {
        const Product want = Multiply(x, w, r, n);
        ASSERT_NEAR(got[At(r, 70, n)], want.sum, (0.5 * unit_ + (IsQuantized(dtype) ? 0.02 : 1e-5)) * want.size)
            << Traits(dtype).name;
      }
    }
  }
}

struct Shape {
  int64_t rows, outputs, cols;
};

TEST_P(Device, LinearOfEveryShape) {
  for (const Shape s : {Shape{1, 16, 256}, {1, 576, 576},    {3, 35, 512},    {8, 130, 96},     {9, 70, 264},
                        {16, 64, 1536},    {17, 9000, 64},   {32, 576, 576},  {33, 40, 256},    {70, 50, 768},
                        {2, 20, 30},       {130, 7, 33},     {1, 20, 14336},  {4, 5000, 200},   {2, 3001, 72},
                        {1, 33805, 72},    {5, 4096, 1024},  {8, 9216, 576},  {31, 576, 1536},  {64, 1024, 4096},
                        {65, 2056, 1024},  {128, 576, 2048}, {32, 49160, 64}, {20, 1101, 2048}, {6, 4097, 128}}) {
    const RandomWeight w = MakeRandomWeight(type_, s.outputs, s.cols, 11);
    const Weight weight = std::move(backend_->LoadWeight(w.host()).value());
    const Weight* const weights[] = {&weight};
    const std::vector<float> x = RandomRounded(s.rows * s.cols, 12);
    for (const DType out : {DType::kF32, type_}) {
      DeviceMatrix in(*backend_, type_, s.rows, s.cols, x),
          y(*backend_, out, s.rows, s.outputs, std::vector<float>(static_cast<size_t>(s.rows * s.outputs), -7.0f));
      backend_->Linear({.x = in.tensor(), .weights = weights, .y = y.tensor()});
      const std::vector<float> got = y.Get();
      for (int64_t r = 0; r < s.rows; ++r) {
        for (int64_t n = 0; n < s.outputs; ++n) {
          const Product want = Multiply(x, w, r, n);
          ASSERT_NEAR(got[At(r, s.outputs, n)], want.sum, 2e-6 * want.size + Rounding(out) * std::fabs(want.sum))
              << s.rows << " x " << s.outputs << " x " << s.cols << " at " << r << "," << n;
        }
      }
    }
  }
}

// A matrix per head; carried columns are copied. Rows of every tile size, also unaligned ones.
TEST_P(Device, LinearOfEveryHead) {
  struct Sizes {
    int64_t heads, outputs, inputs, carried;
  };
  for (const Sizes s : {Sizes{3, 32, 256, 6}, {20, 512, 192, 64}, {5, 128, 512, 0}, {2, 48, 36, 3}}) {
    for (const DType dtype : {DType::kF32, DType::kBF16, DType::kQ8_0, DType::kQ4_K}) {
      if (s.inputs % Traits(dtype).block_elements != 0) continue;
      const bool grouped = GetParam() != "cpu" && cuda::BlockQuantTypeOf(dtype);
      const RandomWeight w = grouped ? MakeBlockQuant(dtype, s.heads * s.outputs, s.inputs, 61)
                                     : MakeRandomWeight(dtype, s.heads * s.outputs, s.inputs, 61);
      const Weight weight = std::move(backend_->LoadWeight(w.host()).value());
      const int64_t x_step = s.inputs + s.carried, y_step = s.outputs + s.carried;
      for (const int64_t rows : {1, 5, 16, 17, 130}) {
        if (s.heads == 20 && rows > 17) continue;  // the loops are slow
        const std::vector<float> x = RandomRounded(rows * s.heads * x_step, 62);
        DeviceMatrix in(*backend_, type_, rows, s.heads * x_step, x),
            out(*backend_, type_, rows, s.heads * y_step,
                std::vector<float>(static_cast<size_t>(rows * s.heads * y_step)));
        backend_->LinearHeads(
            {.x = in.tensor(), .weight = &weight, .heads = s.heads, .carried = s.carried, .y = out.tensor()});
        const std::vector<float> got = out.Get();
        double error = 0, size = 0;
        for (int64_t i = 0; i < rows * s.heads; ++i) {
          for (int64_t c = 0; c < s.carried; ++c) {
            ASSERT_EQ(got[At(i, y_step, s.outputs + c)], x[At(i, x_step, s.inputs + c)]) << rows << " rows";
          }
          for (int64_t o = 0; o < s.outputs; ++o) {
            double want = 0;
            for (int64_t k = 0; k < s.inputs; ++k) {
              want += static_cast<double>(x[At(i, x_step, k)]) * w.values[At(i % s.heads * s.outputs + o, s.inputs, k)];
            }
            error += std::pow(got[At(i, y_step, o)] - want, 2), size += want * want;
          }
        }
        EXPECT_LT(std::sqrt(error / size), 2 * unit_ + (IsQuantized(dtype) && type_ == DType::kF32 ? 0.01 : 0))
            << Traits(dtype).name << ", " << rows << " rows, " << s.heads << " heads of " << s.inputs;
      }
    }
  }
}

TEST_P(Device, LinearWithSeveralWeightsBiasAndSum) {
  for (const int64_t rows : {1, 5, 20, 40, 64, 70}) {
    std::vector<RandomWeight> random;
    std::vector<Weight> loaded;
    for (const int64_t n : {24, 40, rows % 2 == 0 ? 8 : 7, 16, 3}) {  // more than a GPU's layer takes at once
      random.push_back(MakeRandomWeight(type_, n, 256, static_cast<uint32_t>(60 + n)));
      loaded.push_back(std::move(backend_->LoadWeight(random.back().host()).value()));
    }
    const int64_t outputs = 24 + 40 + loaded[2].rows + 16 + 3;
    const Weight* const weights[] = {&loaded[0], &loaded[1], &loaded[2], &loaded[3], &loaded[4]};
    const std::vector<float> x = RandomRounded(rows * 256, 64), b = RandomFloats(static_cast<size_t>(outputs), 65);
    DeviceMatrix in(*backend_, type_, rows, 256, x),
        y(*backend_, DType::kF32, rows, outputs, std::vector<float>(static_cast<size_t>(rows * outputs), 0.5f), 96);
    const DeviceFloats bias(*backend_, b);
    backend_->Linear({.x = in.tensor(), .weights = weights, .bias = bias.data(), .y = y.tensor(), .accumulate = true});
    const std::vector<float> got = y.Get();
    int64_t column = 0;
    for (const RandomWeight& w : random) {
      for (int64_t n = 0; n < w.rows; ++n, ++column) {
        for (int64_t r = 0; r < rows; ++r) {
          const Product want = Multiply(x, w, r, n);
          ASSERT_NEAR(got[At(r, outputs, column)], 0.5 + b[static_cast<size_t>(column)] + want.sum,
                      3e-6 * (want.size + 1))
              << "column " << column << " of " << rows << " rows";
        }
      }
    }
  }
}

TEST_P(Device, NormLinearAndActivationInARow) {
  const RandomWeight gate = MakeRandomWeight(type_, 96, 256, 9), up = MakeRandomWeight(type_, 96, 256, 10);
  for (const int64_t rows : {1, 2, 4, 5, 7, 8, 9, 16, 17, 20, 31, 32, 33, 64, 65, 128, 300, 2048}) {
    ExpectNormLinearAndActivation(*backend_, rows, gate, up, 2e-6);
  }
}

// The norm before a layer with few rows, computed by one warp per row or by the whole block (rows too long for a warp).
TEST_P(Device, LayerNormAndLinear) {
  for (const int64_t d : {192, 1024, 1280}) {
    for (const int64_t rows : {1, 2, 3, 4, 5}) {
      const int64_t n = 72;
      const std::vector<float> x = RandomFloats(static_cast<size_t>(rows * d), 7),
                               w = RandomFloats(static_cast<size_t>(d), 8), b = RandomFloats(static_cast<size_t>(d), 9);
      const RandomWeight random = MakeRandomWeight(type_, n, d, 10);
      const Weight loaded = std::move(backend_->LoadWeight(random.host()).value());
      const Weight* const weights[] = {&loaded};
      const DeviceFloats weight(*backend_, w), bias(*backend_, b);
      DeviceMatrix stream(*backend_, DType::kF32, rows, d, x),
          normed(*backend_, type_, rows, d, std::vector<float>(x.size(), -7.0f)),
          y(*backend_, type_, rows, n, std::vector<float>(static_cast<size_t>(rows * n), -7.0f));
      backend_->LayerNorm(stream.tensor(), weight.data(), bias.data(), 1e-5f, normed.tensor());
      backend_->Linear({.x = normed.tensor(), .weights = weights, .y = y.tensor()});
      backend_->Synchronize();
      const std::vector<float> got_normed = normed.Get(), got = y.Get();
      for (int64_t r = 0; r < rows; ++r) {
        double mean = 0, variance = 0;
        for (int64_t i = 0; i < d; ++i) mean += x[At(r, d, i)] / static_cast<double>(d);
        for (int64_t i = 0; i < d; ++i) variance += std::pow(x[At(r, d, i)] - mean, 2) / static_cast<double>(d);
        for (int64_t i = 0; i < d; ++i) {
          const auto c = static_cast<size_t>(i);
          const double want = (x[At(r, d, i)] - mean) / std::sqrt(variance + 1e-5) * w[c] + b[c];
          ASSERT_NEAR(got_normed[At(r, d, i)], want, unit_ * std::fabs(want) + 1e-5) << rows << " x " << d;
        }
        for (int64_t i = 0; i < n; ++i) {
          const Product want = Multiply(got_normed, random, r, i);
          ASSERT_NEAR(got[At(r, n, i)], want.sum, unit_ * std::fabs(want.sum) + 2e-6 * want.size) << rows << " x " << d;
        }
      }
    }
  }
}

// A bias is fused with its layer's product, which is rounded, or with the following operation: GELU, or the norm of the
// residual stream.
TEST_P(Device, BiasFusedWithTheNextOperation) {
  const int64_t d = 192, n = 328;
  const RandomWeight up = MakeRandomWeight(type_, n, d, 9), down = MakeRandomWeight(type_, d, n, 10);
  const Weight ups = std::move(backend_->LoadWeight(up.host()).value()),
               downs = std::move(backend_->LoadWeight(down.host()).value());
  const Weight *const up_weights[] = {&ups}, *const down_weights[] = {&downs};
  const std::vector<float> up_bias = RandomFloats(n, 3), down_bias = RandomFloats(d, 4), w = RandomFloats(d, 5);
  const DeviceFloats up_added(*backend_, up_bias), down_added(*backend_, down_bias), weight(*backend_, w);
  const Weight up_rounded =
      std::move(backend_->LoadWeight({DType::kF32, 1, n, std::as_bytes(std::span(up_bias))}).value());
  for (const int64_t rows : {1, 5, 32, 64, 65, 300}) {
    const auto cells = [&](int64_t cols) { return static_cast<size_t>(rows * cols); };
    const std::vector<float> x = RandomRounded(rows * d, 6), old = RandomFloats(cells(d), 7);
    DeviceMatrix in(*backend_, type_, rows, d, x), mid(*backend_, type_, rows, n, std::vector<float>(cells(n))),
        plain(*backend_, type_, rows, n, std::vector<float>(cells(n))), stream(*backend_, DType::kF32, rows, d, old),
        normed(*backend_, type_, rows, d, x);
    std::vector<float> before = old;
    for (int round = 0; round < 3; ++round) {
      for (const Tensor& y : {plain.tensor(), mid.tensor()}) {
        backend_->Linear({.x = in.tensor(),
                          .weights = up_weights,
                          .bias = up_added.data(),
                          .y = y,
                          .rounded_bias = up_rounded.data.data()});
      }
      backend_->Activate(mid.tensor(), Activation::kGeluTanh);
      backend_->Linear({.x = mid.tensor(),
                        .weights = down_weights,
                        .bias = down_added.data(),
                        .y = stream.tensor(),
                        .accumulate = true});
      backend_->LayerNorm(stream.tensor(), weight.data(), weight.data(), 1e-5f, normed.tensor());
      backend_->Synchronize();
      const std::vector<float> got_plain = plain.Get(), got_mid = mid.Get(), after = stream.Get(), got = normed.Get();
      for (int64_t r = 0; r < rows; ++r) {
        for (int64_t i = 0; i < n; ++i) {
          const Product product = Multiply(x, up, r, i);
          const double v = product.sum + up_bias[static_cast<size_t>(i)];
          const double want = 0.5 * v * (1 + std::tanh(std::sqrt(2 / M_PI) * (v + 0.044715 * v * v * v)));
          // The product or the bias is rounded, and the result.
          const double one = std::max(std::fabs(product.sum), std::fabs(double{up_bias[static_cast<size_t>(i)]}));
          ASSERT_NEAR(got_plain[At(r, n, i)], v, unit_ * (one + std::fabs(v)) + 4e-6 * product.size) << rows;
          // The product, its sum with the bias and the result are rounded; GELU is at most 1.13 times as steep as v.
          const double rounding = unit_ * (1.13 * (std::fabs(product.sum) + std::fabs(v)) + std::fabs(want));
          ASSERT_NEAR(got_mid[At(r, n, i)], want, rounding + 4e-6 * product.size) << rows;
        }
        double mean = 0, var = 0;
        for (int64_t i = 0; i < d; ++i) {
          const Product product = Multiply(got_mid, down, r, i);
          const double want = before[At(r, d, i)] + product.sum + down_bias[static_cast<size_t>(i)];
          ASSERT_NEAR(after[At(r, d, i)], want, 3e-6 * (product.size + std::fabs(before[At(r, d, i)]) + 1)) << rows;
          mean += after[At(r, d, i)] / static_cast<double>(d);
        }
        for (int64_t i = 0; i < d; ++i) var += std::pow(after[At(r, d, i)] - mean, 2) / static_cast<double>(d);
        for (int64_t i = 0; i < d; ++i) {
          const double c = w[static_cast<size_t>(i)];
          const double want = (after[At(r, d, i)] - mean) / std::sqrt(var + 1e-5) * c + c;
          ASSERT_NEAR(got[At(r, d, i)], want, unit_ * std::fabs(want) + 2e-5) << rows;
        }
      }
      before = after;
    }
  }
}

}  // namespace
}  // namespace ringside::testing
