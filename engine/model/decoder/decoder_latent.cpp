// Multi-head latent attention of a decoder (DeepSeek-V2, DeepSeek-AI 2024), in the absorbed form for all rows: queries
// are projected into the latent space, so that a cached latent is a key and a value at once. Long prefill would cost
// fewer multiplications with expanded keys and values, but then a row's bits would depend on its step.
#include "engine/model/decoder/decoder.h"

namespace ringside {

void Decoder::AttendLatent(Tensor x, const LayerWeights& w, const LayerStep& step) {
  const LatentAttention& sizes = own_.latent;
  const LatentWeights& latent = w.latent;
  // A row: absorbed queries, its latent and rotated key, the queries' latent. The last two are projected together.
  const int64_t absorbed_columns = own_.heads * own_.head_dim;
  const Tensor projected = qkv_.Rows(backend_, x.rows, own_.qkv_columns() + sizes.query_rank).value();
  const Tensor absorbed = projected.Columns(0, absorbed_columns),
               key = projected.Columns(absorbed_columns, own_.head_dim);
  const Tensor query_latents = projected.Columns(own_.qkv_columns(), sizes.query_rank);
  std::vector<const Weight*> down = {&latent.down};
  if (sizes.query_rank > 0) down.push_back(&latent.query_down);
  backend_.Linear(
      {.x = x, .weights = down, .y = projected.Columns(absorbed_columns, own_.head_dim + sizes.query_rank)});
  backend_.RmsNormHeads(key.Columns(0, sizes.rank), 1, latent.norm.data(), sizes.norm_eps);
  if (sizes.query_rank > 0) backend_.RmsNormHeads(query_latents, 1, latent.query_norm.data(), sizes.norm_eps);
  const Tensor queries = latent_.queries.Rows(backend_, x.rows).value();
  const Weight* query[] = {&latent.query};
  backend_.Linear({.x = sizes.query_rank > 0 ? query_latents : x, .weights = query, .y = queries});
  backend_.LinearHeads(
      {.x = queries, .weight = &latent.key_up, .heads = own_.heads, .carried = own_.rotary, .y = absorbed});

  AttentionArgs args = step.attention;
  args.qkv = projected.Columns(0, own_.qkv_columns());
  args.out = attended_.Rows(backend_, x.rows, own_.attended_columns()).value();
  args.first_rotary = sizes.rank;
  backend_.Attention(args);

  const Tensor values = latent_.expanded.Rows(backend_, x.rows).value();
  backend_.LinearHeads({.x = args.out, .weight = &latent.value_up, .heads = own_.heads, .y = values});
  AddToStream(values,
              {w.attention_out, w.attention_out_bias, w.attention_post_norm, step.layer, AdaptedPart::kAttentionOut});
}

}  // namespace ringside
