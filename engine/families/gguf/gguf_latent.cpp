// GGUF files of families with multi-head latent attention.
#include <algorithm>
#include <cmath>

#include "engine/families/gguf/gguf_families.h"

namespace ringside {
namespace {

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

Status SetDeepseek2(const GgufKeys& keys, ModelSpec* spec) {
  RETURN_IF_ERROR(ReadLatent(keys, spec));
  // Files without a gating function are DeepSeek-V2's, or early ones of GLM-4.7-Flash, which only its sizes
  // distinguish.
  const bool glm = spec->layers == 47 && spec->vocab == 154880;
  RETURN_IF_ERROR(ReadGgufMixture(keys, {.sigmoid = glm}, spec));
  spec->router.group_highest = !spec->router.sigmoid;
  return Status::Ok();
}

Status SetGgufMistral4(const GgufKeys& keys, ModelSpec* spec) {
  RETURN_IF_ERROR(ReadLatent(keys, spec));
  RETURN_IF_ERROR(ReadTemperature(keys, spec));
  return ReadGgufMixture(keys, {}, spec);
}

// Layers without key and value heads are Kimi Delta Attention; attention has no positions.
Status SetGgufKimiLinear(const GgufKeys& keys, ModelSpec* spec) {
  std::vector<int64_t> kv_heads;
  RETURN_IF_ERROR(keys.NeedPerLayer("attention.head_count_kv", spec->layers, &kv_heads));
  RETURN_IF_ERROR(ReadLatent(keys, spec));
  RETURN_IF_ERROR(MakeLayerTraits(spec));
  for (size_t layer = 0; layer < kv_heads.size(); ++layer) {
    LayerTraits& traits = spec->layer_traits[layer];
    traits.rotation = -1;
    if (kv_heads[layer] == 0) traits.mixer = Mixer::kKda;
  }
  RETURN_IF_ERROR(ReadGgufMixture(keys, {.sigmoid = true, .normalised = true}, spec));
  RecurrenceShape& sizes = spec->recurrence;
  sizes = {.mixer = Mixer::kKda, .key_heads = spec->heads, .value_heads = spec->heads};
  RETURN_IF_ERROR(keys.Need("ssm.conv_kernel", &sizes.kernel));
  RETURN_IF_ERROR(keys.Need("kda.head_dim", &sizes.value_size));
  sizes.key_size = spec->recurrent_rank = sizes.value_size;
  spec->recurrence_matrices = RecurrenceMatrices::kEach;
  spec->recurrent_norm_eps = spec->norm_eps;
  spec->stored_rates = true;
  return Status::Ok();
}

constexpr TensorRule kKdaTensors[] = {
    {TensorRole::kRecurrentQuery, "blk.{}.attn_q.weight"},
    {TensorRole::kRecurrentKey, "blk.{}.attn_k.weight"},
    {TensorRole::kRecurrentValue, "blk.{}.attn_v.weight"},
    {TensorRole::kRatesDown, "blk.{}.ssm_f_a.weight"},
    {TensorRole::kRatesUp, "blk.{}.ssm_f_b.weight"},
    {TensorRole::kOutputGateDown, "blk.{}.ssm_g_a.weight"},
    {TensorRole::kOutputGateUp, "blk.{}.ssm_g_b.weight"},
    {TensorRole::kRecurrentBeta, "blk.{}.ssm_beta.weight"},
    {TensorRole::kQueryConvolution, "blk.{}.ssm_conv1d_q.weight"},
    {TensorRole::kKeyConvolution, "blk.{}.ssm_conv1d_k.weight"},
    {TensorRole::kValueConvolution, "blk.{}.ssm_conv1d_v.weight"},
    {TensorRole::kRecurrentOut, "blk.{}.attn_output.weight"},
};

}  // namespace

std::span<const GgufFamily> GgufLatentFamilies() {
  static constexpr GgufFamily kFamilies[] = {
      {"deepseek2", RopePairs::kAdjacent, SetDeepseek2, {}, kMixtureKeys},
      {"kimi-linear", RopePairs::kAdjacent, SetGgufKimiLinear, kKdaTensors, kMixtureKeys},
      {"mistral4", RopePairs::kAdjacent, SetGgufMistral4, {}, kMixtureKeys},
  };
  return kFamilies;
}

}  // namespace ringside
