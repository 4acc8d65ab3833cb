#include "engine/families/gguf_families.h"

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

}  // namespace

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
      {"phi2", RopePairs::kHalves, SetPhi2},
      {"phi3", RopePairs::kHalves, SetPhi3},
      {"olmo2", RopePairs::kHalves, SetOlmo2},
      {"olmoe", RopePairs::kHalves, SetOlmoe},
      {"granite", RopePairs::kAdjacent, SetGranite},
      {"granitemoe", RopePairs::kAdjacent, SetGraniteMoe},
      {"command-r", RopePairs::kAdjacent, SetCommandR},
      {"cohere2", RopePairs::kAdjacent, SetCohere2},
      {"gpt-oss", RopePairs::kHalves, SetGptOss},
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
