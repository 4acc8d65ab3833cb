// Gemma 3n, with several residual streams, and Gemma 4, with layers of two kinds, with windows and without, whose heads
// differ.
#include <fmt/format.h>

#include <cmath>

#include "engine/families/huggingface/llama_names.h"
#include "engine/families/rope_scaling.h"
#include "engine/families/shared_keys.h"

namespace ringside {
namespace {

constexpr TensorRule kLayerInputs[] = {
    {TensorRole::kLayerInputTable, "embed_tokens_per_layer.weight"},
    {TensorRole::kLayerInputProjection, "per_layer_model_projection.weight"},
    {TensorRole::kLayerInputNorm, "per_layer_projection_norm.weight"},
    {TensorRole::kLayerInputGate, "layers.{}.per_layer_input_gate.weight"},
    {TensorRole::kLayerInputOut, "layers.{}.per_layer_projection.weight"},
    {TensorRole::kLayerInputPostNorm, "layers.{}.post_per_layer_input_norm.weight"},
    {TensorRole::kLayerScalar, "layers.{}.layer_scalar"},
};
constexpr TensorRule kSeparateExperts[] = {
    {TensorRole::kCommonGate, "layers.{}.mlp.gate_proj.weight"},
    {TensorRole::kCommonUp, "layers.{}.mlp.up_proj.weight"},
    {TensorRole::kCommonDown, "layers.{}.mlp.down_proj.weight"},
    {TensorRole::kRouter, "layers.{}.router.proj.weight"},
    {TensorRole::kRouterNorm, "layers.{}.router.scale"},
    {TensorRole::kRouterScales, "layers.{}.router.per_expert_scale"},
    {TensorRole::kMlpOwnNorm, "layers.{}.post_feedforward_layernorm_1.weight"},
    {TensorRole::kExpertsNorm, "layers.{}.pre_feedforward_layernorm_2.weight"},
    {TensorRole::kExpertsPostNorm, "layers.{}.post_feedforward_layernorm_2.weight"},
    {TensorRole::kExpertGateUp, "layers.{}.experts.gate_up_proj"},
    {TensorRole::kExpertDown, "layers.{}.experts.down_proj"},
};

constexpr TensorRule kStreams[] = {
    {TensorRole::kStreamIn, "altup_projections.{e}.weight"},
    {TensorRole::kStreamOut, "altup_unembed_projections.{e}.weight"},
    {TensorRole::kStreamRouterNorm, "layers.{}.altup.router_norm.weight"},
    {TensorRole::kStreamRouter, "layers.{}.altup.modality_router.weight"},
    {TensorRole::kStreamPredict, "layers.{}.altup.prediction_coefs.weight"},
    {TensorRole::kStreamCorrect, "layers.{}.altup.correction_coefs.weight"},
    {TensorRole::kStreamScale, "layers.{}.altup.correct_output_scale"},
    {TensorRole::kLaurelDown, "layers.{}.laurel.linear_left.weight"},
    {TensorRole::kLaurelUp, "layers.{}.laurel.linear_right.weight"},
    {TensorRole::kLaurelNorm, "layers.{}.laurel.post_laurel_norm.weight"},
};

bool FourOfFive(int64_t layer) { return layer % 5 != 4; }
bool FiveOfSix(int64_t layer) { return layer % 6 != 5; }

/// Head sizes by kind of layer. Newer files list the layers that differ from the model.
Status ReadLayerHeads(const ConfigJson& config, ModelSpec* spec) {
  int64_t full_size = 512, full_heads = 0;
  bool keys_are_values = false;
  RETURN_IF_ERROR(config.Optional("global_head_dim", &full_size));
  RETURN_IF_ERROR(config.Optional("num_global_key_value_heads", &full_heads));
  RETURN_IF_ERROR(config.Optional("attention_k_eq_v", &keys_are_values));
  const bool listed = config.Has("per_layer_config");
  for (int64_t layer = 0; layer < spec->layers; ++layer) {
    LayerTraits& traits = spec->layer_traits[static_cast<size_t>(layer)];
    const bool full = traits.window == 0;
    traits.keys_are_values = full && keys_are_values;
    if (listed) {
      RETURN_IF_ERROR(config.Optional(fmt::format("per_layer_config.{}.head_dim", layer), &traits.head_dim));
      RETURN_IF_ERROR(config.Optional(fmt::format("per_layer_config.{}.num_key_value_heads", layer), &traits.kv_heads));
    } else if (full) {
      traits.head_dim = full_size;
      traits.kv_heads = keys_are_values ? full_heads : 0;
    }
  }
  return Status::Ok();
}

Status ReadSharedKeys(const ConfigJson& config, ModelSpec* spec) {
  int64_t shared = 0;
  bool wide = false;
  RETURN_IF_ERROR(config.Optional("num_kv_shared_layers", &shared));
  RETURN_IF_ERROR(ShareKeys("num_kv_shared_layers", shared, spec));
  RETURN_IF_ERROR(config.Optional("use_double_wide_mlp", &wide));
  if (!wide || shared == 0) return Status::Ok();
  if (spec->experts > 0) return InvalidArgument("config.json: 'use_double_wide_mlp' is not supported with experts");
  for (int64_t layer = spec->layers - shared; layer < spec->layers; ++layer) {
    spec->layer_traits[static_cast<size_t>(layer)].dense_ffn = 2 * spec->ffn;
  }
  return Status::Ok();
}

/// One rotation per kind of layer, of its whole heads.
Status ReadLayerRotations(const ConfigJson& config, ModelSpec* spec) {
  int64_t sizes[2] = {};  // of full layers and of those with a window
  for (int64_t layer = 0; layer < spec->layers; ++layer) {
    LayerTraits& traits = spec->layer_traits[static_cast<size_t>(layer)];
    traits.rotation = traits.window > 0 ? 1 : 0;
    int64_t& size = sizes[traits.rotation];
    const int64_t head_dim = spec->KvSizes(layer).head_dim;
    if (size == 0) size = head_dim;
    if (size != head_dim) {
      return InvalidArgument(fmt::format("config.json: layer {} has heads of {} dimensions, others of its kind {}",
                                         layer, head_dim, size));
    }
    spec->rotary = std::max(spec->rotary, head_dim);
  }
  RETURN_IF_ERROR(ValidateSpec(*spec));
  RETURN_IF_ERROR(AddRotation(config, "rope_parameters.full_attention.", std::max<int64_t>(sizes[0], 2), spec));
  return AddRotation(config, "rope_parameters.sliding_attention.", std::max<int64_t>(sizes[1], 2), spec);
}

Status ReadSeparateExperts(const ConfigJson& config, ModelSpec* spec) {
  bool experts = false;
  RETURN_IF_ERROR(config.Optional("enable_moe_block", &experts));
  if (!experts) return Status::Ok();
  spec->common_ffn = spec->ffn;
  RETURN_IF_ERROR(config.Need("moe_intermediate_size", &spec->ffn));
  RETURN_IF_ERROR(config.Need("num_experts", &spec->experts));
  RETURN_IF_ERROR(config.Need("top_k_experts", &spec->experts_used));
  spec->experts_normalised = spec->fused_gate_up = spec->separate_experts = true;
  return Status::Ok();
}

/// Settings of Gemma 3n and 4. Sizes that are set may be absent.
Status ReadBase34(const ConfigJson& config, ModelSpec* spec) {
  spec->tied_head = true;
  RETURN_IF_ERROR(ReadSizes(config, spec));
  RETURN_IF_ERROR(ReadActivation(config, "hidden_activation", "gelu_pytorch_tanh", spec));
  RETURN_IF_ERROR(config.Expect("attention_bias", false));
  if (config.String("use_bidirectional_attention", "") == "all") {
    return InvalidArgument("config.json: 'use_bidirectional_attention' 'all' is not supported");
  }
  spec->rope_pairs = RopePairs::kHalves;
  spec->norm_eps = 1e-6f;
  RETURN_IF_ERROR(config.Optional("rms_norm_eps", &spec->norm_eps));
  RETURN_IF_ERROR(config.Optional("final_logit_softcapping", &spec->logit_cap));
  spec->norm_after = spec->value_norm = true;
  spec->qk_norm = QkNorm::kHeads;
  spec->query_scale = 1;
  RETURN_IF_ERROR(CheckPositive("hidden size", static_cast<double>(spec->hidden)));
  spec->embedding_scale = std::sqrt(static_cast<float>(spec->hidden));
  return Status::Ok();
}

/// The quantile function of the standard normal distribution, by bisection.
double NormalQuantile(double share) {
  double low = -40, high = 40;
  for (int i = 0; i < 200; ++i) {
    const double middle = (low + high) / 2;
    (std::erfc(-middle / std::sqrt(2.0)) / 2 < share ? low : high) = middle;
  }
  return (low + high) / 2;
}

/// Widths of the MLP and shares of its gate that are cut off, by layer or for all.
Status ReadGemma3nMlps(const ConfigJson& config, ModelSpec* spec) {
  for (int64_t layer = 0; layer < spec->layers; ++layer) {
    LayerTraits& traits = spec->layer_traits[static_cast<size_t>(layer)];
    RETURN_IF_ERROR(config.Optional(fmt::format("intermediate_size.{}", layer), &traits.dense_ffn));
    double share = 0;
    for (const std::string& key :
         {std::string("activation_sparsity_pattern"), fmt::format("activation_sparsity_pattern.{}", layer)}) {
      if (!config.Has(key) || (key.back() == 'n' && config.Has(key + ".0"))) continue;
      RETURN_IF_ERROR(config.Optional(key, &share));
    }
    if (!(share >= 0 && share < 1)) {
      return InvalidArgument(fmt::format("config.json: 'activation_sparsity_pattern' of layer {} is {}", layer, share));
    }
    traits.sparse = share > 0;
    traits.sparsity = traits.sparse ? static_cast<float>(NormalQuantile(share)) : 0;
  }
  return Status::Ok();
}

Status ReadGemma3n(const ConfigJson& config, ModelSpec* spec) {
  spec->vocab = 262400, spec->trained_context = 32768;
  spec->hidden = 2048, spec->layers = 35;
  spec->heads = 8, spec->kv_heads = 2, spec->head_dim = 256;
  RETURN_IF_ERROR(ReadBase34(config, spec));
  RETURN_IF_ERROR(ReadWindows(config, FourOfFive, spec));
  RETURN_IF_ERROR(ReadGemma3nMlps(config, spec));
  if (spec->ffn == 0) spec->ffn = spec->layer_traits.front().dense_ffn;
  spec->layer_inputs = 256, spec->layer_input_vocab = 262144;
  RETURN_IF_ERROR(config.Optional("hidden_size_per_layer_input", &spec->layer_inputs));
  RETURN_IF_ERROR(config.Optional("vocab_size_per_layer_input", &spec->layer_input_vocab));
  spec->streams = {.count = 4, .laurel_rank = 64, .scaled = true};
  int64_t active = 0, shared = 0;
  RETURN_IF_ERROR(config.Optional("altup_num_inputs", &spec->streams.count));
  RETURN_IF_ERROR(config.Optional("altup_active_idx", &active));
  RETURN_IF_ERROR(config.Optional("altup_correct_scale", &spec->streams.scaled));
  RETURN_IF_ERROR(config.Optional("laurel_rank", &spec->streams.laurel_rank));
  if (active != 0) return InvalidArgument(fmt::format("config.json: 'altup_active_idx' {} is not supported", active));
  if (spec->streams.count == 0) return InvalidArgument("config.json: 'altup_num_inputs' is 0");
  RETURN_IF_ERROR(config.Optional("num_kv_shared_layers", &shared));
  RETURN_IF_ERROR(ShareKeys("num_kv_shared_layers", shared, spec));
  return ReadRotations(config, spec, PartialRotary::kIgnored, {.base = 1e6, .local = 1e4});
}

Status ReadGemma4(const ConfigJson& config, ModelSpec* spec) {
  spec->vocab = 262144, spec->trained_context = 131072;
  spec->hidden = 2304, spec->ffn = 9216, spec->layers = 30;
  spec->heads = 8, spec->kv_heads = 4, spec->head_dim = 256;
  RETURN_IF_ERROR(ReadBase34(config, spec));
  spec->layer_scalar = true;
  RETURN_IF_ERROR(ReadWindows(config, FiveOfSix, spec));
  int64_t window = 0;
  RETURN_IF_ERROR(config.Need("sliding_window", &window));
  if (window < 1)
    return InvalidArgument(fmt::format("config.json: 'sliding_window' is {}; it must be at least 1", window));
  if (config.Has(fmt::format("layer_types.{}", spec->layers))) {
    return InvalidArgument(fmt::format("config.json: 'layer_types' has more than {} layers", spec->layers));
  }
  spec->layer_traits.back().window = 0;  // whatever its type
  RETURN_IF_ERROR(config.Optional("hidden_size_per_layer_input", &spec->layer_inputs));
  spec->layer_input_vocab = spec->vocab;
  RETURN_IF_ERROR(config.Optional("vocab_size_per_layer_input", &spec->layer_input_vocab));
  RETURN_IF_ERROR(ReadLayerHeads(config, spec));
  RETURN_IF_ERROR(ReadSeparateExperts(config, spec));
  RETURN_IF_ERROR(ReadSharedKeys(config, spec));
  return ReadLayerRotations(config, spec);
}

}  // namespace

std::span<const HuggingFaceFamily> GemmaFamilies() {
  static const HuggingFaceFamily kFamilies[] = {
      {"gemma3n_text", ReadGemma3n, kPrefix, {kAttention, kNormsAfter, kMlp, kLayerInputs, kStreams}},
      {"gemma4_text", ReadGemma4, kPrefix, {kAttention, kNormsAfter, kMlp, kSeparateExperts, kLayerInputs}},
      {"gemma4_unified_text", ReadGemma4, kPrefix, {kAttention, kNormsAfter, kMlp, kLayerInputs}},
  };
  return kFamilies;
}

}  // namespace ringside
