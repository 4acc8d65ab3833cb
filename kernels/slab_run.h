// What a copy between a slab and host memory moves, as plain data.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ringside {

/// Some tiles of a slab, whole ones that follow one another, and their place in host memory, in the same order.
struct SlabRun {
  int64_t offset = 0;  // from the beginning of the slab
  int64_t bytes = 0;
  std::byte* host = nullptr;  // read only by LoadSlab
  // On the host it is part of a larger slab, some heads of some layers: what the slab has of a layer of a tile is a
  // piece, and so far apart lie those of the next layer, and of the next tile. 0: it is all of it, in one piece.
  int64_t host_layer_stride = 0, host_tile_stride = 0;
};
/// Copies of a slab that were begun; 0: they are done.
using CopyTicket = uint64_t;

}  // namespace ringside
