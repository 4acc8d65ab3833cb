// Families with multi-head latent attention: DeepSeek-V2 and V3, and those built like them.
#include <fmt/format.h>

#include <cmath>

#include "engine/families/llama_names.h"

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

/// With YaRN scores are also scaled, by the square of a magnitude of its own (`mscale_all_dim`).
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
  if (interval != 1) return InvalidArgument(fmt::format("config.json: 'moe_layer_freq' is {}", interval));
  RETURN_IF_ERROR(config.Optional("first_k_dense_replace", &first));
  if (first < 0) return InvalidArgument(fmt::format("config.json: 'first_k_dense_replace' is {}", first));
  const auto dense = [&](int64_t layer) {
    const std::string type = config.String(fmt::format("mlp_layer_types.{}", layer), "");
    return type.empty() ? layer < first : type == "dense";
  };
  return ReadWidths(config, "n_shared_experts", dense, spec);
}

Status ReadGroups(const ConfigJson& config, ModelSpec* spec) {
  RETURN_IF_ERROR(config.Optional("n_group", &spec->router.groups));
  return config.Optional("topk_group", &spec->router.groups_used);
}

Status ReadDeepseekV2(const ConfigJson& config, ModelSpec* spec) {
  RETURN_IF_ERROR(ReadAttention(config, spec));
  RETURN_IF_ERROR(ReadExperts(config, 0, spec));
  const std::string method = config.String("topk_method", "greedy");
  if (method == "group_limited_greedy") {
    RETURN_IF_ERROR(ReadGroups(config, spec));
    spec->router.group_highest = true;
  } else if (method != "greedy") {
    return InvalidArgument(fmt::format("config.json: 'topk_method' '{}' is not supported", method));
  }
  return ReadRotations(config, spec, PartialRotary::kRead);
}

Status ReadSigmoidExperts(const ConfigJson& config, int64_t first, ModelSpec* spec) {
  RETURN_IF_ERROR(ReadAttention(config, spec));
  RETURN_IF_ERROR(ReadExperts(config, first, spec));
  RETURN_IF_ERROR(ReadGroups(config, spec));
  if (const std::string scores = config.String("scoring_func", "sigmoid"); scores != "sigmoid") {
    return InvalidArgument(fmt::format("config.json: 'scoring_func' '{}' is not supported", scores));
  }
  spec->router.sigmoid = spec->router_correction = spec->experts_normalised = true;
  RETURN_IF_ERROR(config.Optional("norm_topk_prob", &spec->experts_normalised));
  return ReadRotations(config, spec, PartialRotary::kRead);
}

Status ReadDeepseekV3(const ConfigJson& config, ModelSpec* spec) { return ReadSigmoidExperts(config, 3, spec); }

Status ReadGlm4MoeLite(const ConfigJson& config, ModelSpec* spec) { return ReadSigmoidExperts(config, 1, spec); }

Status ReadMistral4(const ConfigJson& config, ModelSpec* spec) {
  RETURN_IF_ERROR(ReadAttention(config, spec));
  RETURN_IF_ERROR(ReadExperts(config, 0, spec));
  RETURN_IF_ERROR(ReadGroups(config, spec));
  spec->experts_normalised = true;
  RETURN_IF_ERROR(config.Optional("norm_topk_prob", &spec->experts_normalised));
  RETURN_IF_ERROR(ReadPositionScale(config, spec));
  spec->fused_gate_up = true;
  for (int64_t layer = 0; layer < spec->layers; ++layer) {
    if (!spec->IsMixture(layer)) return InvalidArgument("config.json: dense layers are not supported by this family");
  }
  return ReadRotations(config, spec, PartialRotary::kRead);
}

}  // namespace

std::span<const HuggingFaceFamily> LatentFamilies() {
  static const HuggingFaceFamily kFamilies[] = {
      {"deepseek_v2", ReadDeepseekV2, kPrefix, {kAttention, kLatent, kOneNormEach, kMlp, kExpertsAndShared}},
      {"deepseek_v3",
       ReadDeepseekV3,
       kPrefix,
       {kAttention, kLatent, kOneNormEach, kMlp, kExpertsAndShared, kGlmCorrection}},
      {"glm4_moe_lite",
       ReadGlm4MoeLite,
       kPrefix,
       {kAttention, kLatent, kOneNormEach, kMlp, kExpertsAndShared, kGlmCorrection}},
      {"kimi_k2",
       ReadDeepseekV3,
       kPrefix,
       {kAttention, kLatent, kOneNormEach, kMlp, kExpertsAndShared, kGlmCorrection}},
      {"mistral4", ReadMistral4, kPrefix, {kAttention, kLatent, kOneNormEach, kExpertsAndShared, kPackedExperts}},
  };
  return kFamilies;
}

}  // namespace ringside
