// Gemma 4 as written by llama.cpp's converter: layers of two kinds, with windows and without, whose heads differ.
#include <cmath>

#include "engine/families/gguf_families.h"
#include "engine/families/shared_keys.h"

namespace ringside {
namespace {

constexpr TensorRule kRules[] = {
    {TensorRole::kCommonGate, "blk.{}.ffn_gate.weight"},
    {TensorRole::kCommonUp, "blk.{}.ffn_up.weight"},
    {TensorRole::kCommonDown, "blk.{}.ffn_down.weight"},
    {TensorRole::kExpertGateUp, "blk.{}.ffn_gate_up_exps.weight"},
    {TensorRole::kRouterNorm, "blk.{}.ffn_gate_inp.scale"},
    {TensorRole::kRouterScales, "blk.{}.ffn_down_exps.scale"},
    {TensorRole::kMlpOwnNorm, "blk.{}.post_ffw_norm_1.weight"},
    {TensorRole::kExpertsNorm, "blk.{}.pre_ffw_norm_2.weight"},
    {TensorRole::kExpertsPostNorm, "blk.{}.post_ffw_norm_2.weight"},
    {TensorRole::kLayerInputTable, "per_layer_token_embd.weight"},
    {TensorRole::kLayerInputProjection, "per_layer_model_proj.weight"},
    {TensorRole::kLayerInputNorm, "per_layer_proj_norm.weight"},
    {TensorRole::kLayerInputGate, "blk.{}.inp_gate.weight"},
    {TensorRole::kLayerInputOut, "blk.{}.proj.weight"},
    {TensorRole::kLayerInputPostNorm, "blk.{}.post_norm.weight"},
    {TensorRole::kLayerScalar, "blk.{}.layer_output_scale.weight"},
};

/// Head sizes and widths by layer. The file's sizes without a suffix are those of layers without a window.
Status ReadLayers(const GgufKeys& keys, ModelSpec* spec) {
  std::vector<int64_t> windowed, kv_heads, widths;
  RETURN_IF_ERROR(keys.Optional("attention.sliding_window_pattern", spec->layers, &windowed));
  RETURN_IF_ERROR(keys.Optional("attention.head_count_kv", spec->layers, &kv_heads));
  RETURN_IF_ERROR(keys.Optional("feed_forward_length", spec->layers, &widths));
  if (windowed.empty() || spec->layer_traits.empty()) {
    return InvalidArgument(fmt::format("the file has no '{}' or no '{}'", keys.Name("attention.sliding_window"),
                                       keys.Name("attention.sliding_window_pattern")));
  }
  const int64_t full_size = spec->head_dim;
  RETURN_IF_ERROR(keys.Optional("attention.key_length_swa", &spec->head_dim));
  for (int64_t layer = 0; layer < spec->layers; ++layer) {
    const auto at = static_cast<size_t>(layer);
    LayerTraits& traits = spec->layer_traits[at];
    if (windowed[at] == 0) traits.window = 0, traits.head_dim = full_size;
    traits.rotation = traits.window > 0 ? 1 : 0;
    if (!kv_heads.empty()) traits.kv_heads = kv_heads[at];
    if (spec->experts == 0 && !widths.empty()) traits.dense_ffn = widths[at];
  }
  return Status::Ok();
}

}  // namespace

std::span<const TensorRule> GgufGemma4Rules() { return kRules; }

Status SetGgufGemma4(const GgufKeys& keys, ModelSpec* spec) {
  spec->activation = Activation::kGeluTanh;
  if (spec->hidden > 0) spec->embedding_scale = std::sqrt(static_cast<float>(spec->hidden));
  spec->norm_after = spec->value_norm = spec->layer_scalar = true;
  spec->qk_norm = QkNorm::kHeads;
  spec->query_scale = 1;
  RETURN_IF_ERROR(keys.Optional("final_logit_softcapping", &spec->logit_cap));
  RETURN_IF_ERROR(keys.Optional("embedding_length_per_layer_input", &spec->layer_inputs));
  spec->layer_input_vocab = spec->vocab;
  if (spec->experts > 0) {
    RETURN_IF_ERROR(keys.Need("feed_forward_length", &spec->common_ffn));
    spec->experts_normalised = spec->fused_gate_up = spec->separate_experts = true;
  }
  RETURN_IF_ERROR(ReadLayers(keys, spec));
  int64_t shared = 0;
  RETURN_IF_ERROR(keys.Optional("attention.shared_kv_layers", &shared));
  return ShareKeys(keys.Name("attention.shared_kv_layers"), shared, spec);
}

}  // namespace ringside
