// Host addresses of a run's chunks.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/kv_shape.h"
#include "kernels/slab_run.h"

namespace ringside {

/// Calls copy(offset in the slab, host address, bytes) for each chunk of a run, in order.
template <class Copy>
void ForEachChunk(const KvShape& shape, const SlabRun& run, const Copy& copy) {
  if (run.stride > 0) {
    for (int64_t i = 0; i < run.count; ++i) {
      copy(run.offset + i * run.stride, run.host + i * run.host_stride, static_cast<size_t>(run.bytes));
    }
    return;
  }
  if (run.host_layer_stride == 0) return copy(run.offset, run.host, static_cast<size_t>(run.bytes));
  const int64_t piece = shape.layer_tile_bytes();
  for (int64_t i = 0; i * piece < run.bytes; ++i) {
    std::byte* host = run.host + i / shape.layers * run.host_tile_stride + i % shape.layers * run.host_layer_stride;
    copy(run.offset + i * piece, host, static_cast<size_t>(piece));
  }
}

}  // namespace ringside
