// Adapters' contributions to a linear layer, on every kind of device: against loops in double, for every shape, where
// some rows have an adapter and others have none, and when a captured graph is replayed with other adapters.
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "tests/kernels/devices.h"

namespace ringside::testing {
namespace {

class LowRankTest : public DeviceTest, public ::testing::WithParamInterface<std::string> {
 protected:
  struct Matrix {
    RandomWeight a, b;
    int64_t first_output;
  };
  struct Shape {
    int64_t rows, inputs, outputs;  // of one matrix
    std::vector<int64_t> ranks;     // of an adapter's matrices, which are adjacent with a gap of 3 outputs
  };

  void SetUp() override { Use(GetParam()); }
  std::vector<float> Rounded(size_t count, DType dtype, uint32_t seed) const {
    std::vector<float> out = RandomFloats(count, seed);
    for (float& x : out) x = testing::Rounded(dtype, x);
    return out;
  }
  /// Two adapters for one input, the second with one matrix only, and a third without any for it.
  void Load(const Shape& shape) {
    made_.clear(), loaded_.clear(), spans_.clear();
    for (const size_t count : {shape.ranks.size(), size_t{1}, size_t{0}}) {
      std::vector<Matrix>& matrices = made_.emplace_back();
      std::vector<LowRank>& loaded = loaded_.emplace_back();
      for (size_t m = 0; m < count; ++m) {
        const auto seed = static_cast<uint32_t>(10 * made_.size() + m);
        const int64_t rank = shape.ranks[shape.ranks.size() - 1 - m];
        matrices.push_back({MakeRandomWeight(type_, rank, shape.inputs, seed),
                            MakeRandomWeight(type_, shape.outputs, rank, seed + 100),
                            static_cast<int64_t>(m) * (shape.outputs + 3)});
        loaded.push_back({std::move(backend_->LoadWeight(matrices.back().a.host()).value()),
                          std::move(backend_->LoadWeight(matrices.back().b.host()).value()),
                          matrices.back().first_output});
      }
    }
    for (const std::vector<LowRank>& loaded : loaded_) spans_.emplace_back(loaded);
    placed_ = std::move(backend_->PackLowRank(spans_).value());
  }
  /// For a row with an adapter, counted from 1: the value added to an output, and the sum of its terms' magnitudes.
  Product Added(const std::vector<float>& x, int64_t row, int adapter, int64_t output) const {
    Product out;
    if (adapter == 0) return out;
    for (const Matrix& matrix : made_[static_cast<size_t>(adapter - 1)]) {
      const int64_t o = output - matrix.first_output;
      if (o < 0 || o >= matrix.b.rows) continue;
      for (int64_t r = 0; r < matrix.a.rows; ++r) {
        const Product low = Multiply(x, matrix.a, row, r);
        const double b = matrix.b.values[static_cast<size_t>(o * matrix.b.cols + r)];
        out.sum += low.sum * b, out.size += low.size * std::fabs(b);
      }
    }
    return out;
  }
  void Check(const Shape& shape, DType x_type, DType y_type, uint32_t seed) {
    const auto matrices = static_cast<int64_t>(shape.ranks.size());
    const int64_t columns = matrices * (shape.outputs + 3);
    int64_t ranks = 0;
    for (const int64_t rank : shape.ranks) ranks += rank;
    std::mt19937 random(seed);
    std::vector<int> adapters;
    while (std::ssize(adapters) < shape.rows) {  // runs of several rows each
      const size_t run = 1 + random() % 11;
      adapters.resize(adapters.size() + run, static_cast<int>(random() % 4));
    }
    adapters.resize(static_cast<size_t>(shape.rows));
    const std::vector<float> x = Rounded(static_cast<size_t>(shape.rows * shape.inputs), x_type, seed),
                             before = Rounded(static_cast<size_t>(shape.rows * columns), y_type, seed + 1);
    DeviceMatrix in(*backend_, x_type, shape.rows, shape.inputs, x),
        y(*backend_, y_type, shape.rows, columns, before, columns + 5),
        low(*backend_, DType::kF32, shape.rows, ranks, std::vector<float>(static_cast<size_t>(shape.rows * ranks), NAN),
            ranks + 1);
    Add(in, adapters, low, y, seed);
    const std::vector<float> got = y.Get();
    for (int64_t r = 0; r < shape.rows; ++r) {
      for (int64_t c = 0; c < columns; ++c) {
        const auto at = static_cast<size_t>(r * columns + c);
        const Product want = Added(x, r, adapters[static_cast<size_t>(r)], c);
        if (want.size == 0) {
          ASSERT_EQ(got[at], before[at]) << "row " << r << ", output " << c;
          continue;
        }
        const double sum = before[at] + want.sum;
        ASSERT_NEAR(got[at], sum, 4e-6 * want.size + Rounding(y_type) * std::fabs(sum) + 1e-6)
            << shape.rows << " x " << shape.inputs << ", row " << r << ", output " << c;
      }
    }
  }

  void Add(const DeviceMatrix& in, std::span<const int> adapters, const DeviceMatrix& low, const DeviceMatrix& y,
           uint64_t step) {
    backend_->AddLowRank({.x = in.tensor(),
                          .adapters = adapters,
                          .matrices = spans_,
                          .packed = placed_.data(),
                          .low = low.tensor(),
                          .y = y.tensor(),
                          .step = step});
  }

  std::vector<std::vector<Matrix>> made_;
  std::vector<std::vector<LowRank>> loaded_;
  std::vector<std::span<const LowRank>> spans_;
  Buffer placed_;
};
INSTANTIATE_TEST_SUITE_P(All, LowRankTest, ::testing::ValuesIn(DeviceNames()),
                         [](const auto& info) { return info.param; });

TEST_P(LowRankTest, AddsEachRowsAdapter) {
  for (const Shape& shape : {Shape{1, 64, 40, {8}}, Shape{7, 32, 24, {3, 5, 1}}, Shape{64, 256, 300, {16, 16, 16}},
                             Shape{65, 96, 17, {2, 70}}, Shape{130, 33, 260, {4}}, Shape{20, 4104, 64, {64, 8}},
                             Shape{9, 2500, 31, {1, 9}}}) {
    Load(shape);
    for (const DType x_type : {DType::kF32, type_}) {
      for (const DType y_type : {DType::kF32, type_}) Check(shape, x_type, y_type, 7);
    }
  }
}

// On a GPU the third step of a shape is a graph replay, which reads the rows' adapters from memory.
TEST_P(LowRankTest, RecordedStepWorksForOtherAdapters) {
  const Shape shape{12, 64, 48, {8, 8}};
  Load(shape);
  const std::vector<float> x = Rounded(12 * 64, type_, 1), zeros(12 * 102, 0.0f);
  DeviceMatrix in(*backend_, type_, 12, 64, x), low(*backend_, DType::kF32, 12, 16, std::vector<float>(12 * 16, 0.0f)),
      y(*backend_, DType::kF32, 12, 102, zeros);
  for (int step = 1; step <= 5; ++step) {
    std::vector<int> adapters;
    for (int row = 0; row < 12; ++row) adapters.push_back((row * step + step) % 4);
    backend_->CopyToDevice(y.tensor().data, zeros.data(), zeros.size() * sizeof(float));
    backend_->Synchronize();
    Add(in, adapters, low, y, static_cast<uint64_t>(step));
    const std::vector<float> got = y.Get();
    for (int64_t r = 0; r < 12; ++r) {
      for (int64_t c = 0; c < 102; ++c) {
        const Product want = Added(x, r, adapters[static_cast<size_t>(r)], c);
        ASSERT_NEAR(got[static_cast<size_t>(r * 102 + c)], want.sum, 4e-6 * want.size) << step << ": " << r << "," << c;
      }
    }
  }
}

}  // namespace
}  // namespace ringside::testing
