// Multi-head latent attention (DeepSeek-V2, DeepSeek-AI 2024) on Hopper's tensor cores, in the absorbed form: all heads
// share one key of D dimensions whose first V dimensions are the value, so a tile is read once for all heads and both
// products (as in FlashMLA, DeepSeek-AI 2025). For 16-bit caches; the WGMMAs use their type.
//
// A block takes up to 64 queries, rows times heads, and one split of their keys, in units of 64. A producer warp group
// copies a unit's four tiles into pipeline stages, by TMA where every key is seen. Both consumer warp groups have the
// same queries: each computes the scores of half of a unit's keys and accumulates half of the values' dimensions. They
// exchange maxima and probabilities through shared memory, the latter as registers of the left operand. The values of a
// unit and the scores of the next are multiplied while the producer loads.
//
// Units begin at multiples of 64 positions, so what a row adds up does not depend on the rows that share its block.
// Splits write their sums to global memory; attention_latent_reduce.cu reduces them.
#pragma once

#include "kernels/cuda/attention/latent_splits.cuh"
#include "kernels/cuda/attention/wgmma_keys.cuh"
#include "kernels/cuda/attention/wgmma_results.cuh"
#include "kernels/cuda/attention/wgmma_softmax.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/linear/tensor_boxes.cuh"

namespace ringside::cuda {

template <int D, int V>
struct LatentShape {
  static constexpr int kDim = D, kValues = V, kStages = D > 320 ? 2 : 4;
  static constexpr int kConsumerWarps = 8, kProducerWarps = kLatentTiles;  // a producer warp copies one tile of a unit
  static constexpr int kConsumers = 32 * kConsumerWarps, kThreads = kConsumers + 32 * kProducerWarps;
  static constexpr int kProducerRegisters = 40, kConsumerRegisters = (65536 / kThreads / 8 * 8 * 3 - 40) / 2 / 8 * 8;
  // 64 dimensions of 64 queries or keys: a box of 128-byte rows, swizzled.
  static constexpr int kBoxes = D / 64, kBox = 64 * 128, kStage = kBoxes * kBox;
  static constexpr int kGroupValues = V / 2, kParts = kGroupValues / 128;  // of a consumer group; of one WGMMA each
  static constexpr int kExchange = 2 * 8 * 128 * 4, kMaxima = 2 * kLatentQueries * 4;
  static constexpr int kBytes = 1024 + kStage + kStages * (kStage + 2 * 8) + kExchange + kMaxima;
  static_assert(D % 64 == 0 && V % 256 == 0 && kBytes <= static_cast<int>(SharedBytes(true)));
};

/// A block's shared memory: queries, stages, exchanged registers and maxima, barriers.
template <class S>
struct LatentShared {
  uint32_t queries, barriers;
  uint32_t* exchanged;  // [group][register][thread]
  float* maxima;        // [group][query]

  __device__ __forceinline__ explicit LatentShared(unsigned char* shared) {
    queries = (SharedAddress(shared) + 1023) / 1024 * 1024;
    unsigned char* after = shared + (queries - SharedAddress(shared)) + S::kStage * (1 + S::kStages);
    exchanged = reinterpret_cast<uint32_t*>(after);
    maxima = reinterpret_cast<float*>(after + S::kExchange);
    barriers = SharedAddress(maxima) + S::kMaxima;
  }
  /// `n`: index of a unit in the order in which the block consumes them.
  __device__ __forceinline__ uint32_t Stage(int n) const { return queries + S::kStage * (1 + n % S::kStages); }
  __device__ __forceinline__ uint32_t Full(int n) const { return barriers + n % S::kStages * 16; }
  __device__ __forceinline__ uint32_t Empty(int n) const { return Full(n) + 8; }
  /// Called by one thread.
  __device__ __forceinline__ void Init() const {
    for (int n = 0; n < S::kStages; ++n)
      InitBarrier(Full(n), S::kProducerWarps), InitBarrier(Empty(n), S::kConsumerWarps);
    FenceBarriers();
  }
  __device__ __forceinline__ void AwaitFull(int n) const {
    WaitAt(Full(n), n / S::kStages % 2);
    FenceProxyAsync();  // some keys are copied by threads
  }
  __device__ __forceinline__ void AwaitEmpty(int n) const { WaitAt(Empty(n), n / S::kStages % 2 ^ 1); }
};

/// Byte offset of 16 bytes, eight dimensions, in a box.
__device__ __forceinline__ int InBox(int row, int unit) { return row * 128 + (unit ^ row % 8) * 16; }

/// A warp copies a tile of 16 keys to `to`, the tile's rows of the stage. Keys that no row sees become zero: that
/// memory may hold anything, and 0 x NaN is NaN.
template <class S>
__device__ __forceinline__ void FetchSeenKeys(const char* from, uint32_t to, int first, int seen_from, int seen_to,
                                              int lane) {
  for (int i = lane; i < 16 * (S::kDim / 8); i += 32) {
    const int key = i / (S::kDim / 8), part = i % (S::kDim / 8);
    CopyAsyncOrZero(to + part / 8 * S::kBox + InBox(key, part % 8), from + i * 16,
                    first + key >= seen_from && first + key <= seen_to);
  }
}

/// Producer loop of a warp: copies tile `warp` of each of the block's units.
template <class S>
__device__ __forceinline__ void FetchLatentUnits(const AttentionPlan& a, const StagedTile& tile,
                                                 const LatentUnits& units, int begin, int end,
                                                 const LatentShared<S>& shared, const CUtensorMap& map, int warp,
                                                 int lane) {
  const char* history = TileAddress(a, const_cast<void*>(tile.history), 0, 0);
  const char* own_tiles = TileAddress(a, tile.slab, 0, 0);
  for (int n = 0; n < end - begin; ++n) {
    const LatentUnit unit = units.At(tile, begin + n);
    const int of = unit.tile + warp,
              first = unit.first + warp * 16;  // tile among those of its kind; its first position
    const bool exists = of >= 0 && of < (unit.is_pinned ? tile.pinned_tiles : tile.ring_tiles);
    const char* from = !exists                             ? history
                       : !unit.is_pinned && of >= tile.own ? own_tiles + OwnTile(a, tile, of) * a.tile_bytes
                                                           : KeyTile(a, tile, history, unit.is_pinned, of);
    const uint32_t to = shared.Stage(n) + warp * 16 * 128;
    shared.AwaitEmpty(n);
    if (exists && first >= unit.from && first + 15 <= unit.to) {
      if (lane == 0) {
        const auto at = static_cast<int>((from - static_cast<const char*>(a.memory)) / kLatentUnit);
        ArriveExpectTx(shared.Full(n), 16 * S::kDim * 2);
        for (int box = 0; box < S::kBoxes; ++box) CopyTileBox(to + box * S::kBox, map, box, at, shared.Full(n));
      }
    } else {
      FetchSeenKeys<S>(from, to, first, exists ? unit.from : INT_MAX, unit.to, lane);
      ArriveOnCopies(shared.Full(n));
      ArriveAsWarp(shared.Full(n), lane);
    }
    __syncwarp();
  }
}

/// Stores eight dimensions of a query from d on as one 16-byte unit of the left operand.
template <class P>
__device__ __forceinline__ void StoreQueryUnit(unsigned char* boxes, int m, int d, const float (&x)[8]) {
  uint32_t words[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) words[i] = Pack(x[2 * i], x[2 * i + 1], P());
  *reinterpret_cast<uint4*>(boxes + d / 64 * (64 * 128) + InBox(m, d % 64 / 8)) =
      uint4{words[0], words[1], words[2], words[3]};
}

/// Consumers write the queries, rotated for the ring or the pinned keys, as left operands. `all`: also the dimensions
/// that do not rotate. Queries past the last are zeros.
template <class Q, class P, class S>
__device__ __forceinline__ void LoadLatentQueries(const AttentionPlan& a, const StagedTile& tile, int first_head,
                                                  bool is_pinned, bool all, unsigned char* boxes) {
  constexpr int kUnits = S::kDim / 8;
  const Q* x = static_cast<const Q*>(a.qkv.data);
  const float* cosines = is_pinned ? a.pinned_cos : a.own_cos;
  const float* sines = is_pinned ? a.pinned_sin : a.own_sin;
  const int queries = tile.rows * a.tile_heads, rotated_end = a.first_rotary + a.rotary;
#pragma unroll 3
  for (int i = threadIdx.x; i < kLatentQueries * kUnits; i += S::kConsumers) {
    const int m = i / kUnits, d = i % kUnits * 8, row = RowOfQuery(a, m);
    const bool rotates = d + 8 > a.first_rotary && d < rotated_end;
    if (!all && !rotates) continue;
    float values[8] = {};
    if (m < queries) {
      const int64_t at = QueryAt(a, tile.row + row, first_head + m - row * a.tile_heads);
      if (rotates) {
#pragma unroll
        for (int e = 0; e < 8; ++e) values[e] = RotatedElement(a, x, at, d + e, cosines, sines, tile.row + row);
      } else {
        const Vec8 own = LoadVec8(x + at + d);
#pragma unroll
        for (int e = 0; e < 8; ++e) values[e] = own.x[e];
      }
#pragma unroll
      for (int e = 0; e < 8; ++e) values[e] = ToFloat(FromFloat<P>(values[e]));  // saturates
    }
    StoreQueryUnit<P>(boxes, m, d, values);
  }
}

/// A thread's state for its queries m and m + 8: the sums of its group's dimensions; running maxima of all keys; sums
/// of the probabilities of its group's keys.
template <class S>
struct LatentSums {
  float out[S::kParts][64] = {};  // columns 8 i + 2 (lane % 4) + {0, 1} of query h: out[][4 i + 2 h + {0, 1}]
  float running_max[2] = {-INFINITY, -INFINITY}, sum[2] = {};
};

/// Consumer: the scores of the group's 32 keys of unit n, unscaled. Asynchronous.
template <class P, class S>
__device__ __forceinline__ void ScoreUnit(const LatentShared<S>& shared, int n, int group, float (&scores)[16]) {
  shared.AwaitFull(n);
#pragma unroll
  for (float& score : scores) score = 0;
  const uint64_t queries = BoxDescriptor(shared.queries), keys = BoxDescriptor(shared.Stage(n) + group * 32 * 128);
  WgmmaFence();
#pragma unroll
  for (int k = 0; k < S::kDim / 16; ++k) {
    const int at = k / 4 * (S::kBox / 16) + k % 4 * 2;
    Wgmma<32, P>::Add(scores, queries + at, keys + at);
  }
  WgmmaCommit();
}

/// Turns a unit's scores into probabilities under the maximum of both groups, packs them as left operands, and rescales
/// earlier sums.
template <class P, class S>
__device__ __forceinline__ void SoftmaxOfUnit(const LatentShared<S>& shared, float scale, int first,
                                              const QueryLimits& limits, int group, int m, int lane,
                                              float (&scores)[16], uint32_t (&own)[2][4], uint32_t (&other)[2][4],
                                              LatentSums<S>& state) {
#pragma unroll
  for (float& score : scores) score *= scale;
  const bool whole = first >= max(limits.from[0], limits.from[1]) && first + 31 <= min(limits.to[0], limits.to[1]);
  if (!__all_sync(0xffffffffu, whole)) {
#pragma unroll
    for (int i = 0; i < 16; ++i) {
      const int p = first + i / 4 * 8 + lane % 4 * 2 + i % 2, h = i / 2 % 2;
      if (p < limits.from[h] || p > limits.to[h]) scores[i] = -INFINITY;
    }
  }
  float largest[2] = {-INFINITY, -INFINITY};
#pragma unroll
  for (int i = 0; i < 16; ++i) largest[i / 2 % 2] = fmaxf(largest[i / 2 % 2], scores[i]);
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    largest[h] = fmaxf(largest[h], __shfl_xor_sync(0xffffffffu, largest[h], 1));
    largest[h] = fmaxf(largest[h], __shfl_xor_sync(0xffffffffu, largest[h], 2));
    if (lane % 4 == 0) shared.maxima[group * kLatentQueries + m + 8 * h] = largest[h];
  }
  SyncConsumers<S::kConsumers>();
  float rescale[2];
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const float theirs = shared.maxima[(1 - group) * kLatentQueries + m + 8 * h];
    const float running_max = fmaxf(state.running_max[h], fmaxf(largest[h], theirs));
    const float base = running_max == -INFINITY ? 0.0f : running_max;
    rescale[h] = Exp2(state.running_max[h] - base);
    state.running_max[h] = running_max;
    state.sum[h] *= rescale[h];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      float& u = scores[4 * i + 2 * h];
      float& v = scores[4 * i + 2 * h + 1];
      u = Exp2(u - base), v = Exp2(v - base);
      state.sum[h] += u + v;
    }
  }
  const int thread = threadIdx.x % 128;
#pragma unroll
  for (int i = 0; i < 8; ++i) {
    own[i / 4][i % 4] = Pack(scores[2 * i], scores[2 * i + 1], P());
    shared.exchanged[(group * 8 + i) * 128 + thread] = own[i / 4][i % 4];
  }
  SyncConsumers<S::kConsumers>();
#pragma unroll
  for (int i = 0; i < 8; ++i) other[i / 4][i % 4] = shared.exchanged[((1 - group) * 8 + i) * 128 + thread];
  if (__all_sync(0xffffffffu, rescale[0] == 1.0f && rescale[1] == 1.0f)) return;
#pragma unroll
  for (int part = 0; part < S::kParts; ++part) {
#pragma unroll
    for (int i = 0; i < 64; ++i) state.out[part][i] *= rescale[i / 2 % 2];
  }
}

/// Adds the products of a unit's probabilities and the group's dimensions of its values. Asynchronous.
template <class P, class S>
__device__ __forceinline__ void AddValues(const LatentShared<S>& shared, int n, int group, const uint32_t (&own)[2][4],
                                          const uint32_t (&other)[2][4], LatentSums<S>& state) {
  const uint64_t values =
      At(RightDescriptor<128>(S::kBox, 1024), shared.Stage(n) + group * (S::kGroupValues / 64) * S::kBox);
  WgmmaFence();
#pragma unroll
  for (int part = 0; part < S::kParts; ++part) {
#pragma unroll
    for (int k = 0; k < 2; ++k) {
      const int own_keys = group * 32 + k * 16, other_keys = (1 - group) * 32 + k * 16;
      Multiply(state.out[part], own[k], AdvanceDescriptor(values, part * 2 * S::kBox + own_keys * 128), true, P());
      Multiply(state.out[part], other[k], AdvanceDescriptor(values, part * 2 * S::kBox + other_keys * 128), true, P());
    }
  }
  WgmmaCommit();
}

/// Processes the block's units n to last - 1, consecutive and all pinned or all of the ring; `first` is the position of
/// the first key.
template <class P, class S>
__device__ __forceinline__ void AttendLatentUnits(const LatentShared<S>& shared, float scale, int n, int last,
                                                  int first, const QueryLimits& limits, int group, int m, int lane,
                                                  LatentSums<S>& state) {
  float scores[16];
  uint32_t own[2][4], other[2][4];
  ScoreUnit<P, S>(shared, n, group, scores);
  for (; n < last; ++n, first += kLatentKeys) {
    WgmmaWait<0>(scores);
    SoftmaxOfUnit<P, S>(shared, scale, first + group * 32, limits, group, m, lane, scores, own, other, state);
    AddValues<P, S>(shared, n, group, own, other, state);
    if (n + 1 < last) {
      ScoreUnit<P, S>(shared, n + 1, group, scores);
      WgmmaWait<1>();
    } else {
      WgmmaWait<0>();
    }
#pragma unroll
    for (int part = 0; part < S::kParts; ++part) Hold(state.out[part]);
    ArriveAsWarp(shared.Empty(n), lane);
  }
}

/// Sums of probabilities of both groups, for the thread's two queries.
template <class S>
__device__ __forceinline__ void AddGroupSums(const LatentShared<S>& shared, int group, int m, int lane,
                                             LatentSums<S>& state) {
  SyncConsumers<S::kConsumers>();
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    state.sum[h] = SumOfQuad(state.sum[h]);
    if (lane % 4 == 0) shared.maxima[group * kLatentQueries + m + 8 * h] = state.sum[h];
  }
  SyncConsumers<S::kConsumers>();
#pragma unroll
  for (int h = 0; h < 2; ++h) {  // in one order in both groups
    state.sum[h] = shared.maxima[m + 8 * h] + shared.maxima[kLatentQueries + m + 8 * h];
  }
}

/// Stores the results of a block that has all keys.
template <class Q, class S>
__device__ __forceinline__ void StoreLatentResults(const AttentionPlan& a, const StagedTile& tile, int first_head,
                                                   const LatentSums<S>& state, int group, int m, int lane) {
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const bool real = m + 8 * h < tile.rows * a.tile_heads;
    const int row = RowOfQuery(a, m + 8 * h), head = first_head + m + 8 * h - row * a.tile_heads;
    const int64_t at =
        real ? static_cast<int64_t>(tile.row + row) * a.out.stride + static_cast<int64_t>(head) * S::kValues : 0;
    Q* to = static_cast<Q*>(a.out.data) + at + group * S::kGroupValues + lane % 4 * 8;
    const float factor = 1.0f / state.sum[h];
#pragma unroll
    for (int b = 0; b < S::kGroupValues / 32; ++b) {
      uint32_t words[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float* pair = state.out[b / 4] + 4 * (b % 4 * 4 + i) + 2 * h;
        words[i] = Pack(pair[0] * factor, pair[1] * factor, Q());
      }
      Transpose(words, lane);
      if (real) *reinterpret_cast<uint4*>(to + 32 * b) = uint4{words[0], words[1], words[2], words[3]};
    }
  }
}

/// Stores the sums, running maxima and sums of probabilities of one split.
template <class S>
__device__ __forceinline__ void StoreLatentPartial(const AttentionPlan& a, int queries, const LatentSums<S>& state,
                                                   int group, int m, int lane) {
  float* partial = LatentPartialAt<S::kValues>(a, blockIdx.z, blockIdx.y, gridDim.y, blockIdx.x, gridDim.x);
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    if (m + 8 * h >= queries) continue;
    float* sums = partial + (m + 8 * h) * S::kValues + group * S::kGroupValues + lane % 4 * 2;
#pragma unroll
    for (int i = 0; i < S::kGroupValues / 8; ++i) {
      const float* pair = state.out[i / 16] + 4 * (i % 16) + 2 * h;
      *reinterpret_cast<float2*>(sums + 8 * i) = float2{pair[0], pair[1]};
    }
    if (group == 0 && lane % 4 == 0) {
      *reinterpret_cast<float2*>(partial + kLatentQueries * S::kValues + 2 * (m + 8 * h)) =
          float2{state.running_max[h], state.sum[h]};
    }
  }
}

/// Blocks: [split, head tile, tile from `first_tile` on].
template <class Q, class P, class S>
__global__ void __launch_bounds__(S::kThreads, 1)
    LatentAttentionKernel(AttentionPlan a, int first_tile, const __grid_constant__ CUtensorMap map) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  extern __shared__ __align__(16) unsigned char bytes[];
  const LatentShared<S> shared(bytes);
  if (threadIdx.x == 0) shared.Init();
  if (threadIdx.x == 32) PrefetchMap(map);
  __syncthreads();
  BeginDependentKernel();

  const int warp = __shfl_sync(0xffffffffu, threadIdx.x / 32, 0), lane = threadIdx.x % 32;
  const StagedTile tile = a.tiles[first_tile + blockIdx.z];
  const LatentUnits units(tile);
  const auto [begin, end] = LatentSplits(a, tile, units, gridDim.x).UnitsOf(units, blockIdx.x);
  if (warp >= S::kConsumerWarps) {
    DecreaseRegisters<S::kProducerRegisters>();
    return FetchLatentUnits<S>(a, tile, units, begin, end, shared, map, warp - S::kConsumerWarps, lane);
  }
  IncreaseRegisters<S::kConsumerRegisters>();
  const int group = warp / 4, m = warp % 4 * 16 + lane / 4;  // the thread's first query
  const int first_head = static_cast<int>(blockIdx.y) * a.tile_heads;
  LatentSums<S> state;
  bool loaded = false;
#pragma unroll 1
  for (int kind = 0; kind < 2; ++kind) {
    const bool is_pinned = kind == 0;
    const int from = max(begin, is_pinned ? 0 : units.pinned), to = min(end, is_pinned ? units.pinned : units.all);
    if (from >= to) continue;
    SyncConsumers<S::kConsumers>();  // the WGMMAs of both groups have read the previous queries
    LoadLatentQueries<Q, P, S>(a, tile, first_head, is_pinned, !loaded,
                               bytes + (shared.queries - SharedAddress(bytes)));
    loaded = true;
    FenceProxyAsync();
    SyncConsumers<S::kConsumers>();
    AttendLatentUnits<P, S>(shared, a.scale * kLog2E, from - begin, to - begin, units.At(tile, from).first,
                            LimitsAt(a, tile, m, is_pinned), group, m, lane, state);
  }
  AddGroupSums<S>(shared, group, m, lane, state);
  if (HasLatentPartials(a, gridDim.x)) {
    return StoreLatentPartial<S>(a, tile.rows * a.tile_heads, state, group, m, lane);
  }
  StoreLatentResults<Q, S>(a, tile, first_head, state, group, m, lane);
#endif
}

/// Launches `splits` blocks per tile and head tile for tiles [first, first + count).
template <class P>
void LaunchLatentOfType(const Launcher& on, const AttentionPlan& plan, int splits, int first, int64_t count) {
  const CUtensorMap map = MapLatentTiles(plan.memory, plan.memory_bytes, plan.head_dim);
  const auto launch = [&](auto shape) {
    using S = decltype(shape);
    Launch(on,
           plan.qkv.dtype == DType::kBF16 ? LatentAttentionKernel<__nv_bfloat16, P, S>
                                          : LatentAttentionKernel<__half, P, S>,
           Grid(splits, plan.heads / plan.tile_heads, count), S::kThreads, S::kBytes, plan, first, map);
  };
  plan.head_dim == 576 ? launch(LatentShape<576, 512>()) : launch(LatentShape<320, 256>());
}

}  // namespace ringside::cuda
