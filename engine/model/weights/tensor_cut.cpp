#include "engine/model/weights/tensor_cut.h"

#include <optional>

#include "base/check.h"
#include "engine/model/weights/recurrent_share.h"

namespace ringside {
namespace {

using Ranges = std::vector<IndexRange>;

int64_t Count(const Ranges& ranges) {
  int64_t count = 0;
  for (const IndexRange& range : ranges) count += range.size();
  return count;
}

/// The same share of each of `parts` equal parts of `count` elements; `all`: of a part, in the share's units.
Ranges Shares(IndexRange share, int64_t all, int64_t count, int64_t parts = 1) {
  Ranges ranges;
  const int64_t part = count / parts, unit = part / all;
  for (int64_t i = 0; i < parts; ++i) {
    ranges.push_back({i * part + share.begin * unit, i * part + share.end * unit});
  }
  return ranges;
}

/// The parts of the outputs, or inputs, of a recurrent layer's tensor.
std::optional<std::vector<RecurrentPart>> RecurrentParts(TensorSplit split, const RecurrenceShape& sizes) {
  using enum RecurrentPart;
  std::vector<RecurrentPart> channels = ChannelParts(sizes);
  const bool convolves = sizes.mixer == Mixer::kConvolution;
  switch (split) {
    case TensorSplit::kRecurrentKeys:
      return std::vector{kKeys};
    case TensorSplit::kRecurrentValues:
      return std::vector{convolves ? kWidth : kValues};
    case TensorSplit::kRecurrentInputs:
      return std::vector{convolves ? kWidth : kValues};
    case TensorSplit::kRecurrentHeads:
      return std::vector{kHeads};
    case TensorSplit::kRecurrentHeadPairs:
      return std::vector{kHeads, kHeads};
    case TensorSplit::kRecurrentDecays:
      return std::vector{kDecays};
    case TensorSplit::kChannels:
      return channels;
    case TensorSplit::kChannelsGate:
      channels.push_back(kValues);
      return channels;
    case TensorSplit::kRecurrentIn:
      if (convolves) return std::vector{kWidth, kWidth, kWidth};
      channels.insert(channels.begin(), kValues);
      channels.push_back(kHeads);
      return channels;
    case TensorSplit::kRecurrentNorm:
      if (sizes.mixer == Mixer::kMamba2) return std::vector{kValues};
      return std::nullopt;  // one for all heads
    default:
      return std::nullopt;
  }
}

}  // namespace

int64_t TensorCut::rows() const { return Count(outputs); }
int64_t TensorCut::cols() const { return Count(inputs); }

TensorCut CutOf(const Shard& shard, const ModelSpec& spec, const PlannedTensor& planned, int64_t rows, int64_t cols) {
  const Ranges all_rows{{0, rows}}, all_cols{{0, cols}};
  if (shard.whole()) return {all_rows, all_cols};
  const int64_t heads = spec.Heads(planned.layer), kv_heads = spec.KvSizes(planned.layer).kv_heads;
  const HeadShare own = shard.Heads(heads, kv_heads);
  const TensorSplit split = SplitOf(planned.role);
  switch (split) {
    case TensorSplit::kNone:
      return {all_rows, all_cols};
    case TensorSplit::kVocabulary:
      return {{shard.vocab}, all_cols};
    case TensorSplit::kHeads:
      return {Shares(own.heads, heads, rows), all_cols};
    case TensorSplit::kQueries:
      return {Shares(own.heads, heads, rows, spec.query_gate && !spec.separate_gate ? 2 : 1), all_cols};
    case TensorSplit::kKeys:
      return {Shares(own.kv_heads, kv_heads, rows), all_cols};
    case TensorSplit::kQueryNorm:
      return {spec.qk_norm == QkNorm::kRows ? Shares(own.heads, heads, rows) : all_rows, all_cols};
    case TensorSplit::kKeyNorm:
      return {spec.qk_norm == QkNorm::kRows ? Shares(own.kv_heads, kv_heads, rows) : all_rows, all_cols};
    case TensorSplit::kQkv: {
      const int64_t unit = rows / (heads + 2 * kv_heads);
      Ranges ranges = Shares(own.heads, heads, heads * unit);
      for (IndexRange range : Shares(own.kv_heads, kv_heads, 2 * kv_heads * unit, 2)) {
        ranges.push_back({heads * unit + range.begin, heads * unit + range.end});
      }
      return {ranges, all_cols};
    }
    case TensorSplit::kMlp:
      return {{shard.Columns(rows)}, all_cols};
    case TensorSplit::kGateUp:
      return {Shares(shard.Columns(rows / 2), rows / 2, rows, 2), all_cols};
    case TensorSplit::kQueryInputs:
      return {all_rows, Shares(own.heads, heads, cols)};
    case TensorSplit::kMlpInputs:
      return {all_rows, {shard.Columns(cols)}};
    default:
      break;
  }
  const auto parts = RecurrentParts(split, spec.recurrence);
  if (!parts) return {all_rows, all_cols};
  const Ranges ranges = RangesOf(ShareOf(shard, spec.recurrence), spec.recurrence, *parts);
  return split == TensorSplit::kRecurrentInputs ? TensorCut{all_rows, ranges} : TensorCut{ranges, all_cols};
}

}  // namespace ringside
