// One attention operation as its kernels see it. What changes from step to step - slabs, positions, angles - stands in
// device memory behind pointers that do not change, so that a recorded step can be played again. Plain data.
#pragma once

#include <cstdint>

#include "kernels/kv_shape.h"
#include "kernels/score_traits.h"
#include "kernels/tensor.h"

namespace ringside::cuda {

/// One row of the step.
struct StagedRow {
  void* slab;           // where its key and value go
  const void* history;  // where positions before `branch` lie; the slab itself, if it has all
  int32_t branch;       // position with which the slab begins, if there is another (kernels/backend.h)
  int32_t position;
  int32_t pinned;      // S
  int32_t first_live;  // >= S, and within the layer's window; of no meaning where position < S
  int32_t pinned_at;   // where the row stands for its pinned keys: c of kernels/backend.h
};

/// Consecutive rows of one sequence that share a block, and the keys that they see between them.
struct alignas(16) StagedTile {
  void* slab;
  const void* history;  // where pinned tiles and those of the ring before `own` lie; the slab itself, if it has all
  int32_t row, rows;
  int32_t position;                // of the first row
  int32_t pinned;                  // S
  int32_t first, last;             // positions: oldest seen in the ring, newest seen
  int32_t pinned_tiles;            // tiles of 16 pinned positions
  int32_t first_tile, ring_tiles;  // tiles of the ring, counted from S and never wrapped
  int32_t ring_begin;              // where the first of them lies in the ring
  int32_t own, own_begin;          // of them, the first that lies in the slab of a branch, and where

  int32_t tiles() const { return pinned_tiles + ring_tiles; }
};

constexpr int kMostSplits = 16;  // of a tile's keys: blocks of a cluster, or without clusters blocks that leave parts

struct AttentionPlan {
  Tensor qkv, out;
  const StagedRow* rows = nullptr;          // [T]
  const StagedTile* tiles = nullptr;        // [tile_count], of up to 16 queries a head tile
  const StagedTile* chunk_tiles = nullptr;  // [chunk_count], of up to 128
  const float* own_cos = nullptr;           // [T, rotary / 2] each
  const float* own_sin = nullptr;
  const float* pinned_cos = nullptr;
  const float* pinned_sin = nullptr;
  // Without clusters, of each block of a split tile: [query][d] sums, then [query][2] running maxima and sums of
  // probabilities.
  float* partial = nullptr;
  const void* memory = nullptr;  // all slabs lie in these bytes, at multiples of half_tile_bytes from their beginning
  int64_t memory_bytes = 0;
  int64_t layer_offset = 0;  // bytes
  int64_t tile_bytes = 0, half_tile_bytes = 0;
  int32_t ring_tiles = 0;
  int32_t heads = 0, kv_heads = 0, head_dim = 0;
  int32_t rotary = 0;  // 0: no rotation
  int32_t adjacent_pairs = 0;
  float scale = 0;
  DType cache = DType::kF16;
  int32_t tile_count = 0;
  int32_t tile_heads = 1;              // query heads of a tile, of one group
  int32_t tile_heads_inverse = 65536;  // 65536 / tile_heads, rounded up
  int32_t tiles_of_group = 1;
  int32_t splits = 1;  // of a tile's keys
  int32_t paired = 0;  // blocks of half the warps, two a multiprocessor; only with one split, on devices with clusters
  int32_t chunk_count = 0;
  int32_t chunk_splits = 1;
  int32_t wgmma_queries = 0;  // of a block, where chunks are cut for LaunchWgmmaAttention
  // Every sequence has one row, whose key and value the attention kernel itself stores: no LaunchStoreRows.
  int32_t stores = 0;
  KeysSeen seen = KeysSeen::kBefore;  // kPinned by rows of the ring: their tiles have no keys of it
  int32_t asks_only = 0;              // rows have queries alone, and nothing is stored
  // No kernel since the last synchronisation has written this layer's cache: keys and values may be read before the
  // kernel in front has ended. Only with `stores`.
  int32_t early = 0;
  // The layer's scores (kernels/score_traits.h), for the kernels that know of them: of `traits`, or any others where
  // these say nothing. The window has narrowed rows and tiles already, but for rows that see some of the pinned keys.
  int32_t traits = 0;
  int32_t window = 0;
  float soft_cap = 0;
  const float* slopes = nullptr;  // [H]
  const float* sinks = nullptr;   // [H]
  const float* biases = nullptr;  // [H, 2 bias_reach + 31]
  int32_t bias_reach = 0;

  friend bool operator==(const AttentionPlan&, const AttentionPlan&) = default;
};

/// Whether kernels may take queries and keys in pieces of 8 dimensions: heads rotate by halves, as a whole or not at
/// all, and rows are of 16 bits and aligned.
inline bool AllowsEights(const AttentionPlan& plan, const Tensor& qkv) {
  return (plan.rotary == 0 || (plan.rotary == plan.head_dim && plan.adjacent_pairs == 0)) && qkv.dtype != DType::kF32 &&
         qkv.stride % 8 == 0 && reinterpret_cast<uintptr_t>(qkv.data) % 16 == 0;
}

}  // namespace ringside::cuda
