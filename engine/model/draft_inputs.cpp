#include "engine/model/draft_inputs.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

namespace ringside {

Tensor DraftInputs::Rows(Buffer& memory, DType dtype, int64_t rows, int64_t columns) {
  const auto bytes = static_cast<size_t>(StorageBytes(dtype, rows * columns));
  if (memory.bytes() < bytes) {
    memory = Buffer();
    memory = std::move(backend_.Allocate(bytes).value());
  }
  return {dtype, memory.data(), rows, columns, columns};
}

Status DraftInputs::Reserve(int64_t rows) {
  if (!any()) return Status::Ok();
  const int64_t d = spec_.hidden, keys = spec_.qkv_columns(spec_.layers);
  const DType activation = backend_.activation_dtype();
  const std::pair<Buffer*, int64_t> buffers[] = {
      {&hidden_, StorageBytes(DType::kF32, std::max(1 + 2 * rows, kSmallRows) * d)},
      {&before_, StorageBytes(DType::kF32, rows * d)},
      {&inputs_, StorageBytes(activation, rows * 2 * d)},
      {&stream_, StorageBytes(DType::kF32, rows * d)},
      {&normed_, StorageBytes(activation, rows * d)},
      {&keys_, StorageBytes(activation, rows * keys)}};
  for (const auto& [buffer, bytes] : buffers) {
    if (buffer->bytes() >= static_cast<size_t>(bytes)) continue;
    ASSIGN_OR_RETURN(*buffer, backend_.Allocate(static_cast<size_t>(bytes)));
  }
  return Status::Ok();
}

Tensor DraftInputs::States(int64_t rows) {
  return Rows(hidden_, DType::kF32, std::max(rows, kSmallRows), spec_.hidden);
}

Tensor DraftInputs::StreamRows(int64_t rows) { return Rows(stream_, DType::kF32, rows, spec_.hidden); }

void DraftInputs::SetEmbeddings(Tensor embedded) {
  rows_ = embedded.rows;
  const Tensor inputs = Rows(inputs_, backend_.activation_dtype(), rows_, 2 * spec_.hidden);
  Norm(embedded, layer().draft.embedding_norm, inputs.Columns(0, spec_.hidden));
}

void DraftInputs::UseStates(std::span<const int64_t> rows_before, bool of_draft) {
  const int64_t first = of_draft ? 1 + last_rows_ : 1;
  std::vector<int64_t> from;
  for (const int64_t row : rows_before) from.push_back(row < 0 ? 0 : first + row);
  const Tensor before = Rows(before_, DType::kF32, std::ssize(from), spec_.hidden);
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
  std::vector<int64_t> from(static_cast<size_t>(count));
  std::iota(from.begin(), from.end(), int64_t{0});
  backend_.GatherRows(Rows(before_, DType::kF32, count, spec_.hidden), from, states.Rows(1 + rows, count));
  from.clear();
  for (int64_t i = 0; i < count; ++i) {
    from.push_back(1 + rows + i);
    for (int64_t r = 1; r < segments[static_cast<size_t>(i)].rows; ++r) from.push_back(std::ssize(from));
  }
  backend_.GatherRows(states, from, Rows(before_, DType::kF32, rows, spec_.hidden));
}

Tensor DraftInputs::Stream() {
  const DraftWeights& w = layer().draft;
  const Tensor inputs = Rows(inputs_, backend_.activation_dtype(), rows_, 2 * spec_.hidden), stream = StreamRows(rows_);
  Norm(Rows(before_, DType::kF32, rows_, spec_.hidden), w.hidden_norm, inputs.Columns(spec_.hidden, spec_.hidden));
  const Weight* projection[] = {&w.projection};
  backend_.Linear({.x = inputs, .weights = projection, .y = stream});
  return stream;
}

Tensor DraftInputs::KeepResults(Tensor stream) {
  Norm(stream, layer().draft.norm, States(1 + last_rows_ + rows_).Rows(1 + last_rows_, rows_));
  drafted_rows_ = rows_;
  const Tensor normed = Rows(normed_, backend_.activation_dtype(), rows_, spec_.hidden);
  Norm(stream, layer().draft.norm, normed);
  return normed;
}

void DraftInputs::StoreKeys(Tensor stream, AttentionArgs args) {
  const LayerWeights& w = layer();
  const DType activation = backend_.activation_dtype();
  const Tensor x = Rows(normed_, activation, stream.rows, spec_.hidden);
  Norm(stream, w.attention_norm, x);
  args.heads = 0;
  if (spec_.latent.rank > 0) {
    const LatentWeights& latent = w.latent;
    args.qkv = Rows(keys_, activation, x.rows, spec_.head_dim);
    args.first_rotary = spec_.latent.rank;
    const Weight* down[] = {&latent.down};
    backend_.Linear({.x = x, .weights = down, .y = args.qkv});
    backend_.RmsNormHeads(args.qkv.Columns(0, spec_.latent.rank), 1, latent.norm.data(), spec_.latent.norm_eps);
    return backend_.Attention(args);
  }
  const auto [kv_heads, head_dim] = spec_.KvSizes(spec_.layers);
  const int64_t keys = kv_heads * head_dim, queries = spec_.Heads(spec_.layers) * head_dim;
  args.qkv = Rows(keys_, activation, x.rows, 2 * keys);
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
