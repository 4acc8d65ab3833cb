// T5 and its descendants as written by llama.cpp's converter.
#include "engine/families/gguf/gguf_families.h"

namespace ringside {
namespace {

constexpr TensorRule kGgufT5[] = {
    {TensorRole::kEmbedding, "token_embd.weight"},
    {TensorRole::kHead, "output.weight"},
    {TensorRole::kFinalNorm, "dec.output_norm.weight"},
    {TensorRole::kDistanceBiases, "dec.blk.0.attn_rel_b.weight"},
    {TensorRole::kAttentionNorm, "dec.blk.{}.attn_norm.weight"},
    {TensorRole::kQuery, "dec.blk.{}.attn_q.weight"},
    {TensorRole::kKey, "dec.blk.{}.attn_k.weight"},
    {TensorRole::kValue, "dec.blk.{}.attn_v.weight"},
    {TensorRole::kAttentionOut, "dec.blk.{}.attn_o.weight"},
    {TensorRole::kCrossNorm, "dec.blk.{}.cross_attn_norm.weight"},
    {TensorRole::kCrossQuery, "dec.blk.{}.cross_attn_q.weight"},
    {TensorRole::kCrossKey, "dec.blk.{}.cross_attn_k.weight"},
    {TensorRole::kCrossValue, "dec.blk.{}.cross_attn_v.weight"},
    {TensorRole::kCrossOut, "dec.blk.{}.cross_attn_o.weight"},
    {TensorRole::kMlpNorm, "dec.blk.{}.ffn_norm.weight"},
    {TensorRole::kGate, "dec.blk.{}.ffn_gate.weight"},
    {TensorRole::kUp, "dec.blk.{}.ffn_up.weight"},
    {TensorRole::kDown, "dec.blk.{}.ffn_down.weight"},
    OfEncoder(TensorRole::kFinalNorm, "enc.output_norm.weight"),
    OfEncoder(TensorRole::kDistanceBiases, "enc.blk.0.attn_rel_b.weight"),
    OfEncoder(TensorRole::kAttentionNorm, "enc.blk.{}.attn_norm.weight"),
    OfEncoder(TensorRole::kQuery, "enc.blk.{}.attn_q.weight"),
    OfEncoder(TensorRole::kKey, "enc.blk.{}.attn_k.weight"),
    OfEncoder(TensorRole::kValue, "enc.blk.{}.attn_v.weight"),
    OfEncoder(TensorRole::kAttentionOut, "enc.blk.{}.attn_o.weight"),
    OfEncoder(TensorRole::kMlpNorm, "enc.blk.{}.ffn_norm.weight"),
    OfEncoder(TensorRole::kGate, "enc.blk.{}.ffn_gate.weight"),
    OfEncoder(TensorRole::kUp, "enc.blk.{}.ffn_up.weight"),
    OfEncoder(TensorRole::kDown, "enc.blk.{}.ffn_down.weight"),
};

}  // namespace

std::span<const TensorRule> GgufT5Rules() { return kGgufT5; }

Status SetGgufT5(const GgufKeys& keys, ModelSpec* spec) {
  spec->encoder_layers = spec->layers;
  RETURN_IF_ERROR(keys.Optional("decoder_block_count", &spec->layers));
  RETURN_IF_ERROR(keys.Optional("decoder_start_token_id", &spec->answer_start));
  RETURN_IF_ERROR(keys.Need("attention.relative_buckets_count", &spec->bias_buckets));
  spec->bias_reach = 128;  // the file does not store it
  spec->query_scale = 1;
  return Status::Ok();
}

}  // namespace ringside
