// Attention over thousands of keys of few heads on every kind of device, against a naive softmax in double: a GPU
// splits them over more blocks than a cluster has.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "tests/kernels/devices.h"

namespace ringside::testing {
namespace {

class LongAttention : public DeviceTest, public ::testing::WithParamInterface<std::string> {
 protected:
  static constexpr int64_t kHeads = 4, kLength = 5600, kChunk = 800, kLast = 3;

  void SetUp() override { Use(GetParam()); }
  static int64_t width(int64_t d) { return (kHeads + 2) * d; }

  /// The rows of a step from position `done` on; with `gated`, times the sigmoids of the queries.
  std::vector<float> Step(const std::vector<float>& qkv, const KvShape& shape, void* slab, int64_t done, int64_t rows,
                          bool gated) {
    const int64_t d = shape.head_dim, columns = kHeads * d;
    const std::vector<int64_t> first_live(static_cast<size_t>(rows), 0);
    const AttentionSegment segment{.rows = rows, .position = done, .first_live = first_live.data(), .slab = slab};
    const DeviceMatrix in(*backend_, type_, rows, width(d),
                          {qkv.begin() + done * width(d), qkv.begin() + (done + rows) * width(d)}),
        out(*backend_, type_, rows, columns, std::vector<float>(static_cast<size_t>(rows * columns), NAN));
    backend_->Attention({.qkv = in.tensor(),
                         .out = out.tensor(),
                         .shape = shape,
                         .heads = kHeads,
                         .scores = {.scale = 1.0f / 8},
                         .segments = {&segment, 1}});
    if (gated) backend_->Gate(in.tensor().Columns(0, columns), GateKind::kSigmoid, out.tensor());
    return out.Get();
  }

  /// A row's result without gates.
  static std::vector<double> Want(const std::vector<float>& qkv, int64_t row, int64_t d) {
    std::vector<double> out;
    for (int64_t h = 0; h < kHeads; ++h) {
      const float* query = &qkv[static_cast<size_t>(row * width(d) + h * d)];
      std::vector<double> sum(static_cast<size_t>(d), 0.0);
      double total = 0;
      for (int64_t p = 0; p <= row; ++p) {
        const float* key = &qkv[static_cast<size_t>(p * width(d) + kHeads * d)];
        double score = 0;
        for (int64_t i = 0; i < d; ++i) score += static_cast<double>(query[i]) * key[i];
        const double weight = std::exp(score / 8);
        total += weight;
        for (int64_t i = 0; i < d; ++i) sum[static_cast<size_t>(i)] += weight * key[d + i];
      }
      for (const double x : sum) out.push_back(x / total);
    }
    return out;
  }
};
INSTANTIATE_TEST_SUITE_P(All, LongAttention, ::testing::Values("cpu", "cuda_bf16", "cuda_f16", "cuda_bf16_fixed"),
                         [](const auto& info) { return info.param; });

TEST_P(LongAttention, MatchesANaiveSoftmax) {
  for (const int64_t d : {64, 256}) {
    if (d > 64 && GetParam() == "cpu") continue;  // slow
    const DType cache = type_ == DType::kF32 ? DType::kF16 : type_;
    const KvShape shape{.layers = 1,
                        .kv_heads = 1,
                        .head_dim = d,
                        .dtype = cache,
                        .ring_tiles = (kLength + KvShape::kTile - 1) / KvShape::kTile};
    std::vector<float> qkv = RandomFloats(static_cast<size_t>(kLength * width(d)), 5);
    for (float& x : qkv) x = Rounded(cache, x);
    const Buffer slab = std::move(backend_->Allocate(static_cast<size_t>(shape.slab_bytes())).value());
    int64_t done = 0;
    for (; done < kLength - 2 * kLast; done += std::min(kChunk, kLength - 2 * kLast - done)) {
      Step(qkv, shape, slab.data(), done, std::min(kChunk, kLength - 2 * kLast - done), false);
    }
    for (; done < kLength; ++done) {
      const bool gated = done % 2 == 1;
      const std::vector<float> got = Step(qkv, shape, slab.data(), done, 1, gated);
      const std::vector<double> want = Want(qkv, done, d);
      double error = 0, size = 0;
      for (size_t i = 0; i < want.size(); ++i) {
        const double gate = gated ? 1 / (1 + std::exp(-double{qkv[static_cast<size_t>(done * width(d)) + i]})) : 1;
        error += std::pow(got[i] - want[i] * gate, 2), size += std::pow(want[i] * gate, 2);
      }
      EXPECT_LT(std::sqrt(error / size), 2 * (Rounding(type_) + Rounding(cache)))
          << fmt::format("{} dimensions, position {}, gated {}", d, done, gated);
    }
  }
}

}  // namespace
}  // namespace ringside::testing
