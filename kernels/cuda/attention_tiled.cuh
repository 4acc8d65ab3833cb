// Attention over the ring on the tensor cores, for 16-bit caches (FlashAttention-2, Dao 2023, split over keys as in
// Flash-Decoding). Up to 16 queries - the rows of a tile times the heads that share its keys - are the left operand;
// the slab's tiles are read where they lie, in whatever order the ring has them, and only the mask knows positions.
//
// A block takes one tile of queries and one split of its keys. Each of its 4 warps takes every fourth tile of 16 keys
// through its own stages of shared memory (no warp waits for another), with a running softmax of its own; the four are
// joined in warp order, the splits by the block that ends last, in split order. Pinned keys meet the queries rotated to
// their distance in the cache, ring keys those rotated to the row's own position: one softmax over both.
//
// A slab tile holds keys [dimension][16] and values [16][dimension]: for both the contraction runs along rows, so both
// reach the tensor cores through the same transposing load, and no layout of its own is needed for the GPU.
//
// Where every sequence has one row, the block that reads the newest tile also rotates and stores its key and value.
#pragma once

#include "kernels/cuda/attention_inl.cuh"
#include "kernels/cuda/launch.cuh"

namespace ringside::cuda {

constexpr int kAttentionWarps = 4, kAttentionThreads = 32 * kAttentionWarps;
constexpr int kMostSplits = 64;

/// Sizes in shared memory, in elements of 2 bytes. Rows are padded to an odd number of 16-byte units, so that eight of
/// them lie in different banks; key rows, of two units, are swizzled instead.
template <int D>
struct AttentionSizes {
  static constexpr int kStages = D <= 96 ? 4 : 3;
  static constexpr int kValueRow = D + 8, kQueryRow = D + 8;
  static constexpr int kKeys = 16 * D, kStage = kKeys + 16 * kValueRow;
  static constexpr int kQueries = 16 * kQueryRow;  // one rotation of them
  static constexpr int kBytes = 2 * (2 * kQueries + 2 * D + kAttentionWarps * kStages * kStage);
  static constexpr int kPartial = 16 * (D + 2);  // floats of a split's result
};

/// A running softmax over the keys seen so far: queries quad and quad + 8 of the lane.
template <int D>
struct Softmax {
  float out[D / 8][4] = {};
  float top[2] = {-INFINITY, -INFINITY}, sum[2] = {};
};

/// Element offset of the 16-byte unit with keys 8 c ... of dimension d.
__device__ __forceinline__ int KeyUnit(int d, int c) { return (2 * d + (c ^ (d >> 2 & 1))) * 8; }

template <class C, int D>
__device__ __forceinline__ void FetchTile(const char* tile, int64_t half_tile_bytes, C* stage, int lane) {
  using Sizes = AttentionSizes<D>;
#pragma unroll
  for (int i = 0; i < D / 16; ++i) {
    const int unit = i * 32 + lane;
    CopyAsync(SharedAddress(stage + KeyUnit(unit / 2, unit % 2)), tile + unit * 16);
  }
#pragma unroll
  for (int i = 0; i < D / 16; ++i) {
    const int unit = i * 32 + lane, key = unit / (D / 8), part = unit % (D / 8);
    CopyAsync(SharedAddress(stage + Sizes::kKeys + key * Sizes::kValueRow + part * 8),
              tile + half_tile_bytes + unit * 16);
  }
}

/// The lane's two queries: which positions they see.
struct QueryLimits {
  int from[2], to[2];  // of ring keys, or of pinned ones
};

/// One tile of 16 keys: scores, softmax, products with the values. `first` is the position of key 0.
template <class C, int D>
__device__ __forceinline__ void AttendTile(const C* queries, const C* stage, int first, const QueryLimits& limits,
                                           int lane, Softmax<D>& state) {
  using Sizes = AttentionSizes<D>;
  const int matrix = lane / 8, line = lane % 8;
  float score[2][4] = {};
#pragma unroll
  for (int k = 0; k < D / 16; ++k) {
    uint32_t a[4], b[4];
    LoadMatrices(a, SharedAddress(queries + (matrix % 2 * 8 + line) * Sizes::kQueryRow + k * 16 + matrix / 2 * 8));
    LoadMatricesTransposed(b, SharedAddress(stage + KeyUnit(k * 16 + matrix % 2 * 8 + line, matrix / 2)));
    MultiplyAdd(score[0], a, b[0], b[1], C());
    MultiplyAdd(score[1], a, b[2], b[3], C());
  }
#pragma unroll
  for (int h = 0; h < 2; ++h) {  // queries quad, quad + 8
    float top = state.top[h];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      float& s = score[i / 2][2 * h + i % 2];
      const int p = first + i / 2 * 8 + lane % 4 * 2 + i % 2;
      if (p < limits.from[h] || p > limits.to[h]) s = -INFINITY;
      top = fmaxf(top, s);
    }
    top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, 1));
    top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, 2));
    const float base = top == -INFINITY ? 0.0f : top;
    const float shrink = exp2f(state.top[h] - base);
    state.top[h] = top;
    state.sum[h] *= shrink;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      float& s = score[i / 2][2 * h + i % 2];
      s = exp2f(s - base);
      state.sum[h] += s;
    }
#pragma unroll
    for (int n = 0; n < D / 8; ++n) state.out[n][2 * h] *= shrink, state.out[n][2 * h + 1] *= shrink;
  }
  const uint32_t a[4] = {Pack(score[0][0], score[0][1], C()), Pack(score[0][2], score[0][3], C()),
                         Pack(score[1][0], score[1][1], C()), Pack(score[1][2], score[1][3], C())};
  const C* values = stage + Sizes::kKeys;
#pragma unroll
  for (int n = 0; n < D / 16; ++n) {
    uint32_t b[4];
    LoadMatricesTransposed(
        b, SharedAddress(values + (matrix % 2 * 8 + line) * Sizes::kValueRow + n * 16 + matrix / 2 * 8));
    MultiplyAdd(state.out[2 * n], a, b[0], b[1], C());
    MultiplyAdd(state.out[2 * n + 1], a, b[2], b[3], C());
  }
}

/// Rows of values that no query of the tile sees become zero: what lies there may be anything, and 0 x NaN is NaN.
template <class C, int D>
__device__ __forceinline__ void ClearForeignValues(C* stage, int first, int from, int to, int lane) {
  using Sizes = AttentionSizes<D>;
  if (first >= from && first + 15 <= to) return;
  for (int key = 0; key < 16; ++key) {
    if (first + key >= from && first + key <= to) continue;
    for (int d = lane; d < D; d += 32) stage[Sizes::kKeys + key * Sizes::kValueRow + d] = FromFloat<C>(0);
  }
}

/// The queries of a tile, rotated and scaled, [16][D]; those past the last are zero.
template <class C, int D>
__device__ __forceinline__ void LoadQueries(const AttentionPlan& a, const StagedTile& tile, int first_head,
                                            const float* cosines, const float* sines, C* to) {
  constexpr int kRow = AttentionSizes<D>::kQueryRow;
  // exp2 takes the place of exp.
  const float scale = a.scale * 1.44269504f;
  const int real = tile.rows * a.tile_heads * D;
  WithQkv(a, [&](const auto* x) {
#pragma unroll 4
    for (int i = threadIdx.x; i < real; i += kAttentionThreads) {
      const int m = i / D, d = i % D, row = tile.row + m / a.tile_heads;
      const float value = RotatedElement(a, x, QueryAt(a, row, first_head + m % a.tile_heads), d, cosines, sines, row);
      to[m * kRow + d] = FromFloat<C>(value * scale);
    }
  });
  for (int i = real + threadIdx.x; i < 16 * D; i += kAttentionThreads) to[i / D * kRow + i % D] = FromFloat<C>(0);
}

/// The key and value of a tile's only row: into shared memory for the warp that reads their tile, and into the slab.
template <class C, int D>
__device__ __forceinline__ void StoreOwnRow(const AttentionPlan& a, const StagedTile& tile, int kv_head, bool to_slab,
                                            C* shared_row) {
  const int slot = SlotOf(a, tile.position, tile.pinned);
  C* keys = reinterpret_cast<C*>(TileAddress(a, tile.slab, slot / 16, kv_head));
  C* values = keys + 16 * D;
  WithQkv(a, [&](const auto* x) {
#pragma unroll
    for (int d = threadIdx.x; d < D; d += kAttentionThreads) {
      const C key = FromFloat<C>(RotatedElement(a, x, KeyAt(a, tile.row, kv_head), d, a.own_cos, a.own_sin, tile.row));
      const C value = FromFloat<C>(ToFloat(x[ValueAt(a, tile.row, kv_head) + d]));
      shared_row[d] = key, shared_row[D + d] = value;
      if (to_slab) keys[d * 16 + slot % 16] = key, values[slot % 16 * D + d] = value;
    }
  });
}

template <class C, int D>
__device__ __forceinline__ void PatchOwnRow(const C* own, int key, C* stage, int lane) {
  using Sizes = AttentionSizes<D>;
  for (int d = lane; d < D; d += 32) {
    stage[KeyUnit(d, key / 8) + key % 8] = own[d];
    stage[Sizes::kKeys + key * Sizes::kValueRow + d] = own[D + d];
  }
}

/// The warps' results, each [16][D] sums, then tops, then weights, joined in warp order.
template <int D>
__device__ __forceinline__ float JoinedElement(const float* parties, int m, int d, float* top, float* sum) {
  constexpr int kParty = AttentionSizes<D>::kPartial;
  float highest = -INFINITY, total = 0, value = 0;
#pragma unroll
  for (int i = 0; i < kAttentionWarps; ++i) highest = fmaxf(highest, parties[i * kParty + 16 * D + m]);
#pragma unroll
  for (int i = 0; i < kAttentionWarps; ++i) {
    const float own = parties[i * kParty + 16 * D + m];
    const float shrink = own == -INFINITY ? 0.0f : exp2f(own - highest);
    total += parties[i * kParty + 16 * D + 16 + m] * shrink;
    value += parties[i * kParty + m * D + d] * shrink;
  }
  *top = highest, *sum = total;
  return value;
}

template <int D>
__device__ __forceinline__ void StoreResult(const AttentionPlan& a, const StagedTile& tile, int first_head, int i,
                                            float value) {
  const int m = i / D, d = i % D, head = first_head + m % a.tile_heads;
  const int64_t at = static_cast<int64_t>(tile.row + m / a.tile_heads) * a.out.stride + head * D + d;
  StoreElement(a.out.data, a.out.dtype, at, value);
}

/// The splits' results, joined in split order. First what each counts for, then the sums: all their loads at a time.
template <int D>
__device__ __forceinline__ void JoinSplits(const AttentionPlan& a, const StagedTile& tile, int first_head,
                                           const float* partials, int parties, float* weights) {
  constexpr int kParty = AttentionSizes<D>::kPartial;
  const int queries = tile.rows * a.tile_heads;
  for (int i = threadIdx.x; i < queries * parties; i += kAttentionThreads) {
    weights[i] = __ldcg(partials + i / queries * kParty + 16 * D + i % queries);
    weights[kMostSplits * 16 + i] = __ldcg(partials + i / queries * kParty + 16 * D + 16 + i % queries);
  }
  __syncthreads();
  if (static_cast<int>(threadIdx.x) < queries) {
    float highest = -INFINITY, total = 0;
    for (int p = 0; p < parties; ++p) highest = fmaxf(highest, weights[p * queries + threadIdx.x]);
    for (int p = 0; p < parties; ++p) {
      const int i = p * queries + threadIdx.x;
      weights[i] = weights[i] == -INFINITY ? 0.0f : exp2f(weights[i] - highest);
      total += weights[i] * weights[kMostSplits * 16 + i];
    }
    for (int p = 0; p < parties; ++p) weights[p * queries + threadIdx.x] /= total;
  }
  __syncthreads();
  for (int i = threadIdx.x; i < queries * D; i += kAttentionThreads) {
    float value = 0;
#pragma unroll 8
    for (int p = 0; p < parties; ++p) value += __ldcg(partials + p * kParty + i) * weights[p * queries + i / D];
    StoreResult<D>(a, tile, first_head, i, value);
  }
}

template <class C, int D>
__global__ void __launch_bounds__(kAttentionThreads) TiledAttentionKernel(AttentionPlan a) {
  using Sizes = AttentionSizes<D>;
  extern __shared__ __align__(16) unsigned char shared[];
  __shared__ int last_split;
  C* own_queries = reinterpret_cast<C*>(shared);
  C* pinned_queries = own_queries + Sizes::kQueries;
  C* own_row = pinned_queries + Sizes::kQueries;
  C* stages = own_row + 2 * D;
  StartStep();

  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int group = a.heads / a.kv_heads, tiles_of_group = group / a.tile_heads;
  const int kv_head = blockIdx.y / tiles_of_group;
  const int first_head = kv_head * group + blockIdx.y % tiles_of_group * a.tile_heads;
  const StagedTile tile = a.tiles[blockIdx.z];
  const int tiles = tile.pinned_tiles + tile.ring_tiles, per_split = (tiles + a.splits - 1) / a.splits;
  const int begin = blockIdx.x * per_split, end = min(tiles, begin + per_split);
  if (begin >= end) return;
  const int parties = (tiles + per_split - 1) / per_split;  // splits that are not empty

  C* own_stages = stages + warp * Sizes::kStages * Sizes::kStage;
  const auto tile_address = [&](int i) {
    const int physical = i < tile.pinned_tiles ? i : RingTile(a, tile.first_tile + i - tile.pinned_tiles);
    return TileAddress(a, tile.slab, physical, kv_head);
  };
  const auto fetch = [&](int n) {  // the warp's n-th tile
    const int i = begin + warp + n * kAttentionWarps;
    if (i < end) {
      FetchTile<C, D>(tile_address(i), a.half_tile_bytes, own_stages + n % Sizes::kStages * Sizes::kStage, lane);
    }
    CommitCopies();
  };
  for (int n = 0; n < Sizes::kStages - 1; ++n) fetch(n);

  LoadQueries<C, D>(a, tile, first_head, a.own_cos, a.own_sin, own_queries);
  if (begin < tile.pinned_tiles) LoadQueries<C, D>(a, tile, first_head, a.pinned_cos, a.pinned_sin, pinned_queries);
  const bool stores = a.stores != 0 && end == tiles;
  if (stores) StoreOwnRow<C, D>(a, tile, kv_head, blockIdx.y % tiles_of_group == 0, own_row);
  __syncthreads();

  QueryLimits ring, pinned;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int m = lane / 4 + 8 * h, row = m / a.tile_heads;
    const bool real = m < tile.rows * a.tile_heads;
    const int t = tile.position + row;
    ring.from[h] = INT_MAX;
    if (real && t >= tile.pinned) ring.from[h] = tile.rows == 1 ? tile.first : a.rows[tile.row + row].first_live;
    ring.to[h] = pinned.to[h] = real ? t : -1;
    pinned.from[h] = real ? 0 : INT_MAX;
    pinned.to[h] = min(pinned.to[h], tile.pinned - 1);
  }

  Softmax<D> state;
  for (int n = 0; begin + warp + n * kAttentionWarps < end; ++n) {
    fetch(n + Sizes::kStages - 1);
    WaitForCopies<Sizes::kStages - 1>();
    __syncwarp();
    const int i = begin + warp + n * kAttentionWarps;
    const bool is_pinned = i < tile.pinned_tiles;
    C* stage = own_stages + n % Sizes::kStages * Sizes::kStage;
    const int first = is_pinned ? i * 16 : tile.pinned + (tile.first_tile + i - tile.pinned_tiles) * 16;
    if (stores && i == tiles - 1) PatchOwnRow<C, D>(own_row, tile.position - first, stage, lane);
    ClearForeignValues<C, D>(stage, first, is_pinned ? 0 : tile.first,
                             is_pinned ? min(tile.pinned - 1, tile.last) : tile.last, lane);
    __syncwarp();
    const QueryLimits limits = {{is_pinned ? pinned.from[0] : ring.from[0], is_pinned ? pinned.from[1] : ring.from[1]},
                                {is_pinned ? pinned.to[0] : ring.to[0], is_pinned ? pinned.to[1] : ring.to[1]}};
    AttendTile<C, D>(is_pinned ? pinned_queries : own_queries, stage, first, limits, lane, state);
    __syncwarp();
  }
  WaitForCopies<0>();
  __syncthreads();

  // The warps' results, where the stages were.
  float* results = reinterpret_cast<float*>(stages);
  float* own = results + warp * Sizes::kPartial;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int m = lane / 4 + 8 * h;
    float sum = state.sum[h];
    sum += __shfl_xor_sync(0xffffffffu, sum, 1);
    sum += __shfl_xor_sync(0xffffffffu, sum, 2);
#pragma unroll
    for (int n = 0; n < D / 8; ++n) {
      own[m * D + n * 8 + lane % 4 * 2] = state.out[n][2 * h];
      own[m * D + n * 8 + lane % 4 * 2 + 1] = state.out[n][2 * h + 1];
    }
    if (lane % 4 == 0) own[16 * D + m] = state.top[h], own[16 * D + 16 + m] = sum;
  }
  __syncthreads();
  const int64_t item = static_cast<int64_t>(blockIdx.z) * gridDim.y + blockIdx.y;
  float* partials = a.partials + item * a.splits * Sizes::kPartial;
  float* mine = partials + blockIdx.x * Sizes::kPartial;
  for (int i = threadIdx.x; i < tile.rows * a.tile_heads * D; i += kAttentionThreads) {
    float top, sum;
    const float value = JoinedElement<D>(results, i / D, i % D, &top, &sum);
    if (parties == 1) {
      StoreResult<D>(a, tile, first_head, i, value / sum);
      continue;
    }
    mine[i] = value;
    if (i % D == 0) mine[16 * D + i / D] = top, mine[16 * D + 16 + i / D] = sum;
  }
  if (parties == 1) return;
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) last_split = atomicAdd(&a.counters[item], 1) == parties - 1;
  __syncthreads();
  if (!last_split) return;
  __threadfence();
  if (threadIdx.x == 0) a.counters[item] = 0;  // for the next launch
  JoinSplits<D>(a, tile, first_head, partials, parties, results);
}

template <class C, int D>
void LaunchTiledOfSize(const Launcher& on, const AttentionPlan& plan) {
  const int64_t head_tiles = plan.heads / plan.tile_heads;
  Launch(on, TiledAttentionKernel<C, D>, Grid(plan.splits, head_tiles, plan.tile_count), kAttentionThreads,
         AttentionSizes<D>::kBytes, plan);
}

template <class C>
void LaunchTiledOfType(const Launcher& on, const AttentionPlan& plan) {
  switch (plan.head_dim) {
    case 64:
      return LaunchTiledOfSize<C, 64>(on, plan);
    case 80:
      return LaunchTiledOfSize<C, 80>(on, plan);
    case 96:
      return LaunchTiledOfSize<C, 96>(on, plan);
    case 128:
      return LaunchTiledOfSize<C, 128>(on, plan);
    default:
      CHECK_EQ(plan.head_dim, 256);
      return LaunchTiledOfSize<C, 256>(on, plan);
  }
}

}  // namespace ringside::cuda
