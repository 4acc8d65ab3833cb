// GGUF files of families with attention in all layers, from before 2025.
#include "engine/families/gguf/gguf_families.h"

namespace ringside {
namespace {

// GGUF does not store the activation: an architecture implies it (that of its first model if they differ).
void SetOlder(Activation activation, ModelSpec* spec) {
  spec->norm = NormKind::kLayer;
  spec->gated = false;
  spec->activation = activation;
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

// OLMo 3's layers with windows have a rotation without YaRN.
Status SetOlmo2(const GgufKeys& keys, ModelSpec* spec) {
  RETURN_IF_ERROR(ReadWindowPattern(keys, 4, false, spec));
  for (LayerTraits& layer : spec->layer_traits) layer.rotation = layer.window > 0 ? 1 : 0;
  spec->norm_before = false;
  spec->norm_after = true;
  spec->qk_norm = QkNorm::kRows;
  return Status::Ok();
}

Status SetGranite(const GgufKeys& keys, ModelSpec* spec) { return ReadGraniteScales(keys, spec); }

Status SetGraniteMoe(const GgufKeys& keys, ModelSpec* spec) {
  spec->experts_normalised = true;
  return SetGranite(keys, spec);
}

Status SetCommandR(const GgufKeys& keys, ModelSpec* spec) {
  spec->norm = NormKind::kLayer;
  spec->parallel = spec->shared_norm = true;
  return keys.Optional("logit_scale", &spec->logit_scale);
}

Status SetCohere2(const GgufKeys& keys, ModelSpec* spec) {
  KeepWindows([](int64_t layer) { return layer % 4 != 3; }, spec);
  RotateWindows(spec);
  return SetCommandR(keys, spec);
}

// Every fourth layer is not rotated; the file does not store it.
Status SetSmolLm3(const GgufKeys&, ModelSpec* spec) {
  RETURN_IF_ERROR(MakeLayerTraits(spec));
  for (size_t layer = 3; layer < spec->layer_traits.size(); layer += 4) spec->layer_traits[layer].rotation = -1;
  return Status::Ok();
}

constexpr std::string_view kLogitScale[] = {"logit_scale"};
constexpr std::string_view kAlibiBias[] = {"attention.max_alibi_bias"};

}  // namespace

// For some architectures the converters permute the rows of q and k, so that rotary pairs are adjacent.
std::span<const GgufFamily> GgufPlainFamilies() {
  static constexpr GgufFamily kFamilies[] = {
      {"llama", RopePairs::kAdjacent, SetLlama},
      {"qwen2", RopePairs::kHalves, SetQwen},
      {"qwen2moe", RopePairs::kHalves, SetQwen2Moe},
      {"qwen3", RopePairs::kHalves, SetQwen3},
      {"qwen3moe", RopePairs::kHalves, SetQwen3Moe},
      {"phi2", RopePairs::kHalves, SetPhi2},
      {"phi3", RopePairs::kHalves, SetPhi3},
      {"olmo2", RopePairs::kHalves, SetOlmo2, {}, {}, true},
      {"olmoe", RopePairs::kHalves, SetOlmoe},
      {"granite", RopePairs::kAdjacent, SetGranite, {}, kGraniteKeys},
      {"granitemoe", RopePairs::kAdjacent, SetGraniteMoe, {}, kGraniteKeys},
      {"command-r", RopePairs::kAdjacent, SetCommandR, {}, kLogitScale},
      {"cohere2", RopePairs::kAdjacent, SetCohere2, {}, kLogitScale},
      {"gpt-oss", RopePairs::kHalves, SetGptOss, kNormAfterAttention},
      {"smollm3", RopePairs::kAdjacent, SetSmolLm3},
      {"starcoder", RopePairs::kNone, SetGpt2},
      {"starcoder2", RopePairs::kHalves, SetStarcoder2},
      {"stablelm", RopePairs::kHalves, SetStableLm},
      {"gptneox", RopePairs::kHalves, SetGptNeoX},
      {"falcon", RopePairs::kHalves, SetFalcon},
      {"bloom", RopePairs::kNone, SetBloom},
      {"mpt", RopePairs::kNone, SetMpt, {}, kAlibiBias},
      {"gpt2", RopePairs::kNone, SetGpt2},
      {"t5", RopePairs::kNone, SetGgufT5},
  };
  return kFamilies;
}

}  // namespace ringside
