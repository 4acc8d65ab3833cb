// T5 as written by FasterTransformer's converter (Raffel et al. 2020; Flan-T5, UL2, mT5).
#include <cmath>
#include <tuple>
#include <vector>

#include "engine/import/faster_transformer_section.h"

namespace ringside {
namespace {

constexpr TensorRule Matrix(TensorRole role, std::string_view name, bool encoder = false) {
  return {role, name, true, RowOrder::kPlain, encoder};  // [in, out]
}

// Queries, keys and values are fused in the decoder only; distance biases are [H, buckets].
constexpr TensorRule kFasterTransformerT5[] = {
    {TensorRole::kEmbedding, "shared.weight_T"},
    {TensorRole::kHead, "lm_head.weight"},
    {TensorRole::kFinalNorm, "decoder.final_layer_norm.weight"},
    Matrix(TensorRole::kDistanceBiases, "decoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight"),
    {TensorRole::kAttentionNorm, "decoder.block.{}.layer.0.layer_norm.weight"},
    Matrix(TensorRole::kQkv, "decoder.block.{}.layer.0.SelfAttention.qkv.weight"),
    Matrix(TensorRole::kAttentionOut, "decoder.block.{}.layer.0.SelfAttention.o.weight"),
    {TensorRole::kCrossNorm, "decoder.block.{}.layer.1.layer_norm.weight"},
    Matrix(TensorRole::kCrossQuery, "decoder.block.{}.layer.1.EncDecAttention.q.weight"),
    Matrix(TensorRole::kCrossKey, "decoder.block.{}.layer.1.EncDecAttention.k.weight"),
    Matrix(TensorRole::kCrossValue, "decoder.block.{}.layer.1.EncDecAttention.v.weight"),
    Matrix(TensorRole::kCrossOut, "decoder.block.{}.layer.1.EncDecAttention.o.weight"),
    {TensorRole::kMlpNorm, "decoder.block.{}.layer.2.layer_norm.weight"},
    OfEncoder(TensorRole::kFinalNorm, "encoder.final_layer_norm.weight"),
    Matrix(TensorRole::kDistanceBiases, "encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight", true),
    OfEncoder(TensorRole::kAttentionNorm, "encoder.block.{}.layer.0.layer_norm.weight"),
    Matrix(TensorRole::kQuery, "encoder.block.{}.layer.0.SelfAttention.q.weight", true),
    Matrix(TensorRole::kKey, "encoder.block.{}.layer.0.SelfAttention.k.weight", true),
    Matrix(TensorRole::kValue, "encoder.block.{}.layer.0.SelfAttention.v.weight", true),
    Matrix(TensorRole::kAttentionOut, "encoder.block.{}.layer.0.SelfAttention.o.weight", true),
    OfEncoder(TensorRole::kMlpNorm, "encoder.block.{}.layer.1.layer_norm.weight"),
};
constexpr TensorRule kFasterTransformerGatedMlp[] = {
    Matrix(TensorRole::kGate, "decoder.block.{}.layer.2.DenseReluDense.wi.weight"),
    Matrix(TensorRole::kUp, "decoder.block.{}.layer.2.DenseReluDense.wi2.weight"),
    Matrix(TensorRole::kGate, "encoder.block.{}.layer.1.DenseReluDense.wi.weight", true),
    Matrix(TensorRole::kUp, "encoder.block.{}.layer.1.DenseReluDense.wi2.weight", true),
};
constexpr TensorRule kFasterTransformerPlainMlp[] = {
    Matrix(TensorRole::kUp, "decoder.block.{}.layer.2.DenseReluDense.wi.weight"),
    Matrix(TensorRole::kUp, "encoder.block.{}.layer.1.DenseReluDense.wi.weight", true),
};
constexpr TensorRule kDown[] = {
    Matrix(TensorRole::kDown, "decoder.block.{}.layer.2.DenseReluDense.wo.weight"),
    Matrix(TensorRole::kDown, "encoder.block.{}.layer.1.DenseReluDense.wo.weight", true),
};

std::vector<TensorRule> Joined(std::span<const TensorRule> mlp) {
  std::vector<TensorRule> rules(std::begin(kFasterTransformerT5), std::end(kFasterTransformerT5));
  rules.insert(rules.end(), mlp.begin(), mlp.end());
  rules.insert(rules.end(), std::begin(kDown), std::end(kDown));
  return rules;
}

// Settings common to encoder and decoder.
Status ReadT5Sizes(const Section& section, ModelSpec* spec) {
  RETURN_IF_ERROR(section.Need("d_model", &spec->hidden));
  RETURN_IF_ERROR(section.Need("num_heads", &spec->heads));
  RETURN_IF_ERROR(section.Need("d_kv", &spec->head_dim));
  RETURN_IF_ERROR(section.Need("d_ff", &spec->ffn));
  RETURN_IF_ERROR(section.Need("vocab_size", &spec->vocab));
  RETURN_IF_ERROR(section.Need("relative_attention_num_buckets_or_max_pos_seq_len", &spec->bias_buckets));
  spec->bias_reach = 128;
  RETURN_IF_ERROR(section.Optional("relative_attention_max_distance", &spec->bias_reach));
  spec->norm_eps = 1e-6f;
  RETURN_IF_ERROR(section.Optional("layer_norm_epsilon", &spec->norm_eps));
  const std::string mlp = section.Text("feed_forward_proj").value_or("relu");
  spec->gated = mlp == "gated-gelu";
  spec->activation = spec->gated ? Activation::kGeluTanh : Activation::kRelu;
  return spec->gated || mlp == "relu" ? Status::Ok() : section.Unsupported("feed_forward_proj");
}

}  // namespace

Status ReadFasterTransformerT5(const IniFile& config, ModelSpec* spec) {
  const Section encoder(config, "encoder"), decoder(config, "decoder"), structure(config, "structure");
  RETURN_IF_ERROR(structure.Expect("t5_with_bias", false));
  if (structure.Text("position_embedding_type").value_or("relative") != "relative") {
    return structure.Unsupported("position_embedding_type");
  }
  ModelSpec of_encoder;
  RETURN_IF_ERROR(ReadT5Sizes(encoder, &of_encoder));
  RETURN_IF_ERROR(ReadT5Sizes(decoder, spec));
  const auto sizes = [](const ModelSpec& s) {
    return std::tuple(s.hidden, s.heads, s.head_dim, s.ffn, s.vocab, s.bias_buckets, s.bias_reach, s.norm_eps, s.gated);
  };
  if (sizes(of_encoder) != sizes(*spec)) {
    return InvalidArgument("config.ini: [encoder] and [decoder] have different sizes");
  }
  RETURN_IF_ERROR(encoder.Need("num_layers", &spec->encoder_layers));
  RETURN_IF_ERROR(decoder.Need("num_layers", &spec->layers));
  RETURN_IF_ERROR(decoder.Optional("decoder_start_token_id", &spec->answer_start));
  spec->trained_context = 512;
  RETURN_IF_ERROR(encoder.Optional("n_positions", &spec->trained_context));
  spec->tied_head = true;
  RETURN_IF_ERROR(decoder.Optional("tie_word_embeddings", &spec->tied_head));
  spec->architecture = "t5";
  spec->kv_heads = spec->heads;
  spec->fused_qkv = true;
  spec->query_scale = 1;
  if (spec->tied_head && spec->hidden > 0) spec->logit_scale = 1 / std::sqrt(static_cast<float>(spec->hidden));
  return ValidateSpec(*spec);
}

std::span<const TensorRule> FasterTransformerT5Rules(const ModelSpec& spec) {
  static const std::vector<TensorRule> kGated = Joined(kFasterTransformerGatedMlp),
                                       kPlain = Joined(kFasterTransformerPlainMlp);
  return spec.gated ? kGated : kPlain;
}

}  // namespace ringside
