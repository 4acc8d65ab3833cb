// What a copy between a slab and host memory moves, as plain data.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ringside {

/// Some tiles of a slab and their place in host memory: `bytes` of every layer.
struct SlabRun {
  int64_t offset = 0;         // from the beginning of a layer of the slab
  int64_t bytes = 0;          // in each layer
  std::byte* host = nullptr;  // of layer 0; read only by LoadSlab
  int64_t host_stride = 0;    // bytes from one layer to the next
};
/// Copies of a slab that were begun; 0: they are done.
using CopyTicket = uint64_t;

}  // namespace ringside
