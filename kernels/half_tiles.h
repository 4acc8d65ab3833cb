// How much memory caches may have together. Kernels for long prompts take it as an array of half tiles, the keys or the
// values of one head of one layer of a tile (kernels/kv_shape.h), whose index is an int32.
#pragma once

#include <cstdint>

namespace ringside {

/// Half tiles of all slabs of a device, addresses without memory among them. What the int32 has beyond that is room for
/// the rounding of a range to whole pages.
inline constexpr int64_t kMostHalfTiles = INT32_MAX - (int64_t{1} << 20);

}  // namespace ringside
