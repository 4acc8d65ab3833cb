// The upper limit of the memory of all caches. Prefill kernels address it as an array of half tiles (the keys or values
// of one head of one layer of a tile, kernels/kv_shape.h) with an int32 index.
#pragma once

#include <cstdint>

namespace ringside {

/// Maximum number of half tiles of all slabs of a device, uncommitted addresses included. The margin below the int32
/// range allows a range to be rounded up to whole pages.
inline constexpr int64_t kMaxHalfTiles = INT32_MAX - (int64_t{1} << 20);

}  // namespace ringside
