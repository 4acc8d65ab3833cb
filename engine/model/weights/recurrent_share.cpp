#include "engine/model/weights/recurrent_share.h"

namespace ringside {
namespace {

IndexRange Scaled(IndexRange range, int64_t factor) { return {range.begin * factor, range.end * factor}; }

}  // namespace

int64_t RecurrentShare::value_head_count() const {
  int64_t count = 0;
  for (const IndexRange& range : value_heads) count += range.size();
  return count;
}

RecurrentShare ShareOf(const Shard& shard, const RecurrenceShape& sizes) {
  RecurrentShare share;
  if (sizes.mixer == Mixer::kNone) return share;
  if (sizes.mixer == Mixer::kConvolution) {
    share.width = shard.Columns(sizes.width);
    return share;
  }
  const HeadShare heads = shard.Heads(sizes.value_heads, sizes.key_heads);
  share.key_heads = heads.kv_heads;
  share.saves_keys = heads.saves;
  if (!sizes.alternates) {
    share.value_heads = {heads.heads};
    return share;
  }
  // Value heads j K + k of its key heads k, and of some j only if it shares its key head.
  const int64_t served = sizes.value_heads / sizes.key_heads;
  const int64_t begin = heads.heads.begin - heads.kv_heads.begin * served,
                end = heads.heads.end - (heads.kv_heads.end - 1) * served;
  for (int64_t j = begin; j < end; ++j) {
    share.value_heads.push_back({j * sizes.key_heads + heads.kv_heads.begin, j * sizes.key_heads + heads.kv_heads.end});
  }
  return share;
}

RecurrenceShape SizesOf(const RecurrentShare& share, const RecurrenceShape& sizes) {
  RecurrenceShape own = sizes;
  own.key_heads = share.key_heads.size();
  own.value_heads = share.value_head_count();
  own.width = share.width.size();
  return own;
}

std::vector<RecurrentPart> ChannelParts(const RecurrenceShape& sizes) {
  using enum RecurrentPart;
  if (sizes.mixer == Mixer::kConvolution) return {kWidth};
  if (sizes.mixer == Mixer::kMamba2) return {kValues, kKeys, kKeys};
  return {kKeys, kKeys, kValues};
}

int64_t SizeOf(const RecurrenceShape& sizes, RecurrentPart part) {
  switch (part) {
    case RecurrentPart::kKeys:
      return sizes.keys();
    case RecurrentPart::kValues:
      return sizes.values();
    case RecurrentPart::kHeads:
      return sizes.value_heads;
    case RecurrentPart::kDecays:
      return sizes.decays();
    case RecurrentPart::kWidth:
      return sizes.width;
  }
  return 0;
}

std::vector<IndexRange> RangesOf(const RecurrentShare& share, const RecurrenceShape& sizes, RecurrentPart part) {
  if (part == RecurrentPart::kWidth) return {share.width};
  if (part == RecurrentPart::kKeys || (part == RecurrentPart::kDecays && sizes.mixer == Mixer::kKda)) {
    return {Scaled(share.key_heads, sizes.key_size)};
  }
  std::vector<IndexRange> ranges;
  for (const IndexRange& heads : share.value_heads) {
    ranges.push_back(Scaled(heads, part == RecurrentPart::kValues ? sizes.value_size : 1));
  }
  return ranges;
}

std::vector<IndexRange> RangesOf(const RecurrentShare& share, const RecurrenceShape& sizes,
                                 std::span<const RecurrentPart> parts) {
  std::vector<IndexRange> ranges;
  int64_t first = 0;
  for (const RecurrentPart part : parts) {
    for (const IndexRange& range : RangesOf(share, sizes, part)) {
      ranges.push_back({first + range.begin, first + range.end});
    }
    first += SizeOf(sizes, part);
  }
  return ranges;
}

}  // namespace ringside
