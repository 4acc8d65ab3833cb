// Tensor names and settings that families descended from Llama share.
#pragma once

#include <functional>

#include "engine/families/huggingface/huggingface_families.h"

namespace ringside {

inline constexpr TensorRule kAttention[] = {
    {TensorRole::kEmbedding, "embed_tokens.weight"},
    {TensorRole::kHead, "lm_head.weight"},
    {TensorRole::kFinalNorm, "norm.weight"},
    {TensorRole::kFinalNormBias, "norm.bias"},
    {TensorRole::kAttentionNorm, "layers.{}.input_layernorm.weight"},
    {TensorRole::kAttentionNormBias, "layers.{}.input_layernorm.bias"},
    {TensorRole::kQuery, "layers.{}.self_attn.q_proj.weight"},
    {TensorRole::kKey, "layers.{}.self_attn.k_proj.weight"},
    {TensorRole::kValue, "layers.{}.self_attn.v_proj.weight"},
    {TensorRole::kQkv, "layers.{}.self_attn.qkv_proj.weight"},
    {TensorRole::kQueryBias, "layers.{}.self_attn.q_proj.bias"},
    {TensorRole::kKeyBias, "layers.{}.self_attn.k_proj.bias"},
    {TensorRole::kValueBias, "layers.{}.self_attn.v_proj.bias"},
    {TensorRole::kQueryNorm, "layers.{}.self_attn.q_norm.weight"},
    {TensorRole::kKeyNorm, "layers.{}.self_attn.k_norm.weight"},
    {TensorRole::kSinks, "layers.{}.self_attn.sinks"},
    {TensorRole::kAttentionOut, "layers.{}.self_attn.o_proj.weight"},
    {TensorRole::kAttentionOutBias, "layers.{}.self_attn.o_proj.bias"},
};
// "post_attention_layernorm" is the norm before the MLP, or, with output norms, the one after attention, and the MLP
// has norms before and after.
inline constexpr TensorRule kOneNormEach[] = {
    {TensorRole::kMlpNorm, "layers.{}.post_attention_layernorm.weight"},
    {TensorRole::kMlpNormBias, "layers.{}.post_attention_layernorm.bias"},
};
inline constexpr TensorRule kNormsAfter[] = {
    {TensorRole::kAttentionPostNorm, "layers.{}.post_attention_layernorm.weight"},
    {TensorRole::kMlpNorm, "layers.{}.pre_feedforward_layernorm.weight"},
    {TensorRole::kMlpPostNorm, "layers.{}.post_feedforward_layernorm.weight"},
};
inline constexpr TensorRule kMlp[] = {
    {TensorRole::kGate, "layers.{}.mlp.gate_proj.weight"},      {TensorRole::kUp, "layers.{}.mlp.up_proj.weight"},
    {TensorRole::kGateUp, "layers.{}.mlp.gate_up_proj.weight"}, {TensorRole::kDown, "layers.{}.mlp.down_proj.weight"},
    {TensorRole::kGateBias, "layers.{}.mlp.gate_proj.bias"},    {TensorRole::kUpBias, "layers.{}.mlp.up_proj.bias"},
    {TensorRole::kDownBias, "layers.{}.mlp.down_proj.bias"},
};
inline constexpr TensorRule kMixtralExperts[] = {
    {TensorRole::kRouter, "layers.{}.block_sparse_moe.gate.weight"},
    {TensorRole::kExpertGate, "layers.{}.block_sparse_moe.experts.{e}.w1.weight"},
    {TensorRole::kExpertUp, "layers.{}.block_sparse_moe.experts.{e}.w3.weight"},
    {TensorRole::kExpertDown, "layers.{}.block_sparse_moe.experts.{e}.w2.weight"},
};
inline constexpr TensorRule kQwenExperts[] = {
    {TensorRole::kRouter, "layers.{}.mlp.gate.weight"},
    {TensorRole::kExpertGate, "layers.{}.mlp.experts.{e}.gate_proj.weight"},
    {TensorRole::kExpertUp, "layers.{}.mlp.experts.{e}.up_proj.weight"},
    {TensorRole::kExpertDown, "layers.{}.mlp.experts.{e}.down_proj.weight"},
    {TensorRole::kSharedRouter, "layers.{}.mlp.shared_expert_gate.weight"},
    {TensorRole::kSharedGate, "layers.{}.mlp.shared_expert.gate_proj.weight"},
    {TensorRole::kSharedUp, "layers.{}.mlp.shared_expert.up_proj.weight"},
    {TensorRole::kSharedDown, "layers.{}.mlp.shared_expert.down_proj.weight"},
};
inline constexpr TensorRule kGraniteExperts[] = {
    {TensorRole::kRouter, "layers.{}.block_sparse_moe.router.layer.weight"},
    {TensorRole::kExpertGateUp, "layers.{}.block_sparse_moe.input_linear.weight"},
    {TensorRole::kExpertDown, "layers.{}.block_sparse_moe.output_linear.weight"},
};

inline constexpr TensorRule kExpertsAndShared[] = {
    {TensorRole::kRouter, "layers.{}.mlp.gate.weight"},
    {TensorRole::kExpertGate, "layers.{}.mlp.experts.{e}.gate_proj.weight"},
    {TensorRole::kExpertUp, "layers.{}.mlp.experts.{e}.up_proj.weight"},
    {TensorRole::kExpertDown, "layers.{}.mlp.experts.{e}.down_proj.weight"},
    {TensorRole::kCommonGate, "layers.{}.mlp.shared_experts.gate_proj.weight"},
    {TensorRole::kCommonUp, "layers.{}.mlp.shared_experts.up_proj.weight"},
    {TensorRole::kCommonDown, "layers.{}.mlp.shared_experts.down_proj.weight"},
};
inline constexpr TensorRule kGlmCorrection[] = {
    {TensorRole::kRouterCorrection, "layers.{}.mlp.gate.e_score_correction_bias"},
};

// The layer after the last one drafts (DeepSeek-V3, GLM-4.5).
inline constexpr TensorRule kNextLayerDraftTensors[] = {
    {TensorRole::kDraftProjection, "layers.{}.eh_proj.weight"},
    {TensorRole::kDraftEmbeddingNorm, "layers.{}.enorm.weight"},
    {TensorRole::kDraftHiddenNorm, "layers.{}.hnorm.weight"},
    {TensorRole::kDraftNorm, "layers.{}.shared_head.norm.weight"},
};
inline constexpr std::string_view kNextLayerDraftCopies[] = {"layers.{}.embed_tokens.weight",
                                                             "layers.{}.shared_head.head.weight"};
inline constexpr DraftRules kNextLayerDraft{"", kNextLayerDraftTensors, kNextLayerDraftCopies};

inline constexpr std::string_view kPrefix = "model.";

inline bool EveryLayer(int64_t) { return true; }
inline bool NoLayer(int64_t) { return false; }
inline bool EvenLayers(int64_t layer) { return layer % 2 == 0; }
inline bool ThreeOfFour(int64_t layer) { return layer % 4 != 3; }

/// Settings common to all; RMS norms by default.
Status ReadBase(const ConfigJson& config, ModelSpec* spec);
/// Granite's: also biases and factors, except the rotations.
Status ReadGraniteBase(const ConfigJson& config, ModelSpec* spec);
/// Gives the layers that `is_dense` selects a plain MLP of the width `intermediate_size`; experts and shared experts
/// are `moe_intermediate_size` wide. `shared_experts`: the key of their number.
Status ReadWidths(const ConfigJson& config, std::string_view shared_experts,
                  const std::function<bool(int64_t)>& is_dense, ModelSpec* spec);
/// DeepSeek's groups of experts.
Status ReadExpertGroups(const ConfigJson& config, ModelSpec* spec);
/// A sigmoid router with corrections and groups (DeepSeek-V3, GLM-4.5, Nemotron-H).
Status ReadCorrectedRouter(const ConfigJson& config, ModelSpec* spec);
/// ModelSpec::position_scale.
Status ReadPositionScale(const ConfigJson& config, ModelSpec* spec);
/// Number of experts and of those used. ERRORS: kInvalidArgument unless every layer has them.
Status ReadQwenExperts(const ConfigJson& config, ModelSpec* spec);

}  // namespace ringside
