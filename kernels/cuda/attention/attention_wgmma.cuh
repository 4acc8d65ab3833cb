// Attention over the ring for many rows of one sequence on Hopper's tensor cores (FlashAttention-3, Shah et al. 2024),
// for 16-bit activations. Caches are 16-bit, whose type the MMAs use, or 8-bit, which are converted to float16 on load.
// A block takes 64 or 128 queries: rows times the heads that share their keys. One producer warp group copies keys and
// values in units of up to 12 tiles through kStages pipeline stages, mostly by TMA; one or two consumer warp groups of
// 64 queries each synchronize by mbarriers. The MMAs of one group overlap the softmax of the other. Queries and
// probabilities are left operands in registers; keys and values are right operands in the layout of the slab: keys with
// the 16 positions of a dimension contiguous, values with the dimensions of a position contiguous. The splits of the
// keys are the CTAs of a cluster: at the end each sends every query's result to the CTA that owns the query.
#pragma once

#include "kernels/cuda/attention/occupancy_cache.h"
#include "kernels/cuda/attention/wgmma_convert.cuh"
#include "kernels/cuda/attention/wgmma_keys.cuh"
#include "kernels/cuda/attention/wgmma_results.cuh"
#include "kernels/cuda/attention/wgmma_softmax.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/tensor_map.h"

namespace ringside::cuda {

/// A thread's queries m and m + 8 of the block, rotated and scaled, as left operands: [16 dimensions][register].
/// Queries past the last are copies of it.
template <class Q, class P, int D>
__device__ __forceinline__ void LoadQueries(const AttentionPlan& a, const StagedTile& tile, int first_head, int m,
                                            bool is_pinned, int lane, uint32_t (&q)[D / 16][4]) {
  const Q* x = static_cast<const Q*>(a.qkv.data);
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int query = min(m + 8 * h, tile.rows * a.tile_heads - 1), r = RowOfQuery(a, query);
    const float scale = ScoreScale(a, tile.row + r) * kLog2E;
    const Q* from = x + QueryAt(a, tile.row + r, first_head + query - r * a.tile_heads) + lane % 4 * 8;
    const int64_t angles = static_cast<int64_t>(tile.row + r) * (D / 2) + lane % 4 * 8;
    const float* cosines = (is_pinned ? a.pinned_cos : a.own_cos) + angles;
    const float* sines = (is_pinned ? a.pinned_sin : a.own_sin) + angles;
#pragma unroll
    for (int g = 0; g < D / 64; ++g) {  // 8 dimensions of 32, and their rotation partners
      const Vec8 first = LoadVec8(from + 32 * g), second = LoadVec8(from + 32 * g + D / 2);
      Vec8 cosine, sine;
      if (a.rotary > 0) cosine = LoadVec8(cosines + 32 * g), sine = LoadVec8(sines + 32 * g);
      uint32_t near[4], far[4];
#pragma unroll
      for (int p = 0; p < 4; ++p) {
        float u[2], v[2];
#pragma unroll
        for (int e = 0; e < 2; ++e) {
          u[e] = first.x[2 * p + e] * scale, v[e] = second.x[2 * p + e] * scale;
          if (a.rotary > 0) Rotate(u[e], v[e], cosine.x[2 * p + e], sine.x[2 * p + e]);
        }
        near[p] = Pack(u[0], u[1], P()), far[p] = Pack(v[0], v[1], P());
      }
      Transpose(near, lane), Transpose(far, lane);
#pragma unroll
      for (int p = 0; p < 4; ++p) {
        q[2 * g + p / 2][h + p % 2 * 2] = near[p];
        q[2 * g + D / 32 + p / 2][h + p % 2 * 2] = far[p];
      }
    }
  }
}

/// Two consumer groups issue their WGMMAs in turns (ping-pong), so that those of one overlap the softmax of the other.
/// Named barriers 1 and 2: one group waits and the other arrives. The second group passes the first turn.
template <class S>
__device__ __forceinline__ void WaitTurn(int group) {
  if constexpr (S::kGroups == 2) asm volatile("bar.sync %0, 256;" ::"r"(1 + group) : "memory");
}
template <class S>
__device__ __forceinline__ void PassTurn(int group) {
  if constexpr (S::kGroups == 2) asm volatile("bar.arrive %0, 256;" ::"r"(2 - group) : "memory");
}

/// Processes the block's n-th to last-th units of N keys each, from position `first` on. The product of a unit's
/// probabilities and values may overlap the softmax of the next unit (ptxas 13.0 moves its wait before the softmax).
template <class P, class S, int N>
__device__ __forceinline__ void AttendUnits(const Stages<S>& stages, const uint32_t (&q)[S::kDim / 16][4], int n,
                                            int last, int first, const QueryLimits& limits, int group, int lane,
                                            RunningSoftmax<S::kDim>& state) {
  constexpr int D = S::kDim;
  const uint64_t key_operand = RightDescriptor<32>(D * 32, 8 * 32);
  const uint64_t value_operand = RightDescriptor<128>(S::kKeys * 128, 1024);
  float scores[N / 2], rescale[2];
  uint32_t probabilities[N / 16][4];
  const auto score = [&](int i) {
    stages.AwaitFull(i, 0);
    WgmmaFence();
    const uint64_t keys = At(key_operand, stages.Half(i, 0));
#pragma unroll
    for (int k = 0; k < D / 16; ++k) Multiply(scores, q[k], AdvanceDescriptor(keys, k * 16 * 32), k > 0, P());
    WgmmaCommit();
  };
  const auto pack = [&] {  // only after WGMMAs have read the previous probabilities
    Hold(scores);
#pragma unroll
    for (int i = 0; i < N / 4; ++i) probabilities[i / 4][i % 4] = Pack(scores[2 * i], scores[2 * i + 1], P());
  };
  const auto all_done = [&] {  // keeps the compiler to PTX from moving this work past the turn: 1 to 2 % of the total
#pragma unroll
    for (int i = 0; i < N / 16; ++i) Hold(probabilities[i]);
    Hold(state.out);
    Hold(state.sum);
  };
  const auto add_values = [&] {
    stages.AwaitFull(n, 1);
    WgmmaFence();
    const uint64_t values = At(value_operand, stages.Half(n, 1));
#pragma unroll
    for (int k = 0; k < N / 16; ++k)
      Multiply(state.out, probabilities[k], AdvanceDescriptor(values, k * 2048), true, P());
    WgmmaCommit();
  };
  const int begin = n;
  score(n);
  WgmmaWait<0>(scores);
  stages.Release(n, 0, lane);
  for (; n < last; ++n, first += N) {
    ToProbabilities<D, N>(scores, first, limits, lane, state, rescale);
    WgmmaWait<0>(state.out);
    if (n > begin) stages.Release(n - 1, 1, lane);
    pack();
    Rescale(state, rescale);
    all_done();
    WaitTurn<S>(group);
    score(n + 1);
    add_values();
    PassTurn<S>(group);
    WgmmaWait<1>(scores);
    stages.Release(n + 1, 0, lane);
  }
  ToProbabilities<D, N>(scores, first, limits, lane, state, rescale);
  WgmmaWait<0>(state.out);
  if (n > begin) stages.Release(n - 1, 1, lane);
  pack();
  Rescale(state, rescale);
  add_values();
  WgmmaWait<0>(state.out);
  stages.Release(n, 1, lane);
}

template <class Q, class C, class S>
__global__ void __launch_bounds__(S::kThreads, S::kBlocks)
    WgmmaAttentionKernel(AttentionPlan a, const __grid_constant__ KeyMaps maps) {
  constexpr int D = S::kDim;
  using P = typename CacheTile<C, D>::Product;
  constexpr bool kWidens = sizeof(C) == 1;
  constexpr int kProducerRegisters = kWidens ? 56 : 40;
  extern __shared__ __align__(16) unsigned char shared[];
  const Stages<S> stages(shared);
  if (threadIdx.x == 0) stages.Init();
  if (!kWidens && threadIdx.x == 32) PrefetchMap(maps.keys), PrefetchMap(maps.values);
  __syncthreads();
  BeginDependentKernel();

  const int warp = __shfl_sync(0xffffffffu, threadIdx.x / 32, 0), lane = threadIdx.x % 32;
  const int kv_head = blockIdx.y / a.tiles_of_group, first_head = blockIdx.y * a.tile_heads;
  const StagedTile tile = a.chunk_tiles[blockIdx.z];
  const KeyUnits units = UnitsOf<S>(tile);
  const int shift = __ffs(a.chunk_splits) - 1;  // the number of splits is a power of two
  const int begin = units.all * static_cast<int>(blockIdx.x) >> shift;
  const int end = units.all * (static_cast<int>(blockIdx.x) + 1) >> shift;
  if (warp >= S::kConsumerWarps) {
    DecreaseRegisters<kProducerRegisters>();
    const char* slab = TileAddress(a, tile.slab, 0, kv_head);
    if constexpr (kWidens) {
      FetchAndConvertUnits<S>(a, tile, units, begin, end, slab, stages, warp - S::kConsumerWarps, lane);
    } else {
      FetchUnits<S>(a, tile, units, begin, end, slab, stages, maps, warp - S::kConsumerWarps, lane);
    }
    if (a.chunk_splits == 1) return;
    WaitForAllCopies();  // results of other splits will overlay the stages
    __syncthreads();
    SyncCluster(), SyncCluster();
    return;
  }
  IncreaseRegisters<S::template kRegisters<kProducerRegisters>>();
  if (warp / 4 == 1) PassTurn<S>(1);
  const int m = warp * 16 + lane / 4;  // the thread's first query
  const bool real[2] = {m < tile.rows * a.tile_heads, m + 8 < tile.rows * a.tile_heads};
  RunningSoftmax<D> state;
  uint32_t q[D / 16][4];
#pragma unroll 1
  for (int kind = 0; kind < 2; ++kind) {
    const bool is_pinned = kind == 0;
    const int from = max(begin, is_pinned ? 0 : units.pinned), to = min(end, is_pinned ? units.pinned : units.all);
    if (from >= to) continue;
    LoadQueries<Q, P, D>(a, tile, first_head, m, is_pinned, lane, q);
    const QueryLimits limits = LimitsAt(a, tile, m, is_pinned);
    const int n = from - begin, last = to - begin - 1, first = UnitAt<S>(tile, units, from).first;
    if (is_pinned && units.pinned_step == 1) {
      AttendUnits<P, S, 16>(stages, q, n, last, first, limits, warp / 4, lane, state);
    } else {
      AttendUnits<P, S, S::kKeys>(stages, q, n, last, first, limits, warp / 4, lane, state);
    }
  }
  if (a.chunk_splits == 1) return StoreResults<Q, D>(a, tile, first_head, state, m, real, lane);
  float* received = reinterpret_cast<float*>(shared);
  __syncthreads();
  SyncCluster();  // all blocks are done with the stages
  SendResults<S>(a, state, m, real, received, lane);
  SyncCluster();
  ReduceResults<S>(a, tile, first_head, received);
}

/// Calls body(WgmmaShape) with the plan's shape.
template <class Body>
auto WithShape(const AttentionPlan& plan, const Body& body) {
  if (plan.head_dim == 128) return body(WgmmaShape<128, 2>());
  using Small = WgmmaShape<64, 1>;
  return plan.wgmma_queries == Small::kQueries ? body(Small()) : body(WgmmaShape<64, 2>());
}

/// TMA descriptors of the plan's memory; 8-bit caches are not copied by TMA.
template <class C>
KeyMaps MapsOf(const AttentionPlan& plan) {
  if (sizeof(C) == 1) return {};
  return {MapKeyTiles(plan.memory, plan.memory_bytes, plan.head_dim),
          MapValueTiles(plan.memory, plan.memory_bytes, plan.head_dim)};
}

/// Launches the kernel for a cache type.
template <class C>
void LaunchWgmmaOfType(const Launcher& on, const AttentionPlan& plan) {
  Launcher clustered = on;
  clustered.cluster = plan.chunk_splits;
  const dim3 grid = Grid(plan.chunk_splits, plan.heads / plan.tile_heads, plan.chunk_count);
  const KeyMaps maps = MapsOf<C>(plan);
  WithShape(plan, [&](auto shape) {
    using S = decltype(shape);
    plan.qkv.dtype == DType::kBF16
        ? Launch(clustered, WgmmaAttentionKernel<__nv_bfloat16, C, S>, grid, S::kThreads, S::kBytes, plan, maps)
        : Launch(clustered, WgmmaAttentionKernel<__half, C, S>, grid, S::kThreads, S::kBytes, plan, maps);
  });
}

/// Number of resident clusters of `splits` blocks.
template <class C>
int ResidentWgmmaOfType(const AttentionPlan& plan, int splits) {
  return WithShape(plan, [&](auto shape) {
    using S = decltype(shape);
    static OccupancyCache clusters;
    return clusters.Of(
        splits, [&] { return MaxActiveClusters(WgmmaAttentionKernel<__half, C, S>, splits, S::kThreads, S::kBytes); });
  });
}

}  // namespace ringside::cuda
