// Gates, factors and the operations of several residual streams on every kind of device, against naive loops in double:
// rows that allow vector access and rows that do not, in the device's element type and in float32.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "tests/kernels/devices.h"

namespace ringside::testing {
namespace {

constexpr int64_t kRows = 5;

class DeviceRowOps : public DeviceTest, public ::testing::WithParamInterface<std::string> {
 protected:
  void SetUp() override { Use(GetParam()); }

  /// Types, widths and padding of rows.
  struct Layout {
    DType type;
    int64_t cols, padding;
    std::string Describe() const { return fmt::format("{} x {} + {}, {}", kRows, cols, padding, Traits(type).name); }
  };
  std::vector<Layout> Layouts() const {
    std::vector<Layout> out;
    for (const DType type : {type_, DType::kF32}) {
      for (const int64_t cols : {1, 24, 37, 2048, 5000}) {
        for (const int64_t padding : {0, 3, 16}) out.push_back({type, cols, padding});
      }
    }
    return out;
  }
  std::vector<float> Values(const Layout& layout, uint32_t seed, float scale = 3) const {
    std::vector<float> out = RandomFloats(static_cast<size_t>(kRows * layout.cols), seed, scale);
    for (float& x : out) x = Rounded(layout.type, x);
    return out;
  }
  DeviceMatrix Place(const Layout& layout, const std::vector<float>& values) {
    return {*backend_, layout.type, kRows, layout.cols, values, layout.cols + layout.padding};
  }
  /// want(i) is element i.
  static void ExpectNear(const Layout& layout, const DeviceMatrix& got, const std::function<double(size_t)>& want) {
    const std::vector<float> values = got.Get();
    for (size_t i = 0; i < values.size(); ++i) {
      const double wanted = want(i);
      ASSERT_NEAR(values[i], wanted, Rounding(layout.type) * std::fabs(wanted) + 2e-6)
          << layout.Describe() << ", element " << i;
    }
  }
};
INSTANTIATE_TEST_SUITE_P(All, DeviceRowOps, ::testing::ValuesIn(DeviceNames()),
                         [](const auto& info) { return info.param; });

double Gated(double x, GateKind kind) {
  const double sigmoid = 1 / (1 + std::exp(-x));
  if (kind == GateKind::kSigmoid) return sigmoid;
  if (kind == GateKind::kSilu) return x * sigmoid;
  return kind == GateKind::kSoftplus ? std::log1p(std::exp(x)) : x;
}

TEST_P(DeviceRowOps, Gates) {
  for (const GateKind kind : {GateKind::kSigmoid, GateKind::kSilu, GateKind::kIdentity, GateKind::kSoftplus}) {
    for (const Layout& layout : Layouts()) {
      const std::vector<float> gate = Values(layout, 1, 8), x = Values(layout, 2);
      const DeviceMatrix gates = Place(layout, gate), y = Place(layout, x);
      backend_->Gate(gates.tensor(), kind, y.tensor());
      SCOPED_TRACE(fmt::format("gate {}", static_cast<int>(kind)));
      ExpectNear(layout, y, [&](size_t i) { return x[i] * Gated(gate[i], kind); });
    }
  }
}

TEST_P(DeviceRowOps, GatesOfSeveralColumns) {
  for (const int64_t columns : {5, 8, 128}) {
    for (const DType type : {type_, DType::kF32}) {
      const Layout few{type, 3, 2}, many{type, 3 * columns, 0};
      const std::vector<float> gate = Values(few, 1), x = Values(many, 2);
      const DeviceMatrix gates = Place(few, gate), y = Place(many, x);
      backend_->Gate(gates.tensor(), GateKind::kSigmoid, y.tensor());
      const auto each = static_cast<size_t>(columns);
      ExpectNear(many, y, [&](size_t i) { return x[i] * Gated(gate[i / each], GateKind::kSigmoid); });
    }
  }
}

// Far from 0 the exponentials overflow or vanish.
TEST_P(DeviceRowOps, GatesOfLargeValues) {
  const std::vector<float> gate = {-20000, -100, -90, -88, 88, 90, 100, 20000}, ones(gate.size(), 1.0f);
  for (const GateKind kind : {GateKind::kSigmoid, GateKind::kSilu, GateKind::kSoftplus}) {
    const DeviceMatrix gates(*backend_, DType::kF32, 1, 8, gate), y(*backend_, DType::kF32, 1, 8, ones);
    backend_->Gate(gates.tensor(), kind, y.tensor());
    const std::vector<float> got = y.Get();
    for (size_t i = 0; i < gate.size(); ++i) {
      const double want = gate[i] < 0 ? 0 : kind == GateKind::kSigmoid ? 1 : gate[i];
      EXPECT_NEAR(got[i], want, 1e-6 * std::fabs(want) + 1e-6) << gate[i] << ", gate " << static_cast<int>(kind);
    }
  }
}

TEST_P(DeviceRowOps, ScalesOfElementsColumnsAndRows) {
  for (const Layout& layout : Layouts()) {
    const std::vector<float> x = Values(layout, 1), z = Values(layout, 2), weights = {0.5f, -2, 0, 1, 3},
                             factors = RandomFloats(static_cast<size_t>(layout.cols), 3);
    const DeviceMatrix all = Place(layout, x), columns = Place(layout, x), added = Place(layout, z),
                       sum = Place(layout, x);
    const DeviceMatrix row_factors(*backend_, DType::kF32, kRows, 1, weights, 4);
    const DeviceFloats column_factors(*backend_, factors);
    backend_->Scale(all.tensor(), -0.3f);
    backend_->ScaleColumns(columns.tensor(), column_factors.data());
    backend_->AddScaledRows(added.tensor(), row_factors.tensor(), sum.tensor());
    const auto cols = static_cast<size_t>(layout.cols);
    ExpectNear(layout, all, [&](size_t i) { return x[i] * -0.3; });
    ExpectNear(layout, columns, [&](size_t i) { return double{x[i]} * factors[i % cols]; });
    ExpectNear(layout, sum, [&](size_t i) { return x[i] + double{weights[i / cols]} * z[i]; });
  }
}

TEST_P(DeviceRowOps, Xielu) {
  const XieluParameters p{.positive = 0.8f, .negative = 1.1f, .beta = 0.5f, .eps = -1e-6f};
  for (const Layout& layout : Layouts()) {
    const std::vector<float> x = Values(layout, 1);
    const DeviceMatrix y = Place(layout, x);
    backend_->Xielu(y.tensor(), p);
    ExpectNear(layout, y, [&](size_t i) {
      const double v = x[i];
      return (v > 0 ? 0.8f * v * v : 1.1f * (std::expm1(std::min(v, -1e-6)) - v)) + 0.5 * v;
    });
  }
}

TEST_P(DeviceRowOps, MagnitudesAndSparsity) {
  for (const Layout& layout : Layouts()) {
    if (layout.cols == 1) continue;  // its deviation is 0
    const auto cols = static_cast<size_t>(layout.cols);
    const std::vector<float> x = Values(layout, 1), like = Values(layout, 2, 7);
    const DeviceMatrix matched = Place(layout, x), sparse = Place(layout, x), other = Place(layout, like);
    backend_->MatchMagnitude(other.tensor(), matched.tensor());
    backend_->Sparsify(sparse.tensor(), 0.7f);
    double factors[kRows], cutoffs[kRows];
    for (size_t r = 0; r < kRows; ++r) {
      double mean = 0, squares = 0, wanted = 0;
      for (size_t i = r * cols; i < (r + 1) * cols; ++i) {
        mean += x[i] / static_cast<double>(cols);
        squares += double{x[i]} * x[i] / static_cast<double>(cols);
        wanted += double{like[i]} * like[i] / static_cast<double>(cols);
      }
      factors[r] = std::sqrt(wanted / squares);
      cutoffs[r] = mean + 0.7f * std::sqrt(squares - mean * mean);
    }
    const std::vector<float> got = matched.Get(), rest = sparse.Get();
    for (size_t i = 0; i < x.size(); ++i) {
      const double wanted = x[i] * factors[i / cols], above = std::max(0.0, x[i] - cutoffs[i / cols]);
      ASSERT_NEAR(got[i], wanted, (Rounding(layout.type) + 2e-6) * std::fabs(wanted)) << layout.Describe() << ", " << i;
      ASSERT_NEAR(rest[i], above, Rounding(layout.type) * above + 1e-5) << layout.Describe() << ", " << i;
    }
  }
  const DeviceMatrix ones(*backend_, DType::kF32, 1, 8, std::vector<float>(8, 1.0f)),
      zeros(*backend_, DType::kF32, 1, 8, std::vector<float>(8, 0.0f));
  backend_->MatchMagnitude(ones.tensor(), zeros.tensor());
  EXPECT_EQ(zeros.Get(), std::vector<float>(8, 0.0f)) << "zeros are not divided by";
}

TEST_P(DeviceRowOps, AddsActivationsToTheStream) {
  for (const int64_t cols : {24, 37}) {
    const Layout layout{type_, cols, 3}, stream{DType::kF32, cols, 1};
    const std::vector<float> x = Values(layout, 1), y = Values(stream, 2);
    const DeviceMatrix added = Place(layout, x), sum = Place(stream, y);
    backend_->Add(added.tensor(), sum.tensor());
    ExpectNear(stream, sum, [&](size_t i) { return double{x[i]} + y[i]; });
  }
}

// Consecutive sums may be computed together.
TEST_P(DeviceRowOps, StreamsAreMixed) {
  for (const int64_t cols : {24, 37}) {
    const Layout parts{DType::kF32, 4 * cols, 0}, weights{DType::kF32, 16, 3}, one{type_, cols, 5};
    const std::vector<float> x = Values(parts, 1), y = Values(parts, 2), w = Values(weights, 3), z = Values(one, 4);
    const DeviceMatrix from = Place(parts, x), to = Place(parts, y), factors = Place(weights, w), other = Place(one, z);
    for (int64_t i = 0; i < 4; ++i) {
      for (int64_t j = 0; j < 4; ++j) {
        backend_->AddScaledRows(from.tensor().Columns(j * cols, cols), factors.tensor().Columns(4 * i + j, 1),
                                to.tensor().Columns(i * cols, cols));
      }
    }
    backend_->Add(other.tensor(), to.tensor().Columns(cols, cols));
    backend_->Add(to.tensor().Columns(cols, cols), to.tensor().Columns(0, cols));
    const auto mixed = [&](int64_t row, int64_t i, int64_t c) {
      double sum = y[At(row, 4 * cols, i * cols + c)];
      for (int64_t j = 0; j < 4; ++j) sum += double{w[At(row, 16, 4 * i + j)]} * x[At(row, 4 * cols, j * cols + c)];
      return i == 1 ? sum + z[At(row, cols, c)] : sum;
    };
    const std::vector<float> got = to.Get();
    for (int64_t row = 0; row < kRows; ++row) {
      for (int64_t i = 0; i < 4; ++i) {
        for (int64_t c = 0; c < cols; ++c) {
          const double want = mixed(row, i, c) + (i == 0 ? mixed(row, 1, c) : 0);
          ASSERT_NEAR(got[At(row, 4 * cols, i * cols + c)], want, 1e-4) << row << ", stream " << i << ", column " << c;
        }
      }
    }
  }
}

// A head norm and the gate after it may be computed together.
TEST_P(DeviceRowOps, HeadNormsThenGates) {
  for (const auto& [heads, d] : {std::pair<int64_t, int64_t>{3, 16}, {4, 128}, {2, 22}, {2, 640}}) {
    const Layout layout{type_, heads * d, 0}, wider{type_, heads * d, 24};
    const std::vector<float> x = Values(layout, 1), gate = Values(wider, 2),
                             weight = RandomFloats(static_cast<size_t>(d), 3);
    const DeviceMatrix y = Place(layout, x), gates = Place(wider, gate);
    const DeviceFloats weights(*backend_, weight);
    backend_->RmsNormHeads(y.tensor(), heads, weights.data(), 1e-6f);
    backend_->Gate(gates.tensor(), GateKind::kSilu, y.tensor());
    const std::vector<float> got = y.Get();
    const auto size = static_cast<size_t>(d);
    for (size_t head = 0; head < got.size() / size; ++head) {
      double squares = 0;
      for (size_t i = 0; i < size; ++i) squares += double{x[head * size + i]} * x[head * size + i];
      const double factor = 1 / std::sqrt(squares / static_cast<double>(d) + 1e-6);
      for (size_t i = 0; i < size; ++i) {
        const size_t at = head * size + i;
        const double want = x[at] * factor * weight[i] * Gated(gate[at], GateKind::kSilu);
        ASSERT_NEAR(got[at], want, 2 * Rounding(type_) * std::fabs(want) + 1e-5) << heads << " x " << d << ", " << at;
      }
    }
  }
}

}  // namespace
}  // namespace ringside::testing
