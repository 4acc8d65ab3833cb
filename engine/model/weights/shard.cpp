#include "engine/model/weights/shard.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/model/weights/recurrent_share.h"

namespace ringside {
namespace {

/// Part `i` of `parts` of [0, count), in whole units; the last part has the remainder.
IndexRange Part(int64_t count, int64_t unit, int64_t i, int64_t parts) {
  const int64_t units = (count + unit - 1) / unit;
  return {std::min(count, units * i / parts * unit), std::min(count, units * (i + 1) / parts * unit)};
}

/// The largest unit with equal parts; otherwise the largest one that gives every part at least one. Blocks of quantized
/// formats have 256 or 32 values and cannot be split, and devices prefer large powers of two.
int64_t UnitOf(int64_t count, int64_t parts, int64_t block) {
  for (const int64_t unit : {256, 32}) {
    if (unit >= block && count % (parts * unit) == 0) return unit;
  }
  for (const int64_t unit : {256, 32}) {
    if (count % unit == 0 && count >= parts * unit) return unit;
  }
  return 1;
}

/// The number of a layer's heads that a rank has; 0: the model's.
int64_t OwnHeads(int64_t of_layer, int64_t own) { return of_layer == 0 ? 0 : own; }

/// The first layer of each stage, then the number of layers. A stage begins only where no later layer reads keys of an
/// earlier one, as near to an even division as possible.
Result<std::vector<int64_t>> StageBorders(const ModelSpec& spec, int stages) {
  std::vector<int64_t> allowed;
  int64_t read = spec.layers;  // the first layer whose keys are read from the border on
  for (int64_t layer = spec.layers - 1; layer > 0; --layer) {
    if (const int64_t of = spec.Layer(layer).keys_of; of >= 0) read = std::min(read, of);
    if (layer <= read) allowed.push_back(layer);
  }
  std::ranges::reverse(allowed);
  const auto count = std::ssize(allowed);
  if (stages < 1 || stages - 1 > count) {
    return InvalidArgument(fmt::format("{} layers{} cannot be shared by {} stages", spec.layers,
                                       spec.shares_keys() ? ", some of which share keys and values," : "", stages),
                           "pipeline_parallel_size");
  }
  std::vector<int64_t> borders{0};
  for (int64_t i = 1, next = 0; i < stages; ++i) {
    const int64_t even = spec.layers * i / stages, last = count - (stages - i);
    while (next < last && std::abs(allowed[static_cast<size_t>(next + 1)] - even) <=
                              std::abs(allowed[static_cast<size_t>(next)] - even)) {
      ++next;
    }
    borders.push_back(allowed[static_cast<size_t>(next++)]);
  }
  borders.push_back(spec.layers);
  return borders;
}

/// Every rank has a part of every layer.
Status CheckParts(const ModelSpec& spec, const Shard& shard) {
  const auto refuse = [&](int64_t count, const char* what) {
    return InvalidArgument(fmt::format("{} {} of a layer cannot be shared by {} ranks", count, what, shard.ranks),
                           "tensor_parallel_size");
  };
  const auto has = [&](int64_t heads, int64_t kv_heads) { return shard.Heads(heads, kv_heads).heads.size() > 0; };
  for (int64_t layer = 0; layer < spec.layers; ++layer) {
    const int64_t heads = spec.Heads(layer);
    if (spec.IsAttention(layer) && !has(heads, spec.KvSizes(layer).kv_heads)) return refuse(heads, "heads");
    const int64_t dense = spec.DenseColumns(layer);
    if (dense > 0 && shard.ranks > dense) return refuse(dense, "columns of the MLP");
  }
  if (shard.ranks > spec.ffn) return refuse(spec.ffn, "columns of the MLP");
  if (spec.shared_ffn > 0 && shard.ranks > spec.shared_ffn) return refuse(spec.shared_ffn, "columns of the MLP");
  if (shard.ranks > spec.vocab) return refuse(spec.vocab, "tokens");
  const RecurrenceShape& sizes = spec.recurrence;
  if (!spec.recurrent()) return Status::Ok();
  if (sizes.mixer == Mixer::kConvolution) {
    return shard.ranks > sizes.width ? refuse(sizes.width, "channels of the convolution") : Status::Ok();
  }
  if (!has(sizes.value_heads, sizes.key_heads)) return refuse(sizes.value_heads, "recurrent heads");
  // One rank computes a group's norm, or all ranks do.
  const int64_t groups = spec.recurrent_groups;
  if (groups <= 1) return Status::Ok();
  const IndexRange heads = shard.Heads(sizes.value_heads, sizes.key_heads).heads;
  const int64_t size = sizes.value_heads / groups;
  return heads.begin % size == 0 && heads.end % size == 0 ? Status::Ok() : refuse(groups, "groups with a norm");
}

}  // namespace

HeadShare Shard::Heads(int64_t heads, int64_t kv_heads) const {
  const int64_t group = heads / kv_heads, n = ranks;
  if (n <= kv_heads) {
    const IndexRange own = Part(kv_heads, 1, rank, n);
    return {{own.begin * group, own.end * group}, own};
  }
  const int64_t head = rank * kv_heads / n;
  const auto first_of = [&](int64_t kv_head) { return (kv_head * n + kv_heads - 1) / kv_heads; };
  const int64_t first = first_of(head), sharing = first_of(head + 1) - first;
  const IndexRange queries = Part(group, 1, rank - first, sharing);
  return {{head * group + queries.begin, head * group + queries.end}, {head, head + 1}, rank == first};
}

IndexRange Shard::Columns(int64_t width) const { return Part(width, UnitOf(width, ranks, block), rank, ranks); }

ModelSpec Shard::Of(const ModelSpec& spec) const {
  ModelSpec own = spec;
  own.layers = layers.size();
  own.layer_traits.clear();
  const int64_t end = layers.end == spec.layers ? spec.all_layers() : layers.end;
  for (int64_t layer = layers.begin; layer < end && !spec.layer_traits.empty(); ++layer) {
    LayerTraits& traits = own.layer_traits.emplace_back(spec.Layer(layer));
    const HeadShare share = Heads(spec.Heads(layer), spec.KvSizes(layer).kv_heads);
    traits.heads = OwnHeads(traits.heads, share.heads.size());
    traits.kv_heads = OwnHeads(traits.kv_heads, share.kv_heads.size());
    traits.dense_ffn = Columns(traits.dense_ffn).size();
    if (traits.keys_of >= 0) traits.keys_of -= layers.begin;
  }
  const HeadShare share = Heads(spec.heads, spec.kv_heads);
  own.heads = share.heads.size();
  own.kv_heads = share.kv_heads.size();
  own.ffn = Columns(spec.ffn).size();
  own.shared_ffn = Columns(spec.shared_ffn).size();
  own.common_ffn = Columns(spec.common_ffn).size();
  own.recurrence = SizesOf(ShareOf(*this, spec.recurrence), spec.recurrence);
  if (spec.recurrent_groups > 1) {
    own.recurrent_groups = spec.recurrent_groups * own.recurrence.value_heads / spec.recurrence.value_heads;
  }
  return own;
}

Result<std::vector<Shard>> MakeShards(const ModelSpec& spec, const RankLayout& layout, int64_t block) {
  const int ranks = layout.tensor;
  if (ranks < 1 || ranks > spec.heads) {
    return InvalidArgument(fmt::format("{} heads of a layer cannot be shared by {} ranks", spec.heads, ranks),
                           "tensor_parallel_size");
  }
  ASSIGN_OR_RETURN(const std::vector<int64_t> borders, StageBorders(spec, layout.stages));
  std::vector<Shard> shards;
  for (int rank = 0; rank < layout.ranks(); ++rank) {
    const auto stage = static_cast<size_t>(layout.stage(rank));
    Shard shard{.rank = layout.place(rank),
                .ranks = ranks,
                .stage = layout.stage(rank),
                .stages = layout.stages,
                .layers = {borders[stage], borders[stage + 1]},
                .block = block};
    RETURN_IF_ERROR(CheckParts(spec, shard));
    shard.vocab = shard.Columns(spec.vocab);
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
