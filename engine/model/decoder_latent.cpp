// Multi-head latent attention of a decoder (DeepSeek-V2, DeepSeek-AI 2024), in the absorbed form for all rows: queries
// are projected into the latent space, so that a cached latent is a key and a value at once. Long prefill would cost
// fewer multiplications with expanded keys and values, but then a row's bits would depend on its step.
#include "engine/model/decoder.h"

namespace ringside {

void Decoder::AttendLatent(Tensor x, const LayerWeights& w, const LayerStep& step) {
  const LatentAttention& sizes = own_.latent;
  const LatentWeights& latent = w.latent;
  const auto linear = [&](Tensor in, const Weight& weight, Tensor out) {
    const Weight* weights[] = {&weight};
    backend_.Linear({.x = in, .weights = weights, .y = out});
  };
  Tensor input = x;  // of the queries
  if (sizes.query_rank > 0) {
    input = latent_.query_latents.Rows(backend_, x.rows).value();
    linear(x, latent.query_down, input);
    backend_.RmsNormHeads(input, 1, latent.query_norm.data(), sizes.norm_eps);
  }
  const Tensor queries = latent_.queries.Rows(backend_, x.rows).value();
  linear(input, latent.query, queries);

  AttentionArgs args = step.attention;
  args.qkv = qkv_.Rows(backend_, x.rows, own_.qkv_columns()).value();
  args.out = attended_.Rows(backend_, x.rows, own_.attended_columns()).value();
  args.first_rotary = sizes.rank;
  const Tensor absorbed = args.qkv.Columns(0, own_.heads * own_.head_dim);
  backend_.LinearHeads(
      {.x = queries, .weight = &latent.key_up, .heads = own_.heads, .carried = own_.rotary, .y = absorbed});
  const Tensor key = args.qkv.Columns(absorbed.cols, own_.head_dim);
  linear(x, latent.down, key);
  backend_.RmsNormHeads(key.Columns(0, sizes.rank), 1, latent.norm.data(), sizes.norm_eps);
  backend_.Attention(args);

  const Tensor values = latent_.expanded.Rows(backend_, x.rows).value();
  backend_.LinearHeads({.x = args.out, .weight = &latent.value_up, .heads = own_.heads, .y = values});
  AddToStream(values,
              {w.attention_out, w.attention_out_bias, w.attention_post_norm, step.layer, AdaptedPart::kAttentionOut});
}

}  // namespace ringside
