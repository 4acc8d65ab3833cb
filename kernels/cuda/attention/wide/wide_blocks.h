// Divides the keys of the row tiles of attention_wide.cuh among blocks. A pure function without CUDA.
// THREAD: any.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/cuda/attention/attention_plan.h"

namespace ringside::cuda {

/// The blocks of a step, apart from its tiles of heads.
struct WideBlocks {
  std::vector<StagedSplit> splits;  // tile by tile, then blocks without keys
  std::vector<int32_t> first;       // [tiles + 1]: a tile's first split
};
/// Divides every tile into splits of at most some number of units, so that long and short sequences of a step share the
/// device evenly. While the number of tiles is the same, the number of blocks rarely changes, so few graphs differ.
/// `head_tiles`: tiles of heads per row tile. `partial_bytes`: room that the partial results of a block take.
WideBlocks DivideWideTiles(int64_t multiprocessors, int64_t head_tiles, int64_t partial_bytes,
                           std::span<const StagedTile> tiles);
/// With a fixed order: the most splits of a tile, each of AttentionPlan::split_units units at multiples of these,
/// rounded up to a power of two.
int32_t MostFixedSplits(std::span<const StagedTile> tiles);

}  // namespace ringside::cuda
