// GGUF files of Gemma 1 to 4.
#include <cmath>
#include <limits>

#include "engine/families/gguf/gguf_families.h"
#include "engine/families/shared_keys.h"

namespace ringside {
namespace {

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

constexpr TensorRule kLayerInputTensors[] = {
    {TensorRole::kLayerInputTable, "per_layer_token_embd.weight"},
    {TensorRole::kLayerInputProjection, "per_layer_model_proj.weight"},
    {TensorRole::kLayerInputNorm, "per_layer_proj_norm.weight"},
    {TensorRole::kLayerInputGate, "blk.{}.inp_gate.weight"},
    {TensorRole::kLayerInputOut, "blk.{}.proj.weight"},
    {TensorRole::kLayerInputPostNorm, "blk.{}.post_norm.weight"},
    {TensorRole::kStreamIn, "altup_proj.weight"},
    {TensorRole::kStreamOut, "altup_unembd_proj.weight"},
    {TensorRole::kStreamRouterNorm, "blk.{}.altup_router_norm.weight"},
    {TensorRole::kStreamRouter, "blk.{}.altup_router.weight"},
    {TensorRole::kStreamPredict, "blk.{}.altup_predict_coef.weight"},
    {TensorRole::kStreamCorrect, "blk.{}.altup_correct_coef.weight"},
    {TensorRole::kStreamScale, "blk.{}.altup_correct_scale.weight"},
    {TensorRole::kLaurelDown, "blk.{}.laurel_l.weight"},
    {TensorRole::kLaurelUp, "blk.{}.laurel_r.weight"},
    {TensorRole::kLaurelNorm, "blk.{}.laurel_post_norm.weight"},
    {TensorRole::kCommonGate, "blk.{}.ffn_gate.weight"},
    {TensorRole::kCommonUp, "blk.{}.ffn_up.weight"},
    {TensorRole::kCommonDown, "blk.{}.ffn_down.weight"},
    {TensorRole::kRouterNorm, "blk.{}.ffn_gate_inp.scale"},
    {TensorRole::kRouterScales, "blk.{}.ffn_down_exps.scale"},
    {TensorRole::kMlpOwnNorm, "blk.{}.post_ffw_norm_1.weight"},
    {TensorRole::kExpertsNorm, "blk.{}.pre_ffw_norm_2.weight"},
    {TensorRole::kExpertsPostNorm, "blk.{}.post_ffw_norm_2.weight"},
    {TensorRole::kLayerScalar, "blk.{}.layer_output_scale.weight"},
};
constexpr std::string_view kBothCaps[] = {"attn_logit_softcapping", "final_logit_softcapping"};
constexpr std::string_view kLogitCap[] = {"final_logit_softcapping"};

/// Traits of Gemma 3n and 4.
Status SetGemma34(const GgufKeys& keys, ModelSpec* spec) {
  RETURN_IF_ERROR(SetGemma(keys, spec));
  spec->norm_after = spec->value_norm = true;
  spec->qk_norm = QkNorm::kHeads;
  spec->query_scale = 1;
  RETURN_IF_ERROR(keys.Optional("final_logit_softcapping", &spec->logit_cap));
  return keys.Optional("embedding_length_per_layer_input", &spec->layer_inputs);
}

Status ReadSharedLayers(const GgufKeys& keys, ModelSpec* spec) {
  int64_t shared = 0;
  RETURN_IF_ERROR(keys.Optional("attention.shared_kv_layers", &shared));
  return ShareKeys(keys.Name("attention.shared_kv_layers"), shared, spec);
}

/// Rows of a tensor, or 0.
int64_t RowsOfTensor(const GgufKeys& keys, std::string_view name) {
  const FileTensor* tensor = keys.Tensor(name);
  return tensor == nullptr ? 0 : tensor->shape.front();
}

// The file has no rank of the map that is added to attention, and pads the per-layer embedding to the vocabulary.
Status SetGgufGemma3n(const GgufKeys& keys, ModelSpec* spec) {
  RETURN_IF_ERROR(SetGemma34(keys, spec));
  spec->layer_input_vocab = RowsOfTensor(keys, "per_layer_token_embd.weight");
  spec->streams = {.count = 4, .laurel_rank = RowsOfTensor(keys, "blk.0.laurel_l.weight"), .scaled = true};
  int64_t active = 0;
  RETURN_IF_ERROR(keys.Optional("altup.num_inputs", &spec->streams.count));
  RETURN_IF_ERROR(keys.Optional("altup.active_idx", &active));
  if (active != 0) {
    return InvalidArgument(fmt::format("the file's '{}' {} is not supported", keys.Name("altup.active_idx"), active));
  }
  RETURN_IF_ERROR(MakeLayerTraits(spec));
  RETURN_IF_ERROR(ReadWindowPattern(keys, 5, false, spec));
  std::vector<int64_t> widths;
  std::vector<double> sparsities;  // -infinity: none
  RETURN_IF_ERROR(keys.Optional("feed_forward_length", spec->layers, &widths));
  RETURN_IF_ERROR(keys.Optional("activation_sparsity_scale", spec->layers, &sparsities));
  for (size_t layer = 0; layer < spec->layer_traits.size(); ++layer) {
    LayerTraits& traits = spec->layer_traits[layer];
    traits.rotation = traits.window > 0 ? 1 : 0;
    if (!widths.empty()) traits.dense_ffn = widths[layer];
    traits.sparse = !sparsities.empty() && sparsities[layer] > -std::numeric_limits<float>::max();
    if (!traits.sparse) continue;
    traits.sparsity = static_cast<float>(sparsities[layer]);
    if (std::isfinite(traits.sparsity)) continue;
    return InvalidArgument(fmt::format("the file's '{}' of layer {} is {}", keys.Name("activation_sparsity_scale"),
                                       layer, sparsities[layer]));
  }
  return ReadSharedLayers(keys, spec);
}

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

Status SetGgufGemma4(const GgufKeys& keys, ModelSpec* spec) {
  RETURN_IF_ERROR(SetGemma34(keys, spec));
  spec->layer_scalar = true;
  spec->layer_input_vocab = spec->vocab;
  if (spec->experts > 0) {
    RETURN_IF_ERROR(keys.Need("feed_forward_length", &spec->common_ffn));
    spec->experts_normalised = spec->fused_gate_up = spec->separate_experts = true;
  }
  RETURN_IF_ERROR(ReadLayers(keys, spec));
  RETURN_IF_ERROR(ReadSharedLayers(keys, spec));
  for (int64_t layer = 0; layer < std::ssize(spec->layer_traits); ++layer) {
    LayerTraits& traits = spec->layer_traits[static_cast<size_t>(layer)];
    traits.keys_are_values = traits.keys_of < 0 && !keys.HasTensor(fmt::format("blk.{}.attn_v.weight", layer));
  }
  return Status::Ok();
}

}  // namespace

std::span<const GgufFamily> GgufGemmaFamilies() {
  static constexpr GgufFamily kFamilies[] = {
      {"gemma", RopePairs::kHalves, SetGemma},
      {"gemma2", RopePairs::kHalves, SetGemma2, {}, kBothCaps},
      {"gemma3", RopePairs::kHalves, SetGemma3},
      {"gemma3n", RopePairs::kHalves, SetGgufGemma3n, kLayerInputTensors, kLogitCap},
      {"gemma4", RopePairs::kHalves, SetGgufGemma4, kLayerInputTensors, kLogitCap},
  };
  return kFamilies;
}

}  // namespace ringside
