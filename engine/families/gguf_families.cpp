#include "engine/families/gguf_families.h"

#include <algorithm>
#include <cmath>

namespace ringside {
namespace {

// GGUF does not store the activation: an architecture implies it (that of its first model if they differ).
void SetOlder(Activation activation, ModelSpec* spec) {
  spec->norm = NormKind::kLayer;
  spec->gated = false;
  spec->activation = activation;
}

// Keeps the window, read for all layers, only in some.
void KeepWindows(bool (*slides)(int64_t layer), ModelSpec* spec) {
  for (size_t layer = 0; layer < spec->layer_traits.size(); ++layer) {
    if (!slides(static_cast<int64_t>(layer))) spec->layer_traits[layer].window = 0;
  }
}

Status SetLlama(const GgufKeys&, ModelSpec* spec) {
  spec->experts_normalised = true;  // Mixtral
  return Status::Ok();
}

Status SetQwen(const GgufKeys&, ModelSpec* spec) {
  spec->layer_traits.clear();  // their windows are never enabled
  return Status::Ok();
}

Status SetQwen2Moe(const GgufKeys& keys, ModelSpec* spec) {
  RETURN_IF_ERROR(keys.Need("expert_shared_feed_forward_length", &spec->shared_ffn));
  return SetQwen(keys, spec);
}

Status SetQwen3(const GgufKeys& keys, ModelSpec* spec) {
  spec->qk_norm = QkNorm::kHeads;
  return SetQwen(keys, spec);
}

Status SetQwen3Moe(const GgufKeys& keys, ModelSpec* spec) {
  spec->experts_normalised = true;
  return SetQwen3(keys, spec);
}

Status SetOlmoe(const GgufKeys&, ModelSpec* spec) {
  spec->qk_norm = QkNorm::kRows;
  return Status::Ok();
}

// Every few layers attention, otherwise a gated DeltaNet.
Status SetQwen3Next(const GgufKeys& keys, ModelSpec* spec) {
  spec->qk_norm = QkNorm::kHeads;
  spec->query_gate = spec->stored_rates = spec->experts_normalised = true;
  spec->fused_rates = spec->architecture == "qwen3next";
  if (spec->experts > 0) RETURN_IF_ERROR(keys.Need("expert_shared_feed_forward_length", &spec->shared_ffn));
  int64_t interval = 4;
  RETURN_IF_ERROR(keys.Optional("full_attention_interval", &interval));
  if (interval < 1) {
    return InvalidArgument(
        fmt::format("the file's '{}' is {}; it must be at least 1", keys.Name("full_attention_interval"), interval));
  }
  RETURN_IF_ERROR(MakeLayerTraits(spec));
  for (int64_t layer = 0; layer < spec->layers; ++layer) {
    if ((layer + 1) % interval != 0) spec->layer_traits[static_cast<size_t>(layer)].mixer = Mixer::kDeltaNet;
  }
  RecurrenceShape& sizes = spec->recurrence;
  sizes.mixer = Mixer::kDeltaNet;
  sizes.alternates = spec->architecture != "qwen3next";
  int64_t values = 0;
  RETURN_IF_ERROR(keys.Need("ssm.conv_kernel", &sizes.kernel));
  RETURN_IF_ERROR(keys.Need("ssm.state_size", &sizes.key_size));
  RETURN_IF_ERROR(keys.Need("ssm.group_count", &sizes.key_heads));
  RETURN_IF_ERROR(keys.Need("ssm.time_step_rank", &sizes.value_heads));
  RETURN_IF_ERROR(keys.Need("ssm.inner_size", &values));
  if (sizes.value_heads < 1 || values % sizes.value_heads != 0) {
    return InvalidArgument(
        fmt::format("the model's {} recurrent values are not a multiple of its {} heads", values, sizes.value_heads));
  }
  sizes.value_size = values / sizes.value_heads;
  spec->recurrent_norm_eps = spec->norm_eps;
  return Status::Ok();
}

Status SetLfm2(const GgufKeys& keys, ModelSpec* spec) {
  spec->qk_norm = QkNorm::kHeads;
  spec->recurrence = {.mixer = Mixer::kConvolution, .width = spec->hidden};
  RETURN_IF_ERROR(keys.Need("shortconv.l_cache", &spec->recurrence.kernel));
  std::vector<int64_t> kv_heads;  // 0: a convolution
  RETURN_IF_ERROR(keys.NeedPerLayer("attention.head_count_kv", spec->layers, &kv_heads));
  RETURN_IF_ERROR(MakeLayerTraits(spec));
  for (size_t layer = 0; layer < kv_heads.size(); ++layer) {
    if (kv_heads[layer] == 0) spec->layer_traits[layer].mixer = Mixer::kConvolution;
  }
  if (spec->experts == 0) return Status::Ok();
  spec->router.sigmoid = spec->router_correction = spec->experts_normalised = true;
  RETURN_IF_ERROR(keys.Optional("expert_weights_scale", &spec->router.scale));
  int64_t dense = 0, width = 0;
  RETURN_IF_ERROR(keys.Optional("leading_dense_block_count", &dense));
  RETURN_IF_ERROR(keys.Need("feed_forward_length", &width));
  if (dense < 0 || width < 1) {
    return InvalidArgument(fmt::format("{} dense layers of width {} are not supported", dense, width));
  }
  for (int64_t layer = 0; layer < std::min(dense, spec->layers); ++layer) {
    spec->layer_traits[static_cast<size_t>(layer)].dense_ffn = width;
  }
  return Status::Ok();
}

Status SetGptOss(const GgufKeys&, ModelSpec* spec) {
  spec->experts_normalised = true;
  spec->activation = Activation::kClampedSilu;
  KeepWindows([](int64_t layer) { return layer % 2 == 0; }, spec);
  return Status::Ok();
}

Status SetGpt2(const GgufKeys&, ModelSpec* spec) {
  SetOlder(Activation::kGeluTanh, spec);
  spec->learned_positions = spec->fused_qkv = true;
  return Status::Ok();
}

// The converters have already added 1 to every norm's weight.
Status SetGemma(const GgufKeys&, ModelSpec* spec) {
  spec->activation = Activation::kGeluTanh;
  if (spec->hidden > 0) spec->embedding_scale = std::sqrt(static_cast<float>(spec->hidden));
  return Status::Ok();
}

// The largest models scale queries by the hidden size per head, not by the head size.
void ScaleByStream(int64_t layers, ModelSpec* spec) {
  if (spec->layers != layers || spec->heads < 1) return;
  spec->query_scale =
      static_cast<float>(1 / std::sqrt(static_cast<double>(spec->hidden) / static_cast<double>(spec->heads)));
}

Status SetGemma2(const GgufKeys& keys, ModelSpec* spec) {
  RETURN_IF_ERROR(SetGemma(keys, spec));
  spec->norm_after = true;
  spec->score_cap = 50, spec->logit_cap = 30;
  RETURN_IF_ERROR(keys.Optional("attn_logit_softcapping", &spec->score_cap));
  RETURN_IF_ERROR(keys.Optional("final_logit_softcapping", &spec->logit_cap));
  ScaleByStream(46, spec);
  KeepWindows([](int64_t layer) { return layer % 2 == 0; }, spec);
  return Status::Ok();
}

Status SetGemma3(const GgufKeys& keys, ModelSpec* spec) {
  RETURN_IF_ERROR(SetGemma(keys, spec));
  spec->norm_after = true;
  spec->qk_norm = QkNorm::kHeads;
  ScaleByStream(62, spec);
  KeepWindows([](int64_t layer) { return layer % 6 != 5; }, spec);
  for (LayerTraits& layer : spec->layer_traits) layer.rotation = layer.window > 0 ? 1 : 0;
  return Status::Ok();
}

Status SetPhi2(const GgufKeys&, ModelSpec* spec) {
  SetOlder(Activation::kGeluTanh, spec);
  spec->parallel = spec->shared_norm = true;
  return Status::Ok();
}

Status SetPhi3(const GgufKeys&, ModelSpec* spec) {
  spec->fused_qkv = spec->fused_gate_up = true;
  return Status::Ok();
}

Status SetGptNeoX(const GgufKeys& keys, ModelSpec* spec) {
  SetOlder(Activation::kGeluErf, spec);
  spec->fused_qkv = spec->parallel = true;
  return keys.Optional("use_parallel_residual", &spec->parallel);
}

Status SetFalcon(const GgufKeys&, ModelSpec* spec) {
  SetOlder(Activation::kGeluErf, spec);
  spec->fused_qkv = spec->parallel = true;
  return Status::Ok();
}

Status SetBloom(const GgufKeys&, ModelSpec* spec) {
  SetOlder(Activation::kGeluTanh, spec);
  spec->fused_qkv = spec->embedding_norm = true;
  spec->alibi = 8;
  return Status::Ok();
}

Status SetMpt(const GgufKeys& keys, ModelSpec* spec) {
  SetOlder(Activation::kGeluErf, spec);
  spec->fused_qkv = true;
  spec->alibi = 8;
  return keys.Optional("attention.max_alibi_bias", &spec->alibi);
}

Status SetStarcoder2(const GgufKeys&, ModelSpec* spec) {
  SetOlder(Activation::kGeluTanh, spec);
  return Status::Ok();
}

Status SetStableLm(const GgufKeys& keys, ModelSpec* spec) {
  spec->norm = NormKind::kLayer;
  RETURN_IF_ERROR(keys.Optional("use_parallel_residual", &spec->parallel));
  spec->shared_norm = spec->parallel;
  return Status::Ok();
}

Status SetOlmo2(const GgufKeys&, ModelSpec* spec) {
  spec->norm_before = false;
  spec->norm_after = true;
  spec->qk_norm = QkNorm::kRows;
  return Status::Ok();
}

// As in huggingface_llama.cpp: the whole residual stream is divided by the residual scale.
Status SetGranite(const GgufKeys& keys, ModelSpec* spec) {
  double embedding = 1, residual = 1, logits = 1;
  RETURN_IF_ERROR(keys.Optional("embedding_scale", &embedding));
  RETURN_IF_ERROR(keys.Optional("residual_scale", &residual));
  RETURN_IF_ERROR(keys.Optional("logit_scale", &logits));
  RETURN_IF_ERROR(keys.Optional("attention.scale", &spec->query_scale));
  spec->embedding_scale = static_cast<float>(embedding / residual);
  spec->norm_eps = static_cast<float>(static_cast<double>(spec->norm_eps) / (residual * residual));
  spec->logit_scale = static_cast<float>(1 / logits);
  return Status::Ok();
}

Status SetGraniteMoe(const GgufKeys& keys, ModelSpec* spec) {
  spec->experts_normalised = true;
  return SetGranite(keys, spec);
}

Status SetCommandR(const GgufKeys& keys, ModelSpec* spec) {
  spec->norm = NormKind::kLayer;
  spec->parallel = spec->shared_norm = true;
  return keys.Optional("logit_scale", &spec->logit_scale);
}

// Layers without a window are not rotated.
Status SetCohere2(const GgufKeys& keys, ModelSpec* spec) {
  KeepWindows([](int64_t layer) { return layer % 4 != 3; }, spec);
  for (LayerTraits& layer : spec->layer_traits) layer.rotation = layer.window > 0 ? 0 : -1;
  return SetCommandR(keys, spec);
}

// Every fourth layer is not rotated; the file does not store it.
Status SetSmolLm3(const GgufKeys&, ModelSpec* spec) {
  RETURN_IF_ERROR(MakeLayerTraits(spec));
  for (size_t layer = 3; layer < spec->layer_traits.size(); layer += 4) spec->layer_traits[layer].rotation = -1;
  return Status::Ok();
}

/// Sizes of latent attention. A file's `key_length` is that of the one cached key; those of expanded keys
/// and values have other names, except in older files, which list them only.
Status ReadLatent(const GgufKeys& keys, ModelSpec* spec) {
  LatentAttention& latent = spec->latent;
  RETURN_IF_ERROR(keys.Need("attention.kv_lora_rank", &latent.rank));
  RETURN_IF_ERROR(keys.Optional("attention.q_lora_rank", &latent.query_rank));
  RETURN_IF_ERROR(keys.Need("rope.dimension_count", &spec->rotary));
  const std::string suffix = keys.Has("attention.key_length_mla") ? "_mla" : "";
  int64_t key = 0;
  RETURN_IF_ERROR(keys.Need("attention.key_length" + suffix, &key));
  RETURN_IF_ERROR(keys.Need("attention.value_length" + suffix, &latent.value));
  for (const int64_t size : {latent.rank, spec->rotary, key, latent.value}) {
    if (size < 1 || size > 8192) {
      return InvalidArgument(fmt::format("the file's latent attention has a part of {} dimensions", size));
    }
  }
  latent.plain = key - spec->rotary;
  latent.norm_eps = spec->norm_eps;
  spec->kv_heads = 1;
  spec->head_dim = latent.rank + spec->rotary;
  // With YaRN scores are scaled by the square of a magnitude.
  double multiplier = 0, factor = 1;
  RETURN_IF_ERROR(keys.Optional("rope.scaling.yarn_log_multiplier", &multiplier));
  RETURN_IF_ERROR(keys.Optional("rope.scaling.factor", &factor));
  const double magnitude = factor > 1 ? 1 + multiplier * std::log(factor) : 1;
  spec->query_scale = static_cast<float>(magnitude * magnitude / std::sqrt(static_cast<double>(key)));
  return Status::Ok();
}

/// Routers, shared experts, leading dense layers.
Status ReadDeepseekExperts(const GgufKeys& keys, ModelSpec* spec) {
  int64_t dense = 0, leading = 0, shared = 0, gating = 0;
  RETURN_IF_ERROR(keys.Need("feed_forward_length", &dense));
  RETURN_IF_ERROR(keys.Optional("leading_dense_block_count", &leading));
  RETURN_IF_ERROR(keys.Optional("expert_shared_count", &shared));
  if (leading < 0 || shared < 0 || shared > 64 || spec->ffn < 1 || spec->ffn > 1 << 20) {
    return InvalidArgument(fmt::format("{} leading dense layers and {} shared experts of width {} are not supported",
                                       leading, shared, spec->ffn));
  }
  spec->common_ffn = shared * spec->ffn;
  RETURN_IF_ERROR(MakeLayerTraits(spec));
  for (int64_t layer = 0; layer < std::min(leading, spec->layers); ++layer) {
    spec->layer_traits[static_cast<size_t>(layer)].dense_ffn = dense;
  }
  RETURN_IF_ERROR(keys.Optional("expert_gating_func", &gating));
  // Files without it are DeepSeek-V2's, or early ones of GLM-4.7-Flash, which only its sizes distinguish.
  if (gating == 0) gating = spec->layers == 47 && spec->vocab == 154880 ? 2 : 1;
  if (gating != 1 && gating != 2) {
    return InvalidArgument(fmt::format("the file's '{}' {} is not supported", keys.Name("expert_gating_func"), gating));
  }
  spec->router.sigmoid = gating == 2;
  spec->router.group_highest = !spec->router.sigmoid;
  RETURN_IF_ERROR(keys.Optional("expert_weights_norm", &spec->experts_normalised));
  RETURN_IF_ERROR(keys.Optional("expert_weights_scale", &spec->router.scale));
  if (spec->router.scale == 0) spec->router.scale = 1;
  RETURN_IF_ERROR(keys.Optional("expert_group_count", &spec->router.groups));
  RETURN_IF_ERROR(keys.Optional("expert_group_used_count", &spec->router.groups_used));
  if (spec->router.groups == 0) spec->router.groups = spec->router.groups_used = 1;
  return Status::Ok();
}

Status SetDeepseek2(const GgufKeys& keys, ModelSpec* spec) {
  RETURN_IF_ERROR(ReadLatent(keys, spec));
  return ReadDeepseekExperts(keys, spec);
}

constexpr TensorRule kNormAfterAttention[] = {
    {TensorRole::kMlpNorm, "blk.{}.post_attention_norm.weight"},
};
constexpr TensorRule kDeltaNetTensors[] = {
    {TensorRole::kMlpNorm, "blk.{}.post_attention_norm.weight"},
    {TensorRole::kQuery, "blk.{}.attn_q.weight", false, RowOrder::kQueryThenGate},
    {TensorRole::kQueryBias, "blk.{}.attn_q.bias", false, RowOrder::kQueryThenGate},
    {TensorRole::kRecurrentQkv, "blk.{}.attn_qkv.weight"},
    {TensorRole::kRecurrentGate, "blk.{}.attn_gate.weight"},
    {TensorRole::kRecurrentBeta, "blk.{}.ssm_beta.weight"},
    {TensorRole::kRecurrentRates, "blk.{}.ssm_alpha.weight"},
    {TensorRole::kRecurrentBetaRates, "blk.{}.ssm_ba.weight", false, RowOrder::kByKeyHead},
    {TensorRole::kConvolution, "blk.{}.ssm_conv1d.weight"},
    {TensorRole::kRateBias, "blk.{}.ssm_dt.bias"},
    {TensorRole::kRate, "blk.{}.ssm_a"},
    {TensorRole::kRecurrentNorm, "blk.{}.ssm_norm.weight"},
    {TensorRole::kRecurrentOut, "blk.{}.ssm_out.weight"},
};
constexpr TensorRule kLfm2Tensors[] = {
    {TensorRole::kFinalNorm, "token_embd_norm.weight"},
    {TensorRole::kRecurrentIn, "blk.{}.shortconv.in_proj.weight"},
    {TensorRole::kConvolution, "blk.{}.shortconv.conv.weight"},
    {TensorRole::kRecurrentOut, "blk.{}.shortconv.out_proj.weight"},
    {TensorRole::kRouterCorrection, "blk.{}.exp_probs_b.bias"},
};

}  // namespace

Status GgufKeys::NeedPerLayer(std::string_view key, int64_t layers, std::vector<int64_t>* values) const {
  if (file_.Int(Name(key))) {
    values->assign(static_cast<size_t>(layers), *file_.Int(Name(key)));
    return Status::Ok();
  }
  const auto found = file_.Ints(Name(key));
  if (!found || std::ssize(*found) < layers) {
    return InvalidArgument(fmt::format("the file's '{}' is missing or has less than {} integers", Name(key), layers));
  }
  values->assign(found->begin(), found->begin() + layers);
  return Status::Ok();
}

Status GgufKeys::Need(std::string_view key, int64_t* value) const {
  const auto found = file_.Int(Name(key));
  if (!found) return InvalidArgument(fmt::format("the file's '{}' is missing or not an integer", Name(key)));
  *value = *found;
  return Status::Ok();
}

Status GgufKeys::Optional(std::string_view key, double* value) const {
  if (!Has(key)) return Status::Ok();
  const auto found = file_.Float(Name(key));
  if (!found) return InvalidArgument(fmt::format("the file's '{}' is not a number", Name(key)));
  *value = *found;
  return Status::Ok();
}

Status GgufKeys::Optional(std::string_view key, float* value) const {
  double wide = *value;
  RETURN_IF_ERROR(Optional(key, &wide));
  *value = static_cast<float>(wide);
  return Status::Ok();
}

Status GgufKeys::Optional(std::string_view key, bool* value) const {
  if (!Has(key)) return Status::Ok();
  const auto found = file_.Bool(Name(key));
  if (!found) return InvalidArgument(fmt::format("the file's '{}' is neither true nor false", Name(key)));
  *value = *found;
  return Status::Ok();
}

Status GgufKeys::Optional(std::string_view key, int64_t layers, std::vector<int64_t>* values) const {
  if (!Has(key)) return Status::Ok();
  if (const auto list = file_.Ints(Name(key))) {
    *values = *list;
  } else {
    int64_t one = 0;
    RETURN_IF_ERROR(Need(key, &one));
    values->assign(static_cast<size_t>(layers), one);
  }
  if (std::ssize(*values) == layers) return Status::Ok();
  return InvalidArgument(fmt::format("the file's '{}' has {} values for {} layers", Name(key), values->size(), layers));
}

// For some architectures the converters permute the rows of q and k, so that rotary pairs are adjacent.
std::span<const GgufFamily> GgufFamilies() {
  static constexpr GgufFamily kFamilies[] = {
      {"llama", RopePairs::kAdjacent, SetLlama},
      {"qwen2", RopePairs::kHalves, SetQwen},
      {"qwen2moe", RopePairs::kHalves, SetQwen2Moe},
      {"qwen3", RopePairs::kHalves, SetQwen3},
      {"qwen3moe", RopePairs::kHalves, SetQwen3Moe},
      {"gemma", RopePairs::kHalves, SetGemma},
      {"gemma2", RopePairs::kHalves, SetGemma2},
      {"gemma3", RopePairs::kHalves, SetGemma3},
      {"gemma4", RopePairs::kHalves, SetGgufGemma4},
      {"phi2", RopePairs::kHalves, SetPhi2},
      {"phi3", RopePairs::kHalves, SetPhi3},
      {"olmo2", RopePairs::kHalves, SetOlmo2},
      {"olmoe", RopePairs::kHalves, SetOlmoe},
      {"granite", RopePairs::kAdjacent, SetGranite},
      {"granitemoe", RopePairs::kAdjacent, SetGraniteMoe},
      {"deepseek2", RopePairs::kAdjacent, SetDeepseek2},
      {"command-r", RopePairs::kAdjacent, SetCommandR},
      {"cohere2", RopePairs::kAdjacent, SetCohere2},
      {"gpt-oss", RopePairs::kHalves, SetGptOss, kNormAfterAttention},
      {"qwen3next", RopePairs::kHalves, SetQwen3Next, kDeltaNetTensors},
      {"qwen35", RopePairs::kHalves, SetQwen3Next, kDeltaNetTensors},
      {"qwen35moe", RopePairs::kHalves, SetQwen3Next, kDeltaNetTensors},
      {"lfm2", RopePairs::kHalves, SetLfm2, kLfm2Tensors},
      {"lfm2moe", RopePairs::kHalves, SetLfm2, kLfm2Tensors},
      {"smollm3", RopePairs::kAdjacent, SetSmolLm3},
      {"starcoder", RopePairs::kNone, SetGpt2},
      {"starcoder2", RopePairs::kHalves, SetStarcoder2},
      {"stablelm", RopePairs::kHalves, SetStableLm},
      {"gptneox", RopePairs::kHalves, SetGptNeoX},
      {"falcon", RopePairs::kHalves, SetFalcon},
      {"bloom", RopePairs::kNone, SetBloom},
      {"mpt", RopePairs::kNone, SetMpt},
      {"gpt2", RopePairs::kNone, SetGpt2},
      {"t5", RopePairs::kNone, SetGgufT5},
  };
  return kFamilies;
}

}  // namespace ringside
