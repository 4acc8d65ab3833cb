// Attention with heads of more than 256 dimensions on Hopper's tensor cores, for 16-bit caches, whose type the WGMMAs
// use, and 8-bit ones, which are converted to float16: multi-head latent attention (DeepSeek-V2, DeepSeek-AI 2024) in
// the absorbed form, where all heads share one key of D dimensions whose first V are the value, and plain heads of 512
// dimensions (Gemma 4).
//
// A block takes up to 64 queries, rows times the heads that share their keys, and one split of their keys, in units of
// 64 (as FlashMLA, DeepSeek-AI 2025). A producer warp group copies a unit's four tiles into pipeline stages, by TMA;
// values that no row may see are zeroed. Both consumer warp groups have the same queries: each computes the scores of
// half of a unit's keys and accumulates half of the values' dimensions. They exchange maxima and probabilities through
// shared memory, the latter as registers of the left operand. The values of a unit and the scores of the next are
// multiplied while the producer loads.
//
// Units begin at multiples of 64 positions, so what a row adds up does not depend on the rows that share its block.
// Splits write their sums to global memory; attention_wide_reduce.cu reduces them.
#pragma once

#include <type_traits>

#include "kernels/cuda/attention/wgmma_results.cuh"
#include "kernels/cuda/attention/wgmma_softmax.cuh"
#include "kernels/cuda/attention/wide/wide_convert.cuh"
#include "kernels/cuda/attention/wide/wide_products.cuh"
#include "kernels/cuda/launch.cuh"

namespace ringside::cuda {

/// Eight dimensions of a query as 16 bytes of the left operand; saturates.
template <class P>
__device__ __forceinline__ uint4 PackEight(const float (&x)[8]) {
  uint32_t words[4];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    words[i] = Pack(ToFloat(FromFloat<P>(x[2 * i])), ToFloat(FromFloat<P>(x[2 * i + 1])), P());
  }
  return {words[0], words[1], words[2], words[3]};
}

/// Consumers write the queries, rotated for the ring or the pinned keys, as left operands, in units of eight
/// dimensions. `all`: also the units that do not rotate. Queries past the last are zeros.
template <class Q, class P, class S>
__device__ __forceinline__ void LoadWideQueries(const AttentionPlan& a, const StagedTile& tile, int first_head,
                                                bool is_pinned, bool all, unsigned char* boxes) {
  constexpr int kUnits = S::kDim / 8;
  const Q* x = static_cast<const Q*>(a.qkv.data);
  const int queries = tile.rows * a.tile_heads, first = a.first_rotary / 8;
  const int rotating = a.rotary == 0 ? 0 : (a.first_rotary + a.rotary + 7) / 8 - first;
  const auto query_at = [&](int m) {
    const int row = RowOfQuery(a, m);
    return QueryAt(a, tile.row + row, first_head + m - row * a.tile_heads);
  };
  const auto store = [&](int m, int unit, uint4 eight) {
    *reinterpret_cast<uint4*>(boxes + unit / 8 * kWideBox + InBox(m, unit % 8)) = eight;
  };
  if (all) {
#pragma unroll 6
    for (int i = threadIdx.x; i < kWideQueries * kUnits; i += S::kConsumers) {
      const int m = i / kUnits, unit = i % kUnits;
      if (unit >= first && unit < first + rotating) continue;
      uint4 eight = {0, 0, 0, 0};
      if (m < queries) {
        const Q* from = x + query_at(m) + unit * 8;
        if constexpr (std::is_same_v<Q, P>) {
          eight = *reinterpret_cast<const uint4*>(from);
        } else {
          eight = PackEight<P>(LoadVec8(from).x);
        }
      }
      store(m, unit, eight);
    }
  }
  const float* cosines = is_pinned ? a.pinned_cos : a.own_cos;
  const float* sines = is_pinned ? a.pinned_sin : a.own_sin;
#pragma unroll 2
  for (int i = threadIdx.x; i < kWideQueries * rotating; i += S::kConsumers) {
    const int m = i / rotating, unit = first + i - m * rotating;
    float values[8] = {};
    if (m < queries) {
      const int64_t at = query_at(m);
#pragma unroll
      for (int e = 0; e < 8; ++e) {
        values[e] = RotatedElement(a, x, at, unit * 8 + e, cosines, sines, tile.row + RowOfQuery(a, m));
      }
    }
    store(m, unit, PackEight<P>(values));
  }
}

/// A thread's state for its queries m and m + 8: the sums of its group's dimensions; running maxima of all keys; sums
/// of the probabilities of its group's keys.
template <class S>
struct WideSums {
  float out[S::kParts][64] = {};  // columns 8 i + 2 (lane % 4) + {0, 1} of query h: out[][4 i + 2 h + {0, 1}]
  float running_max[2] = {-INFINITY, -INFINITY}, sum[2] = {};
};

/// Consumer: the scores of the group's 32 keys of unit n, unscaled. Asynchronous. `copied`: some keys of a latent cache
/// may have been copied by threads.
template <class P, class S>
__device__ __forceinline__ void ScoreUnit(const WideShared<S>& shared, int n, bool copied, int group,
                                          float (&scores)[16]) {
  shared.AwaitFull(n, 0);
  if (S::kLatent && copied) FenceProxyAsync();
#pragma unroll
  for (float& score : scores) score = 0;
  const uint64_t queries = BoxDescriptor(shared.queries);
  WgmmaFence();
  if constexpr (S::kLatent) {
    const uint64_t keys = BoxDescriptor(shared.Keys(n) + group * 32 * 128);
#pragma unroll
    for (int k = 0; k < S::kDim / 16; ++k) {
      const int at = k / 4 * (kWideBox / 16) + k % 4 * 2;
      Wgmma<32, P>::Add(scores, queries + at, keys + at);
    }
  } else {
    const uint64_t keys = At(RightDescriptor<32>(S::kDim * 32, 8 * 32), shared.Keys(n) + group * 2 * S::kDim * 32);
#pragma unroll
    for (int k = 0; k < S::kDim / 16; ++k) {
      MultiplyColumns(scores, queries + k / 4 * (kWideBox / 16) + k % 4 * 2, AdvanceDescriptor(keys, k * 16 * 32), P());
    }
  }
  WgmmaCommit();
}

/// Turns a unit's scores into probabilities under the maximum of both groups, packs them as left operands, and rescales
/// earlier sums.
template <class P, class S>
__device__ __forceinline__ void SoftmaxOfUnit(const WideShared<S>& shared, const float (&scale)[2], int first,
                                              const QueryLimits& limits, int group, int m, int lane,
                                              float (&scores)[16], uint32_t (&own)[2][4], uint32_t (&other)[2][4],
                                              WideSums<S>& state) {
#pragma unroll
  for (int i = 0; i < 16; ++i) scores[i] *= scale[i / 2 % 2];
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
    if (lane % 4 == 0) shared.maxima[group * kWideQueries + m + 8 * h] = largest[h];
  }
  SyncConsumers<S::kConsumers>();
  float rescale[2];
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const float theirs = shared.maxima[(1 - group) * kWideQueries + m + 8 * h];
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
__device__ __forceinline__ void AddValues(const WideShared<S>& shared, int n, bool copied, int group,
                                          const uint32_t (&own)[2][4], const uint32_t (&other)[2][4],
                                          WideSums<S>& state) {
  if constexpr (!S::kLatent) {
    shared.AwaitFull(n, 1);
    if (copied) FenceProxyAsync();
  }
  const uint64_t values =
      At(RightDescriptor<128>(kWideBox, 1024), shared.Values(n) + group * (S::kGroupValues / 64) * kWideBox);
  WgmmaFence();
#pragma unroll
  for (int part = 0; part < S::kParts; ++part) {
#pragma unroll
    for (int k = 0; k < 2; ++k) {
      const int own_keys = group * 32 + k * 16, other_keys = (1 - group) * 32 + k * 16;
      Multiply(state.out[part], own[k], AdvanceDescriptor(values, part * 2 * kWideBox + own_keys * 128), true, P());
      Multiply(state.out[part], other[k], AdvanceDescriptor(values, part * 2 * kWideBox + other_keys * 128), true, P());
    }
  }
  WgmmaCommit();
}

/// Processes the block's units n to last - 1, consecutive and all pinned or all of the ring, from position `first` on.
template <class P, class S>
__device__ __forceinline__ void AttendWideUnits(const WideShared<S>& shared, const float (&scale)[2], int n, int last,
                                                WideUnit unit, const QueryLimits& limits, int group, int m, int lane,
                                                WideSums<S>& state) {
  float scores[16];
  uint32_t own[2][4], other[2][4];
  ScoreUnit<P, S>(shared, n, !unit.IsSeen(), group, scores);
  for (; n < last; ++n) {
    WgmmaWait<0>(scores);
    if (!S::kLatent) shared.Release(n, 0, lane);
    SoftmaxOfUnit<P, S>(shared, scale, unit.first + group * 32, limits, group, m, lane, scores, own, other, state);
    AddValues<P, S>(shared, n, !unit.IsSeen(), group, own, other, state);
    unit.first += kWideKeys;
    if (n + 1 < last) {
      ScoreUnit<P, S>(shared, n + 1, !unit.IsSeen(), group, scores);
      WgmmaWait<1>();
    } else {
      WgmmaWait<0>();
    }
#pragma unroll
    for (int part = 0; part < S::kParts; ++part) Hold(state.out[part]);
    shared.Release(n, S::kLatent ? 0 : 1, lane);
  }
}

/// Sums of probabilities of both groups, for the thread's two queries.
template <class S>
__device__ __forceinline__ void AddGroupSums(const WideShared<S>& shared, int group, int m, int lane,
                                             WideSums<S>& state) {
  SyncConsumers<S::kConsumers>();
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    state.sum[h] = SumOfQuad(state.sum[h]);
    if (lane % 4 == 0) shared.maxima[group * kWideQueries + m + 8 * h] = state.sum[h];
  }
  SyncConsumers<S::kConsumers>();
#pragma unroll
  for (int h = 0; h < 2; ++h) {  // in one order in both groups
    state.sum[h] = shared.maxima[m + 8 * h] + shared.maxima[kWideQueries + m + 8 * h];
  }
}

/// Stores the results of a block that has all keys.
template <class Q, class S>
__device__ __forceinline__ void StoreWideResults(const AttentionPlan& a, const StagedTile& tile, int first_head,
                                                 const WideSums<S>& state, int group, int m, int lane) {
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const bool real = m + 8 * h < tile.rows * a.tile_heads;
    const int row = RowOfQuery(a, m + 8 * h), head = first_head + m + 8 * h - row * a.tile_heads;
    const int64_t at =
        real ? static_cast<int64_t>(tile.row + row) * a.out.stride + static_cast<int64_t>(head) * S::kValueDim : 0;
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
__device__ __forceinline__ void StoreWidePartial(float* partial, int queries, const WideSums<S>& state, int group,
                                                 int m, int lane) {
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    if (m + 8 * h >= queries) continue;
    float* sums = partial + (m + 8 * h) * S::kValueDim + group * S::kGroupValues + lane % 4 * 2;
#pragma unroll
    for (int i = 0; i < S::kGroupValues / 8; ++i) {
      const float* pair = state.out[i / 16] + 4 * (i % 16) + 2 * h;
      *reinterpret_cast<float2*>(sums + 8 * i) = float2{pair[0], pair[1]};
    }
    if (group == 0 && lane % 4 == 0) {
      *reinterpret_cast<float2*>(partial + kWideQueries * S::kValueDim + 2 * (m + 8 * h)) =
          float2{state.running_max[h], state.sum[h]};
    }
  }
}

/// Blocks: [listed split, head tile], or with a fixed order [split, head tile, tile from `first_tile` on].
template <class Q, class C, class S>
__global__ void __launch_bounds__(S::kThreads, 1)
    WideAttentionKernel(AttentionPlan a, int first_tile, const __grid_constant__ KeyMaps maps) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  constexpr bool kWidens = sizeof(C) == 1;
  constexpr int kProducerRegisters = kWidens ? 56 : 40;
  using P = std::conditional_t<kWidens, __half, C>;
  extern __shared__ __align__(16) unsigned char bytes[];
  const WideShared<S> shared(bytes);
  if (threadIdx.x == 0) shared.Init();
  if (!kWidens && threadIdx.x == 32) PrefetchMap(maps.keys), PrefetchMap(maps.values);
  __syncthreads();
  TriggerProgrammaticLaunch();

  const int warp = __shfl_sync(0xffffffffu, threadIdx.x / 32, 0), lane = threadIdx.x % 32;
  const bool fixed = a.wide_splits == nullptr;
  StagedSplit split = fixed ? StagedSplit{first_tile + static_cast<int>(blockIdx.z), 0, 0} : a.wide_splits[blockIdx.x];
  if (split.tile < 0) return;
  const StagedTile tile = a.tiles[split.tile];
  const WideUnits units(tile);
  if (fixed) split = FixedSplits(a, tile, units).At(units, split.tile, blockIdx.x);
  if (split.tile < 0) return;
  GridDependencySync();  // tiles and splits are staged before the step; every tile has a block that waits
  const int begin = split.begin, end = split.end;
  if (warp >= S::kConsumerWarps) {
    DecreaseRegisters<kProducerRegisters>();
    if constexpr (kWidens) {
      return WidenUnits<S>(a, tile, units, begin, end, shared, warp - S::kConsumerWarps, lane);
    } else {
      return FetchWideUnits<S>(a, tile, units, begin, end, shared, maps, warp - S::kConsumerWarps, lane);
    }
  }
  IncreaseRegisters<S::template kConsumerRegisters<kProducerRegisters>>();
  const int group = warp / 4, m = warp % 4 * 16 + lane / 4;  // the thread's first query
  const int first_head = static_cast<int>(blockIdx.y) * a.tile_heads;
  const auto scale_of = [&](int query) {
    return ScoreScale(a, tile.row + RowOfQuery(a, min(query, tile.rows * a.tile_heads - 1))) * kLog2E;
  };
  const float scale[2] = {scale_of(m), scale_of(m + 8)};  // of the thread's queries
  WideSums<S> state;
  bool loaded = false;
#pragma unroll 1
  for (int kind = 0; kind < 2; ++kind) {
    const bool is_pinned = kind == 0;
    const int from = max(begin, is_pinned ? 0 : units.pinned), to = min(end, is_pinned ? units.pinned : units.all);
    if (from >= to) continue;
    SyncConsumers<S::kConsumers>();  // the WGMMAs of both groups have read the previous queries
    LoadWideQueries<Q, P, S>(a, tile, first_head, is_pinned, !loaded, bytes + (shared.queries - SharedAddress(bytes)));
    loaded = true;
    FenceProxyAsync();
    SyncConsumers<S::kConsumers>();
    AttendWideUnits<P, S>(shared, scale, from - begin, to - begin, units.At(tile, from),
                          LimitsAt(a, tile, m, is_pinned), group, m, lane, state);
  }
  AddGroupSums<S>(shared, group, m, lane, state);
  if (!fixed && ListedSplits(a, split.tile) == 1) {
    return StoreWideResults<Q, S>(a, tile, first_head, state, group, m, lane);
  }
  const WidePartials<S::kValueDim> partials(a, split.tile, blockIdx.z, blockIdx.y, gridDim.y);
  const int number = static_cast<int>(blockIdx.x) - (fixed ? 0 : a.first_splits[split.tile]);
  StoreWidePartial<S>(partials.first + number * partials.stride, tile.rows * a.tile_heads, state, group, m, lane);
#endif
}

/// Launches all listed splits; or with a fixed order those of tiles [first, first + count).
template <class C>
void LaunchWideOfType(const Launcher& on, const AttentionPlan& plan, int first, int64_t count) {
  KeyMaps maps = {};
  if (sizeof(C) > 1) {  // 8-bit caches are not copied by TMA
    maps = {MapWideKeys(plan.memory, plan.memory_bytes, plan.head_dim),
            MapWideValues(plan.memory, plan.memory_bytes, plan.head_dim)};
  }
  const auto launch = [&](auto shape) {
    using S = decltype(shape);
    Launch(
        on,
        plan.qkv.dtype == DType::kBF16 ? WideAttentionKernel<__nv_bfloat16, C, S> : WideAttentionKernel<__half, C, S>,
        Grid(plan.splits, plan.heads / plan.tile_heads, plan.wide_splits != nullptr ? 1 : count), S::kThreads,
        S::kBytes, plan, first, maps);
  };
  plan.latent == 0       ? launch(WideShape<512, 512, false>())
  : plan.head_dim == 576 ? launch(WideShape<576, 512, true>())
                         : launch(WideShape<320, 256, true>());
}

}  // namespace ringside::cuda
