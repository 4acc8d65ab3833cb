// Families whose layers alternate between windows or chunks and full attention, with gates, norms and routers of their
// own: Llama 4, AFMoE, Laguna, Muse Glimmer, Granite with windows.
#include <fmt/format.h>

#include <cmath>

#include "engine/families/huggingface/llama_names.h"
#include "engine/families/rope_scaling.h"

namespace ringside {
namespace {

constexpr TensorRule kLlama4Mlp[] = {
    {TensorRole::kGate, "layers.{}.feed_forward.gate_proj.weight"},
    {TensorRole::kUp, "layers.{}.feed_forward.up_proj.weight"},
    {TensorRole::kDown, "layers.{}.feed_forward.down_proj.weight"},
    {TensorRole::kRouter, "layers.{}.feed_forward.router.weight"},
    {TensorRole::kExpertGateUp, "layers.{}.feed_forward.experts.gate_up_proj", true},
    {TensorRole::kExpertDown, "layers.{}.feed_forward.experts.down_proj", true},
    {TensorRole::kCommonGate, "layers.{}.feed_forward.shared_expert.gate_proj.weight"},
    {TensorRole::kCommonUp, "layers.{}.feed_forward.shared_expert.up_proj.weight"},
    {TensorRole::kCommonDown, "layers.{}.feed_forward.shared_expert.down_proj.weight"},
};
constexpr TensorRule kGateProjection[] = {{TensorRole::kQueryGate, "layers.{}.self_attn.gate_proj.weight"}};
constexpr TensorRule kAfmoe[] = {
    {TensorRole::kAttentionPostNorm, "layers.{}.post_attention_layernorm.weight"},
    {TensorRole::kMlpNorm, "layers.{}.pre_mlp_layernorm.weight"},
    {TensorRole::kMlpPostNorm, "layers.{}.post_mlp_layernorm.weight"},
    {TensorRole::kRouter, "layers.{}.mlp.router.gate.weight"},
    {TensorRole::kRouterCorrection, "layers.{}.mlp.expert_bias"},
};
constexpr TensorRule kLaguna[] = {
    {TensorRole::kQueryGate, "layers.{}.self_attn.g_proj.weight"},
    {TensorRole::kRouterCorrection, "layers.{}.mlp.experts.e_score_correction_bias"},
    {TensorRole::kCommonGate, "layers.{}.mlp.shared_expert.gate_proj.weight"},
    {TensorRole::kCommonUp, "layers.{}.mlp.shared_expert.up_proj.weight"},
    {TensorRole::kCommonDown, "layers.{}.mlp.shared_expert.down_proj.weight"},
};

LayerTraits& TraitsOf(ModelSpec* spec, int64_t layer) { return spec->layer_traits[static_cast<size_t>(layer)]; }

/// The layers that have experts: a list, or every `interleave_moe_layer_step`-th.
Status ReadLlama4Experts(const ConfigJson& config, ModelSpec* spec) {
  RETURN_IF_ERROR(config.Need("num_local_experts", &spec->experts));
  spec->experts_used = 1;
  RETURN_IF_ERROR(config.Optional("num_experts_per_tok", &spec->experts_used));
  spec->router.sigmoid = spec->router.scales_input = spec->fused_experts = true;
  spec->common_ffn = spec->ffn;
  int64_t dense = 0, step = 1;
  RETURN_IF_ERROR(config.Need("intermediate_size_mlp", &dense));
  RETURN_IF_ERROR(config.Optional("interleave_moe_layer_step", &step));
  if (dense < 1 || step < 1) {
    return InvalidArgument(
        fmt::format("config.json: 'intermediate_size_mlp' {}, 'interleave_moe_layer_step' {}", dense, step));
  }
  for (int64_t layer = 0; layer < spec->layers; ++layer) TraitsOf(spec, layer).dense_ffn = dense;
  if (config.Has("moe_layers")) {
    for (int64_t i = 0; config.Has(fmt::format("moe_layers.{}", i)); ++i) {
      int64_t layer = 0;
      RETURN_IF_ERROR(config.Need(fmt::format("moe_layers.{}", i), &layer));
      if (layer < 0 || layer >= spec->layers) {
        return InvalidArgument(fmt::format("config.json: 'moe_layers' has layer {} of {}", layer, spec->layers));
      }
      TraitsOf(spec, layer).dense_ffn = 0;
    }
    return Status::Ok();
  }
  for (int64_t layer = step - 1; layer < spec->layers; layer += step) TraitsOf(spec, layer).dense_ffn = 0;
  return Status::Ok();
}

/// A flag that some files have as a number.
Status ReadFlag(const ConfigJson& config, std::string_view key, bool* value) {
  if (config.Optional(key, value).ok()) return Status::Ok();
  int64_t number = 0;
  RETURN_IF_ERROR(config.Need(key, &number));
  *value = number != 0;
  return Status::Ok();
}

// Rotated layers see chunks and have norms of queries and keys, which have no weights; the others have scores that are
// scaled by position. The norms follow the rotation, which does not change a head's length.
Status ReadLlama4(const ConfigJson& config, ModelSpec* spec) {
  RETURN_IF_ERROR(ReadBase(config, spec));
  RETURN_IF_ERROR(config.Expect("attention_bias", false));
  spec->rope_pairs = RopePairs::kAdjacent;
  RETURN_IF_ERROR(MakeLayerTraits(spec));
  RETURN_IF_ERROR(ReadLlama4Experts(config, spec));
  bool norms = true, scaled = true;
  RETURN_IF_ERROR(config.Optional("use_qk_norm", &norms));
  RETURN_IF_ERROR(ReadFlag(config, "attn_temperature_tuning", &scaled));
  int64_t chunk = 0, interval = 4;
  RETURN_IF_ERROR(config.Optional("attention_chunk_size", &chunk));
  RETURN_IF_ERROR(config.Optional("no_rope_layer_interval", &interval));
  if (interval < 1)
    return InvalidArgument(fmt::format("config.json: 'no_rope_layer_interval' is {}; it must be at least 1", interval));
  spec->qk_norm = norms ? QkNorm::kHeads : QkNorm::kNone;
  spec->head_norm_weights = false;
  if (scaled) {
    spec->position_scale = 0.1f, spec->position_scale_context = 8192, spec->position_scale_shift = 1;
    RETURN_IF_ERROR(config.Optional("attn_scale", &spec->position_scale));
    RETURN_IF_ERROR(config.Optional("floor_scale", &spec->position_scale_context));
  }
  RETURN_IF_ERROR(ReadRotations(config, spec, PartialRotary::kIgnored, {.base = 5e5}));
  for (int64_t layer = 0; layer < spec->layers; ++layer) {
    int64_t rotated = (layer + 1) % interval != 0 ? 1 : 0;
    RETURN_IF_ERROR(config.Optional(fmt::format("no_rope_layers.{}", layer), &rotated));
    const std::string type = config.String(fmt::format("layer_types.{}", layer),
                                           rotated != 0 && chunk > 0 ? "chunked_attention" : "full_attention");
    LayerTraits& traits = TraitsOf(spec, layer);
    traits.rotation = rotated != 0 ? 0 : -1;
    traits.plain_scores = rotated != 0;
    traits.head_norms = norms && rotated != 0;
    traits.chunked = type == "chunked_attention";
    traits.window = traits.chunked ? chunk : 0;
    if ((!traits.chunked && type != "full_attention") || (traits.chunked && chunk < 1)) {
      return InvalidArgument(fmt::format("config.json: layer {} is '{}' with chunks of {}", layer, type, chunk));
    }
  }
  return ValidateSpec(*spec);
}

Status ReadAfmoe(const ConfigJson& config, ModelSpec* spec) {
  RETURN_IF_ERROR(ReadBase(config, spec));
  spec->norm_eps = 1e-5f;
  RETURN_IF_ERROR(config.Optional("rms_norm_eps", &spec->norm_eps));
  RETURN_IF_ERROR(config.Expect("attention_bias", false));
  spec->norm_after = spec->query_gate = spec->separate_gate = true;
  spec->qk_norm = QkNorm::kHeads;
  bool scaled = false;
  RETURN_IF_ERROR(config.Optional("mup_enabled", &scaled));
  if (scaled && spec->hidden > 0) spec->embedding_scale = std::sqrt(static_cast<float>(spec->hidden));
  int64_t interval = 4;
  RETURN_IF_ERROR(config.Optional("global_attn_every_n_layers", &interval));
  if (interval != 4 && !config.Has("layer_types")) {
    return InvalidArgument(fmt::format("config.json: 'global_attn_every_n_layers' {} is not supported", interval));
  }
  RETURN_IF_ERROR(ReadWindows(config, ThreeOfFour, spec));
  RETURN_IF_ERROR(config.Need("num_experts", &spec->experts));
  RETURN_IF_ERROR(config.Need("num_experts_per_tok", &spec->experts_used));
  RETURN_IF_ERROR(config.Optional("route_scale", &spec->router.scale));
  spec->router.sigmoid = spec->router_correction = spec->experts_normalised = true;
  int64_t dense = 1;
  RETURN_IF_ERROR(config.Optional("num_dense_layers", &dense));
  if (dense < 0)
    return InvalidArgument(fmt::format("config.json: 'num_dense_layers' is {}; it must not be negative", dense));
  RETURN_IF_ERROR(ReadWidths(
      config, "num_shared_experts", [&](int64_t layer) { return layer < dense; }, spec));
  RETURN_IF_ERROR(ReadRotations(config, spec));
  for (LayerTraits& layer : spec->layer_traits) layer.rotation = layer.window > 0 ? 0 : -1;
  return Status::Ok();
}

/// Both kinds of layers rotate a part of a head.
Status ReadLagunaRotations(const ConfigJson& config, ModelSpec* spec) {
  const char* const kinds[] = {"full_attention", "sliding_attention"};
  int64_t rotated[2] = {};
  for (int i = 0; i < 2; ++i) {
    double part = i == 0 ? 0.5 : 1;
    RETURN_IF_ERROR(config.Optional(fmt::format("rope_parameters.{}.partial_rotary_factor", kinds[i]), &part));
    if (!(part > 0 && part <= 1))
      return InvalidArgument(
          fmt::format("config.json: 'partial_rotary_factor' is {}; it must be above 0 and at most 1", part));
    const auto head_dim = static_cast<double>(std::clamp<int64_t>(spec->head_dim, 0, 1 << 20));
    rotated[i] = static_cast<int64_t>(head_dim * part);
  }
  spec->rotary = std::max(rotated[0], rotated[1]);
  RETURN_IF_ERROR(ValidateSpec(*spec));
  for (int i = 0; i < 2; ++i) {
    if (rotated[i] < 2 || rotated[i] % 2 != 0) {
      return InvalidArgument(fmt::format("config.json: {} rotated dimensions of {}", rotated[i], kinds[i]));
    }
    RETURN_IF_ERROR(AddRotation(config, fmt::format("rope_parameters.{}.", kinds[i]), rotated[i], spec));
  }
  for (LayerTraits& layer : spec->layer_traits) layer.rotation = layer.window > 0 ? 1 : 0;
  return Status::Ok();
}

Status ReadLaguna(const ConfigJson& config, ModelSpec* spec) {
  RETURN_IF_ERROR(ReadBase(config, spec));
  RETURN_IF_ERROR(config.Expect("attention_bias", false));
  RETURN_IF_ERROR(config.Expect("moe_apply_router_weight_on_input", false));
  spec->qk_norm = QkNorm::kHeads;
  spec->query_gate = spec->separate_gate = spec->softplus_gate = true;
  spec->head_gates = config.String("gating", "per-head") == "per-head";
  RETURN_IF_ERROR(ReadWindows(config, NoLayer, spec));
  RETURN_IF_ERROR(config.Need("num_experts", &spec->experts));
  RETURN_IF_ERROR(config.Need("num_experts_per_tok", &spec->experts_used));
  RETURN_IF_ERROR(config.Optional("moe_routed_scaling_factor", &spec->router.scale));
  RETURN_IF_ERROR(config.Optional("moe_router_logit_softcapping", &spec->router_cap));
  spec->router.sigmoid = spec->router_correction = spec->experts_normalised = true;
  const auto dense = [&](int64_t layer) {
    const std::string type = config.String(fmt::format("mlp_layer_types.{}", layer), layer == 0 ? "dense" : "sparse");
    return type == "dense";
  };
  RETURN_IF_ERROR(ReadWidths(config, "num_shared_experts", dense, spec));
  RETURN_IF_ERROR(config.Need("shared_expert_intermediate_size", &spec->common_ffn));
  for (int64_t layer = 0; layer < spec->layers; ++layer) {
    RETURN_IF_ERROR(
        config.Optional(fmt::format("num_attention_heads_per_layer.{}", layer), &TraitsOf(spec, layer).heads));
  }
  return ReadLagunaRotations(config, spec);
}

// Layers without a base of rotary frequencies are not rotated.
Status ReadMuseGlimmer(const ConfigJson& config, ModelSpec* spec) {
  RETURN_IF_ERROR(ReadSizes(config, spec));
  RETURN_IF_ERROR(ReadActivation(config, "hidden_activation", "silu", spec));
  RETURN_IF_ERROR(config.Expect("attention_bias", false));
  spec->rope_pairs = RopePairs::kHalves;
  spec->norm_offset = 1, spec->norm_eps = 1e-5f, spec->post_norm_eps = 1e-8f;
  RETURN_IF_ERROR(config.Optional("rms_norm_eps", &spec->norm_eps));
  RETURN_IF_ERROR(config.Optional("post_norm_eps", &spec->post_norm_eps));
  spec->norm_after = spec->plain_final_norm = spec->embedding_norm = true;
  spec->embedding_norm_weights = spec->head_norm_weights = false;
  spec->qk_norm = QkNorm::kHeads;
  spec->query_gate = spec->separate_gate = true;
  double factor = 3.87;
  RETURN_IF_ERROR(config.Optional("qk_scale_factor", &factor));
  spec->query_scale = static_cast<float>(factor / std::sqrt(static_cast<double>(std::max<int64_t>(spec->head_dim, 1))));
  spec->logit_cap = 20, spec->logit_scale = 0.19611613513818404f;
  RETURN_IF_ERROR(config.Optional("final_logit_softcapping", &spec->logit_cap));
  RETURN_IF_ERROR(config.Optional("output_multiplier", &spec->logit_scale));
  if (!config.Has("layer_types")) return InvalidArgument("config.json: 'layer_types' is missing");
  RETURN_IF_ERROR(ReadWindows(config, NoLayer, spec));
  RETURN_IF_ERROR(ReadRotations(config, spec));
  for (int64_t layer = 0; layer < spec->layers; ++layer) {
    double base = (spec->layers - 1 - layer) % 4 == 0 ? 0 : 1;
    RETURN_IF_ERROR(config.Optional(fmt::format("layer_rope_theta.{}", layer), &base));
    TraitsOf(spec, layer).rotation = base != 0 ? 0 : -1;
  }
  return Status::Ok();
}

bool ButEveryFourth(int64_t layer) { return layer % 4 != 0; }

// Windows, sinks, and a base of rotary frequencies for each layer; layers without one are not rotated.
Status ReadGraniteSwa(const ConfigJson& config, ModelSpec* spec) {
  spec->tied_head = spec->sinks = true;
  RETURN_IF_ERROR(ReadGraniteBase(config, spec));
  RETURN_IF_ERROR(ReadWindows(config, ButEveryFourth, spec));
  RETURN_IF_ERROR(ReadRotations(config, spec));
  std::vector<double> bases;
  if (config.Has("layer_rope_theta")) spec->rotations.clear();
  for (int64_t layer = 0; layer < spec->layers && config.Has("layer_rope_theta"); ++layer) {
    RopeScaling scaling{.base = 0};
    RETURN_IF_ERROR(config.Optional(fmt::format("layer_rope_theta.{}", layer), &scaling.base));
    TraitsOf(spec, layer).rotation = -1;
    if (scaling.base == 0) continue;
    const auto known = std::ranges::find(bases, scaling.base);
    TraitsOf(spec, layer).rotation = static_cast<int>(known - bases.begin());
    if (known != bases.end()) continue;
    bases.push_back(scaling.base);
    ASSIGN_OR_RETURN(Rotation rotation, MakeRotation(scaling, spec->rotary));
    spec->rotations.push_back(std::move(rotation));
  }
  return Status::Ok();
}

}  // namespace

std::span<const HuggingFaceFamily> AlternatingFamilies() {
  static const HuggingFaceFamily kFamilies[] = {
      {"afmoe", ReadAfmoe, kPrefix, {kAttention, kMlp, kExpertsAndShared, kGateProjection, kAfmoe}},
      {"granite_swa", ReadGraniteSwa, kPrefix, {kAttention, kOneNormEach, kMlp}},
      {"laguna", ReadLaguna, kPrefix, {kAttention, kOneNormEach, kMlp, kExpertsAndShared, kLaguna}},
      {"llama4_text", ReadLlama4, kPrefix, {kAttention, kOneNormEach, kLlama4Mlp}},
      {"muse_glimmer_text", ReadMuseGlimmer, kPrefix, {kAttention, kNormsAfter, kMlp, kGateProjection}},
  };
  return kFamilies;
}

}  // namespace ringside
