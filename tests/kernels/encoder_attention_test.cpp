// Attention of encoders and their decoders, against naive loops in double: rows that attend to all pinned keys, ring
// rows that attend only to the pinned keys or only to the ring's, and distance biases.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/kernels/devices.h"

namespace ringside::testing {
namespace {

constexpr int64_t kHeads = 4, kKvHeads = 2, kReach = 20, kInput = 300, kAnswer = 140, kWindow = 48;

/// One bias per distance: that of D at kReach - D, and 15 more at either end.
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

class EncoderAttention : public ::testing::TestWithParam<std::tuple<std::string, int64_t>> {
 protected:
  void SetUp() override {
    const std::string& device = std::get<0>(GetParam());
    backend_ = device.starts_with("cuda") ? MakeDevice(device) : MakeBackend(device, 2);
    if (backend_ == nullptr) GTEST_SKIP() << "no " << device << " here";
    type_ = backend_->activation_dtype();
    shape_ = {.layers = 2,
              .kv_heads = kKvHeads,
              .head_dim = dim_,
              .dtype = type_,
              .pinned_tiles = KvShape::PinnedTiles(kInput),
              .ring_tiles = 6};
    device_biases_.emplace(*backend_, biases_);
  }
  /// Near 0, so that no key gets all the weight; rounded like the device's.
  std::vector<float> Numbers(int64_t count, unsigned seed) const {
    std::vector<float> out = RandomFloats(count, seed, 1.5f);
    for (float& x : out) x = Rounded(type_, x);
    return out;
  }
  Buffer Slab() { return std::move(backend_->Allocate(static_cast<size_t>(shape_.slab_bytes())).value()); }
  ScoreTraits Scores() const { return {.scale = scale_, .biases = device_biases_->data(), .bias_reach = kReach}; }

  /// softmax(scale q k + bias) v of one query over the keys of rows [first, last) of `kv` [rows, 2 * keys_], whose
  /// positions are their row numbers.
  void Attend(const float* query, int64_t head, int64_t position, const std::vector<float>& kv, int64_t first,
              int64_t last, const std::vector<float>* biases, std::vector<float>* out) const {
    std::vector<double> scores, sums(static_cast<size_t>(dim_), 0.0);
    const int64_t group = head / (kHeads / kKvHeads) * dim_;
    for (int64_t p = first; p < last; ++p) {
      double score = biases == nullptr ? 0 : BiasOf(*biases, head, position - p), product = 0;
      for (int64_t d = 0; d < dim_; ++d) product += query[d] * kv[static_cast<size_t>(p * 2 * keys_ + group + d)];
      scores.push_back(score + scale_ * product);
    }
    double total = 0;
    for (const double score : scores) total += std::exp(score);
    for (int64_t p = first; p < last; ++p) {
      const double share = std::exp(scores[static_cast<size_t>(p - first)]) / total;
      for (int64_t d = 0; d < dim_; ++d) {
        sums[static_cast<size_t>(d)] += share * kv[static_cast<size_t>(p * 2 * keys_ + keys_ + group + d)];
      }
    }
    out->insert(out->end(), sums.begin(), sums.end());
  }
  void ExpectNear(const std::vector<float>& got, const std::vector<float>& want, const char* what) const {
    ASSERT_EQ(got.size(), want.size());
    double error = 0, size = 0;
    for (size_t i = 0; i < got.size(); ++i) error += std::pow(got[i] - want[i], 2), size += want[i] * want[i];
    EXPECT_LT(std::sqrt(error / size), type_ == DType::kF32 ? 2e-6 : 4 * Rounding(type_)) << what;
  }

  const int64_t dim_ = std::get<1>(GetParam()), queries_ = kHeads * dim_, keys_ = kKvHeads * dim_;
  const float scale_ = 1.7f / std::sqrt(static_cast<float>(dim_));
  const std::vector<float> biases_ = Biases();
  std::unique_ptr<Backend> backend_;
  DType type_ = DType::kF32;
  KvShape shape_;
  std::optional<DeviceFloats> device_biases_;
};
std::vector<std::string> Devices() {
  std::vector<std::string> out = {"cuda_bf16", "cuda_f16", "cuda_bf16_fixed"};
  out.insert(out.end(), CpuInstructionSets().begin(), CpuInstructionSets().end());
  return out;
}
INSTANTIATE_TEST_SUITE_P(All, EncoderAttention,
                         ::testing::Combine(::testing::ValuesIn(Devices()), ::testing::Values(12, 64, 128, 256)),
                         NameOf);

/// Queries followed by keys and values, as in a layer's rows.
std::vector<float> Joined(const std::vector<float>& queries, const std::vector<float>& kv, int64_t rows) {
  const auto query_columns = std::ssize(queries) / rows, kv_columns = std::ssize(kv) / rows;
  std::vector<float> out;
  for (int64_t r = 0; r < rows; ++r) {
    out.insert(out.end(), queries.begin() + r * query_columns, queries.begin() + (r + 1) * query_columns);
    out.insert(out.end(), kv.begin() + r * kv_columns, kv.begin() + (r + 1) * kv_columns);
  }
  return out;
}

TEST_P(EncoderAttention, InputAttentionIsBidirectional) {
  for (const int64_t rows : {int64_t{1}, int64_t{5}, int64_t{33}, kInput}) {
    const std::vector<float> queries = Numbers(rows * queries_, 1), kv = Numbers(rows * 2 * keys_, 2);
    const std::vector<int64_t> first_live(static_cast<size_t>(rows), rows);
    const Buffer slab = Slab();
    const AttentionSegment segment{
        .rows = rows, .pinned = rows, .first_live = first_live.data(), .slab = const_cast<void*>(slab.data())};
    const DeviceMatrix qkv(*backend_, type_, rows, queries_ + 2 * keys_, Joined(queries, kv, rows));
    const DeviceMatrix out(*backend_, type_, rows, queries_, std::vector<float>(queries.size(), NAN));
    backend_->Attention({.qkv = qkv.tensor(),
                         .out = out.tensor(),
                         .layer = 1,
                         .shape = shape_,
                         .heads = kHeads,
                         .scores = Scores(),
                         .seen = VisibleKeys::kPinned,
                         .segments = {&segment, 1}});
    std::vector<float> want;
    for (int64_t i = 0; i < rows * kHeads; ++i) {
      Attend(&queries[static_cast<size_t>(i * dim_)], i % kHeads, i / kHeads, kv, 0, rows, &biases_, &want);
    }
    ExpectNear(out.Get(), want, "an input");
  }
}

// Rows of two answers, a few at a time: each attends to a stored input, and to its own ring, which wraps.
TEST_P(EncoderAttention, AnswerAttendsToInputAndItself) {
  for (const int64_t chunk : {1, 7, 35}) {
    std::vector<Buffer> slabs;
    std::vector<std::vector<float>> inputs, queries, kvs;
    const std::vector<int64_t> none(kInput, kInput), lengths = {kInput, 37};
    for (unsigned i = 0; i < 2; ++i) {
      slabs.push_back(Slab());
      inputs.push_back(Numbers(lengths[i] * 2 * keys_, 3 + i));
      queries.push_back(Numbers(kAnswer * queries_, 5 + i)), kvs.push_back(Numbers(kAnswer * 2 * keys_, 7 + i));
      const AttentionSegment whole{
          .rows = lengths[i], .pinned = lengths[i], .first_live = none.data(), .slab = slabs[i].data()};
      const DeviceMatrix stored(*backend_, type_, lengths[i], 2 * keys_, inputs[i]);
      backend_->Attention({.qkv = stored.tensor(), .layer = 1, .shape = shape_, .segments = {&whole, 1}});
      backend_->Synchronize();
    }
    std::vector<float> of_input[2], of_ring[2];
    for (int64_t t = 0; t < kAnswer; t += chunk) {
      std::vector<AttentionSegment> segments;
      std::vector<std::vector<int64_t>> first_live(2);
      std::vector<float> qkv, asking;
      for (size_t i = 0; i < 2; ++i) {
        for (int64_t r = 0; r < chunk; ++r) {
          first_live[i].push_back(lengths[i] + std::max<int64_t>(0, t + r - kWindow + 1));
        }
        segments.push_back({.first_row = static_cast<int64_t>(i) * chunk,
                            .rows = chunk,
                            .position = lengths[i] + t,
                            .pinned = lengths[i],
                            .first_live = first_live[i].data(),
                            .slab = slabs[i].data()});
        const std::vector<float> own(queries[i].begin() + t * queries_, queries[i].begin() + (t + chunk) * queries_),
            own_kv(kvs[i].begin() + t * 2 * keys_, kvs[i].begin() + (t + chunk) * 2 * keys_);
        const std::vector<float> rows = Joined(own, own_kv, chunk);
        qkv.insert(qkv.end(), rows.begin(), rows.end()), asking.insert(asking.end(), own.begin(), own.end());
      }
      const DeviceMatrix rows(*backend_, type_, 2 * chunk, queries_ + 2 * keys_, qkv);
      const DeviceMatrix alone(*backend_, type_, 2 * chunk, queries_, asking);
      const DeviceMatrix own(*backend_, type_, 2 * chunk, queries_, std::vector<float>(asking.size(), NAN));
      const DeviceMatrix asked(*backend_, type_, 2 * chunk, queries_, std::vector<float>(asking.size(), NAN));
      AttentionArgs args{.qkv = rows.tensor(),
                         .out = own.tensor(),
                         .layer = 1,
                         .shape = shape_,
                         .heads = kHeads,
                         .scores = Scores(),
                         .seen = VisibleKeys::kRing,
                         .segments = segments,
                         .step = static_cast<uint64_t>(1 + t)};
      backend_->Attention(args);
      args.qkv = alone.tensor(), args.out = asked.tensor();
      args.scores = {.scale = scale_};
      args.seen = VisibleKeys::kPinned;
      backend_->Attention(args);
      const std::vector<float> got_own = own.Get(), got_asked = asked.Get();
      for (int64_t i = 0; i < 2; ++i) {
        const auto begin = i * chunk * queries_, end = (i + 1) * chunk * queries_;
        of_ring[i].insert(of_ring[i].end(), got_own.begin() + begin, got_own.begin() + end);
        of_input[i].insert(of_input[i].end(), got_asked.begin() + begin, got_asked.begin() + end);
      }
    }
    for (size_t i = 0; i < 2; ++i) {
      std::vector<float> want_input, want_ring;
      for (int64_t j = 0; j < kAnswer * kHeads; ++j) {
        const float* query = &queries[i][static_cast<size_t>(j * dim_)];
        const int64_t h = j % kHeads, t = j / kHeads;
        Attend(query, h, 0, inputs[i], 0, lengths[i], nullptr, &want_input);
        Attend(query, h, t, kvs[i], std::max<int64_t>(0, t - kWindow + 1), t + 1, &biases_, &want_ring);
      }
      ExpectNear(of_input[i], want_input, "the input's keys");
      ExpectNear(of_ring[i], want_ring, "the ring's");
    }
  }
}

}  // namespace
}  // namespace ringside::testing
