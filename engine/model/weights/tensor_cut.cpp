#include "engine/model/weights/tensor_cut.h"

#include "base/check.h"

namespace ringside {

int64_t TensorCut::rows() const {
  int64_t rows = 0;
  for (const IndexRange& range : outputs) rows += range.size();
  return rows;
}

TensorCut CutOf(const Shard& shard, const ModelSpec& spec, TensorRole role, int64_t rows, int64_t cols) {
  const IndexRange all_rows{0, rows}, all_cols{0, cols};
  if (shard.whole()) return {{all_rows}, all_cols};
  const auto heads = [&](IndexRange range, int64_t first) {  // their columns, given that head 0 starts at `first`
    return IndexRange{first + range.begin * spec.head_dim, first + range.end * spec.head_dim};
  };
  const int64_t keys = spec.heads * spec.head_dim, values = keys + spec.kv_heads * spec.head_dim;
  switch (SplitOf(role)) {
    case TensorSplit::kNone:
      return {{all_rows}, all_cols};
    case TensorSplit::kVocabulary:
      return {{shard.vocab}, all_cols};
    case TensorSplit::kHeads:
      return {{shard.heads}, all_cols};
    case TensorSplit::kQueries:
      return {{heads(shard.heads, 0)}, all_cols};
    case TensorSplit::kKeys:
      return {{heads(shard.kv_heads, 0)}, all_cols};
    case TensorSplit::kQkv:
      return {{heads(shard.heads, 0), heads(shard.kv_heads, keys), heads(shard.kv_heads, values)}, all_cols};
    case TensorSplit::kMlp:
      return {{shard.ffn}, all_cols};
    case TensorSplit::kGateUp:
      return {{shard.ffn, {spec.ffn + shard.ffn.begin, spec.ffn + shard.ffn.end}}, all_cols};
    case TensorSplit::kQueryInputs:
      return {{all_rows}, heads(shard.heads, 0)};
    case TensorSplit::kMlpInputs:
      return {{all_rows}, shard.ffn};
  }
  CheckFailed(__FILE__, __LINE__, "unknown split");
}

}  // namespace ringside
