// Attention of many sequences to their shared prefix (AttentionSegment::prefix; cascade attention, Ye et al. 2025;
// Hydragen, Juravsky et al. 2024). As the kernel for many rows of one sequence (attention_chunk.cuh): a block takes up
// to 128 queries, 16 for each of its 8 warps, and all warps read the same tiles of keys from shared memory. But its
// rows belong to different sequences, every row sees every key, and a block writes its partial results to global
// memory, where attention_prefix_merge.cu adds them to those of the rows' own keys.
//
// The prefix was written by earlier steps, so its first tiles may be prefetched while the preceding kernel still runs
// (AttentionPlan::early).
#pragma once

#include "kernels/cuda/attention/attention_chunk.cuh"
#include "kernels/cuda/attention/prefix_plan.h"

namespace ringside::cuda {

/// The warp's queries of `count` rows of the step, rotated and scaled, in shared memory.
template <int D, class Q>
__device__ __forceinline__ void RotateRows(const AttentionPlan& a, const int32_t* rows, int count, int first_head,
                                           bool is_pinned, Q* to, int lane) {
  const float* cosines = is_pinned ? a.pinned_cos : a.own_cos;
  const float* sines = is_pinned ? a.pinned_sin : a.own_sin;
  for (int r = 0; r < count; ++r, to += a.tile_heads * (D + 8)) {
    RotateQueries<D, false>(a, rows[r], a.tile_heads, first_head, cosines, sines, to, lane);
  }
}

template <class C, int D>
__global__ void __launch_bounds__(kChunkThreads, D <= 64 ? 2 : 1) PrefixAttentionKernel(AttentionPlan a, PrefixPlan p) {
  using Sizes = ChunkSizes<C, D, kLargeConfig>;
  using Q = typename CacheTile<C, D>::Product;
  constexpr int kTiles = Sizes::kTiles, kStages = Sizes::kStages;
  constexpr int kTile = CacheTile<C, D>::kElements, kStage = kTiles * kTile;
  extern __shared__ __align__(16) unsigned char shared[];
  TriggerProgrammaticLaunch();
  if (a.early == 0) GridDependencySync();
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  Q* queries = reinterpret_cast<Q*>(shared) + warp * 16 * Sizes::kQueryRow;  // the warp's own
  C* stages = reinterpret_cast<C*>(reinterpret_cast<Q*>(shared) + Sizes::kQueries);

  const int kv_head = blockIdx.y / a.tiles_of_group, first_head = blockIdx.y * a.tile_heads;
  const StagedTile tile = p.tiles[blockIdx.z];
  const int warp_rows = p.tile_rows / kChunkWarps, own_rows = max(0, min(warp_rows, tile.rows - warp * warp_rows));
  const WarpQueries own{0, own_rows * a.tile_heads, first_head};
  const int32_t* rows = p.rows + tile.row + warp * warp_rows;

  const int pinned_units = (tile.pinned_tiles + kTiles - 1) / kTiles;
  const int units = pinned_units + (tile.ring_tiles + kTiles - 1) / kTiles;
  const int shift = __ffs(p.splits) - 1;  // the number of splits is a power of two
  const int begin = units * static_cast<int>(blockIdx.x) >> shift;
  const int end = units * (static_cast<int>(blockIdx.x) + 1) >> shift;
  const char* slab = TileAddress(a, tile.slab, 0, kv_head);
  // The tiles of a unit: the first one, and their number.
  const auto tiles_of = [&](int unit) {
    const bool is_pinned = unit < pinned_units;
    const int of = is_pinned ? unit * kTiles : (unit - pinned_units) * kTiles;
    return int2{of, min(kTiles, (is_pinned ? tile.pinned_tiles : tile.ring_tiles) - of)};
  };
  const auto fetch = [&](int unit) {
    if (unit < end) {
      const int2 tiles = tiles_of(unit);
      FetchUnit<C, D, Sizes>(a, tile, slab, unit < pinned_units, tiles.x, tiles.y,
                             stages + (unit - begin) % kStages * kStage, warp, lane);
    }
    CommitCopies();
  };
  for (int n = 0; n < kStages - 1; ++n) fetch(begin + n);
  if (a.early != 0) GridDependencySync();

  Softmax<D> state;
  QueryFragments<Q, D> fragments;
  int loaded = -1;  // the rotation held in `fragments`: 1 for pinned keys, 0 for ring keys
  const auto load_queries = [&](bool is_pinned) {
    if (loaded == static_cast<int>(is_pinned) || own_rows == 0) return;
    RotateRows<D>(a, rows, own_rows, first_head, is_pinned, queries, lane);
    __syncwarp();
    fragments.Drop();
    fragments.Load(queries, lane);
    __syncwarp();
    loaded = static_cast<int>(is_pinned);
  };
  load_queries(begin < pinned_units);
  for (int unit = begin; unit < end; ++unit) {
    const bool is_pinned = unit < pinned_units;
    WaitForCopies<kStages - 2>();
    __syncthreads();
    fetch(unit + kStages - 1);
    const int2 tiles = tiles_of(unit);
    const int first = (is_pinned ? 0 : tile.pinned) + tiles.x * 16, last = first + tiles.y * 16 - 1;
    const int to = is_pinned ? tile.pinned - 1 : tile.last;
    C* stage = stages + (unit - begin) % kStages * kStage;
    const bool whole = last <= to && tiles.y == kTiles;
    if (!whole) {
      if (warp < kTiles) {
        ZeroMaskedValues<C, D>(stage + warp * kTile, first + warp * 16, 0, warp < tiles.y ? to : -1, lane);
      }
      __syncthreads();
    }
    if (own_rows == 0) continue;
    load_queries(is_pinned);
    AttendTiles<C, D, kTiles, false>(fragments, SharedAddress(stage), tiles.y, first, QueryLimits{{0, 0}, {to, to}},
                                     QueryModifiers{}, whole, own.queries > 8 ? 2 : 1, lane, state);
  }
  WaitForCopies<0>();
  StoreChunkSplit<C, D>(a, own, state, warp, lane);
}

template <class C, int D, bool kLarge>
void LaunchPrefixOfSize(const Launcher& on, const AttentionPlan& plan, const PrefixPlan& prefixes) {
  static_assert(kPrefixQueries == kChunkQueries);
  AttentionPlan own = plan;
  own.partial = prefixes.partial;
  Launch(on, PrefixAttentionKernel<C, D>, Grid(prefixes.splits, plan.heads / plan.tile_heads, prefixes.count),
         kChunkThreads, ChunkSizes<C, D, kLarge>::kBytes, own, prefixes);
}
template <class C>
void LaunchPrefixOfType(const Launcher& on, const AttentionPlan& plan, const PrefixPlan& prefixes) {
  WithSizes(on, plan.head_dim,
            [&](auto size, auto large) { LaunchPrefixOfSize<C, size(), large()>(on, plan, prefixes); });
}

}  // namespace ringside::cuda
