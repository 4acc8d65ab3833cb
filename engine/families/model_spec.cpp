#include "engine/families/model_spec.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/check.h"
#include "engine/families/rope_scaling.h"

namespace ringside {
namespace {

constexpr int64_t kMaxHeadDim = 576;  // limit of the kernels: a latent of 512 and 64 rotated dimensions

Status CheckRange(const char* what, int64_t value, int64_t least, int64_t most) {
  if (value >= least && value <= most) return Status::Ok();
  return InvalidArgument(fmt::format("the model's {} is {}, not in {} .. {}", what, value, least, most));
}

Status CheckMixture(const ModelSpec& spec) {
  RETURN_IF_ERROR(CheckRange("number of experts", spec.experts, 0, 1024));
  for (const LayerTraits& layer : spec.layer_traits) {
    RETURN_IF_ERROR(CheckRange("dense layers' feed-forward size", layer.dense_ffn, 0, 1 << 20));
  }
  if (spec.experts == 0) return Status::Ok();
  RETURN_IF_ERROR(CheckRange("number of experts used", spec.experts_used, 1, spec.experts));
  RETURN_IF_ERROR(CheckRange("shared expert's feed-forward size", spec.shared_ffn, 0, 1 << 20));
  RETURN_IF_ERROR(CheckRange("shared expert's feed-forward size", spec.common_ffn, 0, 1 << 20));
  RETURN_IF_ERROR(CheckRange("size of experts' inputs", spec.expert_inputs, 0, 1 << 17));
  if (spec.expert_inputs != 0 && (spec.separate_experts || spec.shared_ffn > 0)) {
    return InvalidArgument("the model projects inputs of experts that have a gate or an MLP next to them");
  }
  const RouterTraits& router = spec.router;
  RETURN_IF_ERROR(CheckRange("number of expert groups", router.groups, 1, std::min(spec.experts, kMaxExpertGroups)));
  RETURN_IF_ERROR(CheckRange("number of expert groups used", router.groups_used, 1, router.groups));
  const int64_t size = spec.experts / router.groups;
  if (size * router.groups != spec.experts) {
    return InvalidArgument(
        fmt::format("the model's {} experts are not a multiple of its {} groups", spec.experts, router.groups));
  }
  RETURN_IF_ERROR(CheckRange("number of experts used", spec.experts_used, 1, router.groups_used * size));
  return CheckPositive("scale of expert weights", router.scale);
}

Status CheckLatent(const ModelSpec& spec) {
  const LatentAttention& latent = spec.latent;
  RETURN_IF_ERROR(CheckRange("rank of keys and values", latent.rank, 0, kMaxHeadDim));
  if (latent.rank == 0) return Status::Ok();
  RETURN_IF_ERROR(CheckRange("rank of queries", latent.query_rank, 0, 1 << 17));
  RETURN_IF_ERROR(CheckRange("number of plain dimensions of a head", latent.plain, 1, 1 << 12));
  RETURN_IF_ERROR(CheckRange("number of dimensions of a value", latent.value, 1, 1 << 12));
  RETURN_IF_ERROR(CheckPositive("latent norm epsilon", latent.norm_eps));
  for (const int64_t outputs : {latent.rank, latent.value}) {
    if (outputs % 16 != 0) {
      return InvalidArgument(
          fmt::format("the model's latent attention has {} outputs per head, which is not a multiple of 16", outputs));
    }
  }
  RETURN_IF_ERROR(CheckRange("number of cached key heads", spec.kv_heads, 1, 1));
  RETURN_IF_ERROR(
      CheckRange("size of a cached key", spec.head_dim, latent.rank + spec.rotary, latent.rank + spec.rotary));
  const bool plain = spec.qk_norm == QkNorm::kNone && !spec.fused_qkv && !spec.qkv_bias && !spec.sinks &&
                     spec.encoder_layers == 0 && spec.rope_pairs != RopePairs::kNone;
  if (plain) return Status::Ok();
  return InvalidArgument("the model's latent attention has traits that are supported with plain attention only");
}

/// A layer that reads another one's keys and values follows it, and has its sizes.
Status CheckLayerHeads(const ModelSpec& spec) {
  for (int64_t layer = 0; layer < std::ssize(spec.layer_traits); ++layer) {
    const LayerTraits traits = spec.Layer(layer);
    RETURN_IF_ERROR(CheckRange("number of heads of a layer", traits.heads, 0, 4096));
    RETURN_IF_ERROR(CheckRange("number of key and value heads of a layer", traits.kv_heads, 0, spec.Heads(layer)));
    RETURN_IF_ERROR(CheckRange("head size of a layer", traits.head_dim, 0, kMaxHeadDim));
    const auto [kv_heads, head_dim] = spec.KvSizes(layer);
    if (head_dim % 2 != 0 || spec.Heads(layer) % kv_heads != 0) {
      return InvalidArgument(
          fmt::format("the model's layer {} has {} key and value heads of {} dimensions for {} heads", layer, kv_heads,
                      head_dim, spec.Heads(layer)));
    }
    const int64_t of = traits.keys_of;
    if (of == -1) continue;
    const bool earlier = of >= 0 && of < layer && spec.IsAttention(of) && spec.OwnsKeys(of);
    if (!earlier || !(spec.KvSizes(of) == KvLayer{kv_heads, head_dim})) {
      return InvalidArgument(
          fmt::format("the model's layer {} cannot read the keys and values of layer {}", layer, of));
    }
  }
  const bool special = !spec.varied_layers().empty() || spec.shares_keys() || spec.value_norm || spec.heads_vary();
  const bool plain = !spec.fused_qkv && !spec.qkv_bias && spec.latent.rank == 0 && spec.encoder_layers == 0 &&
                     spec.qk_norm != QkNorm::kRows && spec.qk_norm != QkNorm::kRotatedHeads;
  if (!special || plain) return Status::Ok();
  return InvalidArgument("the model's layers differ in traits that are supported for equal layers only");
}

Status CheckLayerInputs(const ModelSpec& spec) {
  const Streams& streams = spec.streams;
  RETURN_IF_ERROR(CheckRange("number of streams", streams.count, 0, 16));
  if (streams.count > 0) {
    RETURN_IF_ERROR(CheckRange("number of streams", streams.count, 2, 16));
    RETURN_IF_ERROR(CheckRange("rank of the map added to attention", streams.laurel_rank, 1, 1 << 14));
    RETURN_IF_ERROR(CheckRange("width of per-layer inputs", spec.layer_inputs, 1, 1 << 14));
    if (spec.experts > 0) return InvalidArgument("the model has several streams and experts, which is not supported");
  }
  RETURN_IF_ERROR(CheckRange("width of per-layer inputs", spec.layer_inputs, 0, 1 << 14));
  if (spec.layer_inputs == 0) return Status::Ok();
  RETURN_IF_ERROR(CheckRange("vocabulary size of per-layer inputs", spec.layer_input_vocab, 1, 1 << 24));
  if (spec.norm_after) return Status::Ok();
  return InvalidArgument("the model has per-layer inputs without norms after attention and MLP");
}

Status CheckFactors(const LayerFactors& factors) {
  for (const float factor : {factors.attended, factors.recurrent, factors.gate, factors.mlp}) {
    RETURN_IF_ERROR(CheckPositive("factor of a layer's part", factor));
  }
  for (const float factor : factors.recurrent_inputs) {
    RETURN_IF_ERROR(CheckPositive("factor of a recurrence's input", factor));
  }
  return Status::Ok();
}

Status CheckRecurrence(const ModelSpec& spec) {
  const RecurrenceShape& sizes = spec.recurrence;
  for (const LayerTraits& layer : spec.layer_traits) CHECK(!IsRecurrent(layer.mixer) || layer.mixer == sizes.mixer);
  if (spec.attention_layers() == 0) {
    return InvalidArgument("the model has no layer with attention, which is not supported");
  }
  if (spec.recurrent_layers() == 0) return Status::Ok();  // not state(): its products may overflow before the checks
  RETURN_IF_ERROR(CheckRange("convolution's size", sizes.kernel, 2, RecurrenceShape::kMaxKernel));
  if (sizes.mixer == Mixer::kConvolution) return Status::Ok();
  RETURN_IF_ERROR(CheckRange("number of recurrent key heads", sizes.key_heads, 1, 1024));
  RETURN_IF_ERROR(CheckRange("number of recurrent value heads", sizes.value_heads, 1, 1024));
  RETURN_IF_ERROR(CheckRange("recurrent key size", sizes.key_size, 1, RecurrenceShape::kMaxSize));
  RETURN_IF_ERROR(CheckRange("recurrent value size", sizes.value_size, 1, RecurrenceShape::kMaxSize));
  if (sizes.value_heads % sizes.key_heads != 0) {
    return InvalidArgument(fmt::format("the model's {} recurrent value heads are not a multiple of its {} key heads",
                                       sizes.value_heads, sizes.key_heads));
  }
  if (spec.recurrent_groups != 0 && sizes.value_heads % spec.recurrent_groups != 0) {
    return InvalidArgument(fmt::format("the model's {} recurrent value heads are not a multiple of its {} groups",
                                       sizes.value_heads, spec.recurrent_groups));
  }
  if (sizes.mixer == Mixer::kKda) {
    RETURN_IF_ERROR(CheckRange("rank of recurrent projections", spec.recurrent_rank, 1, 4096));
    RETURN_IF_ERROR(CheckRange("number of recurrent key heads", sizes.key_heads, sizes.value_heads, sizes.value_heads));
  }
  if (sizes.value_size % 16 != 0) {
    return InvalidArgument(
        fmt::format("the model's recurrent value size is {}, which is not a multiple of 16", sizes.value_size));
  }
  return Status::Ok();
}

}  // namespace

int64_t ModelSpec::KvIndex(int64_t layer) const {
  const int64_t source = layer >= layers || OwnsKeys(layer) ? layer : Layer(layer).keys_of;
  int64_t count = 0;
  for (int64_t before = 0; before < source; ++before) count += IsAttention(before) && OwnsKeys(before) ? 1 : 0;
  return count;
}

int64_t ModelSpec::attention_layers() const { return KvIndex(all_layers()); }

std::vector<KvLayer> ModelSpec::varied_layers() const {
  std::vector<KvLayer> sizes;
  bool varied = false;
  for (int64_t layer = 0; layer < all_layers(); ++layer) {
    if (!IsAttention(layer) || !OwnsKeys(layer)) continue;
    sizes.push_back(KvSizes(layer));
    varied = varied || !(sizes.back() == KvLayer{kv_heads, head_dim});
  }
  if (!varied) sizes.clear();
  return sizes;
}

bool ModelSpec::heads_vary() const {
  return std::ranges::any_of(layer_traits,
                             [this](const LayerTraits& layer) { return layer.heads != 0 && layer.heads != heads; });
}

bool ModelSpec::shares_keys() const {
  return std::ranges::any_of(layer_traits, [](const LayerTraits& layer) { return layer.keys_of >= 0; });
}

int64_t ModelSpec::Widest(int64_t (ModelSpec::*columns)(int64_t layer) const) const {
  int64_t widest = 0;
  for (int64_t layer = 0; layer < all_layers(); ++layer) widest = std::max(widest, (this->*columns)(layer));
  return widest;
}

int64_t ModelSpec::recurrent_layers() const {
  int64_t count = 0;
  for (int64_t layer = 0; layer < layers; ++layer) count += IsRecurrent(Layer(layer).mixer) ? 1 : 0;
  return count;
}

StateShape ModelSpec::state() const { return recurrence.StateOf(recurrent_layers()); }

// What the convolution takes, the gate of the result, weights and rates; or three parts of the stream's width. Kimi
// Delta Attention also has the low-rank inputs of rates and gate.
int64_t ModelSpec::recurrent_columns() const {
  const RecurrenceShape& sizes = recurrence;
  switch (sizes.mixer) {
    case Mixer::kDeltaNet:
      return sizes.channels() + sizes.values() + 2 * sizes.value_heads;
    case Mixer::kMamba2:
      return sizes.channels() + sizes.values() + sizes.value_heads;
    case Mixer::kKda:
      return sizes.channels() + 2 * recurrent_rank + sizes.value_heads + sizes.decays() + sizes.values();
    case Mixer::kConvolution:
      return 3 * sizes.channels();
    default:
      return 0;
  }
}

float ModelSpec::score_scale() const {
  return query_scale != 0 ? query_scale : static_cast<float>(1.0 / std::sqrt(static_cast<double>(head_dim)));
}

float ModelSpec::ScoreScaleAt(int64_t position) const {
  const int64_t last = std::min(position, trained_context - 1);
  const int64_t periods = (last + position_scale_shift) / position_scale_context;
  return static_cast<float>(1 + static_cast<double>(position_scale) * std::log1p(static_cast<double>(periods)));
}

// For a number of heads that is not a power of two: the slopes of the next smaller power, then every other one of twice
// that.
std::vector<float> ModelSpec::AlibiSlopes() const {
  std::vector<float> slopes;
  if (alibi == 0) return slopes;
  const auto whole = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(heads)));
  for (int64_t i = 1; i <= heads; ++i) {
    const double exponent = i <= whole ? static_cast<double>(i) / static_cast<double>(whole)
                                       : static_cast<double>(2 * (i - whole) - 1) / static_cast<double>(2 * whole);
    slopes.push_back(static_cast<float>(std::exp2(-alibi * exponent)) * (alibi_scaled ? score_scale() : 1));
  }
  return slopes;
}

// Half of the buckets cover one distance each, the others grow logarithmically up to bias_reach (Raffel et al. 2020, in
// float as the models were trained).
std::vector<float> ModelSpec::DistanceBiases(const std::vector<float>& biases, bool encoder) const {
  const int64_t buckets = encoder ? bias_buckets / 2 : bias_buckets, exact = buckets / 2;
  const auto bucket = [&](int64_t distance) {
    if (distance < exact) return distance;
    const float ratio = std::log(static_cast<float>(distance) / static_cast<float>(exact)) /
                        static_cast<float>(std::log(static_cast<double>(bias_reach) / static_cast<double>(exact)));
    return std::min(buckets - 1, exact + static_cast<int64_t>(ratio * static_cast<float>(buckets - exact)));
  };
  std::vector<float> all;
  for (int64_t head = 0; head < heads; ++head) {
    for (int64_t behind = -bias_reach - 15; behind <= bias_reach + 15; ++behind) {
      const int64_t distance = std::min(std::abs(behind), bias_reach);
      const int64_t of = behind <= 0 ? bucket(distance) : encoder ? buckets + bucket(distance) : 0;
      all.push_back(biases[static_cast<size_t>(of * heads + head)]);
    }
  }
  return all;
}

int64_t ModelSpec::widest_window() const {
  int64_t widest = 0;
  for (int64_t layer = 0; layer < layers; ++layer) {
    if (!IsAttention(layer)) continue;
    if (Layer(layer).window == 0) return 0;
    widest = std::max(widest, Layer(layer).window);
  }
  return widest;
}

int64_t ModelSpec::widest_dense() const {
  int64_t widest = 0;
  for (int64_t layer = 0; layer < all_layers(); ++layer) widest = std::max(widest, DenseColumns(layer));
  return widest;
}

int64_t ModelSpec::layer_weights() const {
  int64_t mlps = 0, mixers = 0, of_experts = 0;  // rows of all layers' matrices
  for (int64_t layer = 0; layer < layers; ++layer) {
    if (IsAttention(layer)) mixers += qkv_columns(layer) + gate_columns(layer) + value_columns(layer);
    if (IsRecurrent(Layer(layer).mixer)) mixers += recurrent_columns() + recurrent_outputs();
    mlps += MlpInColumns(DenseColumns(layer)) + DenseColumns(layer);
    if (!IsMixture(layer)) continue;
    mlps += 3 * shared_ffn + experts + 2 * expert_inputs;
    of_experts += experts_used * (MlpInColumns(ffn) + ffn);
  }
  return hidden * (mixers + mlps) + expert_columns() * of_experts;
}

int64_t ModelSpec::context() const {
  const int64_t window = widest_window(), reached = std::max(trained_context, scaled_context);
  return window > 0 && (reached == 0 || window < reached) ? window : reached;
}

Status CheckLayers(const ModelSpec& spec) { return CheckRange("number of layers", spec.layers, 1, 1024); }

Status MakeLayerTraits(ModelSpec* spec) {
  RETURN_IF_ERROR(CheckLayers(*spec));
  spec->layer_traits.resize(static_cast<size_t>(spec->layers));
  return Status::Ok();
}

void AddDraftLayer(ModelSpec* spec) {
  spec->draft_layers = 1;
  if (!spec->layer_traits.empty()) spec->layer_traits.emplace_back();
}

Status ValidateSpec(const ModelSpec& spec) {
  RETURN_IF_ERROR(CheckLayers(spec));
  RETURN_IF_ERROR(CheckRange("hidden size", spec.hidden, 1, 1 << 17));
  RETURN_IF_ERROR(CheckRange("size of embeddings", spec.embedded, 0, 1 << 17));
  RETURN_IF_ERROR(CheckRange("number of heads", spec.heads, 1, 4096));
  RETURN_IF_ERROR(CheckRange("number of key and value heads", spec.kv_heads, 1, spec.heads));
  RETURN_IF_ERROR(CheckRange("head size", spec.head_dim, 1, spec.latent.rank > 0 ? kMaxHeadDim : 256));
  RETURN_IF_ERROR(CheckRange("feed-forward size", spec.ffn, 1, 1 << 20));
  RETURN_IF_ERROR(CheckRange("vocabulary size", spec.vocab, 1, 1 << 24));
  RETURN_IF_ERROR(CheckRange("trained context", spec.trained_context, 1, int64_t{1} << 31));
  for (const LayerTraits& layer : spec.layer_traits) {
    RETURN_IF_ERROR(CheckRange("sliding window", layer.window, 0, int64_t{1} << 31));
  }
  if (!spec.layer_traits.empty()) {
    const auto traits = static_cast<int64_t>(spec.layer_traits.size());
    RETURN_IF_ERROR(CheckRange("number of layer types", traits, spec.all_layers(), spec.all_layers()));
  }
  RETURN_IF_ERROR(CheckMixture(spec));
  RETURN_IF_ERROR(CheckLatent(spec));
  RETURN_IF_ERROR(CheckRecurrence(spec));
  RETURN_IF_ERROR(CheckFactors(spec.factors));
  if (spec.activation == Activation::kXielu && (spec.gated || spec.experts > 0)) {
    return InvalidArgument("the model's gated MLP has the activation xIELU, which is not supported");
  }
  RETURN_IF_ERROR(CheckPositive("norm epsilon", spec.norm_eps));
  RETURN_IF_ERROR(CheckPositive("embedding scale", spec.embedding_scale));
  RETURN_IF_ERROR(CheckPositive("logit scale", spec.logit_scale));
  if (spec.query_scale != 0) RETURN_IF_ERROR(CheckPositive("query scale", spec.query_scale));
  if (spec.position_scale != 0) {
    RETURN_IF_ERROR(CheckPositive("scale of scores by position", spec.position_scale));
    RETURN_IF_ERROR(
        CheckRange("context of the scale of scores by position", spec.position_scale_context, 1, int64_t{1} << 31));
  }
  if (spec.score_cap != 0) RETURN_IF_ERROR(CheckPositive("cap of attention scores", spec.score_cap));
  if (spec.logit_cap != 0) RETURN_IF_ERROR(CheckPositive("cap of logits", spec.logit_cap));
  if (spec.alibi != 0) RETURN_IF_ERROR(CheckPositive("largest ALiBi exponent", spec.alibi));
  RETURN_IF_ERROR(CheckRange("number of encoder layers", spec.encoder_layers, 0, 1024));
  RETURN_IF_ERROR(CheckRange("token that begins an answer", spec.answer_start, 0, spec.vocab - 1));
  if (spec.bias_buckets != 0) {
    RETURN_IF_ERROR(CheckRange("number of buckets of distances", spec.bias_buckets, 4, 1 << 16));
    RETURN_IF_ERROR(CheckRange("largest distance with a bucket", spec.bias_reach, spec.bias_buckets / 2 + 1, 1 << 16));
  }
  if (spec.head_dim % 2 != 0) {
    return InvalidArgument(fmt::format("the model's head size is {}, an odd number", spec.head_dim));
  }
  if (spec.heads % spec.kv_heads != 0) {
    return InvalidArgument(fmt::format("the model's {} heads are not a multiple of its {} key and value heads",
                                       spec.heads, spec.kv_heads));
  }
  RETURN_IF_ERROR(CheckLayerHeads(spec));
  RETURN_IF_ERROR(CheckLayerInputs(spec));
  if (spec.sinusoidal_positions) {  // computed, so no file size bounds it
    RETURN_IF_ERROR(CheckRange("trained context", spec.trained_context, 1, (int64_t{1} << 26) / spec.hidden));
  }
  if (spec.rope_pairs == RopePairs::kNone) {
    RETURN_IF_ERROR(CheckRange("number of rotated dimensions", spec.rotary, 0, 0));
  } else {
    const int64_t most = spec.varied_layers().empty() ? spec.head_dim : kMaxHeadDim;
    RETURN_IF_ERROR(CheckRange("number of rotated dimensions", spec.rotary, 2, most));
    if (spec.rotary % 2 != 0) {
      return InvalidArgument(fmt::format("the model's number of rotated dimensions is {}, an odd number", spec.rotary));
    }
  }
  return Status::Ok();
}

}  // namespace ringside
