// One attention operation as its kernels consume it. Values that change from step to step (slabs, positions, angles)
// are in device memory at stable addresses, so that a captured graph can be replayed. Plain data.
#pragma once

#include <cstdint>

#include "kernels/kv_shape.h"
#include "kernels/recurrence.h"
#include "kernels/score_traits.h"
#include "kernels/tensor.h"

namespace ringside::cuda {

/// One row of the step.
struct StagedRow {
  void* slab;           // destination of its key and value
  const void* history;  // slab with the positions before `branch`; the row's own slab if it has all
  int32_t branch;       // first position stored in the slab of a branch (kernels/backend.h)
  int32_t position;
  int32_t pinned;      // S
  int32_t first_live;  // >= S and within the layer's window; unused if position < S
  int32_t last_seen;   // the newest position that it sees
  int32_t pinned_at;   // position relative to the pinned keys: c of kernels/backend.h
};

/// Consecutive rows of one sequence that share a block, and the union of their keys.
struct alignas(16) StagedTile {
  void* slab;
  const void* history;  // slab with the pinned tiles and the ring tiles before `own`; the tile's own slab if it has all
  int32_t row, rows;
  int32_t position;                // of the first row
  int32_t pinned;                  // S
  int32_t first, last;             // positions: oldest seen in the ring, newest seen
  int32_t pinned_tiles;            // tiles of 16 pinned positions
  int32_t first_tile, ring_tiles;  // ring tiles, numbered from S without wrapping
  int32_t ring_begin;              // ring index of the first one
  int32_t own, own_begin;          // first ring tile stored in a branch's own slab, and its ring index there

  int32_t tiles() const { return pinned_tiles + ring_tiles; }
};

/// A block of the kernel for wide heads: some units of the keys of a tile.
struct StagedSplit {
  int32_t tile;  // -1: none
  int32_t begin, end;
};
constexpr int kFixedSplitUnits = 16;  // units of keys of wide heads per split with a fixed order

constexpr int kMaxSplits = 16;  // split-K over a tile's keys: CTAs of a cluster, or blocks with partial results
constexpr int kMaxApartSplits = 64;

struct AttentionPlan {
  Tensor qkv, out;
  const StagedRow* rows = nullptr;          // [T]
  const StagedTile* tiles = nullptr;        // [tile_count], up to 16 query rows each
  const StagedTile* chunk_tiles = nullptr;  // [chunk_count], up to 128 query rows each
  const float* own_cos = nullptr;           // [T, rotary / 2] each
  const float* own_sin = nullptr;
  const float* pinned_cos = nullptr;
  const float* pinned_sin = nullptr;
  // Without clusters, with `apart`, and with wide_queries: per block of a split tile [query][d] sums, then [query][2]
  // running maxima and sums of probabilities.
  float* partial = nullptr;
  const void* memory = nullptr;  // contains all slabs' tiles, at offsets that are multiples of half_tile_bytes
  int64_t memory_bytes = 0;
  int64_t layer_offset = 0;  // bytes
  int64_t tile_bytes = 0, half_tile_bytes = 0;
  int64_t head_tile_bytes = 0;  // one head of one tile
  int32_t ring_tiles = 0;
  int32_t heads = 0, kv_heads = 0, head_dim = 0;
  int32_t value_dim = 0;     // dimensions of a value
  int32_t latent = 0;        // values are the first value_dim dimensions of the keys, stored token by token
  int32_t rotary = 0;        // 0: no rotation
  int32_t first_rotary = 0;  // nonzero: only the reference and wide kernels
  int32_t adjacent_pairs = 0;
  float scale = 0;
  DType cache = DType::kF16;
  int32_t tile_count = 0;
  int32_t tile_heads = 1;              // query heads per tile, all of one group
  int32_t tile_heads_inverse = 65536;  // 65536 / tile_heads, rounded up
  int32_t tiles_of_group = 1;
  int32_t splits = 1;  // of a tile's keys
  int32_t paired = 0;  // two blocks of half the warps per SM; only with one split, on devices with clusters
  // The splits of `tiles` form no cluster: there are more than a cluster has blocks (long contexts of few key heads),
  // and a second kernel reduces them.
  int32_t apart = 0;
  int32_t chunk_count = 0;
  int32_t chunk_splits = 1;
  int32_t wgmma_queries = 0;  // queries per block if chunks are cut for LaunchWgmmaAttention
  // Queries per tile if all rows are cut for LaunchWideAttention, which takes `tiles` alone.
  int32_t wide_queries = 0;
  // With wide_queries, the `splits` blocks per tile of heads, and each tile's first one. Null with a fixed order: then
  // a tile has at most `splits` of split_units units of keys, at multiples of these, wherever a row's keys begin.
  const StagedSplit* wide_splits = nullptr;
  const int32_t* first_splits = nullptr;  // [tile_count + 1]
  int32_t split_units = 0;
  // Every sequence has one row, whose key and value the attention kernel itself stores; LaunchStoreRows is not needed.
  int32_t stores = 0;
  VisibleKeys seen = VisibleKeys::kBefore;  // with kPinned, tiles of ring rows have no ring keys
  int32_t queries_only = 0;                 // rows have queries alone, and nothing is stored
  // No kernel since the last synchronization has written this layer's cache, so keys and values may be prefetched
  // before the preceding kernel has ended. Only with `stores`.
  int32_t early = 0;
  // The layer's score modifiers (kernels/score_traits.h), for the kernels built with traits; other kernels serve layers
  // without any. Rows and tiles are already limited to the window, except for rows that see only some of the pinned
  // keys.
  int32_t traits = 0;
  int32_t window = 0;
  int32_t chunked = 0;  // the window is the query's own run of positions
  float soft_cap = 0;
  const float* slopes = nullptr;  // [H]
  const float* sinks = nullptr;   // [H]
  const float* biases = nullptr;  // [H, 2 bias_reach + 31]
  int32_t bias_reach = 0;
  // Factors of rotated queries, for kernels built with traits; those of LaunchWgmmaAttention have query_scales alone.
  const float* query_weights = nullptr;  // [d]
  const float* query_scales = nullptr;   // [T]
  // A gate of the results, applied by the kernel for few rows: a value for each of `gate_columns` columns; data is null
  // without one.
  Tensor gate;
  GateKind gate_kind = GateKind::kIdentity;
  int32_t gate_columns = 1;

  friend bool operator==(const AttentionPlan&, const AttentionPlan&) = default;
};

/// Whether kernels may load queries and keys in chunks of 8 dimensions: heads rotate by halves and fully, or not at
/// all, and rows are aligned and have 16-bit elements.
inline bool AllowsVec8(const AttentionPlan& plan, const Tensor& qkv) {
  return (plan.rotary == 0 || (plan.rotary == plan.head_dim && plan.adjacent_pairs == 0)) && qkv.dtype != DType::kF32 &&
         qkv.stride % 8 == 0 && reinterpret_cast<uintptr_t>(qkv.data) % 16 == 0;
}

}  // namespace ringside::cuda
