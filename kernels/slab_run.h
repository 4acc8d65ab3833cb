// Arguments of a copy between a slab and host memory, as plain data.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ringside {

/// Bytes of a slab.
struct SlabRange {
  int64_t begin = 0, end = 0;
};

/// Consecutive whole tiles of a slab, or bytes of its recurrent state (offset + bytes <= KvShape::state.bytes()), and
/// their place in host memory, in the same order.
struct SlabRun {
  int64_t offset = 0;  // from the beginning of the slab
  int64_t bytes = 0;
  std::byte* host = nullptr;  // read only by LoadSlab
  // Nonzero if the host has a larger slab and this is some of its heads in some of its layers. The slab's part of a
  // layer of a tile is then a chunk, and these are the byte strides to the next layer's and the next tile's chunk. 0:
  // the host memory is contiguous.
  int64_t host_layer_stride = 0, host_tile_stride = 0;
  // A stride above 0: `count` chunks of `bytes` bytes anywhere in the slab, with these strides.
  int64_t count = 1, stride = 0, host_stride = 0;

  int64_t all_bytes() const { return count * bytes; }
};
/// A started copy of slabs; 0: already done.
using CopyTicket = uint64_t;

}  // namespace ringside
