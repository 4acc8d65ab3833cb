// Addresses of a layer's boundaries and tail rows in a segment's slab. Included by .cu files only.
#pragma once

#include "kernels/cuda/device.cuh"
#include "kernels/cuda/recurrence/recurrence_plan.h"

namespace ringside::cuda {

/// The layer's part of the boundary in a slot: the state, then the convolution's inputs before it.
__device__ __forceinline__ float* BoundaryOf(const RecurrencePlan& a, const StagedState& s, int slot) {
  return reinterpret_cast<float*>(static_cast<char*>(s.slab) + slot * a.slot_bytes + a.boundary_offset);
}
__device__ __forceinline__ float* TailRow(const RecurrencePlan& a, const StagedState& s, int position) {
  return reinterpret_cast<float*>(static_cast<char*>(s.slab) + a.tail_offset) +
         static_cast<int64_t>(position % kStateChunk) * a.row_floats;
}
__device__ __forceinline__ const float* MixedRow(const RecurrencePlan& a, int64_t row) {
  return static_cast<const float*>(a.mixed.data) + row * a.mixed.stride;
}
/// The slot of the segment's boundary at a position; -1: it is not stored.
__device__ __forceinline__ int WrittenSlot(const RecurrencePlan& a, const StagedState& s, int position) {
  for (int i = 0; i < s.writes; ++i) {
    if (a.writes[s.first_write + i].position == position) return a.writes[s.first_write + i].slot;
  }
  return -1;
}
__device__ __forceinline__ int KeyHeadOf(const RecurrencePlan& a, int head) {
  return a.alternates != 0 ? head % a.key_heads : head / (a.value_heads / a.key_heads);
}

}  // namespace ringside::cuda
