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
  // On the host it lies in pieces of so many bytes that begin so far apart: some heads among those of other devices. 0:
  // in one piece.
  int64_t piece = 0, host_stride = 0;
};
/// Copies of a slab that were begun; 0: they are done.
using CopyTicket = uint64_t;

}  // namespace ringside
