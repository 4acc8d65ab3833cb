// The second half of a layer with experts next to an MLP (a shared expert without a gate, DeepSeek-V2): norm, MLP,
// router and experts of one stream, on every kind of device, against naive loops in double. A GPU computes a single
// row's MLP as one of the experts.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>
#include <vector>

#include "tests/kernels/devices.h"
#include "tests/kernels/formats/block_quant_values.h"

namespace ringside::testing {
namespace {

/// A matrix of one type, and its weight on the device.
struct LoadedMatrix {
  RandomWeight values;
  Weight weight;
};

/// Gate and up, and down.
struct LoadedMlp {
  static constexpr int64_t kHidden = 512, kInner = 256;
  LoadedMatrix gate, up, out;

  std::vector<double> Of(const std::vector<float>& x) const {
    std::vector<double> mid(kInner), y(kHidden, 0.0);
    for (int64_t i = 0; i < kInner; ++i) {
      const double g = Multiply(x, gate.values, 0, i).sum;
      mid[static_cast<size_t>(i)] = g / (1 + std::exp(-g)) * Multiply(x, up.values, 0, i).sum;
    }
    for (int64_t c = 0; c < kHidden; ++c) {
      for (int64_t i = 0; i < kInner; ++i) {
        y[static_cast<size_t>(c)] += out.values.values[At(c, kInner, i)] * mid[static_cast<size_t>(i)];
      }
    }
    return y;
  }
};

class MlpNextToExperts : public DeviceTest, public ::testing::WithParamInterface<std::string> {
 protected:
  static constexpr int64_t kHidden = LoadedMlp::kHidden, kInner = LoadedMlp::kInner, kExperts = 6, kUsed = 2;

  void SetUp() override { Use(GetParam()); }

  LoadedMatrix Load(DType type, int64_t rows, int64_t cols, uint32_t seed) {
    LoadedMatrix out{
        GetParam() == "cpu" ? MakeRandomWeight(type, rows, cols, seed) : MakeBlockQuant(type, rows, cols, seed), {}};
    out.weight = std::move(backend_->LoadWeight(out.values.host()).value());
    return out;
  }
  LoadedMlp LoadMlp(DType out, uint32_t seed) {
    return {Load(DType::kQ4_K, kInner, kHidden, seed), Load(DType::kQ4_K, kInner, kHidden, seed + 1),
            Load(out, kHidden, kInner, seed + 2)};
  }
  /// The stream after the half layer of one row. `in_experts`: type of the experts' output matrices.
  void ExpectRight(DType out_type) {
    SCOPED_TRACE(Traits(out_type).name);
    const LoadedMlp mlp = LoadMlp(DType::kQ4_K, 1);
    std::vector<LoadedMlp> mlps;
    std::vector<std::vector<Weight>> ins(kExperts);
    std::vector<Expert> experts;
    for (uint32_t e = 0; e < kExperts; ++e) {
      mlps.push_back(LoadMlp(out_type, 10 * e + 20));
      ins[e].push_back(std::move(mlps.back().gate.weight)), ins[e].push_back(std::move(mlps.back().up.weight));
    }
    for (size_t e = 0; e < kExperts; ++e) experts.push_back({.in = ins[e], .out = &mlps[e].out.weight});
    const Buffer packed = std::move(backend_->PackExperts(experts).value());
    const LoadedMatrix router = Load(type_ == DType::kF32 ? DType::kF16 : type_, kExperts, kHidden, 5);
    const std::vector<float> x = RandomFloats(kHidden, 7), w = RandomFloats(kHidden, 8);
    const DeviceFloats norm(*backend_, w);
    const DeviceMatrix normed(*backend_, type_, 1, kHidden, x),
        both(*backend_, type_, 1, 2 * kInner, RandomFloats(512, 1)),
        product(*backend_, type_, 1, kInner, RandomFloats(kInner, 1)),
        logits(*backend_, DType::kF32, 1, kExperts, RandomFloats(kExperts, 1)),
        stream(*backend_, DType::kF32, 1, kHidden, x);
    const Weight *in[] = {&mlp.gate.weight, &mlp.up.weight}, *out[] = {&mlp.out.weight}, *route[] = {&router.weight};
    std::vector<float> got;
    for (int round = 0; round < 3; ++round) {  // the third is a graph replay
      backend_->CopyToDevice(stream.tensor().data, x.data(), x.size() * sizeof(float));
      backend_->Synchronize();
      backend_->RmsNorm(stream.tensor(), norm.data(), 1e-5f, normed.tensor());
      backend_->Linear({.x = normed.tensor(), .weights = in, .y = both.tensor()});
      backend_->MultiplyActivated(both.tensor(), Activation::kSilu, product.tensor());
      backend_->Linear({.x = product.tensor(), .weights = out, .y = stream.tensor(), .accumulate = true});
      backend_->Linear({.x = normed.tensor(), .weights = route, .y = logits.tensor()});
      backend_->Experts({.x = normed.tensor(),
                         .router = logits.tensor(),
                         .experts = experts,
                         .packed = packed.data(),
                         .top_k = kUsed,
                         .normalised = true,
                         .y = stream.tensor()});
      got = stream.Get();
      const std::vector<float> taken = normed.Get(), scores = logits.Get();
      std::vector<size_t> order(kExperts);
      std::iota(order.begin(), order.end(), size_t{0});
      std::ranges::stable_sort(order, [&](size_t a, size_t b) { return scores[a] > scores[b]; });
      double sum = 0;
      for (size_t i = 0; i < kUsed; ++i) sum += std::exp(static_cast<double>(scores[order[i]]));
      std::vector<double> want = mlp.Of(taken);
      for (size_t i = 0; i < kUsed; ++i) {
        const std::vector<double> one = mlps[order[i]].Of(taken);
        for (size_t c = 0; c < kHidden; ++c) want[c] += std::exp(scores[order[i]]) / sum * one[c];
      }
      double error = 0, size = 0;
      for (size_t c = 0; c < kHidden; ++c) {
        error += std::pow(got[c] - x[c] - want[c], 2), size += want[c] * want[c];
      }
      EXPECT_LT(std::sqrt(error / size), 4 * Rounding(type_) + (type_ == DType::kF32 ? 0.02 : 0)) << round;
    }
  }
};
INSTANTIATE_TEST_SUITE_P(All, MlpNextToExperts, ::testing::Values("cpu", "cuda_bf16", "cuda_f16", "cuda_bf16_fixed"),
                         [](const auto& info) { return info.param; });

TEST_P(MlpNextToExperts, MatchNaiveLoops) {
  ExpectRight(DType::kQ4_K);  // of the same types: a GPU adds the MLP to the experts
  ExpectRight(DType::kQ6_K);
}

}  // namespace
}  // namespace ringside::testing
