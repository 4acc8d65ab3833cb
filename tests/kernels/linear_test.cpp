// Linear and Embed: every element type on every instruction set of this machine, against naive loops and bit for bit
// against one another.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/kernels/reference.h"

namespace ringside::testing {
namespace {

struct LinearShape {
  int64_t rows, outputs, cols;
};

std::vector<float> RunLinear(Backend& backend, const RandomWeight& w, std::vector<float> x, int64_t rows) {
  const Weight weight = std::move(backend.LoadWeight(w.host()).value());
  const Weight* const weights[] = {&weight};
  std::vector<float> y(static_cast<size_t>(rows * w.rows), -7.0f);
  backend.Linear({.x = AsTensor(x, rows, w.cols), .weights = weights, .y = AsTensor(y, rows, w.rows)});
  return y;
}

class TypeAndSet : public ::testing::TestWithParam<std::tuple<DType, std::string>> {
 protected:
  DType dtype() const { return std::get<0>(GetParam()); }
  std::string set() const { return std::get<1>(GetParam()); }
};
INSTANTIATE_TEST_SUITE_P(All, TypeAndSet,
                         ::testing::Combine(::testing::ValuesIn(kAllTypes), ::testing::ValuesIn(InstructionSets())),
                         [](const auto& info) {
                           std::string name(Traits(std::get<0>(info.param)).name);
                           std::ranges::replace(name, ' ', '_');
                           return name + "_" + std::get<1>(info.param);
                         });

/// The dequantized int8 activations, Linear's defined operands.
std::vector<double> RoundedToEightBits(const std::vector<float>& x) {
  std::vector<double> out;
  for (size_t b = 0; b < x.size(); b += 32) {
    float amax = 0;
    for (size_t i = b; i < b + 32; ++i) amax = std::max(amax, std::fabs(x[i]));
    for (size_t i = b; i < b + 32; ++i)
      out.push_back(std::nearbyint(x[i] * (127.0f / amax)) * static_cast<double>(amax / 127.0f));
  }
  return out;
}

// Against exact products of the rounded activations only float additions contribute errors: 1e-5 of the sum of
// magnitudes. Against the float activations a quantized product errs by the int8 step, at most 1/254 of each block's
// maximum.
TEST_P(TypeAndSet, MatchesNaiveLoop) {
  auto backend = MakeBackend(set(), 2);
  for (const LinearShape s : {LinearShape{1, 16, 256}, {3, 35, 512}, {20, 70, 256}, {37, 5, 768}}) {
    const RandomWeight w = MakeRandomWeight(dtype(), s.outputs, s.cols, 11);
    const std::vector<float> x = RandomFloats(static_cast<size_t>(s.rows * s.cols), 12);
    const std::vector<double> exact =
        IsQuantized(dtype()) ? RoundedToEightBits(x) : std::vector<double>(x.begin(), x.end());
    const std::vector<float> y = RunLinear(*backend, w, x, s.rows);
    for (int64_t r = 0; r < s.rows; ++r) {
      for (int64_t n = 0; n < s.outputs; ++n) {
        double sum = 0, size = 0, with_float = 0;
        for (int64_t k = 0; k < s.cols; ++k) {
          const double v = w.values[static_cast<size_t>(n * s.cols + k)];
          sum += exact[static_cast<size_t>(r * s.cols + k)] * v;
          with_float += x[static_cast<size_t>(r * s.cols + k)] * v;
          size += std::fabs(x[static_cast<size_t>(r * s.cols + k)] * v);
        }
        ASSERT_NEAR(y[static_cast<size_t>(r * s.outputs + n)], sum, 1e-5 * size) << r << "," << n;
        ASSERT_NEAR(y[static_cast<size_t>(r * s.outputs + n)], with_float, 0.02 * size) << r << "," << n;
      }
    }
  }
}

TEST_P(TypeAndSet, SameBitsAsPortable) {
  auto backend = MakeBackend(set(), 1), portable = MakeBackend("portable", 1);
  const RandomWeight w = MakeRandomWeight(dtype(), 72, 768, 21);
  std::vector<float> x = RandomFloats(13 * 768, 22);
  for (int i = 0; i < 768; ++i) x[static_cast<size_t>(i)] *= std::pow(10.0f, static_cast<float>(i % 9 - 4));
  EXPECT_EQ(RunLinear(*backend, w, x, 13), RunLinear(*portable, w, x, 13));
}

TEST_P(TypeAndSet, SameBitsForAnyRowsAndThreads) {
  auto one = MakeBackend(set(), 1);
  const RandomWeight w = MakeRandomWeight(dtype(), 200, 512, 31);
  const int64_t all = set() == "portable" ? 33 : 150;
  const std::vector<float> x = RandomFloats(static_cast<size_t>(all * 512), 32);
  std::vector<float> single;
  for (int64_t r = 0; r < all; ++r) {
    const std::vector<float> y = RunLinear(*one, w, {x.begin() + r * 512, x.begin() + (r + 1) * 512}, 1);
    single.insert(single.end(), y.begin(), y.end());
  }
  for (const int threads : {1, 2, 3}) {
    auto backend = MakeBackend(set(), threads);
    for (const int64_t rows : {int64_t{7}, int64_t{33}, all}) {
      const std::vector<float> y = RunLinear(*backend, w, {x.begin(), x.begin() + rows * 512}, rows);
      EXPECT_TRUE(std::equal(y.begin(), y.end(), single.begin())) << rows << " rows, " << threads << " threads";
    }
  }
}

// Extreme integers: the largest products must not saturate anywhere.
// A matrix per head gives the bits of a matrix alone; carried columns are copied.
TEST_P(TypeAndSet, EveryHeadHasItsOwnMatrix) {
  constexpr int64_t kHeads = 3, kOutputs = 32, kInputs = 256, kCarried = 5;
  auto backend = MakeBackend(set(), 2);
  const RandomWeight w = MakeRandomWeight(dtype(), kHeads * kOutputs, kInputs, 21);
  const Weight weight = std::move(backend->LoadWeight(w.host()).value());
  for (const int64_t rows : {1, 3, 70}) {
    constexpr int64_t kIn = kHeads * (kInputs + kCarried), kOut = kHeads * (kOutputs + kCarried);
    std::vector<float> x = RandomFloats(static_cast<size_t>(rows * kIn), 22);
    std::vector<float> y(static_cast<size_t>(rows * kOut), -7.0f);
    backend->LinearHeads({.x = AsTensor(x, rows, kIn),
                          .weight = &weight,
                          .heads = kHeads,
                          .carried = kCarried,
                          .y = AsTensor(y, rows, kOut)});
    for (int64_t h = 0; h < kHeads; ++h) {
      RandomWeight own{dtype(), kOutputs, kInputs, {}, {}};
      const size_t bytes = w.bytes.size() / kHeads, first = static_cast<size_t>(h) * bytes;
      own.bytes.assign(w.bytes.begin() + static_cast<std::ptrdiff_t>(first),
                       w.bytes.begin() + static_cast<std::ptrdiff_t>(first + bytes));
      std::vector<float> in, want, got;
      for (int64_t r = 0; r < rows; ++r) {
        const auto row = x.begin() + r * kIn + h * (kInputs + kCarried);
        in.insert(in.end(), row, row + kInputs);
        const auto out = y.begin() + r * kOut + h * (kOutputs + kCarried);
        got.insert(got.end(), out, out + kOutputs);
        EXPECT_TRUE(std::equal(row + kInputs, row + kInputs + kCarried, out + kOutputs));
      }
      EXPECT_EQ(got, RunLinear(*backend, own, in, rows)) << "head " << h << " of " << rows << " rows";
    }
  }
}

TEST_P(TypeAndSet, LargestIntegersStayExact) {
  auto backend = MakeBackend(set(), 1);
  for (const int fill : {0x00, 0x7f, 0x80, 0xff}) {
    RandomWeight w = MakeRandomWeight(dtype(), 16, 256, 41);
    if (!IsQuantized(dtype())) return;
    const auto block = static_cast<size_t>(Traits(dtype()).block_bytes);
    for (size_t i = 0; i < w.bytes.size(); ++i) {  // scales stay unchanged
      if (!IsScaleByte(dtype(), i % block)) w.bytes[i] = static_cast<std::byte>(fill);
    }
    for (const float sign : {1.0f, -1.0f}) {
      std::vector<float> x(256, sign);
      // All activations are +-127 / 127: each output is the plain sum of its row's values.
      const std::vector<float> y = RunLinear(*backend, w, x, 1);
      const Weight table = std::move(backend->LoadWeight(w.host()).value());
      std::vector<float> row(256);
      for (int32_t n = 0; n < 16; ++n) {
        backend->Embed(table, {&n, 1}, 1, AsTensor(row, 1, 256));
        double sum = 0, size = 0;
        for (const float v : row) sum += v, size += std::fabs(v);
        EXPECT_NEAR(y[static_cast<size_t>(n)], sign * sum, 2e-6 * size + 1e-9) << fill << " " << sign << " " << n;
      }
    }
  }
}

TEST_P(TypeAndSet, EmbedGivesTheStoredValues) {
  auto backend = MakeBackend(set(), 2);
  const RandomWeight w = MakeRandomWeight(dtype(), 37, 512, 51);
  const Weight table = std::move(backend->LoadWeight(w.host()).value());
  const std::vector<int32_t> ids = {36, 0, 15, 16, 17, 31, 32, 5, 36};
  std::vector<float> y(ids.size() * 512);
  backend->Embed(table, ids, 1, AsTensor(y, static_cast<int64_t>(ids.size()), 512));
  for (size_t i = 0; i < ids.size(); ++i) {
    for (size_t c = 0; c < 512; ++c) {
      const double want = w.values[static_cast<size_t>(ids[i]) * 512 + c];
      ASSERT_NEAR(y[512 * i + c], want, 1e-6 * (1 + std::fabs(want))) << ids[i] << "," << c;
    }
  }
}

TEST_P(TypeAndSet, AddPositionsAdds) {
  auto backend = MakeBackend(set(), 1);
  const RandomWeight w = MakeRandomWeight(dtype(), 20, 256, 52);
  const Weight table = std::move(backend->LoadWeight(w.host()).value());
  const std::vector<int64_t> positions = {19, 3};
  std::vector<float> y(2 * 256, 2.0f);
  backend->AddPositions(table, positions, AsTensor(y, 2, 256));
  for (size_t c = 0; c < 256; ++c) {
    ASSERT_NEAR(y[c], 2 + w.values[19 * 256 + c], 1e-6 * (2 + std::fabs(w.values[19 * 256 + c])));
    ASSERT_NEAR(y[256 + c], 2 + w.values[3 * 256 + c], 1e-6 * (2 + std::fabs(w.values[3 * 256 + c])));
  }
}

class LinearOnEachSet : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(All, LinearOnEachSet, ::testing::ValuesIn(InstructionSets()),
                         [](const auto& info) { return info.param; });

TEST_P(LinearOnEachSet, SeveralWeightsShareARowWithBias) {
  auto backend = MakeBackend(GetParam(), 2);
  const RandomWeight a = MakeRandomWeight(DType::kQ4_1, 24, 256, 61), b = MakeRandomWeight(DType::kF16, 40, 256, 62),
                     c = MakeRandomWeight(DType::kQ6_K, 7, 256, 63);
  const Weight wa = std::move(backend->LoadWeight(a.host()).value()),
               wb = std::move(backend->LoadWeight(b.host()).value()),
               wc = std::move(backend->LoadWeight(c.host()).value());
  const Weight* const weights[] = {&wa, &wb, &wc};
  const int64_t rows = 9, outputs = 71;
  std::vector<float> x = RandomFloats(rows * 256, 64), bias = RandomFloats(outputs, 65);
  std::vector<float> y(rows * outputs, 0.5f), plain = y, sum = y;
  backend->Linear({.x = AsTensor(x, rows, 256), .weights = weights, .y = AsTensor(plain, rows, outputs)});
  backend->Linear(
      {.x = AsTensor(x, rows, 256), .weights = weights, .bias = bias.data(), .y = AsTensor(y, rows, outputs)});
  backend->Linear({.x = AsTensor(x, rows, 256),
                   .weights = weights,
                   .bias = bias.data(),
                   .y = AsTensor(sum, rows, outputs),
                   .accumulate = true});
  int64_t column = 0;
  for (const RandomWeight* w : {&a, &b, &c}) {
    const std::vector<float> alone = RunLinear(*backend, *w, x, rows);
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t n = 0; n < w->rows; ++n) {
        const size_t at = static_cast<size_t>(r * outputs + column + n);
        const float value = alone[static_cast<size_t>(r * w->rows + n)];
        ASSERT_EQ(plain[at], value);
        ASSERT_EQ(y[at], value + bias[static_cast<size_t>(column + n)]);
        ASSERT_EQ(sum[at], 0.5f + (value + bias[static_cast<size_t>(column + n)]));
      }
    }
    column += w->rows;
  }
}

TEST_P(LinearOnEachSet, StridedInputAndOutputStayInBounds) {
  auto backend = MakeBackend(GetParam(), 1);
  for (const DType dtype : {DType::kF32, DType::kQ8_0}) {
    const RandomWeight w = MakeRandomWeight(dtype, 21, 64, 71);
    const Weight weight = std::move(backend->LoadWeight(w.host()).value());
    const Weight* const weights[] = {&weight};
    const int64_t rows = 19;
    std::vector<float> wide = RandomFloats(rows * 100, 72), y(rows * 30, 9.0f), x;
    for (int64_t r = 0; r < rows; ++r) x.insert(x.end(), wide.begin() + r * 100 + 10, wide.begin() + r * 100 + 74);
    backend->Linear({.x = AsTensor(wide, rows, 100).Columns(10, 64),
                     .weights = weights,
                     .y = AsTensor(y, rows, 30).Columns(4, 21)});
    const std::vector<float> want = RunLinear(*backend, w, x, rows);
    for (int64_t i = 0; i < rows * 30; ++i) {
      const int64_t c = i % 30 - 4;
      ASSERT_EQ(y[static_cast<size_t>(i)], c < 0 || c >= 21 ? 9.0f : want[static_cast<size_t>(i / 30 * 21 + c)]);
    }
  }
}

TEST_P(LinearOnEachSet, ZeroAndTinyActivationsGiveZero) {
  auto backend = MakeBackend(GetParam(), 1);
  const RandomWeight w = MakeRandomWeight(DType::kQ4_1, 16, 64, 81);
  for (const float x : {0.0f, -0.0f, 1e-38f, 1e-42f}) {
    for (const float y : RunLinear(*backend, w, std::vector<float>(64, x), 1)) EXPECT_EQ(y, 0.0f);
  }
}

// Activations are permuted for the weight with an order, whatever other weights share the layer.
TEST_P(LinearOnEachSet, SupportsPermutedInputs) {
  auto backend = MakeBackend(GetParam(), 2);
  const int64_t rows = 19, cols = 64;
  const RandomWeight ordered = MakeRandomWeight(DType::kQ4_Z, 24, cols, 91),
                     plain = MakeRandomWeight(DType::kF32, 7, cols, 92);
  std::vector<int32_t> order(static_cast<size_t>(cols));
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int32_t>(i * 29 % order.size());
  HostTensor host = ordered.host();
  host.order = order;
  const Weight first = std::move(backend->LoadWeight(host).value()),
               second = std::move(backend->LoadWeight(plain.host()).value());
  const Weight* const weights[] = {&first, &second};
  std::vector<float> x = RandomFloats(static_cast<size_t>(rows * cols), 93), bias = RandomFloats(31, 94), in_order;
  std::vector<float> y(static_cast<size_t>(rows * 31), 0.5f);
  backend->Linear({.x = AsTensor(x, rows, cols),
                   .weights = weights,
                   .bias = bias.data(),
                   .y = AsTensor(y, rows, 31),
                   .accumulate = true});
  for (int64_t r = 0; r < rows; ++r) {
    for (const int32_t c : order) in_order.push_back(x[static_cast<size_t>(r * cols + c)]);
  }
  const std::vector<float> a = RunLinear(*backend, ordered, in_order, rows), b = RunLinear(*backend, plain, x, rows);
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t n = 0; n < 31; ++n) {
      const float alone = n < 24 ? a[static_cast<size_t>(r * 24 + n)] : b[static_cast<size_t>(r * 7 + n - 24)];
      ASSERT_EQ(y[static_cast<size_t>(r * 31 + n)], 0.5f + (alone + bias[static_cast<size_t>(n)])) << r << "," << n;
    }
  }
}

TEST(LoadWeight, RefusesMismatchedShapes) {
  auto backend = MakeBackend("", 1);
  std::vector<std::byte> bytes(34 * 4);
  EXPECT_TRUE(backend->LoadWeight({DType::kQ8_0, 4, 32, bytes}).ok());
  for (const HostTensor bad : {HostTensor{DType::kQ8_0, 4, 33, bytes},
                               {DType::kQ8_0, 3, 32, bytes},
                               {DType::kQ8_0, 0, 32, bytes},
                               {DType::kQ8_0, -4, 32, bytes},
                               {DType::kQ4_K, 4, 32, bytes},
                               {DType::kF32, 4, int64_t{1} << 40, bytes},
                               {static_cast<DType>(99), 4, 32, bytes},
                               {DType::kF32, int64_t{1} << 62, 4, bytes}}) {
    const auto result = backend->LoadWeight(bad);
    ASSERT_FALSE(result.ok());
    EXPECT_EQ(result.status().code(), StatusCode::kInvalidArgument);
  }
}

TEST(LoadWeight, RefusesNonFiniteScales) {
  auto backend = MakeBackend("", 1);
  for (const DType dtype : kAllTypes) {
    if (!IsQuantized(dtype)) continue;
    RandomWeight w = MakeRandomWeight(dtype, 20, 512, 95);
    ASSERT_TRUE(backend->LoadWeight(w.host()).ok());
    const auto block = static_cast<size_t>(Traits(dtype).block_bytes);
    for (size_t i = w.bytes.size() - block; i < w.bytes.size(); ++i) {  // of the last block
      if (IsScaleByte(dtype, i % block)) w.bytes[i] = std::byte{0xff};
    }
    EXPECT_EQ(backend->LoadWeight(w.host()).status().code(), StatusCode::kCorruption) << Traits(dtype).name;
  }
}

TEST(LoadWeight, RefusesAMismatchedPermutation) {
  auto backend = MakeBackend("", 1);
  const RandomWeight w = MakeRandomWeight(DType::kQ8_0, 4, 32, 96);
  HostTensor host = w.host();
  const std::vector<int32_t> order(31);
  host.order = order;
  EXPECT_EQ(backend->LoadWeight(host).status().code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace ringside::testing
