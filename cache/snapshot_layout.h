// Numbers of the snapshot format that its two source files share.
#pragma once

#include <cstdint>

namespace ringside {

/// How many tiles make a chunk: up to about 8 MiB, 1 to 8 tiles. The larger, the fewer copies (a GPU's way to the host
/// is fast from 2 MiB a copy on); the smaller, the less a save of a few new tokens copies again.
int64_t TilesPerChunk(int64_t layers, int64_t layer_tile_bytes);

}  // namespace ringside
