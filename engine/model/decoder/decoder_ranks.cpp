// The sums and norms of a decoder's values that the ranks of a stage share.
#include "engine/model/decoder/decoder.h"

namespace ringside {

void Decoder::AddSum(Tensor own, const DeviceVector& norm) {
  if (norm.data() == nullptr) return shard_.whole() ? backend_.Add(own, stream_) : backend_.AllReduceAdd(own, stream_);
  if (!shard_.whole()) backend_.AllReduceInPlace(own);
  PostNorm(own, norm);
  backend_.Add(own, stream_);
}

void Decoder::NormRow(Tensor x, int64_t columns, bool counts, const float* weight, float eps) {
  if (shard_.whole()) return backend_.RmsNormHeads(x, 1, weight, eps);
  backend_.RmsNormOfRanks(x, columns, counts, weight, eps);
}

void Decoder::NormQueriesAndKeys(Tensor queries, Tensor keys, const LayerWeights& w, int64_t layer) {
  const int64_t heads = own_.Heads(layer), kv_heads = own_.KvSizes(layer).kv_heads;
  const float* weights[] = {w.query_norm.data(), w.key_norm.data()};
  if (own_.qk_norm != QkNorm::kRows) {
    backend_.RmsNormHeads(queries, heads, weights[0], own_.norm_eps);
    if (keys.cols > 0) backend_.RmsNormHeads(keys, kv_heads, weights[1], own_.norm_eps);
    return;
  }
  const int64_t all = layer + shard_.layers.begin, all_kv_heads = whole_.KvSizes(all).kv_heads;
  const bool saves = shard_.Heads(whole_.Heads(all), all_kv_heads).saves;
  NormRow(queries, queries.cols / heads * whole_.Heads(all), true, weights[0], own_.norm_eps);
  NormRow(keys, keys.cols / kv_heads * all_kv_heads, saves, weights[1], own_.norm_eps);
}

}  // namespace ringside
