#include "engine/model/weights/shard.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/model/network_needs.h"

namespace ringside {
namespace {

/// Part `i` of `parts` of [0, count), in whole units; the last part has the remainder.
IndexRange Part(int64_t count, int64_t unit, int64_t i, int64_t parts) {
  const int64_t units = (count + unit - 1) / unit;
  return {std::min(count, units * i / parts * unit), std::min(count, units * (i + 1) / parts * unit)};
}

/// The largest unit that gives every part at least one: blocks of quantized formats have 256 or 32 values and cannot be
/// split, and devices prefer large powers of two.
int64_t UnitOf(int64_t count, int64_t parts) {
  for (const int64_t unit : {256, 32}) {
    if (count % unit == 0 && count >= parts * unit) return unit;
  }
  return 1;
}

}  // namespace

ModelSpec Shard::Of(const ModelSpec& spec) const {
  ModelSpec own = spec;
  own.layers = layers.size();
  if (!spec.layer_traits.empty()) {
    const auto traits = spec.layer_traits.begin();
    own.layer_traits.assign(traits + layers.begin, traits + layers.end);
  }
  own.heads = heads.size();
  own.kv_heads = kv_heads.size();
  own.ffn = ffn.size();
  return own;
}

Result<std::vector<Shard>> MakeShards(const ModelSpec& spec, const RankLayout& layout) {
  const int ranks = layout.tensor;
  const int64_t group = spec.heads / spec.kv_heads, n = ranks;
  const auto refuse = [&](int64_t count, const char* what) {
    return InvalidArgument(fmt::format("{} {} of a layer cannot be shared by {} ranks", count, what, ranks),
                           "tensor_parallel_size");
  };
  if (ranks < 1 || ranks > spec.heads) return refuse(spec.heads, "heads");
  if (ranks > 1) RETURN_IF_ERROR(CheckShares(spec));
  if (layout.stages > 1) RETURN_IF_ERROR(CheckStages(spec));
  if (ranks > spec.ffn) return refuse(spec.ffn, "columns of the MLP");
  if (ranks > spec.vocab) return refuse(spec.vocab, "tokens");
  if (layout.stages < 1 || layout.stages > spec.layers) {
    return InvalidArgument(fmt::format("{} layers cannot be shared by {} stages", spec.layers, layout.stages),
                           "pipeline_parallel_size");
  }
  std::vector<Shard> shards;
  for (int rank = 0; rank < layout.ranks(); ++rank) {
    Shard shard;
    shard.rank = layout.place(rank);
    shard.ranks = ranks;
    shard.stage = layout.stage(rank);
    shard.stages = layout.stages;
    shard.layers = Part(spec.layers, 1, shard.stage, layout.stages);
    const int64_t r = shard.rank;
    if (n <= spec.kv_heads) {
      shard.kv_heads = Part(spec.kv_heads, 1, r, n);
      shard.heads = {shard.kv_heads.begin * group, shard.kv_heads.end * group};
    } else {
      const int64_t head = r * spec.kv_heads / n;
      const auto first_of = [&](int64_t kv_head) { return (kv_head * n + spec.kv_heads - 1) / spec.kv_heads; };
      const int64_t first = first_of(head), sharing = first_of(head + 1) - first;
      if (sharing > group) return refuse(spec.heads, "heads");
      const IndexRange queries = Part(group, 1, r - first, sharing);
      shard.kv_heads = {head, head + 1};
      shard.heads = {head * group + queries.begin, head * group + queries.end};
      shard.saves = r == first;
    }
    shard.ffn = Part(spec.ffn, UnitOf(spec.ffn, n), r, n);
    shard.vocab = Part(spec.vocab, UnitOf(spec.vocab, n), r, n);
    shards.push_back(shard);
  }
  return shards;
}

std::vector<int64_t> VocabBorders(const std::vector<Shard>& shards) {
  std::vector<int64_t> borders{0};
  for (const Shard& shard : shards) {
    if (shard.stage == shards.front().stage) borders.push_back(shard.vocab.end);
  }
  return borders;
}

}  // namespace ringside
