// Families with recurrent layers beside attention, with names like Llama's.
#include <fmt/format.h>

#include <algorithm>

#include "engine/families/huggingface/llama_names.h"

namespace ringside {
namespace {

constexpr TensorRule kDelta[] = {
    {TensorRole::kQuery, "layers.{}.self_attn.q_proj.weight", false, RowOrder::kQueryThenGate},
    {TensorRole::kQueryBias, "layers.{}.self_attn.q_proj.bias", false, RowOrder::kQueryThenGate},
    {TensorRole::kRecurrentQkvGate, "layers.{}.linear_attn.in_proj_qkvz.weight", false, RowOrder::kByKeyHead},
    {TensorRole::kRecurrentBetaRates, "layers.{}.linear_attn.in_proj_ba.weight", false, RowOrder::kByKeyHead},
    {TensorRole::kRecurrentQkv, "layers.{}.linear_attn.in_proj_qkv.weight"},
    {TensorRole::kRecurrentGate, "layers.{}.linear_attn.in_proj_z.weight"},
    {TensorRole::kRecurrentBeta, "layers.{}.linear_attn.in_proj_b.weight"},
    {TensorRole::kRecurrentRates, "layers.{}.linear_attn.in_proj_a.weight"},
    {TensorRole::kConvolution, "layers.{}.linear_attn.conv1d.weight"},
    {TensorRole::kRateBias, "layers.{}.linear_attn.dt_bias"},
    {TensorRole::kRate, "layers.{}.linear_attn.A_log"},
    {TensorRole::kRecurrentNorm, "layers.{}.linear_attn.norm.weight"},
    {TensorRole::kRecurrentOut, "layers.{}.linear_attn.out_proj.weight"},
};
constexpr TensorRule kQwenDraftTensors[] = {
    {TensorRole::kDraftProjection, "fc.weight"},
    {TensorRole::kDraftEmbeddingNorm, "pre_fc_norm_embedding.weight"},
    {TensorRole::kDraftHiddenNorm, "pre_fc_norm_hidden.weight"},
    {TensorRole::kDraftNorm, "norm.weight"},
};
// All experts in one tensor.
constexpr TensorRule kJoinedExperts[] = {
    {TensorRole::kExpertGateUp, "layers.{}.mlp.experts.gate_up_proj"},
    {TensorRole::kExpertDown, "layers.{}.mlp.experts.down_proj"},
};

constexpr DraftRules kQwenDraft{"mtp.", kQwenDraftTensors};

// Layers with attention have output norms, the others input norms.
constexpr TensorRule kOlmoHybrid[] = {
    {TensorRole::kAttentionNorm, "layers.{}.attention_layer_norm.weight"},
    {TensorRole::kRecurrentQuery, "layers.{}.linear_attn.q_proj.weight"},
    {TensorRole::kRecurrentKey, "layers.{}.linear_attn.k_proj.weight"},
    {TensorRole::kRecurrentValue, "layers.{}.linear_attn.v_proj.weight"},
    {TensorRole::kRecurrentGate, "layers.{}.linear_attn.g_proj.weight"},
    {TensorRole::kRecurrentBeta, "layers.{}.linear_attn.b_proj.weight"},
    {TensorRole::kRecurrentRates, "layers.{}.linear_attn.a_proj.weight"},
    {TensorRole::kQueryConvolution, "layers.{}.linear_attn.q_conv1d.weight"},
    {TensorRole::kKeyConvolution, "layers.{}.linear_attn.k_conv1d.weight"},
    {TensorRole::kValueConvolution, "layers.{}.linear_attn.v_conv1d.weight"},
    {TensorRole::kRateBias, "layers.{}.linear_attn.dt_bias"},
    {TensorRole::kRate, "layers.{}.linear_attn.A_log"},
    {TensorRole::kRecurrentNorm, "layers.{}.linear_attn.o_norm.weight"},
    {TensorRole::kRecurrentOut, "layers.{}.linear_attn.o_proj.weight"},
};
constexpr TensorRule kOlmoHybridNorms[] = {
    {TensorRole::kMlpNorm, "layers.{}.feedforward_layer_norm.weight"},
};
constexpr TensorRule kLfm2[] = {
    {TensorRole::kFinalNorm, "embedding_norm.weight"},
    {TensorRole::kAttentionNorm, "layers.{}.operator_norm.weight"},
    {TensorRole::kQueryNorm, "layers.{}.self_attn.q_layernorm.weight"},
    {TensorRole::kKeyNorm, "layers.{}.self_attn.k_layernorm.weight"},
    {TensorRole::kAttentionOut, "layers.{}.self_attn.out_proj.weight"},
    {TensorRole::kRecurrentIn, "layers.{}.conv.in_proj.weight"},
    {TensorRole::kRecurrentInBias, "layers.{}.conv.in_proj.bias"},
    {TensorRole::kConvolution, "layers.{}.conv.conv.weight"},
    {TensorRole::kConvolutionBias, "layers.{}.conv.conv.bias"},
    {TensorRole::kRecurrentOut, "layers.{}.conv.out_proj.weight"},
    {TensorRole::kRecurrentOutBias, "layers.{}.conv.out_proj.bias"},
    {TensorRole::kMlpNorm, "layers.{}.ffn_norm.weight"},
    {TensorRole::kGate, "layers.{}.feed_forward.w1.weight"},
    {TensorRole::kUp, "layers.{}.feed_forward.w3.weight"},
    {TensorRole::kDown, "layers.{}.feed_forward.w2.weight"},
    {TensorRole::kRouter, "layers.{}.feed_forward.gate.weight"},
    {TensorRole::kRouterCorrection, "layers.{}.feed_forward.expert_bias"},
    {TensorRole::kExpertGate, "layers.{}.feed_forward.experts.{e}.w1.weight"},
    {TensorRole::kExpertUp, "layers.{}.feed_forward.experts.{e}.w3.weight"},
    {TensorRole::kExpertDown, "layers.{}.feed_forward.experts.{e}.w2.weight"},
};

constexpr TensorRule kLfm3[] = {
    {TensorRole::kAttentionPostNorm, "layers.{}.post_operator_norm.weight"},
    {TensorRole::kMlpPostNorm, "layers.{}.post_ffn_norm.weight"},
    {TensorRole::kQueryGate, "layers.{}.self_attn.gate_proj.weight"},
    {TensorRole::kQueryNorm, "layers.{}.self_attn.q_norm.weight"},
    {TensorRole::kKeyNorm, "layers.{}.self_attn.k_norm.weight"},
    {TensorRole::kAttentionOut, "layers.{}.self_attn.o_proj.weight"},
};

constexpr MixerName kLfm3Mixers[] = {
    {"conv", Mixer::kConvolution}, {"full_attention", Mixer::kAttention}, {"sliding_attention", Mixer::kAttention}};
constexpr MixerName kLfm2Mixers[] = {{"conv", Mixer::kConvolution}, {"full_attention", Mixer::kAttention}};
constexpr MixerName kDeltaMixers[] = {{"linear_attention", Mixer::kDeltaNet}, {"full_attention", Mixer::kAttention}};

/// Every `interval` layers attention, otherwise a gated DeltaNet, unless the file lists the layers.
Status ReadDeltaMixers(const ConfigJson& config, int64_t interval, ModelSpec* spec) {
  RETURN_IF_ERROR(MakeLayerTraits(spec));
  for (int64_t layer = 0; layer < spec->layers; ++layer) {
    if ((layer + 1) % interval != 0) spec->layer_traits[static_cast<size_t>(layer)].mixer = Mixer::kDeltaNet;
  }
  return ReadMixers(config, "layer_types", kDeltaMixers, spec);
}

/// The sizes of spec->recurrence, if the file has them.
Status ReadDeltaSizes(const ConfigJson& config, ModelSpec* spec) {
  RecurrenceShape& sizes = spec->recurrence;
  sizes.mixer = Mixer::kDeltaNet;
  sizes.kernel = 4;
  RETURN_IF_ERROR(config.Optional("linear_num_key_heads", &sizes.key_heads));
  RETURN_IF_ERROR(config.Optional("linear_num_value_heads", &sizes.value_heads));
  RETURN_IF_ERROR(config.Optional("linear_key_head_dim", &sizes.key_size));
  RETURN_IF_ERROR(config.Optional("linear_value_head_dim", &sizes.value_size));
  return config.Optional("linear_conv_kernel_dim", &sizes.kernel);
}

// Every few layers attention with a gate, otherwise a gated DeltaNet; norms scale by 1 + w.
Status ReadQwenHybrid(const ConfigJson& config, ModelSpec* spec) {
  spec->head_dim = 256;
  RETURN_IF_ERROR(ReadBase(config, spec));
  RETURN_IF_ERROR(config.Optional("attention_bias", &spec->qkv_bias));
  spec->attention_out_bias = spec->qkv_bias;
  spec->qk_norm = QkNorm::kHeads;
  spec->query_gate = true;
  spec->norm_offset = 1;
  int64_t interval = 4;
  RETURN_IF_ERROR(config.Optional("full_attention_interval", &interval));
  if (interval < 1)
    return InvalidArgument(
        fmt::format("config.json: 'full_attention_interval' is {}; it must be at least 1", interval));
  RETURN_IF_ERROR(ReadDeltaMixers(config, interval, spec));
  spec->recurrent_norm_eps = spec->norm_eps;
  spec->recurrence = {.key_heads = 16, .value_heads = 32, .key_size = 128, .value_size = 128};
  RETURN_IF_ERROR(ReadDeltaSizes(config, spec));
  return ReadRotations(config, spec, PartialRotary::kRead, {.partial = 0.25});
}

Status ReadQwen35Moe(const ConfigJson& config, ModelSpec* spec) {
  spec->experts_normalised = true;
  RETURN_IF_ERROR(ReadQwenExperts(config, spec));
  RETURN_IF_ERROR(config.Need("shared_expert_intermediate_size", &spec->shared_ffn));
  RETURN_IF_ERROR(config.Need("moe_intermediate_size", &spec->ffn));
  const int64_t width = spec->ffn;
  RETURN_IF_ERROR(ReadQwenHybrid(config, spec));
  spec->ffn = width;
  return ValidateSpec(*spec);
}

Status ReadQwen35MoeJoined(const ConfigJson& config, ModelSpec* spec) {
  spec->fused_gate_up = true;
  return ReadQwen35Moe(config, spec);
}

Status ReadQwen3Next(const ConfigJson& config, ModelSpec* spec) {
  spec->recurrence_matrices = RecurrenceMatrices::kWithGate;
  spec->fused_rates = true;
  return ReadQwen35Moe(config, spec);
}

Status ReadOlmoHybrid(const ConfigJson& config, ModelSpec* spec) {
  RETURN_IF_ERROR(config.Expect("attention_bias", false));
  RETURN_IF_ERROR(ReadBase(config, spec));
  spec->norm_before = false;
  spec->norm_after = spec->recurrent_norm_before = true;
  spec->qk_norm = QkNorm::kRows;
  RETURN_IF_ERROR(ReadDeltaMixers(config, 4, spec));
  spec->recurrence_matrices = RecurrenceMatrices::kEach;
  spec->recurrent_norm_eps = 1e-5f;
  spec->recurrence = {.key_heads = spec->heads, .value_heads = spec->heads};
  if (spec->heads > 0) spec->recurrence.key_size = static_cast<int64_t>(0.75 * static_cast<double>(spec->head_dim));
  spec->recurrence.value_size = 2 * std::clamp<int64_t>(spec->recurrence.key_size, 0, RecurrenceShape::kMaxSize);
  RETURN_IF_ERROR(ReadDeltaSizes(config, spec));
  bool negative = true;
  RETURN_IF_ERROR(config.Optional("linear_allow_neg_eigval", &negative));
  if (negative) spec->recurrence.largest_beta = 2;
  if (config.Has("rope_theta") || config.Has("rope_parameters.rope_theta")) return ReadRotations(config, spec);
  spec->rope_pairs = RopePairs::kNone;
  return ValidateSpec(*spec);
}

Status ReadLfm2Base(const ConfigJson& config, ModelSpec* spec) {
  spec->tied_head = true;
  RETURN_IF_ERROR(ReadSizes(config, spec));
  RETURN_IF_ERROR(config.Optional("tie_embedding", &spec->tied_head));
  spec->rope_pairs = RopePairs::kHalves;
  spec->qk_norm = QkNorm::kHeads;
  RETURN_IF_ERROR(config.Optional("norm_eps", &spec->norm_eps));
  RETURN_IF_ERROR(config.Optional("conv_bias", &spec->convolution_bias));
  spec->recurrent_bias = spec->convolution_bias;
  RETURN_IF_ERROR(MakeLayerTraits(spec));
  spec->recurrence = {.mixer = Mixer::kConvolution, .kernel = 3, .width = spec->hidden};
  RETURN_IF_ERROR(config.Optional("conv_L_cache", &spec->recurrence.kernel));
  for (LayerTraits& layer : spec->layer_traits) layer.mixer = Mixer::kConvolution;
  for (int64_t i = 0; config.Has(fmt::format("full_attn_idxs.{}", i)); ++i) {
    int64_t layer = 0;
    RETURN_IF_ERROR(config.Need(fmt::format("full_attn_idxs.{}", i), &layer));
    if (layer < 0 || layer >= spec->layers) {
      return InvalidArgument(fmt::format("config.json: 'full_attn_idxs' has layer {} of {}", layer, spec->layers));
    }
    spec->layer_traits[static_cast<size_t>(layer)].mixer = Mixer::kAttention;
  }
  return ReadMixers(config, "layer_types", kLfm2Mixers, spec);
}

Status ReadLfm2(const ConfigJson& config, ModelSpec* spec) {
  RETURN_IF_ERROR(config.Optional("block_ff_dim", &spec->ffn));
  const bool older = spec->ffn != 0;
  const int64_t width = spec->ffn;
  RETURN_IF_ERROR(ReadLfm2Base(config, spec));
  if (older) spec->ffn = width;
  bool adjusted = true;
  int64_t multiple = 256;
  double factor = 1;
  RETURN_IF_ERROR(config.Optional("block_auto_adjust_ff_dim", &adjusted));
  RETURN_IF_ERROR(config.Optional("block_multiple_of", &multiple));
  RETURN_IF_ERROR(config.Optional("block_ffn_dim_multiplier", &factor));
  if (spec->ffn < 1 || spec->ffn > 1 << 20 || multiple < 1 || multiple > 1 << 20 || !(factor > 0 && factor < 64)) {
    return InvalidArgument(
        fmt::format("config.json: a feed-forward size of {} times {}, rounded up to a multiple of {}, is not supported",
                    spec->ffn, factor, multiple));
  }
  if (adjusted) {
    const auto scaled = static_cast<int64_t>(factor * static_cast<double>(2 * spec->ffn / 3));
    spec->ffn = (scaled + multiple - 1) / multiple * multiple;
  }
  return ReadRotations(config, spec, PartialRotary::kIgnored, {.base = 1e6});
}

Status ReadLfm2Moe(const ConfigJson& config, ModelSpec* spec) {
  RETURN_IF_ERROR(ReadLfm2Base(config, spec));
  RETURN_IF_ERROR(config.Need("num_experts", &spec->experts));
  RETURN_IF_ERROR(config.Need("num_experts_per_tok", &spec->experts_used));
  spec->router.sigmoid = spec->router_correction = spec->experts_normalised = true;
  RETURN_IF_ERROR(config.Optional("use_expert_bias", &spec->router_correction));
  RETURN_IF_ERROR(config.Optional("norm_topk_prob", &spec->experts_normalised));
  RETURN_IF_ERROR(config.Optional("routed_scaling_factor", &spec->router.scale));
  int64_t dense = 2;
  RETURN_IF_ERROR(config.Optional("num_dense_layers", &dense));
  if (dense < 0 || (dense > 0 && spec->ffn < 1)) {
    return InvalidArgument(fmt::format("config.json: {} dense layers of width {} are not supported", dense, spec->ffn));
  }
  for (int64_t layer = 0; layer < std::min(dense, spec->layers); ++layer) {
    spec->layer_traits[static_cast<size_t>(layer)].dense_ffn = spec->ffn;
  }
  RETURN_IF_ERROR(config.Need("moe_intermediate_size", &spec->ffn));
  return ReadRotations(config, spec, PartialRotary::kIgnored, {.base = 1e6});
}

// Attention with windows or without, with a gate for each head; norms before and after.
Status ReadLfm3(const ConfigJson& config, ModelSpec* spec) {
  spec->tied_head = true;
  spec->head_dim = 128;
  RETURN_IF_ERROR(ReadSizes(config, spec));
  RETURN_IF_ERROR(config.Expect("attention_bias", false));
  spec->rope_pairs = RopePairs::kHalves;
  spec->qk_norm = QkNorm::kHeads;
  RETURN_IF_ERROR(config.Optional("norm_eps", &spec->norm_eps));
  RETURN_IF_ERROR(config.Optional("conv_bias", &spec->convolution_bias));
  spec->recurrent_bias = spec->convolution_bias;
  spec->norm_after = spec->query_gate = true;
  RETURN_IF_ERROR(config.Optional("use_sandwich_norm", &spec->norm_after));
  RETURN_IF_ERROR(config.Optional("use_attention_gate", &spec->query_gate));
  spec->separate_gate = spec->head_gates = spec->query_gate;
  if (!config.Has("layer_types")) return InvalidArgument("config.json: 'layer_types' is missing");
  RETURN_IF_ERROR(MakeLayerTraits(spec));
  RETURN_IF_ERROR(ReadMixers(config, "layer_types", kLfm3Mixers, spec));
  int64_t window = 0;
  RETURN_IF_ERROR(config.Need("sliding_window", &window));
  for (int64_t layer = 0; layer < spec->layers; ++layer) {
    if (config.String(fmt::format("layer_types.{}", layer), "") != "sliding_attention") continue;
    if (window < 1) return InvalidArgument(fmt::format("config.json: 'sliding_window' is {}", window));
    LayerTraits& traits = spec->layer_traits[static_cast<size_t>(layer)];
    traits.window = window, traits.rotation = 1;
  }
  spec->recurrence = {.mixer = Mixer::kConvolution, .kernel = 7, .width = spec->hidden};
  RETURN_IF_ERROR(config.Optional("conv_L_cache", &spec->recurrence.kernel));
  spec->rotary = spec->head_dim;
  RETURN_IF_ERROR(ValidateSpec(*spec));
  RETURN_IF_ERROR(AddRotation(config, "rope_parameters.full_attention.", spec->head_dim, spec));
  return AddRotation(config, "rope_parameters.sliding_attention.", spec->head_dim, spec);
}

}  // namespace

std::span<const HuggingFaceFamily> HybridFamilies() {
  static const HuggingFaceFamily kFamilies[] = {
      {"olmo_hybrid", ReadOlmoHybrid, kPrefix, {kAttention, kOlmoHybrid, kNormsAfter, kOlmoHybridNorms, kMlp}},
      {"lfm2", ReadLfm2, kPrefix, {kAttention, kLfm2}},
      {"lfm2_moe", ReadLfm2Moe, kPrefix, {kAttention, kLfm2}},
      {"lfm3", ReadLfm3, kPrefix, {kAttention, kLfm2, kLfm3}},
      {"qwen3_next", ReadQwen3Next, kPrefix, {kAttention, kDelta, kOneNormEach, kQwenExperts}, kQwenDraft},
      {"qwen3_5_text", ReadQwenHybrid, kPrefix, {kAttention, kDelta, kOneNormEach, kMlp}, kQwenDraft},
      {"qwen3_5_moe_text", ReadQwen35Moe, kPrefix, {kAttention, kDelta, kOneNormEach, kQwenExperts}, kQwenDraft},
      {"qwen3_5_moe_text",
       ReadQwen35MoeJoined,
       kPrefix,
       {kAttention, kDelta, kOneNormEach, kQwenExperts, kJoinedExperts},
       kQwenDraft},
  };
  return kFamilies;
}

}  // namespace ringside
