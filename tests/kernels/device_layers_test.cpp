// Attention of layers with unusual caches on every kind of device, against dense attention in double: multi-head latent
// attention, layers that differ in their heads, and layers that read the keys and values of another.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "tests/kernels/devices.h"

namespace ringside::testing {
namespace {

/// Sequences with the same layers. Every layer is a case; cases of one sequence agree in pins, memory and length.
class LayerRun {
 public:
  /// `sequences`: of each, its layers. `chunk`: the most rows of a sequence in a step.
  LayerRun(Backend& backend, std::vector<std::vector<AttentionCase>> sequences, int64_t chunk)
      : backend_(backend), sequences_(std::move(sequences)), chunk_(chunk) {
    for (const std::vector<AttentionCase>& sequence : sequences_) {
      for (const AttentionCase& c : sequence) inputs_.push_back(c.Qkv());
    }
    const std::vector<AttentionCase>& layers = sequences_.front();
    shape_ = layers.front().Shape(chunk, std::ssize(layers));
    for (const AttentionCase& c : layers) {
      shape_.varied.push_back({c.kv_heads, c.head_dim});
      shape_.kv_heads = std::max(shape_.kv_heads, c.kv_heads), shape_.head_dim = std::max(shape_.head_dim, c.head_dim);
    }
    if (std::ranges::all_of(shape_.varied, [&](const KvLayer& one) { return one == shape_.varied.front(); })) {
      shape_.varied.clear();
    }
    const auto bytes = static_cast<size_t>(shape_.slab_bytes());
    const std::vector<std::byte> nan(bytes, std::byte{0xff});  // in every type
    for (size_t i = 0; i < sequences_.size(); ++i) {
      slabs_.push_back(std::move(backend_.Allocate(bytes).value()));
      backend_.CopyToDevice(slabs_.back().data(), nan.data(), bytes);
    }
    backend_.Synchronize();
  }

  /// Computes the first `length` rows; returns, of each sequence and layer, the results. With `stored`, the results of
  /// second calls that have queries alone.
  std::vector<std::vector<std::vector<float>>> Run(int64_t length, bool stored = false) {
    const size_t layers = sequences_.front().size();
    std::vector<std::vector<std::vector<float>>> out(sequences_.size(), std::vector<std::vector<float>>(layers));
    for (int64_t done = 0; done < length; done += chunk_) {
      rows_.clear(), first_live_.assign(sequences_.size(), {});
      const int64_t count = std::min(chunk_, length - done);
      for (size_t s = 0; s < sequences_.size(); ++s) {
        const AttentionCase& c = sequences_[s].front();
        for (int64_t r = 0; r < count; ++r) first_live_[s].push_back(c.FirstLive(done + r));
        rows_.push_back({.first_row = static_cast<int64_t>(s) * count,
                         .rows = count,
                         .position = done,
                         .pinned = c.pinned,
                         .first_live = first_live_[s].data(),
                         .slab = slabs_[s].data()});
      }
      ++step_;
      std::vector<Angles> angles(layers);  // at addresses that differ within a step
      for (size_t layer = 0; layer < layers; ++layer) Attend(layer, done, count, stored, &angles[layer], &out);
    }
    return out;
  }

 private:
  /// Per row: angles, and factors of scores or none.
  struct Angles {
    std::vector<float> rows[4], scales;
  };

  void Attend(size_t layer, int64_t done, int64_t count, bool stored, Angles* angles,
              std::vector<std::vector<std::vector<float>>>* out) {
    const AttentionCase& like = sequences_.front()[layer];
    const int64_t rows = count * std::ssize(sequences_), columns = like.heads * like.value_dim();
    std::vector<float> qkv;
    for (size_t s = 0; s < sequences_.size(); ++s) {
      const AttentionCase& c = sequences_[s][layer];
      const std::vector<float>& input = inputs_[s * sequences_[s].size() + layer];
      qkv.insert(qkv.end(), input.begin() + done * c.width(), input.begin() + (done + count) * c.width());
      const AngleRows own(c, done, count);
      const std::vector<float>* from[] = {&own.own_cos, &own.own_sin, &own.pinned_cos, &own.pinned_sin};
      for (size_t k = 0; k < 4; ++k) angles->rows[k].insert(angles->rows[k].end(), from[k]->begin(), from[k]->end());
      if (const float* first = c.QueryScales(done)) angles->scales.insert(angles->scales.end(), first, first + count);
    }
    const DType type = backend_.activation_dtype();
    const std::vector<float> nan(static_cast<size_t>(rows * columns), NAN);
    DeviceMatrix in(backend_, type, rows, like.width(), qkv), result(backend_, type, rows, columns, nan);
    AttentionArgs args{
        .qkv = in.tensor(),
        .out = result.tensor(),
        .layer = static_cast<int64_t>(layer),
        .shape = shape_,
        .heads = like.heads,
        .rotary = like.rotary,
        .first_rotary = like.first_rotary(),
        .pairs = like.pairs,
        .angles = {angles->rows[0].data(), angles->rows[1].data(), angles->rows[2].data(), angles->rows[3].data()},
        .scores = like.scores(),
        .query_scales = angles->scales.empty() ? nullptr : angles->scales.data(),
        .segments = rows_,
        .step = step_};
    backend_.Attention(args);
    DeviceMatrix again(backend_, type, rows, columns, nan);
    args.qkv = in.tensor().Columns(0, like.heads * like.head_dim), args.out = again.tensor(), args.stored = true;
    if (stored) backend_.Attention(args);
    const std::vector<float> all = stored ? again.Get() : result.Get();
    for (size_t s = 0; s < sequences_.size(); ++s) {
      const auto first = all.begin() + static_cast<ptrdiff_t>(s) * count * columns;
      (*out)[s][layer].insert((*out)[s][layer].end(), first, first + count * columns);
    }
  }

  Backend& backend_;
  const std::vector<std::vector<AttentionCase>> sequences_;
  const int64_t chunk_;
  std::vector<std::vector<float>> inputs_;  // of each sequence, its layers'
  KvShape shape_;
  std::vector<Buffer> slabs_;
  std::vector<AttentionSegment> rows_;
  std::vector<std::vector<int64_t>> first_live_;
  uint64_t step_ = 0;
};

class LayersTest : public DeviceTest {
 protected:
  /// Relative error in the Euclidean norm: at most two roundings of activations and cache.
  void ExpectNear(const std::vector<float>& got, const std::vector<double>& want, DType cache) {
    ASSERT_EQ(got.size(), want.size());
    double error = 0, size = 0;
    size_t worst = 0;
    for (size_t i = 0; i < got.size(); ++i) {
      error += std::pow(got[i] - want[i], 2), size += want[i] * want[i];
      if (!(std::fabs(got[i] - want[i]) <= std::fabs(got[worst] - want[worst]))) worst = i;
    }
    // The reference applies an E4M3 cache's rounding itself.
    const double cached = cache == DType::kF8E4M3 ? 0 : Rounding(cache);
    EXPECT_LT(std::sqrt(error / size), 2 * (Rounding(type_) + cached))
        << "worst at " << worst << " of " << got.size() << ": " << got[worst] << " instead of " << want[worst];
  }
};

struct LatentSizes {
  int64_t rank, rotary, heads;
};
// Those of the models: DeepSeek-V2 Lite, GLM-4.7-Flash, Kimi K2, DeepSeek-V3, Mistral 4; and odd ones.
const LatentSizes kLatentSizes[] = {{16, 8, 14},   {48, 6, 5},     {512, 64, 16}, {512, 64, 20},
                                    {512, 64, 64}, {512, 64, 128}, {256, 64, 32}};

AttentionCase LatentCase(const LatentSizes& sizes, DType dtype) {
  return {.heads = sizes.heads,
          .kv_heads = 1,
          .head_dim = sizes.rank + sizes.rotary,
          .rotary = sizes.rotary,
          .kv_dtype = dtype,
          .pinned = 5,
          .memory = 60,
          .slack = 7,
          .length = 100,
          .latent_dim = sizes.rank};
}

class DeviceLatentAttention : public LayersTest, public ::testing::WithParamInterface<DeviceAndNumber> {
 protected:
  void SetUp() override { Use(std::get<0>(GetParam())); }
  static LatentSizes sizes() { return kLatentSizes[std::get<1>(GetParam())]; }
};
INSTANTIATE_TEST_SUITE_P(All, DeviceLatentAttention,
                         ::testing::Combine(::testing::ValuesIn(DeviceNames()),
                                            ::testing::Range<int64_t>(0, std::ssize(kLatentSizes))),
                         NameOf);

TEST_P(DeviceLatentAttention, MatchesDenseAttention) {
  for (const DType cache : {DType::kF16, DType::kBF16, DType::kF32, DType::kF8E4M3}) {
    if (sizes().heads > 20 && cache != type_) continue;  // the reference is slow
    AttentionCase c = LatentCase(sizes(), cache);
    if (sizes().heads > 20) c.length = 75;
    for (const RopePairs pairs : {RopePairs::kAdjacent, RopePairs::kHalves}) {
      c.pairs = pairs;
      const std::vector<double> want = DenseAttention(c);
      for (const int64_t chunk : {1, 7, 100}) {
        SCOPED_TRACE(
            fmt::format("{} cache, pairs {}, {} rows a step", Traits(cache).name, static_cast<int>(pairs), chunk));
        ExpectNear(LayerRun(*backend_, {{c}}, chunk).Run(c.length)[0][0], want, cache);
      }
    }
  }
}

// Keys, pinned ones among them, are split over blocks; the ring wraps.
TEST_P(DeviceLatentAttention, MatchesDenseAttentionOverManyKeys) {
  if (sizes().heads != 20) GTEST_SKIP() << "one size is enough";
  AttentionCase c = LatentCase({sizes().rank, sizes().rotary, 3}, type_ == DType::kF32 ? DType::kF16 : type_);
  c.pinned = 170, c.memory = 600, c.length = 900;
  for (const bool scaled : {false, true}) {
    if (scaled) c.query_scales = RandomFloats(900, 6, 0.5f);
    const std::vector<double> want = DenseAttention(c);
    for (const int64_t chunk : {1, 33, 300}) {
      SCOPED_TRACE(fmt::format("{} rows a step, scores scaled: {}", chunk, scaled));
      ExpectNear(LayerRun(*backend_, {{c}}, chunk).Run(c.length)[0][0], want, c.kv_dtype);
    }
  }
}

TEST_P(DeviceLatentAttention, SequencesOfAStepAreIndependent) {
  if (sizes().heads > 20) GTEST_SKIP() << "the reference is slow";
  std::vector<std::vector<AttentionCase>> sequences;
  for (uint32_t i = 0; i < 3; ++i) {
    sequences.push_back({LatentCase(sizes(), type_ == DType::kF32 ? DType::kF16 : type_)});
    sequences.back()[0].seed = i + 1, sequences.back()[0].pinned = 5 * i;
  }
  for (std::vector<AttentionCase>& one : sequences) one[0].ring_rows = 192;
  for (const int64_t chunk : {1, 9, 100}) {
    // The shape is that of the first sequence, whose pins are the fewest.
    std::ranges::sort(sequences, {}, [](const auto& one) { return -one[0].pinned; });
    const auto got = LayerRun(*backend_, sequences, chunk).Run(100);
    for (size_t s = 0; s < sequences.size(); ++s) {
      SCOPED_TRACE(fmt::format("sequence {}, {} rows a step", s, chunk));
      ExpectNear(got[s][0], DenseAttention(sequences[s][0]), sequences[s][0].kv_dtype);
    }
  }
}

class DeviceLayers : public LayersTest, public ::testing::WithParamInterface<std::string> {
 protected:
  void SetUp() override { Use(GetParam()); }
};
INSTANTIATE_TEST_SUITE_P(All, DeviceLayers, ::testing::ValuesIn(DeviceNames()),
                         [](const auto& info) { return info.param; });

/// Layers as Gemma 4 has them, and others: a window or none, rotated in part or fully.
std::vector<AttentionCase> VariedLayers(DType cache) {
  const AttentionCase like{.kv_dtype = cache, .pinned = 5, .memory = 60, .slack = 7, .length = 130};
  std::vector<AttentionCase> layers(5, like);
  const auto set = [&](size_t layer, int64_t heads, int64_t kv_heads, int64_t dim, int64_t rotary, int64_t window) {
    AttentionCase& c = layers[layer];
    c.heads = heads, c.kv_heads = kv_heads, c.head_dim = dim, c.rotary = rotary, c.window = window;
    c.pairs = RopePairs::kHalves, c.seed = static_cast<uint32_t>(layer + 1);
  };
  set(0, 8, 4, 256, 256, 40), set(1, 8, 1, 512, 128, 0), set(2, 4, 4, 64, 64, 0), set(3, 6, 2, 24, 12, 0);
  set(4, 8, 2, 512, 512, 0);
  return layers;
}

TEST_P(DeviceLayers, ThatDifferMatchDenseAttention) {
  for (const DType cache : {DType::kF16, DType::kBF16, DType::kF8E4M3}) {
    const std::vector<AttentionCase> layers = VariedLayers(cache);
    std::vector<std::vector<double>> want;
    for (const AttentionCase& c : layers) want.push_back(DenseAttention(c));
    for (const int64_t chunk : {1, 40, 130}) {
      for (const bool stored : {false, true}) {
        const auto got = LayerRun(*backend_, {layers}, chunk).Run(130, stored);
        for (size_t layer = 0; layer < layers.size(); ++layer) {
          SCOPED_TRACE(fmt::format("layer {}, {} cache, {} rows a step{}", layer, Traits(cache).name, chunk,
                                   stored ? ", queries alone" : ""));
          ExpectNear(got[0][layer], want[layer], cache);
        }
      }
    }
  }
}

// Bits with a fixed order: any number of rows in a step, alone or with other sequences.
class FixedLayers : public LayersTest, public ::testing::WithParamInterface<std::string> {
 protected:
  void SetUp() override { Use(GetParam()); }

  void ExpectSameBits(const std::vector<AttentionCase>& layers, int64_t length) {
    const auto want = LayerRun(*backend_, {layers}, 1).Run(length)[0];
    std::vector<std::vector<AttentionCase>> batch(3, layers);
    for (size_t s = 1; s < batch.size(); ++s) {
      for (AttentionCase& c : batch[s]) c.seed += static_cast<uint32_t>(100 * s);
    }
    for (const int64_t chunk : {7, 64, 150}) {
      const auto alone = LayerRun(*backend_, {layers}, chunk).Run(length)[0];
      const auto together = LayerRun(*backend_, batch, chunk).Run(length)[0];
      for (size_t layer = 0; layer < layers.size(); ++layer) {
        EXPECT_EQ(alone[layer], want[layer]) << "layer " << layer << ", " << chunk << " rows a step";
        EXPECT_EQ(together[layer], want[layer]) << "layer " << layer << ", " << chunk << " rows of each of 3 sequences";
      }
    }
  }
};
INSTANTIATE_TEST_SUITE_P(All, FixedLayers, ::testing::Values("cpu", "cuda_bf16_fixed", "cuda_f16_fixed"),
                         [](const auto& info) { return info.param; });

TEST_P(FixedLayers, LatentAttentionHasTheSameBitsForEverySplit) {
  for (const LatentSizes& sizes : {LatentSizes{512, 64, 20}, {256, 64, 32}, {48, 6, 5}}) {
    AttentionCase c = LatentCase(sizes, type_ == DType::kF16 ? DType::kF16 : DType::kBF16);
    c.pinned = 70, c.memory = 200, c.length = 400, c.ring_rows = 400;
    ExpectSameBits({c}, 400);
  }
}

TEST_P(FixedLayers, VariedLayersHaveTheSameBitsForEverySplit) {
  std::vector<AttentionCase> layers = VariedLayers(DType::kF16);
  for (AttentionCase& c : layers) c.ring_rows = 224;
  ExpectSameBits(layers, 130);
}

}  // namespace
}  // namespace ringside::testing
