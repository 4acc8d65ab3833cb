// What encoders and the decoders behind them ask of attention, against plain loops in double: rows that see all pinned
// keys, rows of the ring that see the pinned keys alone or the ring's alone, and biases of distances.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/kernels/reference.h"

namespace ringside::testing {
namespace {

constexpr int64_t kHeads = 4, kKvHeads = 2, kDim = 12, kReach = 20, kInput = 300, kAnswer = 70, kWindow = 48;
constexpr int64_t kQueries = kHeads * kDim, kKeys = kKvHeads * kDim;
const KvShape kShape{.layers = 2,
                     .kv_heads = kKvHeads,
                     .head_dim = kDim,
                     .dtype = DType::kF32,
                     .pinned_tiles = KvShape::PinnedTiles(kInput),
                     .ring_tiles = 4};

/// A bias of every distance: that of D at kReach - D, and 15 more at either end.
std::vector<float> Biases() {
  const std::vector<float> random = RandomFloats(kHeads * (2 * kReach + 1), 7);
  std::vector<float> out;
  for (int64_t h = 0; h < kHeads; ++h) {
    for (int64_t i = -15; i <= 2 * kReach + 15; ++i) {
      out.push_back(random[static_cast<size_t>(h * (2 * kReach + 1) + std::clamp<int64_t>(i, 0, 2 * kReach))]);
    }
  }
  return out;
}

double BiasOf(const std::vector<float>& biases, int64_t head, int64_t distance) {
  const int64_t at = kReach + 15 - std::clamp(distance, -kReach, kReach);
  return biases[static_cast<size_t>(head * (2 * kReach + 31) + at)];
}

/// softmax(q k / 2 + bias) v of one query over the keys of rows [first, last) of `kv` [rows, 2 * kKeys], which stand at
/// their rows' numbers.
std::vector<double> Attended(const float* query, int64_t head, int64_t position, const std::vector<float>& kv,
                             int64_t first, int64_t last, const std::vector<float>* biases) {
  std::vector<double> scores, out(kDim, 0.0);
  const int64_t group = head / (kHeads / kKvHeads) * kDim;
  for (int64_t p = first; p < last; ++p) {
    double score = biases == nullptr ? 0 : BiasOf(*biases, head, position - p);
    for (int64_t d = 0; d < kDim; ++d) score += 0.5 * query[d] * kv[static_cast<size_t>(p * 2 * kKeys + group + d)];
    scores.push_back(score);
  }
  double sum = 0;
  for (const double score : scores) sum += std::exp(score);
  for (int64_t p = first; p < last; ++p) {
    for (int64_t d = 0; d < kDim; ++d) {
      out[static_cast<size_t>(d)] += std::exp(scores[static_cast<size_t>(p - first)]) / sum *
                                     kv[static_cast<size_t>(p * 2 * kKeys + kKeys + group + d)];
    }
  }
  return out;
}

class EncoderAttention : public ::testing::TestWithParam<std::string> {
 protected:
  /// Keys and values behind the queries, as a layer's rows have them.
  static std::vector<float> Joined(const std::vector<float>& queries, const std::vector<float>& kv) {
    std::vector<float> out;
    for (size_t r = 0; r * kQueries < queries.size(); ++r) {
      out.insert(out.end(), queries.begin() + static_cast<ptrdiff_t>(r * kQueries),
                 queries.begin() + static_cast<ptrdiff_t>((r + 1) * kQueries));
      out.insert(out.end(), kv.begin() + static_cast<ptrdiff_t>(r * 2 * kKeys),
                 kv.begin() + static_cast<ptrdiff_t>((r + 1) * 2 * kKeys));
    }
    return out;
  }

  std::unique_ptr<Backend> backend_ = MakeBackend(GetParam(), 2);
  Buffer slab_ = std::move(backend_->Allocate(static_cast<size_t>(kShape.slab_bytes())).value());
  const std::vector<float> biases_ = Biases();
};
std::vector<std::string> Sets() { return {CpuInstructionSets().begin(), CpuInstructionSets().end()}; }
INSTANTIATE_TEST_SUITE_P(All, EncoderAttention, ::testing::ValuesIn(Sets()),
                         [](const auto& info) { return info.param; });

TEST_P(EncoderAttention, EveryRowOfAnInputSeesAllOfIt) {
  std::vector<float> queries = RandomFloats(kInput * kQueries, 1, 1.5f), kv = RandomFloats(kInput * 2 * kKeys, 2, 1.5f);
  std::vector<float> qkv = Joined(queries, kv), out(static_cast<size_t>(kInput * kQueries));
  const std::vector<int64_t> first_live(kInput, kInput);
  const AttentionSegment segment{
      .rows = kInput, .pinned = kInput, .first_live = first_live.data(), .slab = slab_.data()};
  backend_->Attention({.qkv = AsTensor(qkv, kInput, kQueries + 2 * kKeys),
                       .out = AsTensor(out, kInput, kQueries),
                       .layer = 1,
                       .shape = kShape,
                       .heads = kHeads,
                       .scores = {.scale = 0.5f, .biases = biases_.data(), .bias_reach = kReach},
                       .seen = KeysSeen::kPinned,
                       .segments = {&segment, 1}});
  for (const int64_t t : {int64_t{0}, int64_t{1}, int64_t{150}, kInput - 1}) {
    for (int64_t h = 0; h < kHeads; ++h) {
      const size_t at = static_cast<size_t>(t * kQueries + h * kDim);
      const std::vector<double> want = Attended(&queries[at], h, t, kv, 0, kInput, &biases_);
      for (size_t d = 0; d < kDim; ++d) ASSERT_NEAR(out[at + d], want[d], 2e-5) << t << " " << h << " " << d;
    }
  }
}

// An answer's rows, a few at a time: each asks an input that was stored before, and its own ring, which turns.
TEST_P(EncoderAttention, AnAnswerAsksTheInputAndItself) {
  std::vector<float> input = RandomFloats(kInput * 2 * kKeys, 3, 1.5f);
  const std::vector<int64_t> none(kInput, kInput);
  const AttentionSegment whole{.rows = kInput, .pinned = kInput, .first_live = none.data(), .slab = slab_.data()};
  backend_->Attention(
      {.qkv = AsTensor(input, kInput, 2 * kKeys), .layer = 1, .shape = kShape, .segments = {&whole, 1}});

  std::vector<float> queries = RandomFloats(kAnswer * kQueries, 4, 1.5f),
                     kv = RandomFloats(kAnswer * 2 * kKeys, 5, 1.5f), qkv = Joined(queries, kv);
  std::vector<float> of_input(static_cast<size_t>(kAnswer * kQueries)), of_ring = of_input;
  constexpr int64_t kChunk = 7;
  for (int64_t t = 0; t < kAnswer; t += kChunk) {
    std::vector<int64_t> first_live;
    for (int64_t r = 0; r < kChunk; ++r) first_live.push_back(kInput + std::max<int64_t>(0, t + r - kWindow + 1));
    const AttentionSegment segment{.rows = kChunk,
                                   .position = kInput + t,
                                   .pinned = kInput,
                                   .first_live = first_live.data(),
                                   .slab = slab_.data()};
    AttentionArgs args{.qkv = AsTensor(qkv, kAnswer, kQueries + 2 * kKeys).Rows(t, kChunk),
                       .out = AsTensor(of_ring, kAnswer, kQueries).Rows(t, kChunk),
                       .layer = 1,
                       .shape = kShape,
                       .heads = kHeads,
                       .scores = {.scale = 0.5f, .biases = biases_.data(), .bias_reach = kReach},
                       .seen = KeysSeen::kRing,
                       .segments = {&segment, 1}};
    backend_->Attention(args);
    args.qkv = AsTensor(queries, kAnswer, kQueries).Rows(t, kChunk);
    args.out = AsTensor(of_input, kAnswer, kQueries).Rows(t, kChunk);
    args.scores = {.scale = 0.5f};
    args.seen = KeysSeen::kPinned;
    backend_->Attention(args);
  }
  for (int64_t t = 0; t < kAnswer; ++t) {
    for (int64_t h = 0; h < kHeads; ++h) {
      const size_t at = static_cast<size_t>(t * kQueries + h * kDim);
      const std::vector<double> asked = Attended(&queries[at], h, 0, input, 0, kInput, nullptr);
      const std::vector<double> own =
          Attended(&queries[at], h, t, kv, std::max<int64_t>(0, t - kWindow + 1), t + 1, &biases_);
      for (size_t d = 0; d < kDim; ++d) {
        ASSERT_NEAR(of_input[at + d], asked[d], 2e-5) << t << " " << h << " " << d;
        ASSERT_NEAR(of_ring[at + d], own[d], 2e-5) << t << " " << h << " " << d;
      }
    }
  }
}

}  // namespace
}  // namespace ringside::testing
