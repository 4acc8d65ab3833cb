// Norms, activations, gathers: against naive loops in double, and bit-equal on every instruction set, for any number of
// rows and threads.
#include <gtest/gtest.h>

#include <functional>

#include "tests/kernels/reference.h"

namespace ringside::testing {
namespace {

class RowOps : public ::testing::TestWithParam<std::string> {
 protected:
  RowOps() : backend_(MakeBackend(GetParam(), 2)), portable_(MakeBackend("portable", 1)) {}
  std::unique_ptr<Backend> backend_, portable_;
};
INSTANTIATE_TEST_SUITE_P(All, RowOps, ::testing::ValuesIn(InstructionSets()),
                         [](const auto& info) { return info.param; });

constexpr int64_t kWidths[] = {1, 8, 16, 17, 64, 100, 576, 1000};

TEST_P(RowOps, RmsNorm) {
  for (const int64_t n : kWidths) {
    const int64_t rows = 40;
    std::vector<float> x = RandomFloats(static_cast<size_t>(rows * n), 1, 3),
                       w = RandomFloats(static_cast<size_t>(n), 2), y(x.size()), z(x.size());
    backend_->RmsNorm(AsTensor(x, rows, n), w.data(), 1e-5f, AsTensor(y, rows, n));
    portable_->RmsNorm(AsTensor(x, rows, n), w.data(), 1e-5f, AsTensor(z, rows, n));
    EXPECT_EQ(y, z);
    for (int64_t r = 0; r < rows; ++r) {
      double sum = 0;
      for (int64_t i = 0; i < n; ++i) sum += std::pow(static_cast<double>(x[static_cast<size_t>(r * n + i)]), 2);
      for (int64_t i = 0; i < n; ++i) {
        const double want = x[static_cast<size_t>(r * n + i)] / std::sqrt(sum / static_cast<double>(n) + 1e-5) *
                            w[static_cast<size_t>(i)];
        ASSERT_NEAR(y[static_cast<size_t>(r * n + i)], want, 1e-5);
      }
    }
    backend_->RmsNorm(AsTensor(x, rows, n), w.data(), 1e-5f, AsTensor(x, rows, n));
    EXPECT_EQ(x, y) << "in place";
  }
}

TEST_P(RowOps, RmsNormHeadsIsRmsNormOfEachHead) {
  std::vector<float> x = RandomFloats(6 * 5 * 24, 1), w = RandomFloats(24, 2), y(x.size());
  backend_->RmsNorm(AsTensor(x, 30, 24), w.data(), 1e-6f, AsTensor(y, 30, 24));
  backend_->RmsNormHeads(AsTensor(x, 6, 120), 5, w.data(), 1e-6f);
  EXPECT_EQ(x, y);
}

TEST_P(RowOps, LayerNorm) {
  for (const int64_t n : kWidths) {
    const int64_t rows = 5;
    std::vector<float> x = RandomFloats(static_cast<size_t>(rows * n), 1, 3),
                       w = RandomFloats(static_cast<size_t>(n), 2), b = RandomFloats(static_cast<size_t>(n), 3),
                       y(x.size()), z(x.size());
    for (float& v : x) v += 4;
    backend_->LayerNorm(AsTensor(x, rows, n), w.data(), b.data(), 1e-5f, AsTensor(y, rows, n));
    portable_->LayerNorm(AsTensor(x, rows, n), w.data(), b.data(), 1e-5f, AsTensor(z, rows, n));
    EXPECT_EQ(y, z);
    for (int64_t r = 0; r < rows; ++r) {
      double mean = 0, var = 0;
      for (int64_t i = 0; i < n; ++i) mean += x[static_cast<size_t>(r * n + i)] / static_cast<double>(n);
      for (int64_t i = 0; i < n; ++i)
        var += std::pow(x[static_cast<size_t>(r * n + i)] - mean, 2) / static_cast<double>(n);
      for (int64_t i = 0; i < n; ++i) {
        const double want =
            (x[static_cast<size_t>(r * n + i)] - mean) / std::sqrt(var + 1e-5) * w[static_cast<size_t>(i)] +
            b[static_cast<size_t>(i)];
        ASSERT_NEAR(y[static_cast<size_t>(r * n + i)], want, 2e-5) << n;
      }
    }
  }
}

/// Values from -100 to 100, dense around 0, and around the exponential's limits.
std::vector<float> Sweep() {
  std::vector<float> x;
  for (float v = -12; v < 12; v += 0.0037f) x.push_back(v);
  for (float v : {-100.0f, -90.0f, -88.1f, -87.4f, -87.29f, -1e-30f, -0.0f, 0.0f, 1e-30f, 1e-6f, 87.29f, 88.1f, 100.0f,
                  3e4f, -3e4f})
    x.push_back(v);
  return x;
}

TEST_P(RowOps, SiluMultiply) {
  const std::vector<float> gate = Sweep();
  const int64_t n = static_cast<int64_t>(gate.size());
  std::vector<float> x = gate, y(gate.size()), z(gate.size());
  const std::vector<float> up = RandomFloats(gate.size(), 5);
  x.insert(x.end(), up.begin(), up.end());
  backend_->MultiplyActivated(AsTensor(x, 1, 2 * n), Activation::kSilu, AsTensor(y, 1, n));
  portable_->MultiplyActivated(AsTensor(x, 1, 2 * n), Activation::kSilu, AsTensor(z, 1, n));
  EXPECT_EQ(y, z);
  for (size_t i = 0; i < gate.size(); ++i) {
    const double want = gate[i] / (1 + std::exp(-static_cast<double>(gate[i]))) * up[i];
    ASSERT_NEAR(y[i], want, 4e-7 * std::fabs(want) + 1e-30) << gate[i];
  }
}

TEST_P(RowOps, Gelu) {
  for (const bool approximate : {false, true}) {
    const std::vector<float> x = Sweep();
    std::vector<float> y = x, z = x;
    const Activation activation = approximate ? Activation::kGeluTanh : Activation::kGeluErf;
    backend_->Activate(AsTensor(y, 1, static_cast<int64_t>(x.size())), activation);
    portable_->Activate(AsTensor(z, 1, static_cast<int64_t>(x.size())), activation);
    EXPECT_EQ(y, z);
    for (size_t i = 0; i < x.size(); ++i) {
      const double v = x[i], u = std::sqrt(2 / M_PI) * (v + 0.044715 * v * v * v);
      const double want = approximate ? 0.5 * v * (1 + std::tanh(u)) : 0.5 * v * std::erfc(-v / std::sqrt(2.0));
      ASSERT_NEAR(y[i], want, 4e-7 * std::fabs(v) + 1e-30) << v;
    }
  }
}

// The formulas of kernels/activation.h, and the soft cap of scores and logits.
TEST_P(RowOps, ActivationsAndCaps) {
  const std::vector<float> gate = Sweep();
  const auto n = static_cast<int64_t>(gate.size());
  std::vector<float> x = gate, y(gate.size()), relu = gate, silu = gate, capped = gate;
  const std::vector<float> up = RandomFloats(gate.size(), 5, 8);
  x.insert(x.end(), up.begin(), up.end());
  backend_->MultiplyActivated(AsTensor(x, 1, 2 * n), Activation::kClampedSilu, AsTensor(y, 1, n));
  backend_->Activate(AsTensor(relu, 1, n), Activation::kRelu);
  backend_->Activate(AsTensor(silu, 1, n), Activation::kSilu);
  backend_->SoftCap(AsTensor(capped, 1, n), 30);
  for (size_t i = 0; i < gate.size(); ++i) {
    const double v = gate[i], g = std::min(v, 7.0), u = std::clamp<double>(up[i], -7, 7);
    const double want = g / (1 + std::exp(-1.702 * g)) * (u + 1);
    ASSERT_NEAR(y[i], want, 2e-6 * std::fabs(want) + 1e-30) << v;
    ASSERT_EQ(relu[i], std::max(gate[i], 0.0f));
    ASSERT_NEAR(silu[i], v / (1 + std::exp(-v)), 4e-7 * std::fabs(v) + 1e-30) << v;
    ASSERT_NEAR(capped[i], 30 * std::tanh(v / 30), 4e-6) << v;
  }
}

TEST_P(RowOps, GatesAndFactors) {
  const std::vector<float> gate = Sweep();
  const auto n = static_cast<int64_t>(gate.size());
  const std::vector<float> x = RandomFloats(gate.size(), 6, 4);
  const auto gated = [&](GateKind kind) {
    std::vector<float> y = x, g = gate;
    backend_->Gate(AsTensor(g, 1, n), kind, AsTensor(y, 1, n));
    return y;
  };
  const std::vector<float> sigmoid = gated(GateKind::kSigmoid), silu = gated(GateKind::kSilu),
                           product = gated(GateKind::kIdentity), softplus = gated(GateKind::kSoftplus);
  std::vector<float> scaled = x;
  backend_->Scale(AsTensor(scaled, 1, n), 0.3f);
  for (size_t i = 0; i < gate.size(); ++i) {
    const double g = gate[i], v = x[i], s = 1 / (1 + std::exp(-g));
    ASSERT_NEAR(sigmoid[i], v * s, 4e-7 * std::fabs(v * s) + 1e-30) << g;
    ASSERT_NEAR(silu[i], v * g * s, 6e-7 * std::fabs(v * g * s) + 1e-30) << g;
    ASSERT_EQ(product[i], x[i] * gate[i]);
    ASSERT_NEAR(softplus[i], v * (std::max(g, 0.0) + std::log1p(std::exp(-std::fabs(g)))),
                1e-6 * std::fabs(v * g) + 4e-7 * std::fabs(v))
        << g;
    ASSERT_EQ(scaled[i], x[i] * 0.3f);
  }
}

TEST_P(RowOps, StreamsAreScaledAndMatched) {
  constexpr int64_t kRows = 3, kCols = 37;
  constexpr size_t kCount = kRows * kCols;
  const std::vector<float> x = RandomFloats(kCount, 9, 2);
  std::vector<float> like = RandomFloats(kCount, 10, 5), factors = RandomFloats(kCols, 11), weights = {0.5f, -2, 0};
  std::vector<float> scaled = x, sum = like, matched = x, sparse = x, own = x;
  backend_->ScaleColumns(AsTensor(scaled, kRows, kCols), factors.data());
  backend_->AddScaledRows(AsTensor(own, kRows, kCols), AsTensor(weights, kRows, 1), AsTensor(sum, kRows, kCols));
  backend_->MatchMagnitude(AsTensor(like, kRows, kCols), AsTensor(matched, kRows, kCols));
  backend_->Sparsify(AsTensor(sparse, kRows, kCols), 0.7f);
  for (size_t r = 0; r < kRows; ++r) {
    double mean = 0, squares = 0, target = 0;
    for (size_t c = 0; c < kCols; ++c) {
      mean += x[r * kCols + c] / static_cast<double>(kCols);
      squares += std::pow(x[r * kCols + c], 2) / static_cast<double>(kCols);
      target += std::pow(like[r * kCols + c], 2) / static_cast<double>(kCols);
    }
    const double cutoff = mean + 0.7 * std::sqrt(squares - mean * mean);
    for (size_t c = 0; c < kCols; ++c) {
      const size_t i = r * kCols + c;
      EXPECT_EQ(scaled[i], x[i] * factors[c]);
      EXPECT_EQ(sum[i], like[i] + weights[r] * x[i]);
      EXPECT_NEAR(matched[i], x[i] * std::sqrt(target / squares), 2e-6 * std::fabs(x[i]) * std::sqrt(target / squares));
      EXPECT_NEAR(sparse[i], std::max(x[i] - cutoff, 0.0), 1e-6);
    }
  }
  std::vector<float> zeros(kCols, 0.0f);  // are not divided by
  backend_->MatchMagnitude(AsTensor(like, 1, kCols), AsTensor(zeros, 1, kCols));
  EXPECT_EQ(zeros, std::vector<float>(kCols, 0.0f));
}

// A gate of each head.
TEST_P(RowOps, GatesCanCoverSeveralColumns) {
  std::vector<float> gate = RandomFloats(6, 7), x = RandomFloats(2 * 3 * 20, 8), want = x;
  for (size_t i = 0; i < x.size(); ++i) want[i] = x[i] * gate[i / 60 * 3 + i % 60 / 20];
  backend_->Gate(AsTensor(gate, 2, 3), GateKind::kIdentity, AsTensor(x, 2, 60));
  EXPECT_EQ(x, want);
}

TEST_P(RowOps, ReluSquaredAndXielu) {
  const std::vector<float> x = Sweep();
  const auto n = static_cast<int64_t>(x.size());
  std::vector<float> squared = x, curved = x;
  backend_->Activate(AsTensor(squared, 1, n), Activation::kReluSquared);
  const XieluParameters p{.positive = 0.8f, .negative = 1.1f, .beta = 0.5f, .eps = -1e-6f};
  backend_->Xielu(AsTensor(curved, 1, n), p);
  for (size_t i = 0; i < x.size(); ++i) {
    const double v = x[i], above = std::max(v, 0.0);
    ASSERT_EQ(squared[i], static_cast<float>(above * above)) << v;
    const double want = (v > 0 ? 0.8 * v * v : 1.1 * (std::expm1(std::min(v, -1e-6)) - v)) + 0.5 * v;
    ASSERT_NEAR(curved[i], want, 1e-6 * std::fabs(want) + 1e-6) << v;
  }
}

TEST_P(RowOps, NanStaysNan) {
  std::vector<float> x = {std::nanf(""), 1.0f}, y(1);
  for (const Activation activation : {Activation::kSilu, Activation::kGeluTanh, Activation::kGeluErf, Activation::kRelu,
                                      Activation::kReluSquared, Activation::kClampedSilu}) {
    backend_->MultiplyActivated(AsTensor(x, 1, 2), activation, AsTensor(y, 1, 1));
    EXPECT_TRUE(std::isnan(y[0])) << static_cast<int>(activation);
  }
}

TEST_P(RowOps, ManyRowsMatchSingleRows) {
  const int64_t rows = 300, n = 576;
  std::vector<float> x = RandomFloats(static_cast<size_t>(rows * n), 1), w = RandomFloats(static_cast<size_t>(n), 2),
                     all(x.size()), one(x.size());
  auto three = MakeBackend(GetParam(), 3);
  three->RmsNorm(AsTensor(x, rows, n), w.data(), 1e-5f, AsTensor(all, rows, n));
  for (int64_t r = 0; r < rows; ++r)
    backend_->RmsNorm(AsTensor(x, rows, n).Rows(r, 1), w.data(), 1e-5f, AsTensor(one, rows, n).Rows(r, 1));
  EXPECT_EQ(all, one);
}

TEST_P(RowOps, GatherRowsPicks) {
  std::vector<float> x = RandomFloats(10 * 7, 1), y(3 * 7);
  const std::vector<int64_t> rows = {9, 0, 9};
  backend_->GatherRows(AsTensor(x, 10, 7), rows, AsTensor(y, 3, 7));
  for (size_t i = 0; i < 3; ++i) {
    for (size_t c = 0; c < 7; ++c) EXPECT_EQ(y[7 * i + c], x[static_cast<size_t>(rows[i]) * 7 + c]);
  }
}

}  // namespace
}  // namespace ringside::testing
