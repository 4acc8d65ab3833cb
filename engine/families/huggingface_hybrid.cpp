// Families with recurrent layers beside attention, with names like Llama's.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "engine/families/llama_names.h"

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
// All experts in one tensor.
constexpr TensorRule kJoinedExperts[] = {
    {TensorRole::kExpertGateUp, "layers.{}.mlp.experts.gate_up_proj"},
    {TensorRole::kExpertDown, "layers.{}.mlp.experts.down_proj"},
};

/// A file's name for a mixer.
using MixerName = std::pair<std::string_view, Mixer>;
constexpr MixerName kDeltaMixers[] = {{"linear_attention", Mixer::kDeltaNet}, {"full_attention", Mixer::kAttention}};

/// The mixer of each layer from the list under `key`; if there is none, from `otherwise`.
template <class Otherwise>
Status ReadMixers(const ConfigJson& config, std::string_view key, std::span<const MixerName> names, Otherwise otherwise,
                  ModelSpec* spec) {
  RETURN_IF_ERROR(MakeLayerTraits(spec));
  const bool listed = config.Has(key);
  for (int64_t layer = 0; layer < spec->layers; ++layer) {
    Mixer& mixer = spec->layer_traits[static_cast<size_t>(layer)].mixer;
    mixer = otherwise(layer);
    if (!listed) continue;
    const std::string name = config.String(fmt::format("{}.{}", key, layer), "");
    const auto known = std::ranges::find(names, name, &MixerName::first);
    if (known == names.end()) {
      return InvalidArgument(
          fmt::format("config.json: '{}' of layer {} is '{}', which is not supported", key, layer, name));
    }
    mixer = known->second;
  }
  if (!listed || !config.Has(fmt::format("{}.{}", key, spec->layers))) return Status::Ok();
  return InvalidArgument(fmt::format("config.json: '{}' has more than {} layers", key, spec->layers));
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
  if (interval < 1) return InvalidArgument(fmt::format("config.json: 'full_attention_interval' is {}", interval));
  const auto mixer = [&](int64_t layer) { return (layer + 1) % interval == 0 ? Mixer::kAttention : Mixer::kDeltaNet; };
  RETURN_IF_ERROR(ReadMixers(config, "layer_types", kDeltaMixers, mixer, spec));
  RecurrenceShape& sizes = spec->recurrence;
  sizes = {.mixer = Mixer::kDeltaNet, .key_heads = 16, .value_heads = 32, .key_size = 128, .value_size = 128};
  sizes.kernel = 4;
  RETURN_IF_ERROR(config.Optional("linear_num_key_heads", &sizes.key_heads));
  RETURN_IF_ERROR(config.Optional("linear_num_value_heads", &sizes.value_heads));
  RETURN_IF_ERROR(config.Optional("linear_key_head_dim", &sizes.key_size));
  RETURN_IF_ERROR(config.Optional("linear_value_head_dim", &sizes.value_size));
  RETURN_IF_ERROR(config.Optional("linear_conv_kernel_dim", &sizes.kernel));
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
  spec->fused_recurrence = true;
  return ReadQwen35Moe(config, spec);
}

}  // namespace

std::span<const HuggingFaceFamily> HybridFamilies() {
  static const HuggingFaceFamily kFamilies[] = {
      {"qwen3_next", ReadQwen3Next, kPrefix, {kAttention, kDelta, kOneNormEach, kQwenExperts}},
      {"qwen3_5_text", ReadQwenHybrid, kPrefix, {kAttention, kDelta, kOneNormEach, kMlp}},
      {"qwen3_5_moe_text", ReadQwen35Moe, kPrefix, {kAttention, kDelta, kOneNormEach, kQwenExperts}},
      {"qwen3_5_moe_text",
       ReadQwen35MoeJoined,
       kPrefix,
       {kAttention, kDelta, kOneNormEach, kQwenExperts, kJoinedExperts}},
  };
  return kFamilies;
}

}  // namespace ringside
