// Pieces that the attention kernels share: rotation, addresses in a slab, which keys a row sees. Included by .cu files.
#pragma once

#include "kernels/cuda/attention_plan.h"
#include "kernels/cuda/device.cuh"

namespace ringside::cuda {

/// Element d of a head (x[at] ... x[at + head_dim - 1]) after rotation by the row's angles (Su et al. 2021). No branch:
/// many of these loads go out together.
template <class Q>
__device__ __forceinline__ float RotatedElement(const AttentionPlan& a, const Q* x, int64_t at, int d,
                                                const float* cosines, const float* sines, int64_t row) {
  const int half = a.rotary / 2;
  const bool rotates = d < a.rotary;
  const int pair = a.adjacent_pairs ? d / 2 : d >= half ? d - half : d;
  const bool second = a.adjacent_pairs ? d % 2 != 0 : d >= half;
  const int other = !rotates ? d : a.adjacent_pairs ? d ^ 1 : second ? d - half : d + half;
  const float own = ToFloat(x[at + d]), partner = ToFloat(x[at + other]);
  const float cosine = rotates ? cosines[row * half + pair] : 1.0f, sine = rotates ? sines[row * half + pair] : 0.0f;
  return second ? partner * sine + own * cosine : own * cosine - partner * sine;
}

/// Calls body(pointer to the queries, keys and values) with the pointer's type.
template <class Body>
__device__ __forceinline__ void WithQkv(const AttentionPlan& a, const Body& body) {
  if (a.qkv.dtype == DType::kBF16) {
    body(static_cast<const __nv_bfloat16*>(a.qkv.data));
  } else if (a.qkv.dtype == DType::kF16) {
    body(static_cast<const __half*>(a.qkv.data));
  } else {
    body(static_cast<const float*>(a.qkv.data));
  }
}

__device__ __forceinline__ int64_t QueryAt(const AttentionPlan& a, int64_t row, int head) {
  return row * a.qkv.stride + static_cast<int64_t>(head) * a.head_dim;
}
__device__ __forceinline__ int64_t KeyAt(const AttentionPlan& a, int64_t row, int kv_head) {
  return QueryAt(a, row, a.heads + kv_head);
}
__device__ __forceinline__ int64_t ValueAt(const AttentionPlan& a, int64_t row, int kv_head) {
  return QueryAt(a, row, a.heads + a.kv_heads + kv_head);
}

/// The physical tile of a logical one: tile i holds pinned positions, or ring positions S + 16 j ...
__device__ __forceinline__ int RingTile(const AttentionPlan& a, int j) { return a.pinned_tiles + j % a.ring_tiles; }
__device__ __forceinline__ char* TileAddress(const AttentionPlan& a, void* slab, int physical, int kv_head) {
  return static_cast<char*>(slab) + a.layer_offset + physical * a.tile_bytes + kv_head * 2 * a.half_tile_bytes;
}
/// Where position p of a row's sequence lies: physical tile and lane.
__device__ __forceinline__ int SlotOf(const AttentionPlan& a, int p, int pinned) {
  if (p < pinned) return p;
  return RingTile(a, (p - pinned) / 16) * 16 + (p - pinned) % 16;
}

}  // namespace ringside::cuda
