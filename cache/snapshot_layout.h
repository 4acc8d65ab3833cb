// Numbers of the snapshot format that its two source files share.
#pragma once

#include <cstdint>

namespace ringside {

/// How many tiles make a chunk: about 1 MiB, 1 to 8 tiles. The larger, the fewer copies; the smaller, the less a save
/// of a few new tokens copies again.
int64_t TilesPerChunk(int64_t layers, int64_t layer_tile_bytes);

}  // namespace ringside
