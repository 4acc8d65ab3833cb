// A rank's part of the recurrent layers (kernels/recurrence.h): key heads with the value heads that they serve; with
// more ranks than key heads, some ranks share one and split its value heads. Short convolutions are split by channels.
// Pure.
#pragma once

#include <span>
#include <vector>

#include "engine/model/weights/shard.h"

namespace ringside {

/// A run of columns, or of floats of a state, in which every head or channel has an equal part.
enum class RecurrentPart {
  kKeys,    // key heads, or query heads
  kValues,  // value heads
  kHeads,   // one number per value head
  kDecays,  // decay rates
  kWidth,   // channels of kConvolution
};

struct RecurrentShare {
  IndexRange key_heads;
  std::vector<IndexRange> value_heads;  // ascending; several if key heads alternate
  IndexRange width;
  bool saves_keys = true;  // the first rank with these key heads

  int64_t value_head_count() const;
};

RecurrentShare ShareOf(const Shard& shard, const RecurrenceShape& sizes);
/// The sizes of the rank's part.
RecurrenceShape SizesOf(const RecurrentShare& share, const RecurrenceShape& sizes);
/// The convolution's channels, in order.
std::vector<RecurrentPart> ChannelParts(const RecurrenceShape& sizes);
/// The share's ranges of a part, which has `size(part)` elements in all.
std::vector<IndexRange> RangesOf(const RecurrentShare& share, const RecurrenceShape& sizes, RecurrentPart part);
int64_t SizeOf(const RecurrenceShape& sizes, RecurrentPart part);
/// The share's ranges of consecutive parts.
std::vector<IndexRange> RangesOf(const RecurrentShare& share, const RecurrenceShape& sizes,
                                 std::span<const RecurrentPart> parts);

}  // namespace ringside
