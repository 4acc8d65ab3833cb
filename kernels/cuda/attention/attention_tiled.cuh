// Attention over the ring on the tensor cores, for 16- and 8-bit caches (FlashAttention-2, Dao 2023, with the keys
// split as in Flash-Decoding). Up to 16 queries (the rows of a tile times the heads that share its keys) are the left
// operand. The slab's tiles are read in place, in whatever order the ring has them; only the mask depends on positions.
//
// A block takes one tile of queries and one split of its keys. Each warp loads tiles of 16 keys through pipeline stages
// of its own, so that no warp waits for another, and keeps a running softmax of its own; warps are reduced in warp
// order. The splits of a tile are the CTAs of a cluster. Each cuts its result into one slice per split and sends them
// to the others through DSMEM; each reduces one slice in split order. (Small configuration, and AttentionPlan::apart:
// each writes its result to global memory, and a second kernel, attention_reduce.cu, reduces them.) Pinned keys are
// multiplied by queries rotated to their distance in the cache, ring keys by queries rotated to the row's own position,
// with one softmax over both.
//
// If there are more tiles than SMs, and no splits, two blocks of half the warps share an SM: one loads keys while the
// other is in its prologue or reduction.
//
// If every sequence has one row, the block that reads the newest tile also rotates and stores the row's key and value;
// keys and values of earlier steps are then prefetched while the preceding kernel still runs.
#pragma once

#include "kernels/cuda/attention/attention_inl.cuh"
#include "kernels/cuda/attention/cache_tile.cuh"
#include "kernels/cuda/cluster.cuh"
#include "kernels/cuda/launch.cuh"

namespace ringside::cuda {

/// Sizes in shared memory, in bytes unless noted otherwise. Rows of queries are padded to an odd number of 16-byte
/// units, so that eight rows use different banks.
///
/// Warps per block and pipeline stages per warp, by head size. Large configuration: 8 warps and 3 stages of one tile,
/// the fastest of those tried at 1 and 32 sequences (2 tiles per stage, 4 warps and 2 to 4 stages: 3 to 30 % slower),
/// with one block per SM; kPaired: 4 warps.
template <class C, int D, bool kLarge, bool kPaired>
struct AttentionSizes {
  static constexpr int kWarps = (kLarge && !kPaired ? 8 : 4) / (D > 128 ? 2 : 1), kStages = kLarge && D <= 128 ? 3 : 2;
  static constexpr int kStage = CacheTile<C, D>::kBytes;                  // one tile
  static constexpr int kQueryRow = D + 8, kQueries = 2 * 16 * kQueryRow;  // two rotations of 16 queries
  static constexpr int kOwnRow = 2 * D * static_cast<int>(sizeof(C));
  static constexpr int kResultRow = D + 8;              // floats per query of the sums
  static constexpr int kResult = 16 * kResultRow + 32;  // floats per warp: sums, running maxima, sums of probabilities
  static constexpr int kReceived = kLarge && !kPaired ? 16 * D + 36 * kMaxSplits : 0;  // floats from other splits
  // Results overlay the tiles.
  static constexpr int kTiles = kWarps * kStages * kStage, kResults = kWarps * 4 * kResult;
  static constexpr int kBytes = 4 * kReceived + 2 * kQueries + kOwnRow + (kTiles > kResults ? kTiles : kResults);
  static constexpr int kBlocks = kLarge && kPaired ? 2 : 1;  // blocks per SM; each reserves 1 KiB for the system
  static_assert(kBlocks * (kBytes + 1024) <= static_cast<int>(SharedBytes(kLarge)) + 1024);
};

/// Online softmax over the keys seen so far, for the lane's queries quad and quad + 8.
template <int D>
struct Softmax {
  float out[D / 8][4] = {};
  float running_max[2] = {-INFINITY, -INFINITY}, sum[2] = {};

  /// Starts with the heads' sinks, as if a key with value 0 had been seen. Called for exactly one of the partial
  /// softmaxes of a query.
  __device__ __forceinline__ void InitWithSinks(const AttentionPlan& a, int first_head, int lane) {
    if (a.sinks == nullptr) return;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      running_max[h] = a.sinks[HeadOfQuery(a, first_head, lane / 4 + 8 * h)] * kLog2E;
      sum[h] = lane % 4 == 0 ? 1.0f : 0.0f;  // partial sum of this lane
    }
  }
};

/// A warp's 16 queries as the left MMA operand: in registers, or in shared memory for large heads.
template <class Q, int D>
class QueryFragments {
 public:
  /// Loads the queries [16][D + 8] at `queries`, unless they are loaded already.
  __device__ __forceinline__ void Load(const Q* queries, int lane) {
    if (queries == queries_) return;
    queries_ = queries;
    const int matrix = lane / 8, line = lane % 8;
    address_ = SharedAddress(queries + (matrix % 2 * 8 + line) * (D + 8) + matrix / 2 * 8);
    if constexpr (kInRegisters) {
#pragma unroll
      for (int k = 0; k < D / 16; ++k) LoadMatrices(held_[k], address_ + k * 32);
    }
  }
  /// Invalidates the loaded queries: the shared memory has been overwritten.
  __device__ __forceinline__ void Drop() { queries_ = nullptr; }
  /// Dimensions 16 k ...
  __device__ __forceinline__ void Get(int k, uint32_t a[4]) const {
    if constexpr (kInRegisters) {
      a[0] = held_[k][0], a[1] = held_[k][1], a[2] = held_[k][2], a[3] = held_[k][3];
    } else {
      LoadMatrices(a, address_ + k * 32);
    }
  }

 private:
  static constexpr bool kInRegisters = D <= 128;
  const Q* queries_ = nullptr;
  uint32_t address_ = 0;
  uint32_t held_[kInRegisters ? D / 16 : 1][4];
};

/// Scores of `tiles` tiles of 16 keys (at most kTiles), softmax, and products with the values. `stages` is the
/// shared-memory address of the first tile, the others follow. `first` is the position of key 0; `whole`: every query
/// sees all these keys; `halves` is 1 if only the first 8 queries are real. Missing tiles are computed too, so that no
/// branch separates loads from MMAs; their values must be zero. kTraits: `modifiers` change the scores.
template <class C, int D, int kTiles, bool kTraits>
__device__ __forceinline__ void AttendTiles(const QueryFragments<typename CacheTile<C, D>::Product, D>& queries,
                                            uint32_t stages, int tiles, int first, const QueryLimits& limits,
                                            const QueryModifiers& modifiers, bool whole, int halves, int lane,
                                            Softmax<D>& state) {
  using Tile = CacheTile<C, D>;
  using Q = typename Tile::Product;
  const uint32_t keys = Tile::KeyAddress(stages, lane), values = Tile::ValueAddress(stages, lane);
  float score[2 * kTiles][4] = {};
#pragma unroll
  for (int k = 0; k < D / 16; ++k) {
    uint32_t a[4];
    queries.Get(k, a);
#pragma unroll
    for (int t = 0; t < kTiles; ++t) {
      uint32_t b[4];
      Tile::LoadKeys(b, keys + t * Tile::kBytes, k);
      MultiplyAdd(score[2 * t], a, b[0], b[1], Q());
      MultiplyAdd(score[2 * t + 1], a, b[2], b[3], Q());
    }
  }
#pragma unroll
  for (int h = 0; h < 2; ++h) {  // queries quad, quad + 8
    if (h >= halves) {
#pragma unroll
      for (int i = 0; i < 2 * kTiles; ++i) score[i][2] = score[i][3] = 0;
      continue;
    }
    if constexpr (kTraits) {
#pragma unroll
      for (int i = 0; i < 4 * kTiles; ++i) {
        float& s = score[i / 2][2 * h + i % 2];
        s = modifiers.of[h](s, first + i / 4 * 16 + Tile::KeyOf(i % 4, lane));
      }
    }
    if (!whole || tiles < kTiles) {
#pragma unroll
      for (int i = 0; i < 4 * kTiles; ++i) {
        const int p = first + i / 4 * 16 + Tile::KeyOf(i % 4, lane);
        if (p < limits.from[h] || p > limits.to[h] || i / 4 >= tiles) score[i / 2][2 * h + i % 2] = -INFINITY;
      }
    }
    float running_max = state.running_max[h];
#pragma unroll
    for (int i = 0; i < 4 * kTiles; ++i) running_max = fmaxf(running_max, score[i / 2][2 * h + i % 2]);
    running_max = fmaxf(running_max, __shfl_xor_sync(0xffffffffu, running_max, 1));
    running_max = fmaxf(running_max, __shfl_xor_sync(0xffffffffu, running_max, 2));
    const float base = running_max == -INFINITY ? 0.0f : running_max;
    const float rescale = Exp2(state.running_max[h] - base);
    state.running_max[h] = running_max;
    state.sum[h] *= rescale;
#pragma unroll
    for (int i = 0; i < 4 * kTiles; ++i) {
      float& s = score[i / 2][2 * h + i % 2];
      s = Exp2(s - base);
      state.sum[h] += s;
    }
    if (__all_sync(0xffffffffu, rescale == 1.0f)) continue;
#pragma unroll
    for (int n = 0; n < D / 8; ++n) state.out[n][2 * h] *= rescale, state.out[n][2 * h + 1] *= rescale;
  }
#pragma unroll
  for (int t = 0; t < kTiles; ++t) {
    float(*s)[4] = score + 2 * t;
    const uint32_t a[4] = {Pack(s[0][0], s[0][1], Q()), Pack(s[0][2], s[0][3], Q()), Pack(s[1][0], s[1][1], Q()),
                           Pack(s[1][2], s[1][3], Q())};
#pragma unroll
    for (int n = 0; n < D / 16; ++n) {
      uint32_t b[4];
      Tile::LoadValues(b, values + t * Tile::kBytes, n);
      MultiplyAdd(state.out[2 * n], a, b[0], b[1], Q());
      MultiplyAdd(state.out[2 * n + 1], a, b[2], b[3], Q());
    }
  }
}

/// Zeroes the values of keys that no query of the tile sees (all keys if from > to): that memory may hold anything, and
/// 0 x NaN is NaN.
template <class C, int D>
__device__ __forceinline__ void ZeroMaskedValues(C* stage, int first, int from, int to, int lane) {
  if (first >= from && first + 15 <= to) return;
  for (int key = 0; key < 16; ++key) {
    if (first + key >= from && first + key <= to) continue;
    for (int d = lane; d < D; d += 32) stage[CacheTile<C, D>::Value(key, d)] = FromFloat<C>(0);
  }
}

/// Prologue of a block: loads the step's queries, keys and values. One pair of dimensions per thread: instructions per
/// thread are critical here, and there are enough threads.
template <class C, int D, int kThreads, bool kTraits, class Q>
__device__ __forceinline__ void LoadOwnRows(const AttentionPlan& a, const StagedTile& tile, int first_head, int kv_head,
                                            Q* own_queries, Q* pinned_queries, C* own_row, bool to_slab) {
  const int queries = tile.rows * a.tile_heads * (D / 2);
  // The tasks after the queries are the key and then the value of a tile's only row.
  const int all = own_row == nullptr ? queries : queries + D;
  constexpr int kTogether = D > 128 ? 5 : 2;  // tasks of a thread whose loads are in flight together
  WithQkv(a, [&](const auto* x) {
#pragma unroll kTogether
    for (int i = threadIdx.x; i < all; i += kThreads) {
      const int m = i / (D / 2), first = FirstOfPair(a, i % (D / 2)), second = SecondOfPair(a, i % (D / 2));
      if (i < queries) {
        const int row = RowOfQuery(a, m);
        const int64_t at = QueryAt(a, tile.row + row, first_head + m - row * a.tile_heads);
        const float scale = (kTraits ? ScoreScale(a, tile.row + row) : a.scale) * kLog2E;
        const float u = ToFloat(x[at + first]) * scale, v = ToFloat(x[at + second]) * scale;
        const auto store = [&](const float* cosines, const float* sines, Q* to) {
          float2 q = Rotated(a, u, v, cosines, sines, tile.row + row, i % (D / 2));
          if constexpr (kTraits) q.x *= QueryWeight(a, first), q.y *= QueryWeight(a, second);
          to[m * (D + 8) + first] = FromFloat<Q>(q.x), to[m * (D + 8) + second] = FromFloat<Q>(q.y);
        };
        store(a.own_cos, a.own_sin, own_queries);
        if (pinned_queries != nullptr) store(a.pinned_cos, a.pinned_sin, pinned_queries);
        continue;
      }
      // To shared memory, for the warp that reads their tile, and to the slab.
      const int key_lane = LaneOf(tile.position, tile.pinned);
      C* keys = reinterpret_cast<C*>(NewestKeys(a, tile, kv_head));
      if (i < queries + D / 2) {
        const int64_t at = KeyAt(a, tile.row, kv_head);
        const float2 key =
            Rotated(a, ToFloat(x[at + first]), ToFloat(x[at + second]), a.own_cos, a.own_sin, tile.row, i % (D / 2));
        own_row[first] = FromFloat<C>(key.x), own_row[second] = FromFloat<C>(key.y);
        if (to_slab)
          keys[first * 16 + key_lane] = FromFloat<C>(key.x), keys[second * 16 + key_lane] = FromFloat<C>(key.y);
      } else {
        const int d = i % (D / 2) * 2;
        const int64_t at = ValueAt(a, tile.row, kv_head) + d;
        const C values[2] = {FromFloat<C>(ToFloat(x[at])), FromFloat<C>(ToFloat(x[at + 1]))};
        own_row[D + d] = values[0], own_row[D + d + 1] = values[1];
        C* to = keys + 16 * D + key_lane * D + d;
        if (to_slab) to[0] = values[0], to[1] = values[1];
      }
    }
  });
}

template <class C, int D>
__device__ __forceinline__ void InsertOwnRow(const C* own, int key, C* stage, int lane) {
  for (int d = lane; d < D; d += 32) {
    stage[CacheTile<C, D>::Key(d, key)] = own[d];
    stage[CacheTile<C, D>::Value(key, d)] = own[D + d];
  }
}

/// Stores four elements of a query's result from dimension d on.
__device__ __forceinline__ void StoreResult(const AttentionPlan& a, const StagedTile& tile, int first_head, int m,
                                            int d, float4 value) {
  const int row = RowOfQuery(a, m), head = first_head + m - row * a.tile_heads;
  const int64_t column = static_cast<int64_t>(head) * a.head_dim + d;
  if (a.gate.data != nullptr) value = TimesGate(value, a.gate, a.gate_kind, a.gate_columns, tile.row + row, column);
  StoreFloat4(a.out.data, a.out.dtype, static_cast<int64_t>(tile.row + row) * a.out.stride + column, value);
}

/// Stores a warp's result to shared memory: [16][kResultRow] sums, then running maxima, then sums of probabilities.
template <class C, int D, class Sizes>
__device__ __forceinline__ void StoreWarpResult(const Softmax<D>& state, int queries, float* own, int lane) {
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int m = lane / 4 + 8 * h;
    float sum = state.sum[h];
    sum += __shfl_xor_sync(0xffffffffu, sum, 1);
    sum += __shfl_xor_sync(0xffffffffu, sum, 2);
    if (m >= queries) continue;
#pragma unroll
    for (int n = 0; n < D / 8; ++n) {
      *reinterpret_cast<float2*>(own + m * Sizes::kResultRow + CacheTile<C, D>::DimensionOf(n, lane)) =
          CacheTile<C, D>::SumsOf(state.out, n, h);
    }
    if (lane % 4 == 0)
      own[16 * Sizes::kResultRow + m] = state.running_max[h], own[16 * Sizes::kResultRow + 16 + m] = sum;
  }
}

/// The largest running maximum of several partial softmaxes and the sum of their probabilities rescaled to it.
struct SoftmaxTotals {
  float max_score = -INFINITY, total = 0;
};
/// read(p) points to the running maximum of part p; its sum of probabilities is 16 floats further.
template <class Read>
__device__ __forceinline__ SoftmaxTotals SoftmaxTotalsOf(int count, const Read& read) {
  SoftmaxTotals out;
#pragma unroll 8
  for (int p = 0; p < count; ++p) out.max_score = fmaxf(out.max_score, read(p)[0]);
#pragma unroll 8
  for (int p = 0; p < count; ++p) out.total += read(p)[16] * RescaleFactor(out.max_score, read(p)[0]);
  return out;
}

__device__ __forceinline__ void AddRescaled(float4& sum, const float* values, float share) {
  const float4 v = *reinterpret_cast<const float4*>(values);
  sum.x += v.x * share, sum.y += v.y * share, sum.z += v.z * share, sum.w += v.w * share;
}
__device__ __forceinline__ float4 Times(float4 v, float factor) {
  return float4{v.x * factor, v.y * factor, v.z * factor, v.w * factor};
}

/// Dimensions d ... d + 3 of query m, reduced in warp order.
template <class Sizes>
__device__ __forceinline__ float4 ReduceWarps(const float* results, int m, int d, const float* maxima,
                                              float max_score) {
  float4 sum = {0, 0, 0, 0};
#pragma unroll
  for (int w = 0; w < Sizes::kWarps; ++w) {
    AddRescaled(sum, results + w * Sizes::kResult + m * Sizes::kResultRow + d,
                RescaleFactor(max_score, maxima[w * Sizes::kResult]));
  }
  return sum;
}

/// The CTAs of a cluster, one per split, exchange their results and reduce them in split order. `received` holds
/// [split][slice] sums, then [split][32] running maxima and sums of probabilities.
template <int D, class Sizes>
__device__ __forceinline__ void ReduceSplits(const AttentionPlan& a, const StagedTile& tile, int first_head,
                                             const float* results, float* received) {
  constexpr int kThreads = 32 * Sizes::kWarps, kFours = D / 4;
  const int all = tile.rows * a.tile_heads * kFours, slice = (all + a.splits - 1) / a.splits;
  const int rank = static_cast<int>(blockIdx.x);
  float* stats = received + 16 * D + 4 * kMaxSplits;
  const auto maxima_of = [&](int m) { return results + 16 * Sizes::kResultRow + m; };
  const auto totals_of = [&](int m) {
    return SoftmaxTotalsOf(Sizes::kWarps, [&](int w) { return maxima_of(m) + w * Sizes::kResult; });
  };
  WaitForCluster();  // all blocks have started
  for (int i = threadIdx.x; i < all; i += kThreads) {
    const int m = i / kFours, owner = i / slice;
    const float4 value = ReduceWarps<Sizes>(results, m, i % kFours * 4, maxima_of(m), totals_of(m).max_score);
    StoreInCluster(SharedAddress(received + (rank * slice + i - owner * slice) * 4), owner, value);
  }
  for (int i = threadIdx.x; i < 16 * a.splits; i += kThreads) {
    const int m = i % 16;
    if (m >= tile.rows * a.tile_heads) continue;
    const SoftmaxTotals totals = totals_of(m);
    StoreInCluster(SharedAddress(stats + rank * 32 + m), i / 16, totals.max_score);
    StoreInCluster(SharedAddress(stats + rank * 32 + 16 + m), i / 16, totals.total);
  }
  ArriveAtCluster();
  WaitForCluster();  // all blocks have sent
  for (int j = threadIdx.x; j < slice && rank * slice + j < all; j += kThreads) {
    const int i = rank * slice + j, m = i / kFours;
    const SoftmaxTotals totals = SoftmaxTotalsOf(a.splits, [&](int p) { return stats + p * 32 + m; });
    float4 sum = {0, 0, 0, 0};
#pragma unroll 8
    for (int p = 0; p < a.splits; ++p) {
      AddRescaled(sum, received + (p * slice + j) * 4, RescaleFactor(totals.max_score, stats[p * 32 + m]));
    }
    StoreResult(a, tile, first_head, m, i % kFours * 4, Times(sum, 1.0f / totals.total));
  }
}

/// Destination of the partial results of a block of a split tile with `queries` queries.
template <int D>
__device__ __forceinline__ float* PartialOf(const AttentionPlan& a, int queries) {
  const int block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  return a.partial + static_cast<int64_t>(block) * queries * (D + 2);
}

/// Stores the result of a block that has all keys, or the partial result of one without a cluster; only without other
/// splits is it divided by the sum of probabilities.
template <int D, class Sizes>
__device__ __forceinline__ void StoreBlock(const AttentionPlan& a, const StagedTile& tile, int first_head,
                                           const float* results) {
  float* partial = PartialOf<D>(a, 16);
  for (int i = threadIdx.x; i < tile.rows * a.tile_heads * (D / 4); i += 32 * Sizes::kWarps) {
    const int m = i / (D / 4), d = i % (D / 4) * 4;
    const float* maxima = results + 16 * Sizes::kResultRow + m;
    const SoftmaxTotals totals = SoftmaxTotalsOf(Sizes::kWarps, [&](int w) { return maxima + w * Sizes::kResult; });
    const float4 sum = ReduceWarps<Sizes>(results, m, d, maxima, totals.max_score);
    if (a.splits == 1) {
      StoreResult(a, tile, first_head, m, d, Times(sum, 1.0f / totals.total));
      continue;
    }
    *reinterpret_cast<float4*>(partial + m * D + d) = sum;
    if (d == 0) *reinterpret_cast<float2*>(partial + 16 * D + 2 * m) = float2{totals.max_score, totals.total};
  }
}

template <class C, int D, bool kTraits, bool kPaired>
__global__ void __launch_bounds__(32 * AttentionSizes<C, D, kLargeConfig, kPaired>::kWarps,
                                  AttentionSizes<C, D, kLargeConfig, kPaired>::kBlocks)
    TiledAttentionKernel(AttentionPlan a) {
  using Sizes = AttentionSizes<C, D, kLargeConfig, kPaired>;
  using Tile = CacheTile<C, D>;
  using Q = typename Tile::Product;
  constexpr int kWarps = Sizes::kWarps, kStages = Sizes::kStages;
  extern __shared__ __align__(16) unsigned char shared[];
  float* received = reinterpret_cast<float*>(shared);
  Q* own_queries = reinterpret_cast<Q*>(received + Sizes::kReceived);
  Q* pinned_queries = own_queries + 16 * Sizes::kQueryRow;
  C* own_row = reinterpret_cast<C*>(pinned_queries + 16 * Sizes::kQueryRow);
  C* all_stages = own_row + 2 * D;
  TriggerProgrammaticLaunch();
  constexpr bool kClusters = kLargeConfig && !kPaired;
  const bool in_cluster = kClusters && a.splits > 1 && a.apart == 0;
  if (in_cluster) ArriveAtCluster();
  if (a.early == 0) GridDependencySync();

  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const StagedTile tile = a.tiles[blockIdx.z];
  const int kv_head = a.tiles_of_group == 1 ? blockIdx.y : blockIdx.y / a.tiles_of_group;
  const int first_head = blockIdx.y * a.tile_heads;
  const int tiles = tile.pinned_tiles + tile.ring_tiles, shift = __ffs(a.splits) - 1;  // splits are 2^n
  const int begin = tiles * static_cast<int>(blockIdx.x) >> shift;
  const int end = tiles * (static_cast<int>(blockIdx.x) + 1) >> shift;
  const char* history = TileAddress(a, const_cast<void*>(tile.history), 0, kv_head);
  const char* own_tiles = TileAddress(a, tile.slab, 0, kv_head);
  C* stages = all_stages + warp * kStages * Tile::kElements;
  const auto fetch = [&](int n) {  // the warp's n-th tile
    const int i = begin + warp + n * kWarps;
    const bool is_pinned = i < tile.pinned_tiles;
    const int of = is_pinned ? i : i - tile.pinned_tiles;
    const char* from = !is_pinned && of >= tile.own ? own_tiles + OwnTile(a, tile, of) * a.tile_bytes
                                                    : KeyTile(a, tile, history, is_pinned, of);
    if (i < end) {
      Tile::template FetchKeys<1>(from, stages + n % kStages * Tile::kElements, 0, lane);
      Tile::template FetchValues<1>(from, stages + n % kStages * Tile::kElements, 0, lane);
    }
    CommitCopies();
  };
  for (int n = 0; n < kStages - 1; ++n) fetch(n);
  if (a.early != 0) GridDependencySync();

  const bool stores = a.stores != 0 && end == tiles && begin < end;
  LoadOwnRows<C, D, 32 * kWarps, kTraits>(
      a, tile, first_head, kv_head, own_queries, begin < tile.pinned_tiles ? pinned_queries : nullptr,
      stores ? own_row : nullptr, kv_head * a.tiles_of_group == static_cast<int>(blockIdx.y));
  __syncthreads();

  const int queries = tile.rows * a.tile_heads;
  const MaskLimits limits = LimitsOf<kTraits>(a, tile, 0, queries, lane);
  MaskModifiers modifiers = {};
  Softmax<D> state;
  if constexpr (kTraits) {
    modifiers = ModifiersOf(a, tile, 0, first_head, queries, lane);
    if (blockIdx.x == 0 && warp == 0) state.InitWithSinks(a, first_head, lane);
  }
  QueryFragments<Q, D> fragments;
  for (int n = 0, i = begin + warp; i < end; ++n, i += kWarps) {
    const bool is_pinned = i < tile.pinned_tiles;
    fragments.Load(is_pinned ? pinned_queries : own_queries, lane);
    fetch(n + kStages - 1);
    WaitForCopies<kStages - 1>();
    __syncwarp();
    const int first = is_pinned ? i * 16 : tile.pinned + (tile.first_tile + i - tile.pinned_tiles) * 16;
    C* stage = stages + n % kStages * Tile::kElements;
    if (stores && i == tiles - 1) InsertOwnRow<C, D>(own_row, tile.position - first, stage, lane);
    ZeroMaskedValues<C, D>(stage, first, is_pinned ? 0 : tile.first,
                           is_pinned ? min(tile.pinned - 1, tile.last) : tile.last, lane);
    __syncwarp();
    const bool whole = tile.rows == 1 && !is_pinned && first >= tile.first && first + 15 <= tile.position;
    AttendTiles<C, D, 1, kTraits>(fragments, SharedAddress(stage), 1, first, limits.Of(is_pinned),
                                  modifiers.Of(is_pinned), whole, queries > 8 ? 2 : 1, lane, state);
    __syncwarp();
  }
  WaitForCopies<0>();
  __syncthreads();

  float* results = reinterpret_cast<float*>(all_stages);  // overlays the tiles
  StoreWarpResult<C, D, Sizes>(state, queries, results + warp * Sizes::kResult, lane);
  __syncthreads();
  if constexpr (kClusters) {
    if (in_cluster) return ReduceSplits<D, Sizes>(a, tile, first_head, results, received);
  }
  StoreBlock<D, Sizes>(a, tile, first_head, results);
}

/// A kernel and its launch parameters.
template <class C, int D, bool kLarge, bool kTraits, bool kPaired>
struct TiledLaunch {
  using Sizes = AttentionSizes<C, D, kLarge, kPaired>;
  static constexpr int kThreads = 32 * Sizes::kWarps, kBytes = Sizes::kBytes, kQueries = 16;
  static constexpr auto kKernel = TiledAttentionKernel<C, D, kTraits, kPaired>;
};

/// Launches `splits` blocks per tile and head tile, as a cluster, or without clusters (`apart`, or if the device has
/// none) followed by a reduction kernel.
template <class Kind>
void LaunchSplit(const Launcher& on, const AttentionPlan& plan, int splits, bool apart, const StagedTile* tiles,
                 int64_t count) {
  if (count == 0) return;
  Launcher clustered = on;
  clustered.cluster = on.large && !apart ? splits : 1;
  Launch(clustered, Kind::kKernel, Grid(splits, plan.heads / plan.tile_heads, count), Kind::kThreads, Kind::kBytes,
         plan);
  if ((!on.large || apart) && splits > 1) LaunchReduceSplits(on, plan, tiles, count, Kind::kQueries, splits);
}

}  // namespace ringside::cuda
