#include "engine/model/families.h"

#include <fmt/format.h>

namespace ringside {
namespace {

bool IsPerLayer(TensorRole role) {
  return role != TensorRole::kEmbedding && role != TensorRole::kPositions && role != TensorRole::kHead &&
         role != TensorRole::kFinalNorm && role != TensorRole::kFinalNormBias;
}

// Whether a network of this spec has such a tensor.
bool IsCalledFor(TensorRole role, const ModelSpec& spec) {
  switch (role) {
    case TensorRole::kPositions:
      return spec.learned_positions;
    case TensorRole::kHead:
      return !spec.tied_head;
    case TensorRole::kFinalNormBias:
    case TensorRole::kAttentionNormBias:
    case TensorRole::kMlpNormBias:
      return spec.norm == NormKind::kLayer;
    case TensorRole::kQkv:
      return spec.fused_qkv;
    case TensorRole::kQuery:
    case TensorRole::kKey:
    case TensorRole::kValue:
      return !spec.fused_qkv;
    case TensorRole::kQkvBias:
      return spec.fused_qkv && spec.qkv_bias;
    case TensorRole::kQueryBias:
    case TensorRole::kKeyBias:
    case TensorRole::kValueBias:
      return !spec.fused_qkv && spec.qkv_bias;
    case TensorRole::kQueryNorm:
    case TensorRole::kKeyNorm:
      return spec.qk_norm;
    case TensorRole::kAttentionOutBias:
      return spec.attention_out_bias;
    case TensorRole::kGate:
      return spec.mlp == MlpKind::kSwiGlu;
    case TensorRole::kGateBias:
      return spec.mlp == MlpKind::kSwiGlu && spec.mlp_bias;
    case TensorRole::kUpBias:
    case TensorRole::kDownBias:
      return spec.mlp_bias;
    default:
      return true;
  }
}

std::vector<int64_t> Shape(TensorRole role, const ModelSpec& spec) {
  const int64_t queries = spec.heads * spec.head_dim, keys = spec.kv_heads * spec.head_dim;
  switch (role) {
    case TensorRole::kEmbedding:
    case TensorRole::kHead:
      return {spec.vocab, spec.hidden};
    case TensorRole::kPositions:
      return {spec.trained_context, spec.hidden};
    case TensorRole::kQuery:
      return {queries, spec.hidden};
    case TensorRole::kKey:
    case TensorRole::kValue:
      return {keys, spec.hidden};
    case TensorRole::kQkv:
      return {spec.qkv_columns(), spec.hidden};
    case TensorRole::kQueryBias:
      return {queries};
    case TensorRole::kKeyBias:
    case TensorRole::kValueBias:
      return {keys};
    case TensorRole::kQkvBias:
      return {spec.qkv_columns()};
    case TensorRole::kQueryNorm:
    case TensorRole::kKeyNorm:
      return {spec.head_dim};
    case TensorRole::kAttentionOut:
      return {spec.hidden, queries};
    case TensorRole::kGate:
    case TensorRole::kUp:
      return {spec.ffn, spec.hidden};
    case TensorRole::kDown:
      return {spec.hidden, spec.ffn};
    case TensorRole::kGateBias:
    case TensorRole::kUpBias:
      return {spec.ffn};
    default:
      return {spec.hidden};  // every norm, and the biases onto the residual stream
  }
}

}  // namespace

Status UnsupportedArchitecture(std::string_view architecture) {
  return InvalidArgument(fmt::format(
      "architecture '{}' is not supported; these are: llama (also SmolLM2), mistral, qwen2 (also Qwen2.5), qwen3, gpt2",
      architecture));
}

void PlanTensors(std::span<const TensorRule> rules, std::string_view prefix, NetworkPlan* plan) {
  for (int64_t layer = -1; layer < plan->spec.layers; ++layer) {
    for (const TensorRule& rule : rules) {
      if (!IsCalledFor(rule.role, plan->spec) || IsPerLayer(rule.role) != (layer >= 0)) continue;
      std::vector<int64_t> shape = Shape(rule.role, plan->spec);
      if (rule.transposed) std::swap(shape.front(), shape.back());
      std::string name(rule.name);
      // The head stands beside the prefixed network, not inside it.
      if (rule.role != TensorRole::kHead) name.insert(0, prefix);
      if (const size_t at = name.find("{}"); at != std::string::npos) name.replace(at, 2, std::to_string(layer));
      plan->tensors.push_back({rule.role, layer, std::move(name), std::move(shape), rule.transposed});
    }
  }
}

}  // namespace ringside
