// Families from 2025 on whose names are like Llama's.
#include <fmt/format.h>

#include <algorithm>

#include "engine/families/huggingface/llama_names.h"
#include "engine/families/rope_scaling.h"

namespace ringside {
namespace {

constexpr TensorRule kErnieCorrection[] = {
    {.role = TensorRole::kRouterCorrection,
     .name = "layers.{}.mlp.moe_statics.e_score_correction_bias",
     .one_row = true},
};
constexpr TensorRule kMiniMaxCorrection[] = {
    {TensorRole::kRouterCorrection, "layers.{}.block_sparse_moe.e_score_correction_bias"},
};
constexpr TensorRule kHunyuanNorms[] = {
    {TensorRole::kQueryNorm, "layers.{}.self_attn.query_layernorm.weight"},
    {TensorRole::kKeyNorm, "layers.{}.self_attn.key_layernorm.weight"},
};
constexpr TensorRule kApertusNorms[] = {
    {TensorRole::kAttentionNorm, "layers.{}.attention_layernorm.weight"},
    {TensorRole::kMlpNorm, "layers.{}.feedforward_layernorm.weight"},
};
constexpr TensorRule kHunyuanExperts[] = {
    {TensorRole::kRouter, "layers.{}.mlp.gate.wg.weight"},
    {TensorRole::kCommonGate, "layers.{}.mlp.shared_mlp.gate_proj.weight"},
    {TensorRole::kCommonUp, "layers.{}.mlp.shared_mlp.up_proj.weight"},
    {TensorRole::kCommonDown, "layers.{}.mlp.shared_mlp.down_proj.weight"},
};
constexpr TensorRule kHy3Router[] = {
    {TensorRole::kRouter, "layers.{}.mlp.router.gate.weight"},
    {TensorRole::kRouterCorrection, "layers.{}.mlp.expert_bias"},
};
constexpr TensorRule kExaoneCorrection[] = {
    {TensorRole::kRouterCorrection, "layers.{}.mlp.e_score_correction_bias"},
};
constexpr TensorRule kHeadBias[] = {{TensorRole::kHeadBias, "lm_head.bias"}};
constexpr TensorRule kXieluSlopes[] = {
    {TensorRole::kXieluPositive, "layers.{}.mlp.act_fn.alpha_p"},
    {TensorRole::kXieluNegative, "layers.{}.mlp.act_fn.alpha_n"},
};

}  // namespace

Status ReadWidths(const ConfigJson& config, std::string_view shared_experts,
                  const std::function<bool(int64_t)>& is_dense, ModelSpec* spec) {
  int64_t shared = 0;
  RETURN_IF_ERROR(config.Optional(shared_experts, &shared));
  const int64_t dense = spec->ffn;
  RETURN_IF_ERROR(config.Need("moe_intermediate_size", &spec->ffn));
  if (spec->ffn < 1 || spec->ffn > 1 << 20 || shared < 0 || shared > 64) {
    return InvalidArgument(
        fmt::format("config.json: {} shared experts of width {} are not supported", shared, spec->ffn));
  }
  spec->common_ffn = shared * spec->ffn;
  RETURN_IF_ERROR(MakeLayerTraits(spec));
  for (int64_t layer = 0; layer < spec->layers; ++layer) {
    if (!is_dense(layer)) continue;
    if (dense < 1) return InvalidArgument(fmt::format("config.json: 'intermediate_size' of dense layers is {}", dense));
    spec->layer_traits[static_cast<size_t>(layer)].dense_ffn = dense;
  }
  return Status::Ok();
}

Status ReadExpertGroups(const ConfigJson& config, ModelSpec* spec) {
  RETURN_IF_ERROR(config.Optional("n_group", &spec->router.groups));
  return config.Optional("topk_group", &spec->router.groups_used);
}

Status ReadCorrectedRouter(const ConfigJson& config, ModelSpec* spec) {
  RETURN_IF_ERROR(ReadExpertGroups(config, spec));
  spec->router.sigmoid = spec->router_correction = spec->experts_normalised = true;
  return config.Optional("norm_topk_prob", &spec->experts_normalised);
}

Status ReadPositionScale(const ConfigJson& config, ModelSpec* spec) {
  RETURN_IF_ERROR(config.Optional("rope_parameters.llama_4_scaling_beta", &spec->position_scale));
  if (spec->position_scale == 0) return Status::Ok();
  return config.Need("rope_parameters.original_max_position_embeddings", &spec->position_scale_context);
}

namespace {

Status ReadGlm4Moe(const ConfigJson& config, ModelSpec* spec) {
  RETURN_IF_ERROR(ReadBase(config, spec));
  RETURN_IF_ERROR(config.Optional("attention_bias", &spec->qkv_bias));
  bool norms = false;
  RETURN_IF_ERROR(config.Optional("use_qk_norm", &norms));
  if (norms) spec->qk_norm = QkNorm::kHeads;
  RETURN_IF_ERROR(config.Need("n_routed_experts", &spec->experts));
  RETURN_IF_ERROR(config.Need("num_experts_per_tok", &spec->experts_used));
  RETURN_IF_ERROR(config.Optional("routed_scaling_factor", &spec->router.scale));
  RETURN_IF_ERROR(ReadCorrectedRouter(config, spec));
  int64_t first = 1;
  RETURN_IF_ERROR(config.Optional("first_k_dense_replace", &first));
  if (first < 0)
    return InvalidArgument(fmt::format("config.json: 'first_k_dense_replace' is {}; it must not be negative", first));
  RETURN_IF_ERROR(ReadWidths(
      config, "n_shared_experts", [&](int64_t layer) { return layer < first; }, spec));
  return ReadRotations(config, spec, PartialRotary::kRead, {.partial = 0.5});
}

// As GLM-4.5 without leading dense layers or norms of queries and keys.
Status ReadSolarOpen(const ConfigJson& config, ModelSpec* spec) {
  RETURN_IF_ERROR(ReadBase(config, spec));
  RETURN_IF_ERROR(config.Optional("attention_bias", &spec->qkv_bias));
  RETURN_IF_ERROR(config.Need("n_routed_experts", &spec->experts));
  RETURN_IF_ERROR(config.Need("num_experts_per_tok", &spec->experts_used));
  RETURN_IF_ERROR(config.Optional("routed_scaling_factor", &spec->router.scale));
  RETURN_IF_ERROR(ReadCorrectedRouter(config, spec));
  spec->ffn = 0;
  RETURN_IF_ERROR(ReadWidths(
      config, "n_shared_experts", [](int64_t) { return false; }, spec));
  return ReadRotations(config, spec, PartialRotary::kRead, {.base = 1e6});
}

Status ReadMiniMaxM2(const ConfigJson& config, ModelSpec* spec) {
  RETURN_IF_ERROR(ReadBase(config, spec));
  RETURN_IF_ERROR(config.Need("num_local_experts", &spec->experts));
  RETURN_IF_ERROR(config.Need("num_experts_per_tok", &spec->experts_used));
  RETURN_IF_ERROR(config.Expect("use_qk_norm", true));
  if (const std::string scores = config.String("scoring_func", "sigmoid"); scores != "sigmoid") {
    return InvalidArgument(fmt::format("config.json: 'scoring_func' '{}' is not supported", scores));
  }
  RETURN_IF_ERROR(MakeLayerTraits(spec));
  for (int64_t layer = 0; layer < spec->layers; ++layer) {
    int64_t kind = 1;
    RETURN_IF_ERROR(config.Optional(fmt::format("attn_type_list.{}", layer), &kind));
    if (kind != 1)
      return InvalidArgument(fmt::format("config.json: linear attention (layer {}) is not supported", layer));
  }
  spec->router.sigmoid = spec->router_correction = spec->experts_normalised = true;
  spec->qk_norm = QkNorm::kRows;
  RETURN_IF_ERROR(config.Optional("rotary_dim", &spec->rotary));
  return ReadRotations(config, spec, PartialRotary::kRead, {.base = 5e6});
}

Status ReadMinistral3(const ConfigJson& config, ModelSpec* spec) {
  RETURN_IF_ERROR(ReadBase(config, spec));
  RETURN_IF_ERROR(ReadWindows(config, EveryLayer, spec));
  RETURN_IF_ERROR(ReadPositionScale(config, spec));
  return ReadRotations(config, spec);
}

Status ReadSeedOss(const ConfigJson& config, ModelSpec* spec) {
  RETURN_IF_ERROR(ReadBase(config, spec));
  spec->qkv_bias = true;
  RETURN_IF_ERROR(config.Optional("attention_bias", &spec->qkv_bias));
  RETURN_IF_ERROR(config.Optional("attention_out_bias", &spec->attention_out_bias));
  RETURN_IF_ERROR(config.Optional("mlp_bias", &spec->mlp_bias));
  return ReadRotations(config, spec);
}

Status ReadErnieBase(const ConfigJson& config, ModelSpec* spec) {
  spec->tied_head = true;
  RETURN_IF_ERROR(ReadBase(config, spec));
  spec->rope_pairs = RopePairs::kAdjacent;
  bool biases = false;
  RETURN_IF_ERROR(config.Optional("use_bias", &biases));
  spec->qkv_bias = spec->attention_out_bias = spec->mlp_bias = biases;
  return Status::Ok();
}

Status ReadErnie(const ConfigJson& config, ModelSpec* spec) {
  RETURN_IF_ERROR(ReadErnieBase(config, spec));
  return ReadRotations(config, spec, PartialRotary::kIgnored, {.base = 5e5});
}

Status ReadErnieMoe(const ConfigJson& config, ModelSpec* spec) {
  RETURN_IF_ERROR(config.Expect("use_bias", false));
  RETURN_IF_ERROR(ReadErnieBase(config, spec));
  RETURN_IF_ERROR(config.Need("moe_num_experts", &spec->experts));
  RETURN_IF_ERROR(config.Need("moe_k", &spec->experts_used));
  spec->router_correction = spec->experts_normalised = true;
  int64_t begin = 1, last = -1, interval = 1;
  RETURN_IF_ERROR(config.Optional("moe_layer_start_index", &begin));
  RETURN_IF_ERROR(config.Optional("moe_layer_end_index", &last));
  RETURN_IF_ERROR(config.Optional("moe_layer_interval", &interval));
  if (interval < 1)
    return InvalidArgument(fmt::format("config.json: 'moe_layer_interval' is {}; it must be at least 1", interval));
  if (last == -1) last = spec->layers;
  const auto dense = [&](int64_t layer) { return (layer + 1) % interval != 0 || layer < begin || layer > last; };
  RETURN_IF_ERROR(ReadWidths(config, "moe_num_shared_experts", dense, spec));
  return ReadRotations(config, spec, PartialRotary::kIgnored, {.base = 5e5});
}

Status ReadHunyuan(const ConfigJson& config, ModelSpec* spec) {
  RETURN_IF_ERROR(ReadBase(config, spec));
  RETURN_IF_ERROR(config.Expect("use_qk_norm", true));
  RETURN_IF_ERROR(config.Expect("use_cla", false));
  RETURN_IF_ERROR(config.Optional("attention_bias", &spec->qkv_bias));
  spec->attention_out_bias = spec->qkv_bias;
  spec->qk_norm = QkNorm::kRotatedHeads;
  return ReadRotations(config, spec);
}

// If some layers have a window, the others are not rotated.
Status ReadExaone4(const ConfigJson& config, ModelSpec* spec) {
  RETURN_IF_ERROR(ReadBase(config, spec));
  spec->norm_before = false;
  spec->norm_after = true;
  spec->qk_norm = QkNorm::kHeads;
  const std::string key = "sliding_window_pattern";
  int64_t interval = 4;
  if (!config.Has("layer_types") && config.String(key, "") != "LLLG") RETURN_IF_ERROR(config.Optional(key, &interval));
  if (interval != 4) return InvalidArgument(fmt::format("config.json: '{}' {} is not supported", key, interval));
  RETURN_IF_ERROR(ReadWindows(config, ThreeOfFour, spec));
  RETURN_IF_ERROR(ReadRotations(config, spec));
  if (!config.Has("sliding_window")) return Status::Ok();
  for (LayerTraits& layer : spec->layer_traits) layer.rotation = layer.window > 0 ? 0 : -1;
  return Status::Ok();
}

/// Whether a layer has a plain MLP, by the file's list; otherwise if it is among the `first` ones.
bool IsDense(const ConfigJson& config, int64_t layer, int64_t first) {
  const std::string type = config.String(fmt::format("mlp_layer_types.{}", layer), "");
  return type.empty() ? layer < first : type == "dense";
}

// Pre-norm, unlike EXAONE 4. Layers without a window are not rotated.
Status ReadExaoneMoe(const ConfigJson& config, ModelSpec* spec) {
  RETURN_IF_ERROR(ReadBase(config, spec));
  spec->qk_norm = QkNorm::kHeads;
  RETURN_IF_ERROR(config.Need("num_experts", &spec->experts));
  RETURN_IF_ERROR(config.Need("num_experts_per_tok", &spec->experts_used));
  spec->router.scale = 2.5f;
  RETURN_IF_ERROR(config.Optional("routed_scaling_factor", &spec->router.scale));
  RETURN_IF_ERROR(ReadCorrectedRouter(config, spec));
  int64_t first = 1;
  RETURN_IF_ERROR(config.Optional("first_k_dense_replace", &first));
  RETURN_IF_ERROR(ReadWidths(
      config, "num_shared_experts", [&](int64_t layer) { return IsDense(config, layer, first); }, spec));
  RETURN_IF_ERROR(ReadWindows(config, ThreeOfFour, spec));
  RETURN_IF_ERROR(ReadRotations(config, spec));
  if (!config.Has("sliding_window")) return Status::Ok();
  for (LayerTraits& layer : spec->layer_traits) layer.rotation = layer.window > 0 ? 0 : -1;
  return Status::Ok();
}

/// A number that some files list by layer. ERRORS: kInvalidArgument if layers differ.
Status NeedSame(const ConfigJson& config, const std::string& key, int64_t layers, int64_t* value) {
  if (!config.Has(key + ".0")) return config.Need(key, value);
  RETURN_IF_ERROR(config.Need(key + ".0", value));
  for (int64_t layer = 1; layer < layers; ++layer) {
    int64_t one = 0;
    RETURN_IF_ERROR(config.Need(fmt::format("{}.{}", key, layer), &one));
    if (one == *value) continue;
    return InvalidArgument(
        fmt::format("config.json: '{}' is {} in layer 0 and {} in layer {}", key, *value, one, layer));
  }
  return Status::Ok();
}

Status ReadHunyuanMoe(const ConfigJson& config, ModelSpec* spec) {
  RETURN_IF_ERROR(ReadBase(config, spec));
  RETURN_IF_ERROR(config.Expect("use_qk_norm", true));
  RETURN_IF_ERROR(config.Expect("use_cla", false));
  RETURN_IF_ERROR(config.Optional("attention_bias", &spec->qkv_bias));
  spec->attention_out_bias = spec->qkv_bias;
  spec->qk_norm = QkNorm::kRotatedHeads;
  RETURN_IF_ERROR(CheckLayers(*spec));
  RETURN_IF_ERROR(NeedSame(config, "num_experts", spec->layers, &spec->experts));
  RETURN_IF_ERROR(NeedSame(config, "moe_topk", spec->layers, &spec->experts_used));
  spec->experts_normalised = true;
  int64_t shared = 1;
  if (config.Has("num_shared_expert")) {
    RETURN_IF_ERROR(NeedSame(config, "num_shared_expert", spec->layers, &shared));
  }
  if (shared != 1) return InvalidArgument(fmt::format("config.json: 'num_shared_expert' {} is not supported", shared));
  spec->common_ffn = spec->ffn;
  if (config.Has("moe_intermediate_size")) {
    RETURN_IF_ERROR(NeedSame(config, "moe_intermediate_size", spec->layers, &spec->ffn));
  }
  return ReadRotations(config, spec);
}

Status ReadHy3(const ConfigJson& config, ModelSpec* spec) {
  RETURN_IF_ERROR(ReadBase(config, spec));
  RETURN_IF_ERROR(config.Expect("attention_bias", false));
  RETURN_IF_ERROR(config.Expect("mlp_bias", false));
  spec->qk_norm = QkNorm::kHeads;
  RETURN_IF_ERROR(config.Need("num_experts", &spec->experts));
  RETURN_IF_ERROR(config.Need("num_experts_per_tok", &spec->experts_used));
  spec->router.scale = 2.826f;
  RETURN_IF_ERROR(config.Optional("router_scaling_factor", &spec->router.scale));
  spec->router.sigmoid = spec->router_correction = spec->experts_normalised = true;
  RETURN_IF_ERROR(ReadWidths(
      config, "num_shared_experts", [&](int64_t layer) { return IsDense(config, layer, 1); }, spec));
  return ReadRotations(config, spec, PartialRotary::kIgnored, {.base = 11158840});
}

Status ReadApertus(const ConfigJson& config, ModelSpec* spec) {
  RETURN_IF_ERROR(ReadBase(config, spec));
  RETURN_IF_ERROR(config.Optional("attention_bias", &spec->qkv_bias));
  spec->attention_out_bias = spec->qkv_bias;
  spec->gated = false;
  spec->qk_norm = QkNorm::kHeads;
  return ReadRotations(config, spec, PartialRotary::kIgnored, {.base = 12e6});
}

Status ReadPhiMoe(const ConfigJson& config, ModelSpec* spec) {
  RETURN_IF_ERROR(ReadBase(config, spec));
  spec->norm = NormKind::kLayer;
  spec->norm_biases = true;
  RETURN_IF_ERROR(config.Optional("attention_bias", &spec->qkv_bias));
  spec->attention_out_bias = spec->qkv_bias;
  RETURN_IF_ERROR(config.Optional("lm_head_bias", &spec->head_bias));
  RETURN_IF_ERROR(config.Need("num_local_experts", &spec->experts));
  RETURN_IF_ERROR(config.Need("num_experts_per_tok", &spec->experts_used));
  double noise = 0.01;
  RETURN_IF_ERROR(config.Optional("router_jitter_noise", &noise));
  spec->router.margin = static_cast<float>(2 * noise);
  RETURN_IF_ERROR(CheckPositive("router's margin", spec->router.margin));
  if (spec->experts_used != 2) {
    return InvalidArgument(fmt::format("config.json: 'num_experts_per_tok' {} is not supported", spec->experts_used));
  }
  RETURN_IF_ERROR(ReadWindows(config, EveryLayer, spec));
  return ReadRotations(config, spec, PartialRotary::kIgnored, {.base = 1e6});
}

Status ReadArcee(const ConfigJson& config, ModelSpec* spec) {
  RETURN_IF_ERROR(ReadBase(config, spec));
  RETURN_IF_ERROR(config.Optional("attention_bias", &spec->qkv_bias));
  spec->attention_out_bias = spec->qkv_bias;
  RETURN_IF_ERROR(config.Optional("mlp_bias", &spec->mlp_bias));
  spec->gated = false;
  return ReadRotations(config, spec);
}

}  // namespace

std::span<const HuggingFaceFamily> RecentFamilies() {
  static const HuggingFaceFamily kFamilies[] = {
      {"apertus", ReadApertus, kPrefix, {kAttention, kApertusNorms, kMlp, kXieluSlopes}},
      {"arcee", ReadArcee, kPrefix, {kAttention, kOneNormEach, kMlp}},
      {"ernie4_5", ReadErnie, kPrefix, {kAttention, kOneNormEach, kMlp}},
      {"ernie4_5_moe", ReadErnieMoe, kPrefix, {kAttention, kOneNormEach, kMlp, kExpertsAndShared, kErnieCorrection}},
      {"exaone4", ReadExaone4, kPrefix, {kAttention, kNormsAfter, kMlp}},
      {"exaone_moe", ReadExaoneMoe, kPrefix, {kAttention, kOneNormEach, kMlp, kExpertsAndShared, kExaoneCorrection}},
      {"glm4_moe",
       ReadGlm4Moe,
       kPrefix,
       {kAttention, kOneNormEach, kMlp, kExpertsAndShared, kGlmCorrection},
       kNextLayerDraft},
      {"hunyuan_v1_dense", ReadHunyuan, kPrefix, {kAttention, kHunyuanNorms, kOneNormEach, kMlp}},
      {"hunyuan_v1_moe",
       ReadHunyuanMoe,
       kPrefix,
       {kAttention, kHunyuanNorms, kOneNormEach, kQwenExperts, kHunyuanExperts}},
      {"hy_v3", ReadHy3, kPrefix, {kAttention, kOneNormEach, kMlp, kQwenExperts, kHunyuanExperts, kHy3Router}},
      {"minimax_m2", ReadMiniMaxM2, kPrefix, {kAttention, kOneNormEach, kMixtralExperts, kMiniMaxCorrection}},
      {"phimoe", ReadPhiMoe, kPrefix, {kAttention, kOneNormEach, kMixtralExperts, kHeadBias}},
      {"ministral3", ReadMinistral3, kPrefix, {kAttention, kOneNormEach, kMlp}},
      {"solar_open", ReadSolarOpen, kPrefix, {kAttention, kOneNormEach, kExpertsAndShared, kGlmCorrection}},
      {"seed_oss", ReadSeedOss, kPrefix, {kAttention, kOneNormEach, kMlp}},
  };
  return kFamilies;
}

}  // namespace ringside
