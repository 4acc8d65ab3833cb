#include "engine/families/network_plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace ringside {
namespace {

bool IsPerLayer(TensorRole role) { return role >= TensorRole::kAttentionNorm; }

bool IsOfExpert(TensorRole role) { return role >= TensorRole::kExpertGate && role <= TensorRole::kExpertDownBias; }

// Norms and their biases.
bool HasNorm(TensorRole role, const ModelSpec& spec) {
  const bool of_layer = spec.norm_before || spec.norm_sums;
  switch (role) {
    case TensorRole::kEmbeddingNorm:
      return spec.embedding_norm && spec.norm_weights;
    case TensorRole::kEmbeddingNormBias:
      return spec.embedding_norm && spec.norm_biases;
    case TensorRole::kFinalNorm:
      return spec.final_norm && spec.norm_weights;
    case TensorRole::kFinalNormBias:
      return spec.final_norm && spec.norm_biases;
    case TensorRole::kAttentionNorm:
      return of_layer && spec.norm_weights;
    case TensorRole::kAttentionNormBias:
      return of_layer && spec.norm_biases;
    case TensorRole::kMlpNorm:
      return of_layer && spec.norm_weights && !spec.shared_norm;
    case TensorRole::kMlpNormBias:
      return of_layer && spec.norm_biases && !spec.shared_norm;
    case TensorRole::kQueryNorm:
    case TensorRole::kKeyNorm:
      return spec.qk_norm != QkNorm::kNone;
    default:  // output norms
      return spec.norm_after;
  }
}

// Parts of a dense MLP or of a mixture of experts.
bool HasMlpPart(TensorRole role, const ModelSpec& spec) {
  const bool one = spec.experts == 0, several = !one;
  switch (role) {
    case TensorRole::kGate:
      return one && spec.gated && !spec.fused_gate_up;
    case TensorRole::kUp:
      return one && !spec.fused_gate_up;
    case TensorRole::kGateUp:
      return one && spec.fused_gate_up;
    case TensorRole::kDown:
      return one;
    case TensorRole::kGateBias:
      return one && spec.gated && spec.mlp_bias;
    case TensorRole::kUpBias:
    case TensorRole::kDownBias:
      return one && spec.mlp_bias;
    case TensorRole::kRouter:
    case TensorRole::kExpertDown:
      return several;
    case TensorRole::kRouterBias:
    case TensorRole::kExpertDownBias:
      return several && spec.mlp_bias;
    case TensorRole::kExpertGateBias:
    case TensorRole::kExpertUpBias:
      return several && spec.mlp_bias && !spec.fused_gate_up;
    case TensorRole::kExpertGateUpBias:
      return several && spec.mlp_bias && spec.fused_gate_up;
    case TensorRole::kExpertGate:
    case TensorRole::kExpertUp:
      return several && !spec.fused_gate_up;
    case TensorRole::kExpertGateUp:
      return several && spec.fused_gate_up;
    default:
      return several && spec.shared_ffn > 0;
  }
}

// True if a network of this spec has such a tensor.
bool IsRequired(TensorRole role, const ModelSpec& spec, bool encoder) {
  const bool fused_qkv = spec.fused_qkv && !encoder;
  switch (role) {
    case TensorRole::kEmbedding:
    case TensorRole::kAttentionOut:
      return true;
    case TensorRole::kPositions:
      return spec.learned_positions && !spec.sinusoidal_positions;
    case TensorRole::kHead:
      return !spec.tied_head;
    case TensorRole::kProjectIn:
    case TensorRole::kProjectOut:
      return spec.embedded != 0;
    case TensorRole::kHeadBias:
      return spec.head_bias;
    case TensorRole::kQkv:
      return fused_qkv;
    case TensorRole::kQuery:
    case TensorRole::kKey:
    case TensorRole::kValue:
      return !fused_qkv;
    case TensorRole::kQkvBias:
      return fused_qkv && spec.qkv_bias;
    case TensorRole::kQueryBias:
    case TensorRole::kKeyBias:
    case TensorRole::kValueBias:
      return !fused_qkv && spec.qkv_bias;
    case TensorRole::kSinks:
      return spec.sinks;
    case TensorRole::kDistanceBiases:
      return spec.bias_buckets > 0;
    case TensorRole::kCrossNorm:
    case TensorRole::kCrossQuery:
    case TensorRole::kCrossKey:
    case TensorRole::kCrossValue:
    case TensorRole::kCrossOut:
      return spec.encoder_layers > 0;
    case TensorRole::kAttentionOutBias:
      return spec.attention_out_bias;
    case TensorRole::kEmbeddingNorm:
    case TensorRole::kEmbeddingNormBias:
    case TensorRole::kFinalNorm:
    case TensorRole::kFinalNormBias:
    case TensorRole::kAttentionNorm:
    case TensorRole::kAttentionNormBias:
    case TensorRole::kMlpNorm:
    case TensorRole::kMlpNormBias:
    case TensorRole::kQueryNorm:
    case TensorRole::kKeyNorm:
    case TensorRole::kAttentionPostNorm:
    case TensorRole::kMlpPostNorm:
      return HasNorm(role, spec);
    default:
      return HasMlpPart(role, spec);
  }
}

std::vector<int64_t> Shape(TensorRole role, const ModelSpec& spec) {
  const int64_t queries = spec.heads * spec.head_dim, keys = spec.kv_heads * spec.head_dim;
  switch (role) {
    case TensorRole::kEmbedding:
    case TensorRole::kHead:
      return {spec.vocab, spec.embedding_columns()};
    case TensorRole::kProjectIn:
      return {spec.hidden, spec.embedded};
    case TensorRole::kProjectOut:
      return {spec.embedded, spec.hidden};
    case TensorRole::kHeadBias:
      return {spec.vocab};
    case TensorRole::kPositions:
      return {spec.position_offset + spec.trained_context, spec.hidden};
    case TensorRole::kDistanceBiases:
      return {spec.bias_buckets, spec.heads};
    case TensorRole::kQuery:
    case TensorRole::kCrossQuery:
      return {queries, spec.hidden};
    case TensorRole::kKey:
    case TensorRole::kValue:
    case TensorRole::kCrossKey:
    case TensorRole::kCrossValue:
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
      return {spec.qk_norm == QkNorm::kRows ? queries : spec.head_dim};
    case TensorRole::kKeyNorm:
      return {spec.qk_norm == QkNorm::kRows ? keys : spec.head_dim};
    case TensorRole::kSinks:
      return {spec.heads};
    case TensorRole::kAttentionOut:
    case TensorRole::kCrossOut:
      return {spec.hidden, queries};
    case TensorRole::kGate:
    case TensorRole::kUp:
    case TensorRole::kExpertGate:
    case TensorRole::kExpertUp:
      return {spec.ffn, spec.hidden};
    case TensorRole::kGateUp:
    case TensorRole::kExpertGateUp:
      return {2 * spec.ffn, spec.hidden};
    case TensorRole::kDown:
    case TensorRole::kExpertDown:
      return {spec.hidden, spec.ffn};
    case TensorRole::kGateBias:
    case TensorRole::kUpBias:
    case TensorRole::kExpertGateBias:
    case TensorRole::kExpertUpBias:
      return {spec.ffn};
    case TensorRole::kExpertGateUpBias:
      return {2 * spec.ffn};
    case TensorRole::kRouter:
      return {spec.experts, spec.hidden};
    case TensorRole::kRouterBias:
      return {spec.experts};
    case TensorRole::kSharedRouter:
      return {1, spec.hidden};
    case TensorRole::kSharedGate:
    case TensorRole::kSharedUp:
      return {spec.shared_ffn, spec.hidden};
    case TensorRole::kSharedDown:
      return {spec.hidden, spec.shared_ffn};
    default:
      return {spec.hidden};  // every other norm, and the residual biases
  }
}

void PlanTensor(const TensorRule& rule, std::string_view prefix, int64_t layer, int64_t expert, NetworkPlan* plan) {
  std::vector<int64_t> shape = Shape(rule.role, plan->spec);
  if (rule.transposed) std::swap(shape.front(), shape.back());
  if (IsOfExpert(rule.role) && expert < 0) shape.insert(shape.begin(), plan->spec.experts);
  std::string name(rule.name);
  // The head is outside the prefixed network.
  if (rule.role != TensorRole::kHead && rule.role != TensorRole::kHeadBias) name.insert(0, prefix);
  const auto put = [&](std::string_view place, int64_t number) {
    if (const size_t at = name.find(place); at != std::string::npos) {
      name.replace(at, place.size(), std::to_string(number));
    }
  };
  put("{}", layer), put("{e}", expert);
  plan->tensors.push_back({.role = rule.role,
                           .encoder = rule.encoder,
                           .layer = layer,
                           .expert = expert,
                           .name = std::move(name),
                           .shape = std::move(shape),
                           .transposed = rule.transposed,
                           .order = rule.order});
}

void PlanPart(std::span<const TensorRule> rules, std::string_view prefix, bool encoder, int64_t layers,
              NetworkPlan* plan) {
  for (int64_t layer = -1; layer < layers; ++layer) {
    for (const TensorRule& rule : rules) {
      if (rule.encoder != encoder) continue;
      if (!IsRequired(rule.role, plan->spec, encoder) || IsPerLayer(rule.role) != (layer >= 0)) continue;
      const bool each = rule.name.find("{e}") != std::string_view::npos;
      for (int64_t expert = each ? 0 : -1; expert < (each ? plan->spec.experts : 0); ++expert) {
        PlanTensor(rule, prefix, layer, expert, plan);
      }
    }
  }
}

}  // namespace

Status UnsupportedArchitecture(std::string_view architecture, std::span<const std::string_view> supported) {
  return InvalidArgument(
      fmt::format("architecture '{}' is not supported; these are: {}", architecture, fmt::join(supported, ", ")));
}

void PlanTensors(std::span<const TensorRule> rules, std::string_view prefix, NetworkPlan* plan) {
  PlanPart(rules, prefix, false, plan->spec.layers, plan);
  PlanPart(rules, prefix, true, plan->spec.encoder_layers, plan);
}

}  // namespace ringside
