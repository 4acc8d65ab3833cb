#include "engine/model/decoder/draft_inputs.h"

#include <algorithm>
#include <vector>

namespace ringside {

namespace {

/// Columns of a row's keys and values.
int64_t KeyColumns(const ModelSpec& spec) {
  const auto [kv_heads, head_dim] = spec.KvSizes(spec.layers);
  return spec.latent.rank > 0 ? head_dim : 2 * kv_heads * head_dim;
}

}  // namespace

DraftInputs::DraftInputs(Backend& backend, const ModelSpec& spec, const Weights& weights)
    : backend_(backend), spec_(spec), weights_(weights) {
  if (!any()) return;
  const DType activation = backend.activation_dtype();
  for (Scratch* states : {&hidden_, &before_, &stream_}) states->columns = spec.hidden;
  inputs_ = {.columns = 2 * spec.hidden, .dtype = activation};
  normed_ = {.columns = spec.hidden, .dtype = activation};
  keys_ = {.columns = KeyColumns(spec), .dtype = activation};
}

Status DraftInputs::Reserve(int64_t rows) {
  for (Scratch* scratch : {&before_, &inputs_, &stream_, &normed_, &keys_}) {
    RETURN_IF_ERROR(scratch->Rows(backend_, rows).status());
  }
  return hidden_.Rows(backend_, std::max(1 + 2 * rows, kSmallRows)).status();
}

Tensor DraftInputs::States(int64_t rows) { return hidden_.Rows(backend_, std::max(rows, kSmallRows)).value(); }

Tensor DraftInputs::StreamRows(int64_t rows) { return stream_.Rows(backend_, rows).value(); }

void DraftInputs::SetEmbeddings(Tensor embedded) {
  rows_ = embedded.rows;
  const Tensor inputs = inputs_.Rows(backend_, rows_).value();
  Norm(embedded, layer().draft.embedding_norm, inputs.Columns(0, spec_.hidden));
}

void DraftInputs::UseStates(std::span<const int64_t> rows_before, bool of_draft) {
  const int64_t first = of_draft ? 1 + last_rows_ : 1;
  std::vector<int64_t> from;
  for (const int64_t row : rows_before) from.push_back(row < 0 ? 0 : first + row);
  const Tensor before = before_.Rows(backend_, std::ssize(from)).value();
  backend_.GatherRows(States(1 + last_rows_ + drafted_rows_), from, before);
}

void DraftInputs::SetStates(Tensor stream, std::span<const AttentionSegment> segments,
                            std::span<const int64_t> rows_before) {
  const int64_t rows = stream.rows, count = std::ssize(segments);
  UseStates(rows_before, false);
  const Tensor states = States(1 + rows + count);
  Norm(stream, weights_.final_norm, states.Rows(1, rows));
  last_rows_ = rows, drafted_rows_ = 0;
  if (rows == count) return;
  // The states before the segments are placed after those of the rows, and all are gathered in the rows' order.
  CopyRows(backend_, before_.Rows(backend_, count).value(), states.Rows(1 + rows, count));
  std::vector<int64_t> from;
  for (int64_t i = 0; i < count; ++i) {
    from.push_back(1 + rows + i);
    for (int64_t r = 1; r < segments[static_cast<size_t>(i)].rows; ++r) from.push_back(std::ssize(from));
  }
  backend_.GatherRows(states, from, before_.Rows(backend_, rows).value());
}

Tensor DraftInputs::Stream() {
  const DraftWeights& w = layer().draft;
  const Tensor inputs = inputs_.Rows(backend_, rows_).value(), stream = StreamRows(rows_);
  Norm(before_.Rows(backend_, rows_).value(), w.hidden_norm, inputs.Columns(spec_.hidden, spec_.hidden));
  const Weight* projection[] = {&w.projection};
  backend_.Linear({.x = inputs, .weights = projection, .y = stream});
  return stream;
}

Tensor DraftInputs::KeepResults(Tensor stream) {
  Norm(stream, layer().draft.norm, States(1 + last_rows_ + rows_).Rows(1 + last_rows_, rows_));
  drafted_rows_ = rows_;
  const Tensor normed = normed_.Rows(backend_, rows_).value();
  Norm(stream, layer().draft.norm, normed);
  return normed;
}

void DraftInputs::StoreKeys(Tensor stream, AttentionArgs args) {
  const LayerWeights& w = layer();
  const Tensor x = normed_.Rows(backend_, stream.rows).value();
  Norm(stream, w.attention_norm, x);
  args.heads = 0;
  if (spec_.latent.rank > 0) {
    const LatentWeights& latent = w.latent;
    args.qkv = keys_.Rows(backend_, x.rows).value();
    args.first_rotary = spec_.latent.rank;
    const Weight* down[] = {&latent.down};
    backend_.Linear({.x = x, .weights = down, .y = args.qkv});
    backend_.RmsNormHeads(args.qkv.Columns(0, spec_.latent.rank), 1, latent.norm.data(), spec_.latent.norm_eps);
    return backend_.Attention(args);
  }
  const auto [kv_heads, head_dim] = spec_.KvSizes(spec_.layers);
  const int64_t keys = kv_heads * head_dim, queries = spec_.Heads(spec_.layers) * head_dim;
  args.qkv = keys_.Rows(backend_, x.rows).value();
  const Weight* weights[] = {&w.qkv[w.qkv.size() - 2], &w.qkv.back()};
  const float* bias = w.qkv_bias.data();
  if (bias != nullptr) bias += spec_.gate_columns(spec_.layers) + queries;
  backend_.Linear({.x = x, .weights = weights, .bias = bias, .y = args.qkv});
  if (w.key_norm.data() != nullptr) {
    backend_.RmsNormHeads(args.qkv.Columns(0, keys), kv_heads, w.key_norm.data(), spec_.norm_eps);
  }
  backend_.Attention(args);
}

}  // namespace ringside
