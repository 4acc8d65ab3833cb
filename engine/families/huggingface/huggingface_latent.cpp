// Families with multi-head latent attention: DeepSeek-V2 and V3, and those built like them.
#include <fmt/format.h>

#include <cmath>

#include "engine/families/huggingface/llama_names.h"

namespace ringside {
namespace {

constexpr TensorRule kLatent[] = {
    {TensorRole::kLatentQuery, "layers.{}.self_attn.q_proj.weight"},
    {TensorRole::kQueryDown, "layers.{}.self_attn.q_a_proj.weight"},
    {TensorRole::kQueryDownNorm, "layers.{}.self_attn.q_a_layernorm.weight"},
    {TensorRole::kQueryUp, "layers.{}.self_attn.q_b_proj.weight"},
    {TensorRole::kLatentDown, "layers.{}.self_attn.kv_a_proj_with_mqa.weight"},
    {TensorRole::kLatentNorm, "layers.{}.self_attn.kv_a_layernorm.weight"},
    {TensorRole::kLatentUp, "layers.{}.self_attn.kv_b_proj.weight"},
};

constexpr TensorRule kPackedExperts[] = {
    {TensorRole::kExpertGateUp, "layers.{}.mlp.experts.gate_up_proj"},
    {TensorRole::kExpertDown, "layers.{}.mlp.experts.down_proj"},
};

/// YaRN also scales the scores, by the square of a separate magnitude (`mscale_all_dim`).
Status ReadScoreScale(const ConfigJson& config, ModelSpec* spec) {
  const std::string in = config.Has("rope_parameters") ? "rope_parameters." : "rope_scaling.";
  double all = 0, factor = 1;
  if (config.String(in + "rope_type", config.String(in + "type", "default")) != "default") {
    RETURN_IF_ERROR(config.Optional(in + "mscale_all_dim", &all));
    RETURN_IF_ERROR(config.Optional(in + "factor", &factor));
  }
  const double magnitude = factor > 1 ? 0.1 * all * std::log(factor) + 1 : 1;
  const auto size = static_cast<double>(spec->latent.plain + spec->rotary);
  spec->query_scale = static_cast<float>(magnitude * magnitude / std::sqrt(size));
  return Status::Ok();
}

/// The sizes of attention. A cached key is the latent and the rotated key, whatever `head_dim` and
/// `num_key_value_heads` are.
Status ReadAttention(const ConfigJson& config, ModelSpec* spec) {
  LatentAttention& latent = spec->latent;
  spec->head_dim = 1;  // not read
  RETURN_IF_ERROR(ReadBase(config, spec));
  RETURN_IF_ERROR(config.Expect("attention_bias", false));
  RETURN_IF_ERROR(config.ExpectNone("index_topk"));  // sparse attention (DSA)
  RETURN_IF_ERROR(config.Need("kv_lora_rank", &latent.rank));
  RETURN_IF_ERROR(config.Optional("q_lora_rank", &latent.query_rank));
  RETURN_IF_ERROR(config.Need("qk_nope_head_dim", &latent.plain));
  RETURN_IF_ERROR(config.Need("qk_rope_head_dim", &spec->rotary));
  RETURN_IF_ERROR(config.Need("v_head_dim", &latent.value));
  bool interleaved = true;
  RETURN_IF_ERROR(config.Optional("rope_interleave", &interleaved));
  spec->rope_pairs = interleaved ? RopePairs::kAdjacent : RopePairs::kHalves;
  for (const int64_t size : {latent.rank, latent.plain, spec->rotary, latent.value}) {
    if (size < 1 || size > 4096) {
      return InvalidArgument(fmt::format("config.json: latent attention with a part of {} dimensions", size));
    }
  }
  spec->kv_heads = 1;
  spec->head_dim = latent.rank + spec->rotary;
  return ReadScoreScale(config, spec);
}

/// `first`: number of leading dense layers if the file does not have it.
Status ReadExperts(const ConfigJson& config, int64_t first, ModelSpec* spec) {
  RETURN_IF_ERROR(config.Need("n_routed_experts", &spec->experts));
  RETURN_IF_ERROR(config.Need("num_experts_per_tok", &spec->experts_used));
  RETURN_IF_ERROR(config.Optional("routed_scaling_factor", &spec->router.scale));
  int64_t interval = 1;
  RETURN_IF_ERROR(config.Optional("moe_layer_freq", &interval));
  if (interval != 1)
    return InvalidArgument(fmt::format("config.json: 'moe_layer_freq' is {}; only 1 is supported", interval));
  RETURN_IF_ERROR(config.Optional("first_k_dense_replace", &first));
  if (first < 0)
    return InvalidArgument(fmt::format("config.json: 'first_k_dense_replace' is {}; it must not be negative", first));
  const auto dense = [&](int64_t layer) {
    const std::string type = config.String(fmt::format("mlp_layer_types.{}", layer), "");
    return type.empty() ? layer < first : type == "dense";
  };
  return ReadWidths(config, "n_shared_experts", dense, spec);
}

Status ReadDeepseekV2(const ConfigJson& config, ModelSpec* spec) {
  RETURN_IF_ERROR(ReadAttention(config, spec));
  RETURN_IF_ERROR(ReadExperts(config, 0, spec));
  const std::string method = config.String("topk_method", "greedy");
  if (method == "group_limited_greedy") {
    RETURN_IF_ERROR(ReadExpertGroups(config, spec));
    spec->router.group_highest = true;
  } else if (method != "greedy") {
    return InvalidArgument(fmt::format("config.json: 'topk_method' '{}' is not supported", method));
  }
  return ReadRotations(config, spec, PartialRotary::kRead);
}

Status ReadSigmoidExperts(const ConfigJson& config, int64_t first, ModelSpec* spec) {
  RETURN_IF_ERROR(ReadAttention(config, spec));
  RETURN_IF_ERROR(ReadExperts(config, first, spec));
  if (const std::string scores = config.String("scoring_func", "sigmoid"); scores != "sigmoid") {
    return InvalidArgument(fmt::format("config.json: 'scoring_func' '{}' is not supported", scores));
  }
  RETURN_IF_ERROR(ReadCorrectedRouter(config, spec));
  return ReadRotations(config, spec, PartialRotary::kRead);
}

Status ReadDeepseekV3(const ConfigJson& config, ModelSpec* spec) { return ReadSigmoidExperts(config, 3, spec); }

Status ReadGlm4MoeLite(const ConfigJson& config, ModelSpec* spec) { return ReadSigmoidExperts(config, 1, spec); }

Status ReadMistral4(const ConfigJson& config, ModelSpec* spec) {
  RETURN_IF_ERROR(ReadAttention(config, spec));
  RETURN_IF_ERROR(ReadExperts(config, 0, spec));
  RETURN_IF_ERROR(ReadExpertGroups(config, spec));
  spec->experts_normalised = true;
  RETURN_IF_ERROR(config.Optional("norm_topk_prob", &spec->experts_normalised));
  RETURN_IF_ERROR(ReadPositionScale(config, spec));
  spec->fused_experts = true;
  return ReadRotations(config, spec, PartialRotary::kRead);
}

// Kimi Delta Attention, and attention without positions in some layers. Lists of layers count from 1.
constexpr TensorRule kKimiLinear[] = {
    {TensorRole::kRecurrentQuery, "layers.{}.self_attn.q_proj.weight"},
    {TensorRole::kRecurrentKey, "layers.{}.self_attn.k_proj.weight"},
    {TensorRole::kRecurrentValue, "layers.{}.self_attn.v_proj.weight"},
    {TensorRole::kRatesDown, "layers.{}.self_attn.f_a_proj.weight"},
    {TensorRole::kOutputGateDown, "layers.{}.self_attn.g_a_proj.weight"},
    {TensorRole::kRecurrentBeta, "layers.{}.self_attn.b_proj.weight"},
    {TensorRole::kRatesUp, "layers.{}.self_attn.f_b_proj.weight"},
    {TensorRole::kOutputGateUp, "layers.{}.self_attn.g_b_proj.weight"},
    {TensorRole::kQueryConvolution, "layers.{}.self_attn.q_conv1d.weight"},
    {TensorRole::kKeyConvolution, "layers.{}.self_attn.k_conv1d.weight"},
    {TensorRole::kValueConvolution, "layers.{}.self_attn.v_conv1d.weight"},
    {TensorRole::kRateBias, "layers.{}.self_attn.dt_bias"},
    {TensorRole::kRate, "layers.{}.self_attn.A_log"},
    {TensorRole::kRecurrentNorm, "layers.{}.self_attn.o_norm.weight"},
    {TensorRole::kRecurrentOut, "layers.{}.self_attn.o_proj.weight"},
    {TensorRole::kCommonGate, "layers.{}.block_sparse_moe.shared_experts.gate_proj.weight"},
    {TensorRole::kCommonUp, "layers.{}.block_sparse_moe.shared_experts.up_proj.weight"},
    {TensorRole::kCommonDown, "layers.{}.block_sparse_moe.shared_experts.down_proj.weight"},
    {TensorRole::kRouterCorrection, "layers.{}.block_sparse_moe.gate.e_score_correction_bias"},
};
constexpr MixerName kKimiMixers[] = {{"linear_attention", Mixer::kKda}, {"full_attention", Mixer::kAttention}};

Status ReadKimiMixers(const ConfigJson& config, ModelSpec* spec) {
  const std::string attention = "linear_attn_config.full_attn_layers";
  for (int64_t layer = 0; layer < spec->layers; ++layer) {
    const bool linear = config.Has(attention) || layer == 0 || layer % 4 != 0;
    if (linear) spec->layer_traits[static_cast<size_t>(layer)].mixer = Mixer::kKda;
  }
  for (int64_t i = 0; config.Has(fmt::format("{}.{}", attention, i)); ++i) {
    int64_t number = 0;
    RETURN_IF_ERROR(config.Need(fmt::format("{}.{}", attention, i), &number));
    if (number < 1 || number > spec->layers) {
      return InvalidArgument(fmt::format("config.json: '{}' has layer {} of {}", attention, number, spec->layers));
    }
    spec->layer_traits[static_cast<size_t>(number - 1)].mixer = Mixer::kAttention;
  }
  return ReadMixers(config, "layer_types", kKimiMixers, spec);
}

Status ReadKimiLinear(const ConfigJson& config, ModelSpec* spec) {
  RETURN_IF_ERROR(config.Optional("model_max_length", &spec->trained_context));
  RETURN_IF_ERROR(ReadAttention(config, spec));
  RETURN_IF_ERROR(config.Need("num_experts", &spec->experts));
  RETURN_IF_ERROR(config.Need("num_experts_per_token", &spec->experts_used));
  RETURN_IF_ERROR(config.Optional("routed_scaling_factor", &spec->router.scale));
  RETURN_IF_ERROR(config.Optional("num_expert_group", &spec->router.groups));
  RETURN_IF_ERROR(config.Optional("topk_group", &spec->router.groups_used));
  spec->router.sigmoid = spec->router_correction = spec->experts_normalised = true;
  RETURN_IF_ERROR(config.Optional("moe_renormalize", &spec->experts_normalised));
  int64_t first = 1;
  RETURN_IF_ERROR(config.Optional("first_k_dense_replace", &first));
  const auto dense = [&](int64_t layer) {
    const std::string type = config.String(fmt::format("mlp_layer_types.{}", layer), "");
    return type.empty() ? layer < first : type == "dense";
  };
  RETURN_IF_ERROR(ReadWidths(config, "num_shared_experts", dense, spec));
  RETURN_IF_ERROR(ReadKimiMixers(config, spec));
  for (LayerTraits& layer : spec->layer_traits) layer.rotation = -1;
  RecurrenceShape& sizes = spec->recurrence;
  sizes = {.mixer = Mixer::kKda, .value_heads = 32, .value_size = 128, .kernel = 4};
  RETURN_IF_ERROR(config.Optional("linear_num_heads", &sizes.value_heads));
  RETURN_IF_ERROR(config.Optional("linear_head_dim", &sizes.value_size));
  RETURN_IF_ERROR(config.Optional("linear_conv_kernel_dim", &sizes.kernel));
  RETURN_IF_ERROR(config.Optional("linear_attn_config.num_heads", &sizes.value_heads));
  RETURN_IF_ERROR(config.Optional("linear_attn_config.head_dim", &sizes.value_size));
  RETURN_IF_ERROR(config.Optional("linear_attn_config.short_conv_kernel_size", &sizes.kernel));
  sizes.key_heads = sizes.value_heads, sizes.key_size = spec->recurrent_rank = sizes.value_size;
  spec->recurrence_matrices = RecurrenceMatrices::kEach;
  spec->recurrent_norm_eps = spec->norm_eps;
  return ValidateSpec(*spec);
}

}  // namespace

std::span<const HuggingFaceFamily> LatentFamilies() {
  static const HuggingFaceFamily kFamilies[] = {
      {"deepseek_v2", ReadDeepseekV2, kPrefix, {kAttention, kLatent, kOneNormEach, kMlp, kExpertsAndShared}},
      {"deepseek_v3",
       ReadDeepseekV3,
       kPrefix,
       {kAttention, kLatent, kOneNormEach, kMlp, kExpertsAndShared, kGlmCorrection},
       kNextLayerDraft},
      {"glm4_moe_lite",
       ReadGlm4MoeLite,
       kPrefix,
       {kAttention, kLatent, kOneNormEach, kMlp, kExpertsAndShared, kGlmCorrection},
       kNextLayerDraft},
      {"kimi_k2",
       ReadDeepseekV3,
       kPrefix,
       {kAttention, kLatent, kOneNormEach, kMlp, kExpertsAndShared, kGlmCorrection},
       kNextLayerDraft},
      {"kimi_linear", ReadKimiLinear, kPrefix, {kAttention, kLatent, kOneNormEach, kMlp, kMixtralExperts, kKimiLinear}},
      {"mistral4", ReadMistral4, kPrefix, {kAttention, kLatent, kOneNormEach, kMlp, kExpertsAndShared, kPackedExperts}},
  };
  return kFamilies;
}

}  // namespace ringside
