// T5 and its descendants: an encoder and a decoder (Raffel et al. 2020; Flan-T5, UL2, mT5).
#include <cmath>

#include "engine/families/huggingface/huggingface_families.h"

namespace ringside {
namespace {

constexpr TensorRule kT5[] = {
    {TensorRole::kEmbedding, "shared.weight"},
    {TensorRole::kHead, "lm_head.weight"},
    {TensorRole::kFinalNorm, "decoder.final_layer_norm.weight"},
    {TensorRole::kDistanceBiases, "decoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight"},
    {TensorRole::kAttentionNorm, "decoder.block.{}.layer.0.layer_norm.weight"},
    {TensorRole::kQuery, "decoder.block.{}.layer.0.SelfAttention.q.weight"},
    {TensorRole::kKey, "decoder.block.{}.layer.0.SelfAttention.k.weight"},
    {TensorRole::kValue, "decoder.block.{}.layer.0.SelfAttention.v.weight"},
    {TensorRole::kAttentionOut, "decoder.block.{}.layer.0.SelfAttention.o.weight"},
    {TensorRole::kCrossNorm, "decoder.block.{}.layer.1.layer_norm.weight"},
    {TensorRole::kCrossQuery, "decoder.block.{}.layer.1.EncDecAttention.q.weight"},
    {TensorRole::kCrossKey, "decoder.block.{}.layer.1.EncDecAttention.k.weight"},
    {TensorRole::kCrossValue, "decoder.block.{}.layer.1.EncDecAttention.v.weight"},
    {TensorRole::kCrossOut, "decoder.block.{}.layer.1.EncDecAttention.o.weight"},
    {TensorRole::kMlpNorm, "decoder.block.{}.layer.2.layer_norm.weight"},
    {TensorRole::kDown, "decoder.block.{}.layer.2.DenseReluDense.wo.weight"},
    OfEncoder(TensorRole::kFinalNorm, "encoder.final_layer_norm.weight"),
    OfEncoder(TensorRole::kDistanceBiases, "encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight"),
    OfEncoder(TensorRole::kAttentionNorm, "encoder.block.{}.layer.0.layer_norm.weight"),
    OfEncoder(TensorRole::kQuery, "encoder.block.{}.layer.0.SelfAttention.q.weight"),
    OfEncoder(TensorRole::kKey, "encoder.block.{}.layer.0.SelfAttention.k.weight"),
    OfEncoder(TensorRole::kValue, "encoder.block.{}.layer.0.SelfAttention.v.weight"),
    OfEncoder(TensorRole::kAttentionOut, "encoder.block.{}.layer.0.SelfAttention.o.weight"),
    OfEncoder(TensorRole::kMlpNorm, "encoder.block.{}.layer.1.layer_norm.weight"),
    OfEncoder(TensorRole::kDown, "encoder.block.{}.layer.1.DenseReluDense.wo.weight"),
};
constexpr TensorRule kGatedMlp[] = {
    {TensorRole::kGate, "decoder.block.{}.layer.2.DenseReluDense.wi_0.weight"},
    {TensorRole::kUp, "decoder.block.{}.layer.2.DenseReluDense.wi_1.weight"},
    OfEncoder(TensorRole::kGate, "encoder.block.{}.layer.1.DenseReluDense.wi_0.weight"),
    OfEncoder(TensorRole::kUp, "encoder.block.{}.layer.1.DenseReluDense.wi_1.weight"),
};
constexpr TensorRule kPlainMlp[] = {
    {TensorRole::kUp, "decoder.block.{}.layer.2.DenseReluDense.wi.weight"},
    OfEncoder(TensorRole::kUp, "encoder.block.{}.layer.1.DenseReluDense.wi.weight"),
};

// "relu", or "gated-gelu", whose GELU is the tanh approximation.
Status ReadMlp(const ConfigJson& config, ModelSpec* spec) {
  const std::string kind = config.String("feed_forward_proj", "relu");
  spec->gated = kind.starts_with("gated-");
  if (kind == "gated-gelu") {
    spec->activation = Activation::kGeluTanh;
    return Status::Ok();
  }
  return ReadActivation(config, "dense_act_fn", spec->gated ? kind.substr(6) : kind, spec);
}

Status ReadT5(const ConfigJson& config, ModelSpec* spec) {
  RETURN_IF_ERROR(config.Need("num_layers", &spec->encoder_layers));
  spec->layers = spec->encoder_layers;
  RETURN_IF_ERROR(config.Optional("num_decoder_layers", &spec->layers));
  RETURN_IF_ERROR(config.Need("d_model", &spec->hidden));
  RETURN_IF_ERROR(config.Need("num_heads", &spec->heads));
  RETURN_IF_ERROR(config.Need("d_kv", &spec->head_dim));
  RETURN_IF_ERROR(config.Need("d_ff", &spec->ffn));
  RETURN_IF_ERROR(config.Need("vocab_size", &spec->vocab));
  spec->kv_heads = spec->heads;
  spec->trained_context = 512;
  RETURN_IF_ERROR(config.Optional("n_positions", &spec->trained_context));
  spec->norm_eps = 1e-6f;
  RETURN_IF_ERROR(config.Optional("layer_norm_epsilon", &spec->norm_eps));
  RETURN_IF_ERROR(ReadMlp(config, spec));
  spec->bias_buckets = 32, spec->bias_reach = 128;
  RETURN_IF_ERROR(config.Optional("relative_attention_num_buckets", &spec->bias_buckets));
  RETURN_IF_ERROR(config.Optional("relative_attention_max_distance", &spec->bias_reach));
  RETURN_IF_ERROR(config.Optional("decoder_start_token_id", &spec->answer_start));
  spec->query_scale = 1;
  spec->tied_head = true;
  RETURN_IF_ERROR(config.Optional("tie_word_embeddings", &spec->tied_head));
  // Older files express this by "tie_word_embeddings"; newer ones write that as true with any head.
  bool scaled = spec->tied_head;
  RETURN_IF_ERROR(config.Optional("scale_decoder_outputs", &scaled));
  if (scaled && spec->hidden > 0) spec->logit_scale = 1 / std::sqrt(static_cast<float>(spec->hidden));
  return ValidateSpec(*spec);
}

// mT5's logits are never scaled: published models have an untied head, with either value of "tie_word_embeddings".
Status ReadMt5(const ConfigJson& config, ModelSpec* spec) {
  RETURN_IF_ERROR(ReadT5(config, spec));
  spec->logit_scale = 1;
  return Status::Ok();
}

}  // namespace

// The first one also serves a folder without weights, where tensor names do not matter.
std::span<const HuggingFaceFamily> EncoderDecoderFamilies() {
  static const HuggingFaceFamily kFamilies[] = {
      {"t5", ReadT5, "", {kT5, kGatedMlp}},
      {"t5", ReadT5, "", {kT5, kPlainMlp}},
      {"mt5", ReadMt5, "", {kT5, kGatedMlp}},
      {"mt5", ReadMt5, "", {kT5, kPlainMlp}},
  };
  return kFamilies;
}

}  // namespace ringside
