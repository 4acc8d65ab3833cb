// Layers whose matrices have several block-quantized types and any number of outputs, after a norm, on every kind of
// device: a GPU computes them in one launch, and replays it as a graph.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <tuple>
#include <utility>

#include "tests/kernels/devices.h"
#include "tests/kernels/formats/block_quant_values.h"

namespace ringside::testing {
namespace {

struct TypedMatrix {
  DType type;
  int64_t outputs;
};

class MixedLayers : public DeviceTest, public ::testing::WithParamInterface<std::string> {
 protected:
  void SetUp() override { Use(GetParam()); }

  /// A norm and a layer of these matrices, three times: the third run is a graph replay, if the device has graphs.
  void ExpectRight(const std::vector<TypedMatrix>& matrices, int64_t rows, int64_t cols) {
    SCOPED_TRACE(fmt::format("{} rows of {}, {} matrices", rows, cols, matrices.size()));
    std::vector<RandomWeight> random;
    std::vector<Weight> loaded;
    int64_t outputs = 0;
    for (const TypedMatrix& matrix : matrices) {
      const auto seed = static_cast<uint32_t>(60 + random.size());
      random.push_back(GetParam() == "cpu" ? MakeRandomWeight(matrix.type, matrix.outputs, cols, seed)
                                           : MakeBlockQuant(matrix.type, matrix.outputs, cols, seed));
      loaded.push_back(std::move(backend_->LoadWeight(random.back().host()).value()));
      outputs += matrix.outputs;
    }
    std::vector<const Weight*> weights;
    for (const Weight& weight : loaded) weights.push_back(&weight);
    const std::vector<float> x = RandomFloats(static_cast<size_t>(rows * cols), 7),
                             w = RandomFloats(static_cast<size_t>(cols), 8);
    const DeviceFloats norm(*backend_, w);
    const DeviceMatrix stream(*backend_, DType::kF32, rows, cols, x), normed(*backend_, type_, rows, cols, x),
        y(*backend_, type_, rows, outputs, std::vector<float>(static_cast<size_t>(rows * outputs), NAN));
    for (int round = 0; round < 3; ++round) {
      backend_->RmsNorm(stream.tensor(), norm.data(), 1e-5f, normed.tensor());
      backend_->Linear({.x = normed.tensor(), .weights = weights, .y = y.tensor()});
      backend_->Synchronize();
    }
    const std::vector<float> taken = normed.Get(), got = y.Get();
    int64_t column = 0;
    for (const RandomWeight& one : random) {
      double error = 0, size = 0;
      for (int64_t n = 0; n < one.rows; ++n, ++column) {
        for (int64_t r = 0; r < rows; ++r) {
          const double want = Multiply(taken, one, r, n).sum;
          error += std::pow(got[At(r, outputs, column)] - want, 2), size += want * want;
        }
      }
      EXPECT_LT(std::sqrt(error / size), 2 * Rounding(type_) + (type_ == DType::kF32 ? 0.02 : 0))
          << Traits(one.dtype).name << ", outputs up to " << column;
    }
  }
};
INSTANTIATE_TEST_SUITE_P(All, MixedLayers, ::testing::Values("cpu", "cuda_bf16", "cuda_f16", "cuda_bf16_fixed"),
                         [](const auto& info) { return info.param; });

// Channels, gate, and the projections of each head (gated DeltaNet in a mixed-type file); values with more bits than
// queries and keys; matrices that are no whole panels, in the middle of a layer.
TEST_P(MixedLayers, MatchTheirMatrices) {
  using enum DType;
  for (const int64_t rows : {1, 2, 4, 5, 16, 33, 70}) {
    ExpectRight({{kQ5_K, 320}, {kQ4_K, 192}, {kQ4_K, 32}, {kQ4_K, 48}}, rows, 768);
    ExpectRight({{kQ4_K, 256}, {kQ4_K, 64}, {kQ6_K, 64}}, rows, 512);
    ExpectRight({{kQ4_K, 8}, {kQ4_K, 40}, {kQ4_K, 264}}, rows, 256);
  }
  ExpectRight({{kQ5_K, 1040}, {kQ4_K, 520}, {kQ4_K, 32}, {kQ4_K, 32}}, 1, 2048);
  ExpectRight({{kQ5_K, 1040}, {kQ4_K, 520}, {kQ4_K, 32}, {kQ4_K, 32}}, 20, 2048);
}

// Few outputs and long rows.
TEST_P(MixedLayers, LongRows) {
  for (const int64_t rows : {1, 2, 20}) ExpectRight({{DType::kQ4_K, 40}, {DType::kQ6_K, 24}}, rows, 17408);
}

}  // namespace
}  // namespace ringside::testing
