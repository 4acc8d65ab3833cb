// Families with their own tensor names.
#include <fmt/format.h>

#include <cmath>

#include "engine/families/huggingface/huggingface_families.h"

namespace ringside {
namespace {

// GPT-2's Conv1D stores weights as [in, out].
constexpr TensorRule kGpt2[] = {
    {TensorRole::kEmbedding, "wte.weight"},
    {TensorRole::kPositions, "wpe.weight"},
    {TensorRole::kHead, "lm_head.weight"},
    {TensorRole::kFinalNorm, "ln_f.weight"},
    {TensorRole::kFinalNormBias, "ln_f.bias"},
    {TensorRole::kAttentionNorm, "h.{}.ln_1.weight"},
    {TensorRole::kAttentionNormBias, "h.{}.ln_1.bias"},
    {TensorRole::kQkv, "h.{}.attn.c_attn.weight", true},
    {TensorRole::kQkvBias, "h.{}.attn.c_attn.bias"},
    {TensorRole::kAttentionOut, "h.{}.attn.c_proj.weight", true},
    {TensorRole::kAttentionOutBias, "h.{}.attn.c_proj.bias"},
    {TensorRole::kMlpNorm, "h.{}.ln_2.weight"},
    {TensorRole::kMlpNormBias, "h.{}.ln_2.bias"},
    {TensorRole::kUp, "h.{}.mlp.c_fc.weight", true},
    {TensorRole::kUpBias, "h.{}.mlp.c_fc.bias"},
    {TensorRole::kDown, "h.{}.mlp.c_proj.weight", true},
    {TensorRole::kDownBias, "h.{}.mlp.c_proj.bias"},
};
// StarCoder: GPT-2 with one key/value head and ordinary matrices.
constexpr TensorRule kBigCode[] = {
    {TensorRole::kEmbedding, "wte.weight"},
    {TensorRole::kPositions, "wpe.weight"},
    {TensorRole::kHead, "lm_head.weight"},
    {TensorRole::kFinalNorm, "ln_f.weight"},
    {TensorRole::kFinalNormBias, "ln_f.bias"},
    {TensorRole::kAttentionNorm, "h.{}.ln_1.weight"},
    {TensorRole::kAttentionNormBias, "h.{}.ln_1.bias"},
    {TensorRole::kQkv, "h.{}.attn.c_attn.weight"},
    {TensorRole::kQkvBias, "h.{}.attn.c_attn.bias"},
    {TensorRole::kAttentionOut, "h.{}.attn.c_proj.weight"},
    {TensorRole::kAttentionOutBias, "h.{}.attn.c_proj.bias"},
    {TensorRole::kMlpNorm, "h.{}.ln_2.weight"},
    {TensorRole::kMlpNormBias, "h.{}.ln_2.bias"},
    {TensorRole::kUp, "h.{}.mlp.c_fc.weight"},
    {TensorRole::kUpBias, "h.{}.mlp.c_fc.bias"},
    {TensorRole::kDown, "h.{}.mlp.c_proj.weight"},
    {TensorRole::kDownBias, "h.{}.mlp.c_proj.bias"},
};
constexpr TensorRule kGptJ[] = {
    {TensorRole::kEmbedding, "wte.weight"},
    {TensorRole::kHead, "lm_head.weight"},
    {TensorRole::kHeadBias, "lm_head.bias"},
    {TensorRole::kFinalNorm, "ln_f.weight"},
    {TensorRole::kFinalNormBias, "ln_f.bias"},
    {TensorRole::kAttentionNorm, "h.{}.ln_1.weight"},
    {TensorRole::kAttentionNormBias, "h.{}.ln_1.bias"},
    {TensorRole::kQuery, "h.{}.attn.q_proj.weight"},
    {TensorRole::kKey, "h.{}.attn.k_proj.weight"},
    {TensorRole::kValue, "h.{}.attn.v_proj.weight"},
    {TensorRole::kAttentionOut, "h.{}.attn.out_proj.weight"},
    {TensorRole::kUp, "h.{}.mlp.fc_in.weight"},
    {TensorRole::kUpBias, "h.{}.mlp.fc_in.bias"},
    {TensorRole::kDown, "h.{}.mlp.fc_out.weight"},
    {TensorRole::kDownBias, "h.{}.mlp.fc_out.bias"},
};
constexpr TensorRule kGptNeoX[] = {
    {TensorRole::kEmbedding, "embed_in.weight"},
    {TensorRole::kHead, "embed_out.weight"},
    {TensorRole::kFinalNorm, "final_layer_norm.weight"},
    {TensorRole::kFinalNormBias, "final_layer_norm.bias"},
    {TensorRole::kAttentionNorm, "layers.{}.input_layernorm.weight"},
    {TensorRole::kAttentionNormBias, "layers.{}.input_layernorm.bias"},
    {TensorRole::kQkv, "layers.{}.attention.query_key_value.weight", false, RowOrder::kByGroup},
    {TensorRole::kQkvBias, "layers.{}.attention.query_key_value.bias", false, RowOrder::kByGroup},
    {TensorRole::kAttentionOut, "layers.{}.attention.dense.weight"},
    {TensorRole::kAttentionOutBias, "layers.{}.attention.dense.bias"},
    {TensorRole::kMlpNorm, "layers.{}.post_attention_layernorm.weight"},
    {TensorRole::kMlpNormBias, "layers.{}.post_attention_layernorm.bias"},
    {TensorRole::kUp, "layers.{}.mlp.dense_h_to_4h.weight"},
    {TensorRole::kUpBias, "layers.{}.mlp.dense_h_to_4h.bias"},
    {TensorRole::kDown, "layers.{}.mlp.dense_4h_to_h.weight"},
    {TensorRole::kDownBias, "layers.{}.mlp.dense_4h_to_h.bias"},
};
constexpr TensorRule kPhi[] = {
    {TensorRole::kEmbedding, "embed_tokens.weight"},
    {TensorRole::kHead, "lm_head.weight"},
    {TensorRole::kHeadBias, "lm_head.bias"},
    {TensorRole::kFinalNorm, "final_layernorm.weight"},
    {TensorRole::kFinalNormBias, "final_layernorm.bias"},
    {TensorRole::kAttentionNorm, "layers.{}.input_layernorm.weight"},
    {TensorRole::kAttentionNormBias, "layers.{}.input_layernorm.bias"},
    {TensorRole::kQuery, "layers.{}.self_attn.q_proj.weight"},
    {TensorRole::kKey, "layers.{}.self_attn.k_proj.weight"},
    {TensorRole::kValue, "layers.{}.self_attn.v_proj.weight"},
    {TensorRole::kQueryBias, "layers.{}.self_attn.q_proj.bias"},
    {TensorRole::kKeyBias, "layers.{}.self_attn.k_proj.bias"},
    {TensorRole::kValueBias, "layers.{}.self_attn.v_proj.bias"},
    {TensorRole::kAttentionOut, "layers.{}.self_attn.dense.weight"},
    {TensorRole::kAttentionOutBias, "layers.{}.self_attn.dense.bias"},
    {TensorRole::kUp, "layers.{}.mlp.fc1.weight"},
    {TensorRole::kUpBias, "layers.{}.mlp.fc1.bias"},
    {TensorRole::kDown, "layers.{}.mlp.fc2.weight"},
    {TensorRole::kDownBias, "layers.{}.mlp.fc2.bias"},
};
// OPT and XGLM, except the final norm.
constexpr TensorRule kFairseq[] = {
    {TensorRole::kEmbedding, "embed_tokens.weight"},
    {TensorRole::kPositions, "embed_positions.weight"},
    {TensorRole::kHead, "lm_head.weight"},
    {TensorRole::kAttentionNorm, "layers.{}.self_attn_layer_norm.weight"},
    {TensorRole::kAttentionNormBias, "layers.{}.self_attn_layer_norm.bias"},
    {TensorRole::kQuery, "layers.{}.self_attn.q_proj.weight"},
    {TensorRole::kKey, "layers.{}.self_attn.k_proj.weight"},
    {TensorRole::kValue, "layers.{}.self_attn.v_proj.weight"},
    {TensorRole::kQueryBias, "layers.{}.self_attn.q_proj.bias"},
    {TensorRole::kKeyBias, "layers.{}.self_attn.k_proj.bias"},
    {TensorRole::kValueBias, "layers.{}.self_attn.v_proj.bias"},
    {TensorRole::kAttentionOut, "layers.{}.self_attn.out_proj.weight"},
    {TensorRole::kAttentionOutBias, "layers.{}.self_attn.out_proj.bias"},
    {TensorRole::kMlpNorm, "layers.{}.final_layer_norm.weight"},
    {TensorRole::kMlpNormBias, "layers.{}.final_layer_norm.bias"},
    {TensorRole::kUp, "layers.{}.fc1.weight"},
    {TensorRole::kUpBias, "layers.{}.fc1.bias"},
    {TensorRole::kDown, "layers.{}.fc2.weight"},
    {TensorRole::kDownBias, "layers.{}.fc2.bias"},
};
constexpr TensorRule kOptEnd[] = {
    {TensorRole::kProjectIn, "project_in.weight"},
    {TensorRole::kProjectOut, "project_out.weight"},
    {TensorRole::kFinalNorm, "final_layer_norm.weight"},
    {TensorRole::kFinalNormBias, "final_layer_norm.bias"},
};
constexpr TensorRule kXglmEnd[] = {
    {TensorRole::kFinalNorm, "layer_norm.weight"},
    {TensorRole::kFinalNormBias, "layer_norm.bias"},
};
// BLOOM and Falcon, except the norms of Falcon's later architecture.
constexpr TensorRule kBloom[] = {
    {TensorRole::kEmbedding, "word_embeddings.weight"},
    {TensorRole::kEmbeddingNorm, "word_embeddings_layernorm.weight"},
    {TensorRole::kEmbeddingNormBias, "word_embeddings_layernorm.bias"},
    {TensorRole::kHead, "lm_head.weight"},
    {TensorRole::kFinalNorm, "ln_f.weight"},
    {TensorRole::kFinalNormBias, "ln_f.bias"},
    {TensorRole::kQkv, "h.{}.self_attention.query_key_value.weight", false, RowOrder::kByGroup},
    {TensorRole::kQkvBias, "h.{}.self_attention.query_key_value.bias", false, RowOrder::kByGroup},
    {TensorRole::kAttentionOut, "h.{}.self_attention.dense.weight"},
    {TensorRole::kAttentionOutBias, "h.{}.self_attention.dense.bias"},
    {TensorRole::kUp, "h.{}.mlp.dense_h_to_4h.weight"},
    {TensorRole::kUpBias, "h.{}.mlp.dense_h_to_4h.bias"},
    {TensorRole::kDown, "h.{}.mlp.dense_4h_to_h.weight"},
    {TensorRole::kDownBias, "h.{}.mlp.dense_4h_to_h.bias"},
};
constexpr TensorRule kBloomNorms[] = {
    {TensorRole::kAttentionNorm, "h.{}.input_layernorm.weight"},
    {TensorRole::kAttentionNormBias, "h.{}.input_layernorm.bias"},
    {TensorRole::kMlpNorm, "h.{}.post_attention_layernorm.weight"},
    {TensorRole::kMlpNormBias, "h.{}.post_attention_layernorm.bias"},
};
constexpr TensorRule kFalconTwoNorms[] = {
    {TensorRole::kAttentionNorm, "h.{}.ln_attn.weight"},
    {TensorRole::kAttentionNormBias, "h.{}.ln_attn.bias"},
    {TensorRole::kMlpNorm, "h.{}.ln_mlp.weight"},
    {TensorRole::kMlpNormBias, "h.{}.ln_mlp.bias"},
};
constexpr TensorRule kMpt[] = {
    {TensorRole::kEmbedding, "wte.weight"},
    {TensorRole::kHead, "lm_head.weight"},
    {TensorRole::kFinalNorm, "norm_f.weight"},
    {TensorRole::kAttentionNorm, "blocks.{}.norm_1.weight"},
    {TensorRole::kQkv, "blocks.{}.attn.Wqkv.weight"},
    {TensorRole::kAttentionOut, "blocks.{}.attn.out_proj.weight"},
    {TensorRole::kMlpNorm, "blocks.{}.norm_2.weight"},
    {TensorRole::kUp, "blocks.{}.ffn.up_proj.weight"},
    {TensorRole::kDown, "blocks.{}.ffn.down_proj.weight"},
};

void SetOlder(ModelSpec* spec) {
  spec->norm = NormKind::kLayer;
  spec->norm_biases = true;
  spec->gated = false;
}

int64_t FourTimes(int64_t hidden) { return hidden > 0 && hidden <= (1 << 17) ? 4 * hidden : 0; }

// Sizes of families with GPT-2's key names.
Status ReadOlderSizes(const ConfigJson& config, std::string_view context, ModelSpec* spec) {
  const auto either = [&](std::string_view key, std::string_view other, int64_t* value) {
    return config.Need(config.Has(key) ? key : other, value);
  };
  RETURN_IF_ERROR(either("n_layer", "num_hidden_layers", &spec->layers));
  RETURN_IF_ERROR(either("n_embd", "hidden_size", &spec->hidden));
  RETURN_IF_ERROR(either("n_head", "num_attention_heads", &spec->heads));
  RETURN_IF_ERROR(config.Need("vocab_size", &spec->vocab));
  spec->trained_context = 2048;
  if (!context.empty()) RETURN_IF_ERROR(config.Need(context, &spec->trained_context));
  spec->kv_heads = spec->heads;
  spec->ffn = FourTimes(spec->hidden);
  RETURN_IF_ERROR(config.Optional("n_inner", &spec->ffn));
  RETURN_IF_ERROR(config.Optional("layer_norm_epsilon", &spec->norm_eps));
  SetOlder(spec);
  return ReadHeadDim(config, spec);
}

Status ReadGpt2(const ConfigJson& config, ModelSpec* spec) {
  RETURN_IF_ERROR(ReadOlderSizes(config, "n_positions", spec));
  spec->learned_positions = spec->fused_qkv = true;
  spec->qkv_bias = spec->attention_out_bias = spec->mlp_bias = spec->tied_head = true;
  RETURN_IF_ERROR(config.Optional("tie_word_embeddings", &spec->tied_head));
  RETURN_IF_ERROR(ReadActivation(config, "activation_function", "gelu_new", spec));
  RETURN_IF_ERROR(config.Expect("scale_attn_weights", true));
  RETURN_IF_ERROR(config.Expect("scale_attn_by_inverse_layer_idx", false));
  RETURN_IF_ERROR(config.Expect("add_cross_attention", false));
  return ValidateSpec(*spec);
}

Status ReadBigCode(const ConfigJson& config, ModelSpec* spec) {
  RETURN_IF_ERROR(config.Expect("multi_query", true));
  RETURN_IF_ERROR(ReadGpt2(config, spec));
  spec->kv_heads = 1;
  return ReadActivation(config, "activation_function", "gelu_pytorch_tanh", spec);
}

Status ReadGptJ(const ConfigJson& config, ModelSpec* spec) {
  RETURN_IF_ERROR(ReadOlderSizes(config, "n_positions", spec));
  RETURN_IF_ERROR(ReadActivation(config, "activation_function", "gelu_new", spec));
  RETURN_IF_ERROR(config.Optional("tie_word_embeddings", &spec->tied_head));
  spec->parallel = spec->shared_norm = spec->mlp_bias = true;
  spec->head_bias = true;
  spec->rope_pairs = RopePairs::kAdjacent;
  RETURN_IF_ERROR(config.Optional("rotary_dim", &spec->rotary));
  return ReadRotations(config, spec);
}

Status ReadGptNeoX(const ConfigJson& config, ModelSpec* spec) {
  RETURN_IF_ERROR(ReadSizes(config, spec));
  RETURN_IF_ERROR(ReadActivation(config, "hidden_act", "gelu", spec));
  SetOlder(spec);
  RETURN_IF_ERROR(config.Optional("layer_norm_eps", &spec->norm_eps));
  spec->fused_qkv = spec->mlp_bias = spec->qkv_bias = spec->parallel = true;
  RETURN_IF_ERROR(config.Optional("attention_bias", &spec->qkv_bias));
  spec->attention_out_bias = spec->qkv_bias;
  RETURN_IF_ERROR(config.Optional("use_parallel_residual", &spec->parallel));
  spec->rope_pairs = RopePairs::kHalves;
  if (!config.Has("partial_rotary_factor") && !config.Has("rope_parameters") && !config.Has("rotary_pct")) {
    return InvalidArgument("config.json: 'rotary_pct' is missing");
  }
  double base = 0;  // older files' spelling
  RETURN_IF_ERROR(config.Optional("rotary_emb_base", &base));
  if (base != 0 && base != 10000) return config.ExpectNone("rotary_emb_base");
  return ReadRotations(config, spec, PartialRotary::kRead);
}

Status ReadPhi(const ConfigJson& config, ModelSpec* spec) {
  RETURN_IF_ERROR(config.Expect("qk_layernorm", false));
  RETURN_IF_ERROR(ReadSizes(config, spec));
  RETURN_IF_ERROR(ReadActivation(config, "hidden_act", "gelu_new", spec));
  SetOlder(spec);
  RETURN_IF_ERROR(config.Optional("layer_norm_eps", &spec->norm_eps));
  spec->parallel = spec->shared_norm = true;
  spec->qkv_bias = spec->attention_out_bias = spec->mlp_bias = spec->head_bias = true;
  spec->rope_pairs = RopePairs::kHalves;
  return ReadRotations(config, spec, PartialRotary::kRead);
}

Status ReadOpt(const ConfigJson& config, ModelSpec* spec) {
  RETURN_IF_ERROR(ReadSizes(config, spec));
  RETURN_IF_ERROR(config.Need("ffn_dim", &spec->ffn));
  int64_t embedded = spec->hidden;
  RETURN_IF_ERROR(config.Optional("word_embed_proj_dim", &embedded));
  if (embedded != spec->hidden) spec->embedded = embedded;
  bool no_final_norm = false;
  RETURN_IF_ERROR(config.Optional("do_layer_norm_before", &spec->norm_before));
  RETURN_IF_ERROR(config.Optional("_remove_final_layer_norm", &no_final_norm));
  spec->norm_sums = !spec->norm_before;
  spec->final_norm = spec->norm_before && !no_final_norm;
  RETURN_IF_ERROR(config.Expect("layer_norm_elementwise_affine", true));
  RETURN_IF_ERROR(ReadActivation(config, "activation_function", "relu", spec));
  SetOlder(spec);
  bool biases = true;
  RETURN_IF_ERROR(config.Optional("enable_bias", &biases));
  spec->qkv_bias = spec->attention_out_bias = spec->mlp_bias = biases;
  spec->tied_head = spec->learned_positions = true;
  RETURN_IF_ERROR(config.Optional("tie_word_embeddings", &spec->tied_head));
  spec->position_offset = 2;
  return ValidateSpec(*spec);
}

Status ReadXglm(const ConfigJson& config, ModelSpec* spec) {
  RETURN_IF_ERROR(config.Need("num_layers", &spec->layers));
  RETURN_IF_ERROR(config.Need("d_model", &spec->hidden));
  RETURN_IF_ERROR(config.Need("attention_heads", &spec->heads));
  RETURN_IF_ERROR(config.Need("ffn_dim", &spec->ffn));
  RETURN_IF_ERROR(config.Need("vocab_size", &spec->vocab));
  RETURN_IF_ERROR(config.Need("max_position_embeddings", &spec->trained_context));
  RETURN_IF_ERROR(config.Expect("add_cross_attention", false));
  spec->kv_heads = spec->heads;
  RETURN_IF_ERROR(ReadHeadDim(config, spec));
  RETURN_IF_ERROR(ReadActivation(config, "activation_function", "gelu", spec));
  SetOlder(spec);
  spec->qkv_bias = spec->attention_out_bias = spec->mlp_bias = true;
  spec->tied_head = spec->learned_positions = spec->sinusoidal_positions = true;
  RETURN_IF_ERROR(config.Optional("tie_word_embeddings", &spec->tied_head));
  spec->position_offset = 2;
  bool scaled = true;
  RETURN_IF_ERROR(config.Optional("scale_embedding", &scaled));
  if (scaled && spec->hidden > 0) spec->embedding_scale = std::sqrt(static_cast<float>(spec->hidden));
  return ValidateSpec(*spec);
}

Status ReadBloom(const ConfigJson& config, ModelSpec* spec) {
  RETURN_IF_ERROR(config.Expect("apply_residual_connection_post_layernorm", false));
  RETURN_IF_ERROR(ReadOlderSizes(config, config.Has("seq_length") ? "seq_length" : "", spec));
  spec->activation = Activation::kGeluTanh;
  spec->embedding_norm = spec->fused_qkv = true;
  spec->qkv_bias = spec->attention_out_bias = spec->mlp_bias = spec->tied_head = true;
  RETURN_IF_ERROR(config.Optional("tie_word_embeddings", &spec->tied_head));
  spec->alibi = 8;
  return ValidateSpec(*spec);
}

Status ReadFalcon(const ConfigJson& config, ModelSpec* spec) {
  bool slopes = false;
  RETURN_IF_ERROR(config.Optional("alibi", &slopes));
  const bool context = config.Has("max_position_embeddings");
  RETURN_IF_ERROR(ReadOlderSizes(config, context ? "max_position_embeddings" : "", spec));
  RETURN_IF_ERROR(config.Optional("ffn_hidden_size", &spec->ffn));
  RETURN_IF_ERROR(ReadActivation(config, "activation", "gelu", spec));
  bool grouped = false, one = true, biases = false;
  RETURN_IF_ERROR(config.Optional("new_decoder_architecture", &grouped));
  RETURN_IF_ERROR(config.Optional("multi_query", &one));
  if (grouped)
    RETURN_IF_ERROR(config.Optional(config.Has("num_kv_heads") ? "num_kv_heads" : "n_head_kv", &spec->kv_heads));
  else if (one)
    spec->kv_heads = 1;
  RETURN_IF_ERROR(config.Optional("bias", &biases));
  spec->qkv_bias = spec->attention_out_bias = spec->mlp_bias = biases;
  spec->parallel = spec->tied_head = spec->fused_qkv = true;
  RETURN_IF_ERROR(config.Optional("tie_word_embeddings", &spec->tied_head));
  if (!grouped) RETURN_IF_ERROR(config.Optional("parallel_attn", &spec->parallel));
  int64_t norms = grouped ? 2 : 1;
  RETURN_IF_ERROR(config.Optional("num_ln_in_parallel_attn", &norms));
  spec->shared_norm = spec->parallel && norms == 1;
  if (slopes) {
    spec->alibi = 8;
    spec->alibi_scaled = true;
    return ValidateSpec(*spec);
  }
  spec->rope_pairs = RopePairs::kHalves;
  return ReadRotations(config, spec);
}

Status ReadMpt(const ConfigJson& config, ModelSpec* spec) {
  RETURN_IF_ERROR(config.Need("n_layers", &spec->layers));
  RETURN_IF_ERROR(config.Need("d_model", &spec->hidden));
  RETURN_IF_ERROR(config.Need("n_heads", &spec->heads));
  RETURN_IF_ERROR(config.Need("vocab_size", &spec->vocab));
  RETURN_IF_ERROR(config.Need("max_seq_len", &spec->trained_context));
  int64_t expansion = 4;
  RETURN_IF_ERROR(config.Optional("expansion_ratio", &expansion));
  if (expansion != 4) {
    return InvalidArgument(fmt::format("config.json: 'expansion_ratio' {} is not supported", expansion));
  }
  spec->kv_heads = spec->heads;
  spec->ffn = FourTimes(spec->hidden);
  RETURN_IF_ERROR(ReadHeadDim(config, spec));
  RETURN_IF_ERROR(config.Expect("no_bias", true));
  RETURN_IF_ERROR(config.Expect("attn_config.alibi", true));
  RETURN_IF_ERROR(config.Expect("attn_config.qk_ln", false));
  RETURN_IF_ERROR(config.ExpectNone("attn_config.clip_qkv"));
  RETURN_IF_ERROR(config.ExpectNone("logit_scale"));
  RETURN_IF_ERROR(config.Optional("attn_config.softmax_scale", &spec->query_scale));
  spec->alibi = 8;
  RETURN_IF_ERROR(config.Optional("attn_config.alibi_bias_max", &spec->alibi));
  SetOlder(spec);
  spec->norm_biases = false;
  RETURN_IF_ERROR(config.Optional("layer_norm_epsilon", &spec->norm_eps));
  spec->activation = Activation::kGeluErf;
  spec->tied_head = spec->fused_qkv = true;
  RETURN_IF_ERROR(config.Optional("tie_word_embeddings", &spec->tied_head));
  return ValidateSpec(*spec);
}

}  // namespace

std::span<const HuggingFaceFamily> OlderFamilies() {
  static const HuggingFaceFamily kFamilies[] = {
      {"gpt2", ReadGpt2, "transformer.", {kGpt2}},
      {"gpt_bigcode", ReadBigCode, "transformer.", {kBigCode}},
      {"gptj", ReadGptJ, "transformer.", {kGptJ}},
      {"gpt_neox", ReadGptNeoX, "gpt_neox.", {kGptNeoX}},
      {"phi", ReadPhi, "model.", {kPhi}},
      {"opt", ReadOpt, "model.decoder.", {kFairseq, kOptEnd}},
      {"xglm", ReadXglm, "model.", {kFairseq, kXglmEnd}},
      {"bloom", ReadBloom, "transformer.", {kBloom, kBloomNorms}},
      {"falcon", ReadFalcon, "transformer.", {kBloom, kBloomNorms}},
      {"falcon", ReadFalcon, "transformer.", {kBloom, kFalconTwoNorms}},
      {"mpt", ReadMpt, "transformer.", {kMpt}},
  };
  return kFamilies;
}

}  // namespace ringside
