// GGUF files of families with recurrent layers beside attention, Kimi Linear apart.
#include <algorithm>

#include "engine/families/gguf/gguf_families.h"

namespace ringside {
namespace {

/// Sizes of layers with a state: of the keys and values, their heads, and the convolution.
Status ReadStateSizes(const GgufKeys& keys, ModelSpec* spec) {
  RecurrenceShape& sizes = spec->recurrence;
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
  spec->recurrence.mixer = Mixer::kDeltaNet;
  spec->recurrence.alternates = spec->architecture != "qwen3next";
  return ReadStateSizes(keys, spec);
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
  return ReadGgufMixture(keys, {.sigmoid = true, .normalised = true}, spec);
}

/// Sizes of Mamba-2 layers, which have no key and value heads.
Status ReadMamba2(const GgufKeys& keys, ModelSpec* spec) {
  spec->recurrence.mixer = Mixer::kMamba2;
  RETURN_IF_ERROR(ReadStateSizes(keys, spec));
  spec->stored_rates = true;
  const auto has = [&](const char* name) {
    for (int64_t layer = 0; layer < spec->layers; ++layer) {
      if (keys.HasTensor(fmt::format("blk.{}.{}", layer, name))) return true;
    }
    return false;
  };
  spec->convolution_bias = has("ssm_conv1d.bias");
  spec->recurrent_groups = has("ssm_norm.weight") ? spec->recurrence.key_heads : 0;
  return Status::Ok();
}

Status SetGraniteHybrid(const GgufKeys& keys, ModelSpec* spec) {
  RETURN_IF_ERROR(ReadMamba2(keys, spec));
  RETURN_IF_ERROR(ReadGraniteScales(keys, spec));  // after the recurrent layers' epsilon, which they do not change
  RETURN_IF_ERROR(ReadGgufMixture(keys, {.normalised = true}, spec));
  std::vector<int64_t> kv_heads;
  RETURN_IF_ERROR(keys.NeedPerLayer("attention.head_count_kv", spec->layers, &kv_heads));
  RETURN_IF_ERROR(MakeLayerTraits(spec));
  for (size_t layer = 0; layer < kv_heads.size(); ++layer) {
    if (kv_heads[layer] == 0) spec->layer_traits[layer].mixer = Mixer::kMamba2;
  }
  bool rotated = true;
  RETURN_IF_ERROR(keys.Optional("rope.scaling.finetuned", &rotated));
  if (!rotated) spec->rope_pairs = RopePairs::kNone;
  return Status::Ok();
}

// Attention and Mamba-2 in each layer. Converters fold the factors of its parts into the weights.
Status SetGgufFalconH1(const GgufKeys& keys, ModelSpec* spec) {
  RETURN_IF_ERROR(ReadMamba2(keys, spec));
  RETURN_IF_ERROR(MakeLayerTraits(spec));
  for (LayerTraits& layer : spec->layer_traits) layer.mixer = Mixer::kMamba2, layer.attends = true;
  return Status::Ok();
}

// A layer is a mixer, an MLP or a mixture. Those with a width are MLPs, or mixtures if there are experts.
Status SetNemotronH(const GgufKeys& keys, ModelSpec* spec) {
  spec->gated = false;
  spec->activation = Activation::kReluSquared;
  RETURN_IF_ERROR(ReadGgufMixture(keys, {.sigmoid = true, .normalised = true}, spec));
  if (spec->experts > 0) RETURN_IF_ERROR(keys.Optional("moe_latent_size", &spec->expert_inputs));
  RETURN_IF_ERROR(ReadMamba2(keys, spec));
  std::vector<int64_t> kv_heads, widths;
  RETURN_IF_ERROR(keys.NeedPerLayer("attention.head_count_kv", spec->layers, &kv_heads));
  RETURN_IF_ERROR(keys.NeedPerLayer("feed_forward_length", spec->layers, &widths));
  RETURN_IF_ERROR(MakeLayerTraits(spec));
  for (size_t layer = 0; layer < widths.size(); ++layer) {
    LayerTraits& traits = spec->layer_traits[layer];
    traits.has_mlp = widths[layer] != 0;
    if (traits.has_mlp) traits.mixer = Mixer::kNone;
    if (!traits.has_mlp && kv_heads[layer] == 0) traits.mixer = Mixer::kMamba2;
    if (spec->experts == 0) traits.dense_ffn = widths[layer];
  }
  return Status::Ok();
}

constexpr TensorRule kDeltaNetTensors[] = {
    {TensorRole::kMlpNorm, "blk.{}.post_attention_norm.weight"},
    {TensorRole::kQuery, "blk.{}.attn_q.weight", false, RowOrder::kQueryThenGate},
    {TensorRole::kQueryBias, "blk.{}.attn_q.bias", false, RowOrder::kQueryThenGate},
    {TensorRole::kRecurrentQkv, "blk.{}.attn_qkv.weight"},
    {TensorRole::kRecurrentGate, "blk.{}.attn_gate.weight"},
    {TensorRole::kRecurrentBeta, "blk.{}.ssm_beta.weight"},
    {TensorRole::kRecurrentRates, "blk.{}.ssm_alpha.weight"},
    {TensorRole::kRecurrentBetaRates, "blk.{}.ssm_ba.weight", false, RowOrder::kByKeyHead},
};
constexpr TensorRule kLfm2Tensors[] = {
    {TensorRole::kFinalNorm, "token_embd_norm.weight"},
    {TensorRole::kRecurrentIn, "blk.{}.shortconv.in_proj.weight"},
    {TensorRole::kConvolution, "blk.{}.shortconv.conv.weight"},
    {TensorRole::kRecurrentOut, "blk.{}.shortconv.out_proj.weight"},
};
// llama.cpp writes this norm without a suffix.
constexpr TensorRule kBareMlpNorm[] = {{TensorRole::kMlpNorm, "blk.{}.ffn_norm"}};

constexpr TensorRule kOneNorm[] = {
    {TensorRole::kMlpNorm, "blk.{}.attn_norm.weight"},
};

}  // namespace

std::span<const GgufFamily> GgufHybridFamilies() {
  static constexpr GgufFamily kFamilies[] = {
      {"falcon-h1", RopePairs::kHalves, SetGgufFalconH1, kBareMlpNorm},
      {"granitehybrid", RopePairs::kAdjacent, SetGraniteHybrid, {}, kGraniteKeys},
      {"lfm2", RopePairs::kHalves, SetLfm2, kLfm2Tensors},
      {"lfm2moe", RopePairs::kHalves, SetLfm2, kLfm2Tensors, kMixtureKeys},
      {"nemotron_h", RopePairs::kNone, SetNemotronH, kOneNorm},
      {"nemotron_h_moe", RopePairs::kNone, SetNemotronH, kOneNorm, kMixtureKeys},
      {"qwen3next", RopePairs::kHalves, SetQwen3Next, kDeltaNetTensors},
      {"qwen35", RopePairs::kHalves, SetQwen3Next, kDeltaNetTensors, {}, false, true},
      {"qwen35moe", RopePairs::kHalves, SetQwen3Next, kDeltaNetTensors, {}, false, true},
  };
  return kFamilies;
}

}  // namespace ringside
