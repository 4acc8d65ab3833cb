// Epilogue of attention_wgmma.cuh: stores results to the step's rows, or, with split keys, first sends them to the CTA
// of the cluster that owns the query.
#pragma once

#include "kernels/cuda/attention/wgmma_keys.cuh"
#include "kernels/cuda/attention/wgmma_softmax.cuh"
#include "kernels/cuda/cluster.cuh"

namespace ringside::cuda {

/// 4 x 4 transpose among the four threads that share two queries: thread t gets word t of each.
__device__ __forceinline__ void Transpose(uint32_t (&words)[4], int lane) {
#pragma unroll
  for (int step = 1; step <= 2; step *= 2) {
    const bool upper = (lane & step) != 0;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      uint32_t& low = words[step == 1 ? 2 * i : i];
      uint32_t& high = words[step == 1 ? 2 * i + 1 : i + 2];
      const uint32_t other = __shfl_xor_sync(0xffffffffu, upper ? low : high, step);
      (upper ? low : high) = other;
    }
  }
}

/// Element offset of the result of a block's m-th query.
__device__ __forceinline__ int64_t ResultAt(const AttentionPlan& a, const StagedTile& tile, int first_head, int m) {
  const int row = RowOfQuery(a, m);
  return static_cast<int64_t>(tile.row + row) * a.out.stride +
         static_cast<int64_t>(first_head + m - row * a.tile_heads) * a.head_dim;
}

template <class Q, int D>
__device__ __forceinline__ void StoreResults(const AttentionPlan& a, const StagedTile& tile, int first_head,
                                             const RunningSoftmax<D>& state, int m, const bool (&real)[2], int lane) {
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const float factor = 1.0f / SumOfQuad(state.sum[h]);
    Q* to = static_cast<Q*>(a.out.data) + (real[h] ? ResultAt(a, tile, first_head, m + 8 * h) : 0) + lane % 4 * 8;
#pragma unroll
    for (int b = 0; b < D / 32; ++b) {
      uint32_t words[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float* pair = state.out + 4 * (4 * b + i) + 2 * h;
        words[i] = Pack(pair[0] * factor, pair[1] * factor, Q());
      }
      Transpose(words, lane);
      if (real[h]) *reinterpret_cast<uint4*>(to + 32 * b) = uint4{words[0], words[1], words[2], words[3]};
    }
  }
}

__device__ __forceinline__ void SyncCluster() {
  ArriveAtCluster();
  WaitForCluster();
}

/// Sends a consumer's results to their owners; CTA m / share of the cluster owns query m. Layout: [split][share][D]
/// sums, then [split][share][2] running maxima and sums of probabilities.
template <class S>
__device__ __forceinline__ void SendResults(const AttentionPlan& a, const RunningSoftmax<S::kDim>& state, int m,
                                            const bool (&real)[2], float* received, int lane) {
  constexpr int D = S::kDim;
  const int share = S::kQueries / a.chunk_splits, rank = static_cast<int>(blockIdx.x);
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const float sum = SumOfQuad(state.sum[h]);
    if (!real[h]) continue;
    const int query = m + 8 * h, owner = query / share, at = rank * share + query % share;
#pragma unroll
    for (int i = 0; i < D / 8; ++i) {
      StoreInCluster(SharedAddress(received + at * D + i * 8 + lane % 4 * 2), owner,
                     float2{state.out[4 * i + 2 * h], state.out[4 * i + 2 * h + 1]});
    }
    if (lane % 4 == 0) {
      StoreInCluster(SharedAddress(received + S::kQueries * D + at * 2), owner, float2{state.running_max[h], sum});
    }
  }
}
/// Reduces the block's own queries in split order.
template <class S>
__device__ __forceinline__ void ReduceResults(const AttentionPlan& a, const StagedTile& tile, int first_head,
                                              const float* received) {
  constexpr int D = S::kDim;
  const int share = S::kQueries / a.chunk_splits, first = static_cast<int>(blockIdx.x) * share;
  const float* stats = received + S::kQueries * D;
  for (int i = threadIdx.x; i < share * (D / 4); i += 32 * S::kConsumerWarps) {
    const int own = i / (D / 4), d = i % (D / 4) * 4;
    if (first + own >= tile.rows * a.tile_heads) break;
    float max_score = -INFINITY, total = 0;
    for (int p = 0; p < a.chunk_splits; ++p) max_score = fmaxf(max_score, stats[(p * share + own) * 2]);
    float4 sum = {0, 0, 0, 0};
    for (int p = 0; p < a.chunk_splits; ++p) {
      const int at = p * share + own;
      const float rescale = RescaleFactor(max_score, stats[at * 2]);
      const float4 v = *reinterpret_cast<const float4*>(received + at * D + d);
      total += stats[at * 2 + 1] * rescale;
      sum.x += v.x * rescale, sum.y += v.y * rescale, sum.z += v.z * rescale, sum.w += v.w * rescale;
    }
    StoreFloat4(a.out.data, a.out.dtype, ResultAt(a, tile, first_head, first + own) + d,
                float4{sum.x / total, sum.y / total, sum.z / total, sum.w / total});
  }
}

}  // namespace ringside::cuda
