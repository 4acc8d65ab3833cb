// Whole decode steps of one row, layer after layer, on a GPU against the CPU: every layer's kernels in turn, fused and
// replayed as a graph.
#include <gtest/gtest.h>

#include <cmath>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "tests/kernels/devices.h"

namespace ringside::testing {
namespace {

/// A small dense network, whose sizes differ from each other.
struct Network {
  const char* name;
  int64_t hidden, inner, heads, kv_heads, head_dim, layers;
  bool gated, layer_norm, biases, head_norms, joined;
  Activation activation;
  int64_t rotary;  // rotated dimensions
};
constexpr int64_t kVocabulary = 330;

const Network kNetworks[] = {
    {"llama", 272, 392, 6, 2, 64, 3, true, false, false, false, false, Activation::kSilu, 64},
    {"gpt2", 256, 512, 4, 4, 64, 2, false, true, true, false, true, Activation::kGeluTanh, 0},
    {"qwen3", 384, 1040, 8, 1, 128, 4, true, false, false, true, false, Activation::kSilu, 128},
    {"phi", 264, 264, 4, 2, 128, 2, true, false, true, false, true, Activation::kSilu, 96},
};

/// The network's weights and one sequence's cache on a device.
class Decoding {
 public:
  Decoding(Backend& backend, const Network& of, DType type, int64_t pinned, int64_t memory)
      : backend_(backend), of_(of), pinned_(pinned), memory_(memory) {
    const int64_t queries = of.heads * of.head_dim, keys = of.kv_heads * of.head_dim;
    for (int64_t i = 0; i < of.layers; ++i) {
      Layer layer;
      layer.qkv = Load(type, of.joined ? Sizes{queries + 2 * keys} : Sizes{queries, keys, keys}, of.hidden);
      layer.out = Load(type, {of.hidden}, queries);
      const Sizes up = !of.gated || of.joined ? Sizes{(of.gated ? 2 : 1) * of.inner} : Sizes{of.inner, of.inner};
      layer.up = Load(type, up, of.hidden);
      layer.down = Load(type, {of.hidden}, of.inner);
      layers_.push_back(std::move(layer));
    }
    head_ = Load(type, {kVocabulary}, of.hidden);
    shape_ = {.layers = of.layers,
              .kv_heads = of.kv_heads,
              .head_dim = of.head_dim,
              .dtype = backend.activation_dtype(),
              .pinned_tiles = KvShape::PinnedTiles(pinned),
              .ring_tiles = memory / KvShape::kTile + 1};
    slab_ = std::move(backend.Allocate(static_cast<size_t>(shape_.slab_bytes())).value());
  }

  /// The logits after the row at this position, whose embedding is `x`.
  std::vector<float> Step(const std::vector<float>& x, int64_t position) {
    const DType type = backend_.activation_dtype();
    const int64_t queries = of_.heads * of_.head_dim, columns = queries + 2 * of_.kv_heads * of_.head_dim;
    if (logits_.data() == nullptr) {
      stream_ = Allocate(DType::kF32, of_.hidden), normed_ = Allocate(type, of_.hidden), qkv_ = Allocate(type, columns);
      attended_ = Allocate(type, queries), mid_ = Allocate(type, 2 * of_.inner), act_ = Allocate(type, of_.inner);
      logits_ = Allocate(DType::kF32, kVocabulary);
    }
    const Tensor stream = At(stream_, DType::kF32, of_.hidden), normed = At(normed_, type, of_.hidden),
                 qkv = At(qkv_, type, columns), attended = At(attended_, type, queries),
                 mid = At(mid_, type, (of_.gated ? 2 : 1) * of_.inner), act = At(act_, type, of_.inner),
                 logits = At(logits_, DType::kF32, kVocabulary);
    backend_.CopyToDevice(stream_.data(), x.data(), x.size() * sizeof(float));
    const int64_t first_live = std::max(pinned_, position - memory_ + 1);
    const AttentionSegment segments[] = {
        {.rows = 1, .position = position, .pinned = pinned_, .first_live = &first_live, .slab = slab_.data()}};
    const int64_t in_cache = position < pinned_ ? position : pinned_ + position - first_live;
    const std::vector<float> own_cos = Angles(position, false), own_sin = Angles(position, true),
                             pinned_cos = Angles(in_cache, false), pinned_sin = Angles(in_cache, true);
    ++step_;
    for (int64_t i = 0; i < of_.layers; ++i) {
      const Layer& layer = layers_[static_cast<size_t>(i)];
      Norm(stream, normed);
      Multiply(normed, layer.qkv, qkv, false);
      if (of_.head_norms) {
        backend_.RmsNormHeads(qkv.Columns(0, queries), of_.heads, query_norm_.data(), 1e-6f);
        backend_.RmsNormHeads(qkv.Columns(queries, of_.kv_heads * of_.head_dim), of_.kv_heads, key_norm_.data(), 1e-6f);
      }
      backend_.Attention({.qkv = qkv,
                          .out = attended,
                          .layer = i,
                          .shape = shape_,
                          .heads = of_.heads,
                          .rotary = of_.rotary,
                          .pairs = of_.rotary > 0 ? RopePairs::kHalves : RopePairs::kNone,
                          .angles = {own_cos.data(), own_sin.data(), pinned_cos.data(), pinned_sin.data()},
                          .scores = {.scale = 1 / std::sqrt(static_cast<float>(of_.head_dim))},
                          .segments = segments,
                          .step = step_});
      Multiply(attended, layer.out, stream, true);
      Norm(stream, normed);
      Multiply(normed, layer.up, mid, false);
      of_.gated ? backend_.MultiplyActivated(mid, of_.activation, act) : backend_.Activate(mid, of_.activation);
      Multiply(of_.gated ? act : mid, layer.down, stream, true);
    }
    Norm(stream, normed);
    Multiply(normed, head_, logits, false);
    std::vector<float> out(kVocabulary);
    backend_.CopyToHost(out.data(), logits.data, out.size() * sizeof(float));
    backend_.Synchronize();
    return out;
  }

 private:
  using Sizes = std::vector<int64_t>;
  struct Matrices {
    std::vector<Weight> weights;
    std::optional<DeviceFloats> bias;
  };
  struct Layer {
    Matrices qkv, out, up, down;
  };

  /// Around `offset`.
  static std::vector<float> FloatsOf(int64_t n, float offset, uint32_t seed) {
    std::vector<float> out = RandomFloats(static_cast<size_t>(n), seed, 0.2f);
    for (float& value : out) value += offset;
    return out;
  }
  Matrices Load(DType type, const Sizes& outputs, int64_t inputs) {
    Matrices out;
    int64_t all = 0;
    for (const int64_t n : outputs) {
      const float scale = 1.5f / std::sqrt(static_cast<float>(inputs));
      std::vector<float> values = RandomFloats(static_cast<size_t>(n * inputs), ++seed_, scale);
      for (float& value : values) value = Rounded(type, value);
      out.weights.push_back(
          std::move(backend_.LoadWeight({DType::kF32, n, inputs, std::as_bytes(std::span(values))}).value()));
      all += n;
    }
    if (of_.biases) out.bias.emplace(backend_, FloatsOf(all, 0, ++seed_));
    return out;
  }
  Buffer Allocate(DType type, int64_t n) {
    return std::move(backend_.Allocate(static_cast<size_t>(StorageBytes(type, n))).value());
  }
  static Tensor At(const Buffer& buffer, DType type, int64_t n) { return {type, buffer.data(), 1, n, n}; }
  void Norm(const Tensor& x, const Tensor& y) {
    if (of_.layer_norm) return backend_.LayerNorm(x, weight_.data(), bias_.data(), 1e-5f, y);
    backend_.RmsNorm(x, weight_.data(), 1e-5f, y);
  }
  void Multiply(const Tensor& x, const Matrices& matrices, const Tensor& y, bool accumulate) {
    std::vector<const Weight*> weights;
    for (const Weight& weight : matrices.weights) weights.push_back(&weight);
    backend_.Linear({.x = x,
                     .weights = weights,
                     .bias = matrices.bias ? matrices.bias->data() : nullptr,
                     .y = y,
                     .accumulate = accumulate});
  }
  std::vector<float> Angles(int64_t position, bool sine) const {
    std::vector<float> out(static_cast<size_t>(of_.rotary / 2));
    for (size_t i = 0; i < out.size(); ++i) {
      const double angle = static_cast<double>(position) *
                           std::pow(10000.0, -2.0 * static_cast<double>(i) / static_cast<double>(of_.rotary));
      out[i] = static_cast<float>(sine ? std::sin(angle) : std::cos(angle));
    }
    return out;
  }

  Backend& backend_;
  const Network of_;
  const int64_t pinned_, memory_;
  uint32_t seed_ = 0;
  uint64_t step_ = 0;
  const DeviceFloats weight_{backend_, FloatsOf(of_.hidden, 1, 71)}, bias_{backend_, FloatsOf(of_.hidden, 0, 72)},
      query_norm_{backend_, FloatsOf(of_.head_dim, 1, 73)}, key_norm_{backend_, FloatsOf(of_.head_dim, 1, 74)};
  std::vector<Layer> layers_;
  Matrices head_;
  KvShape shape_;
  Buffer slab_, stream_, normed_, qkv_, attended_, mid_, act_, logits_;
};

class DeviceDecode : public DeviceTest, public ::testing::WithParamInterface<std::tuple<std::string, int64_t>> {
 protected:
  void SetUp() override { Use(std::get<0>(GetParam())); }
};

// Past the pins and twice around the ring.
TEST_P(DeviceDecode, EqualsTheCpu) {
  const Network& network = kNetworks[std::get<1>(GetParam())];
  for (const int64_t pinned : {0, 21}) {
    auto cpu = MakeDevice("cpu");
    Decoding want(*cpu, network, type_, pinned, 64), got(*backend_, network, type_, pinned, 64);
    double error = 0, size = 0;
    for (int64_t position = 0; position < 170; ++position) {
      const std::vector<float> x =
          RandomFloats(static_cast<size_t>(network.hidden), static_cast<uint32_t>(1000 + position), 1);
      const std::vector<float> a = want.Step(x, position), b = got.Step(x, position);
      double step_error = 0, step_size = 0;
      for (size_t i = 0; i < a.size(); ++i) step_error += std::pow(a[i] - b[i], 2), step_size += a[i] * a[i];
      ASSERT_LT(std::sqrt(step_error / step_size), 12 * Rounding(type_)) << network.name << " at " << position;
      error += step_error, size += step_size;
    }
    EXPECT_LT(std::sqrt(error / size), 5 * Rounding(type_)) << network.name << ", " << pinned << " pinned";
  }
}

INSTANTIATE_TEST_SUITE_P(, DeviceDecode,
                         ::testing::Combine(::testing::Values("cuda_bf16", "cuda_f16"),
                                            ::testing::Range<int64_t>(0, 4)),
                         NameOf);

}  // namespace
}  // namespace ringside::testing
