// Attention over the ring for many rows of one sequence, with 16- or 8-bit caches (FlashAttention-2, Dao 2023). A block
// takes up to 128 queries, 16 for each of its 8 warps: rows times the heads that share their keys, as in the single-row
// kernel (attention_tiled.cuh). But here all warps read the same tiles from shared memory, which are loaded in units of
// up to kTiles through kStages pipeline stages. A warp skips units that none of its rows sees. The splits of the keys
// are the CTAs of a cluster: at the end each sends every query's result to the CTA that owns the query. (The small
// configuration reduces them as the single-row kernel does.)
#pragma once

#include <type_traits>

#include "kernels/cuda/attention/attention_tiled.cuh"
#include "kernels/cuda/attention/occupancy_cache.h"

namespace ringside::cuda {

constexpr int kChunkWarps = 8, kChunkThreads = 32 * kChunkWarps, kChunkQueries = 16 * kChunkWarps;

template <class C, int D, bool kLarge>
struct ChunkSizes {
  static constexpr int kTiles = (kLarge ? 4 : 2) / (D > 128 ? 2 : 1), kStages = kLarge || D <= 128 ? 3 : 2;
  static constexpr int kQueryRow = D + 8, kQueries = kChunkQueries * kQueryRow;  // in elements
  static constexpr int kLoopBytes = 2 * kQueries + kStages * kTiles * CacheTile<C, D>::kBytes;
  // [split][query][D] sums, then [split][query][2] running maxima and sums of probabilities; overlays the stages after
  // the main loop.
  static constexpr int kReceivedBytes = kLarge ? 4 * kChunkQueries * (D + 2) : 0;
  static constexpr int kBytes = kLoopBytes > kReceivedBytes ? kLoopBytes : kReceivedBytes;
  static_assert(kBytes <= static_cast<int>(SharedBytes(kLarge)));
};

/// Loads a warp's 16 queries, rotated and scaled, into shared memory. Rows past the last query hold garbage, which
/// reaches no result.
template <int D, bool kTraits, class Q>
__device__ __forceinline__ void RotateQueries(const AttentionPlan& a, int row, int queries, int first_head,
                                              const float* cosines, const float* sines, Q* to, int lane) {
  constexpr int kTasks = D / 4, kAtATime = 8;  // tasks whose loads are in flight together
  const auto scale_of = [&](int r) { return (kTraits ? ScoreScale(a, row + r) : a.scale) * kLog2E; };
  WithQkv(a, [&](const auto* x) {
    if (AllowsRotaryQuads(a)) {
      for (int begin = lane; begin < queries * kTasks; begin += 32 * kAtATime) {
        RotaryQuad pairs[kAtATime];
#pragma unroll
        for (int j = 0; j < kAtATime; ++j) {
          const int i = min(begin + 32 * j, queries * kTasks - 1), m = i / kTasks, r = RowOfQuery(a, m);
          const int64_t at = QueryAt(a, row + r, first_head + m - r * a.tile_heads);
          pairs[j] = LoadRotaryQuad(a, x, at, i % kTasks, cosines, sines, row + r);
        }
#pragma unroll
        for (int j = 0; j < kAtATime; ++j) {
          const int i = begin + 32 * j;
          if (i >= queries * kTasks) break;
          RotateQuad(a, pairs[j], i % kTasks, scale_of(RowOfQuery(a, i / kTasks)), [&](int d, float value) {
            to[i / kTasks * (D + 8) + d] = FromFloat<Q>(kTraits ? value * QueryWeight(a, d) : value);
          });
        }
      }
      return;
    }
    for (int i = lane; i < queries * (D / 2); i += 32) {
      const int m = i / (D / 2), pair = i % (D / 2), r = RowOfQuery(a, m);
      const int first = FirstOfPair(a, pair), second = SecondOfPair(a, pair);
      const int64_t at = QueryAt(a, row + r, first_head + m - r * a.tile_heads);
      const float scale = scale_of(r);
      float2 q =
          Rotated(a, ToFloat(x[at + first]) * scale, ToFloat(x[at + second]) * scale, cosines, sines, row + r, pair);
      if constexpr (kTraits) q.x *= QueryWeight(a, first), q.y *= QueryWeight(a, second);
      to[m * (D + 8) + first] = FromFloat<Q>(q.x), to[m * (D + 8) + second] = FromFloat<Q>(q.y);
    }
  });
}

/// A warp's part of the block's queries.
struct WarpQueries {
  int row;      // row of the step
  int queries;  // up to 16
  int first_head;
};

template <int D, class Emit>
__device__ __forceinline__ void ForEachResult(const Softmax<D>& state, int queries, int lane, const Emit& emit) {
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int m = lane / 4 + 8 * h;
    float sum = state.sum[h];
    sum += __shfl_xor_sync(0xffffffffu, sum, 1);
    sum += __shfl_xor_sync(0xffffffffu, sum, 2);
    if (m < queries) emit(h, m, sum);
  }
}

__device__ __forceinline__ int64_t OutAt(const AttentionPlan& a, const WarpQueries& own, int m) {
  const int row = RowOfQuery(a, m);
  return static_cast<int64_t>(own.row + row) * a.out.stride +
         static_cast<int64_t>(own.first_head + m - row * a.tile_heads) * a.head_dim;
}

/// Exchanges and reduces the splits' results; CTA m / share of the cluster owns query m of 128.
template <class C, int D>
__device__ __forceinline__ void ReduceChunkSplits(const AttentionPlan& a, const StagedTile& tile, int warp_rows,
                                                  int first_head, const WarpQueries& own, const Softmax<D>& state,
                                                  float* received, int warp, int lane) {
  const int share = kChunkQueries / a.chunk_splits, rank = static_cast<int>(blockIdx.x);
  float* stats = received + kChunkQueries * D;
  ArriveAtCluster();
  WaitForCluster();  // all blocks are done with the stages
  ForEachResult<D>(state, own.queries, lane, [&](int h, int m, float sum) {
    const int query = warp * 16 + m, owner = query / share, at = rank * share + query % share;
#pragma unroll
    for (int n = 0; n < D / 8; ++n) {
      const uint32_t to = SharedAddress(received + at * D + CacheTile<C, D>::DimensionOf(n, lane));
      const float2 sums = CacheTile<C, D>::SumsOf(state.out, n, h);
      StoreInCluster(to, owner, sums.x);
      StoreInCluster(to + 4, owner, sums.y);
    }
    if (lane % 4 != 0) return;
    StoreInCluster(SharedAddress(stats + at * 2), owner, state.running_max[h]);
    StoreInCluster(SharedAddress(stats + at * 2 + 1), owner, sum);
  });
  ArriveAtCluster();
  WaitForCluster();
  for (int i = threadIdx.x; i < share * D; i += kChunkThreads) {
    const int query = rank * share + i / D, d = i % D, rows_before = query / 16 * warp_rows;
    const int m = query % 16;
    if (m >= min(warp_rows, tile.rows - rows_before) * a.tile_heads) continue;
    float max_score = -INFINITY, total = 0, value = 0;
    for (int p = 0; p < a.chunk_splits; ++p) max_score = fmaxf(max_score, stats[(p * share + i / D) * 2]);
    for (int p = 0; p < a.chunk_splits; ++p) {
      const float* own_stats = stats + (p * share + i / D) * 2;
      const float rescale = RescaleFactor(max_score, own_stats[0]);
      total += own_stats[1] * rescale;
      value += received[(p * share + i / D) * D + d] * rescale;
    }
    const WarpQueries at{tile.row + rows_before, 0, first_head};
    StoreElement(a.out.data, a.out.dtype, OutAt(a, at, m) + d, value / total);
  }
}

/// Small configuration: writes a split's results to global memory.
template <class C, int D>
__device__ __forceinline__ void StoreChunkSplit(const AttentionPlan& a, const WarpQueries& own, const Softmax<D>& state,
                                                int warp, int lane) {
  float* partial = PartialOf<D>(a, kChunkQueries);
  ForEachResult<D>(state, own.queries, lane, [&](int h, int m, float sum) {
    const int query = warp * 16 + m;
#pragma unroll
    for (int n = 0; n < D / 8; ++n) {
      *reinterpret_cast<float2*>(partial + query * D + CacheTile<C, D>::DimensionOf(n, lane)) =
          CacheTile<C, D>::SumsOf(state.out, n, h);
    }
    if (lane % 4 == 0) {
      *reinterpret_cast<float2*>(partial + kChunkQueries * D + 2 * query) = float2{state.running_max[h], sum};
    }
  });
}

/// Copies a unit's tiles into a stage. Each warp copies the keys or values of a tile, or half of them.
template <class C, int D, class Sizes>
__device__ __forceinline__ void FetchUnit(const AttentionPlan& a, const StagedTile& tile, const char* slab,
                                          bool is_pinned, int of, int tiles, C* stage, int warp, int lane) {
  constexpr int kTiles = Sizes::kTiles, kShares = kChunkWarps / (2 * kTiles);
  const int t = warp / 2 % kTiles, share = warp / (2 * kTiles);
  if (t >= tiles) return;
  const char* from = KeyTile(a, tile, slab, is_pinned, of + t);
  C* slot = stage + t * CacheTile<C, D>::kElements;
  if (warp % 2 == 0) {
    CacheTile<C, D>::template FetchKeys<kShares>(from, slot, share, lane);
  } else {
    CacheTile<C, D>::template FetchValues<kShares>(from, slot, share, lane);
  }
}

template <class C, int D>
__device__ __forceinline__ void StoreChunk(const AttentionPlan& a, const WarpQueries& own, const Softmax<D>& state,
                                           int lane) {
  ForEachResult<D>(state, own.queries, lane, [&](int h, int m, float sum) {
    const int64_t at = OutAt(a, own, m);
    const float factor = 1.0f / sum;
#pragma unroll
    for (int n = 0; n < D / 8; ++n) {
      const int d = CacheTile<C, D>::DimensionOf(n, lane);
      const float2 sums = CacheTile<C, D>::SumsOf(state.out, n, h);
      StoreElement(a.out.data, a.out.dtype, at + d, sums.x * factor);
      StoreElement(a.out.data, a.out.dtype, at + d + 1, sums.y * factor);
    }
  });
}

template <class C, int D, bool kTraits>
__global__ void __launch_bounds__(kChunkThreads, D <= 64 ? 2 : 1) ChunkAttentionKernel(AttentionPlan a) {
  using Sizes = ChunkSizes<C, D, kLargeConfig>;
  using Q = typename CacheTile<C, D>::Product;
  constexpr int kTiles = Sizes::kTiles, kStages = Sizes::kStages;
  extern __shared__ __align__(16) unsigned char shared[];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  Q* queries = reinterpret_cast<Q*>(shared) + warp * 16 * Sizes::kQueryRow;  // the warp's own
  C* stages = reinterpret_cast<C*>(reinterpret_cast<Q*>(shared) + Sizes::kQueries);
  constexpr int kTile = CacheTile<C, D>::kElements, kStage = kTiles * kTile;
  BeginDependentKernel();

  const int kv_head = blockIdx.y / a.tiles_of_group, first_head = blockIdx.y * a.tile_heads;
  const StagedTile tile = a.chunk_tiles[blockIdx.z];
  const int warp_rows = 16 / a.tile_heads, own_rows = max(0, min(warp_rows, tile.rows - warp * warp_rows));
  const WarpQueries own{tile.row + warp * warp_rows, own_rows * a.tile_heads, first_head};

  const int pinned_units = (tile.pinned_tiles + kTiles - 1) / kTiles;
  const int units = pinned_units + (tile.ring_tiles + kTiles - 1) / kTiles;
  const int shift = __ffs(a.chunk_splits) - 1;  // the number of splits is a power of two
  const int begin = units * static_cast<int>(blockIdx.x) >> shift;
  const int end = units * (static_cast<int>(blockIdx.x) + 1) >> shift;
  const char* slab = TileAddress(a, tile.slab, 0, kv_head);
  const auto fetch = [&](int unit) {
    if (unit < end) {
      const bool is_pinned = unit < pinned_units;
      const int of = is_pinned ? unit * kTiles : (unit - pinned_units) * kTiles;
      const int tiles = min(kTiles, (is_pinned ? tile.pinned_tiles : tile.ring_tiles) - of);
      C* stage = stages + (unit - begin) % kStages * kStage;
      FetchUnit<C, D, Sizes>(a, tile, slab, is_pinned, of, tiles, stage, warp, lane);
    }
    CommitCopies();
  };
  for (int n = 0; n < kStages - 1; ++n) fetch(begin + n);

  const MaskLimits both = LimitsOf<kTraits>(a, tile, warp * warp_rows, own.queries, lane);
  MaskModifiers modifiers = {};
  Softmax<D> state;
  if constexpr (kTraits) {
    modifiers = ModifiersOf(a, tile, warp * warp_rows, first_head, own.queries, lane);
    if (blockIdx.x == 0) state.InitWithSinks(a, first_head, lane);
  }
  QueryFragments<Q, D> fragments;
  int loaded = -1;  // the rotation held in `fragments`: 1 for pinned keys, 0 for ring keys
  for (int unit = begin; unit < end; ++unit) {
    const bool is_pinned = unit < pinned_units;
    WaitForCopies<kStages - 2>();
    __syncthreads();
    fetch(unit + kStages - 1);
    const int of = is_pinned ? unit * kTiles : (unit - pinned_units) * kTiles;
    const int tiles = min(kTiles, (is_pinned ? tile.pinned_tiles : tile.ring_tiles) - of);
    const int first = is_pinned ? of * 16 : tile.pinned + (tile.first_tile + of) * 16, last = first + tiles * 16 - 1;
    const int from = is_pinned ? 0 : tile.first, to = is_pinned ? min(tile.pinned - 1, tile.last) : tile.last;
    C* stage = stages + (unit - begin) % kStages * kStage;
    if (first < from || last > to || tiles < kTiles) {
      if (warp < kTiles) {
        ZeroMaskedValues<C, D>(stage + warp * kTile, first + warp * 16, from, warp < tiles ? to : -1, lane);
      }
      __syncthreads();
    }
    if (own_rows == 0) continue;
    const QueryLimits limits = both.Of(is_pinned);
    bool sees = false, whole = true;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      sees = sees || (first <= limits.to[h] && last >= limits.from[h]);
      whole = whole && (lane / 4 + 8 * h >= own.queries || (first >= limits.from[h] && last <= limits.to[h]));
    }
    if (!__any_sync(0xffffffffu, sees)) continue;
    whole = __all_sync(0xffffffffu, whole);
    if (loaded != static_cast<int>(is_pinned)) {
      RotateQueries<D, kTraits>(a, own.row, own.queries, first_head, is_pinned ? a.pinned_cos : a.own_cos,
                                is_pinned ? a.pinned_sin : a.own_sin, queries, lane);
      __syncwarp();
      fragments.Drop();
      fragments.Load(queries, lane);
      __syncwarp();
      loaded = static_cast<int>(is_pinned);
    }
    AttendTiles<C, D, kTiles, kTraits>(fragments, SharedAddress(stage), tiles, first, limits, modifiers.Of(is_pinned),
                                       whole, own.queries > 8 ? 2 : 1, lane, state);
  }
  WaitForCopies<0>();
  __syncthreads();
  if (a.chunk_splits > 1) {
    if constexpr (!kLargeConfig) return StoreChunkSplit<C, D>(a, own, state, warp, lane);
    return ReduceChunkSplits<C, D>(a, tile, warp_rows, first_head, own, state, reinterpret_cast<float*>(shared), warp,
                                   lane);
  }
  StoreChunk<C, D>(a, own, state, lane);
}

template <class C, int D, bool kLarge, bool kTraits>
struct ChunkLaunch {
  static constexpr int kThreads = kChunkThreads, kBytes = ChunkSizes<C, D, kLarge>::kBytes, kQueries = kChunkQueries;
  static constexpr auto kKernel = ChunkAttentionKernel<C, D, kTraits>;
};

template <class C, int D, bool kLarge, bool kTraits>
void LaunchOfSize(const Launcher& on, const AttentionPlan& plan) {
  const auto launch_tiles = [&](auto paired) {
    LaunchSplit<TiledLaunch<C, D, kLarge, kTraits, paired()>>(on, plan, plan.splits, plan.apart != 0, plan.tiles,
                                                              plan.tile_count);
  };
  plan.paired != 0 ? launch_tiles(std::true_type()) : launch_tiles(std::false_type());
  if (plan.wgmma_queries > 0) return;
  LaunchSplit<ChunkLaunch<C, D, kLarge, kTraits>>(on, plan, plan.chunk_splits, false, plan.chunk_tiles,
                                                  plan.chunk_count);
}

/// Number of resident tiles with `splits` blocks each.
template <class Kind>
int ResidentTiles(const Launcher& on, int splits) {
  static OccupancyCache tiles;
  return tiles.Of(splits, [&] {
    return on.large ? MaxActiveClusters(Kind::kKernel, splits, Kind::kThreads, Kind::kBytes)
                    : MaxActiveBlocks(on, Kind::kKernel, Kind::kThreads, Kind::kBytes) / splits;
  });
}
template <class C, int D, bool kLarge>
int ResidentOfSize(const Launcher& on, bool chunk, int splits) {
  return chunk ? ResidentTiles<ChunkLaunch<C, D, kLarge, false>>(on, splits)
               : ResidentTiles<TiledLaunch<C, D, kLarge, false, false>>(on, splits);
}

/// Calls body(size, large) with the head size and size configuration as compile-time constants.
template <class Body>
auto WithSizes(const Launcher& on, int64_t head_dim, const Body& body) {
  const auto in_set = [&](auto size) {
    return on.large ? body(size, std::true_type()) : body(size, std::false_type());
  };
  switch (head_dim) {
    case 64:
      return in_set(std::integral_constant<int, 64>());
    case 80:
      return in_set(std::integral_constant<int, 80>());
    case 96:
      return in_set(std::integral_constant<int, 96>());
    case 128:
      return in_set(std::integral_constant<int, 128>());
    default:
      CHECK_EQ(head_dim, 256);
      return in_set(std::integral_constant<int, 256>());
  }
}

/// kTraits: kernels with the layer's score modifiers.
template <class C, bool kTraits>
void LaunchTiledOfType(const Launcher& on, const AttentionPlan& plan) {
  WithSizes(on, plan.head_dim, [&](auto size, auto large) { LaunchOfSize<C, size(), large(), kTraits>(on, plan); });
}
template <class C>
int ResidentOfType(const Launcher& on, int64_t head_dim, bool chunk, int splits) {
  return WithSizes(on, head_dim,
                   [&](auto size, auto large) { return ResidentOfSize<C, size(), large()>(on, chunk, splits); });
}

}  // namespace ringside::cuda
