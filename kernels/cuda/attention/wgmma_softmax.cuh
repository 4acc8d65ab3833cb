// The online softmax of attention_wgmma.cuh, for two queries per thread, in the register layout of the WGMMA results.
#pragma once

#include "kernels/cuda/attention/attention_inl.cuh"

namespace ringside::cuda {

/// Online softmax state of the thread's two queries.
template <int D>
struct RunningSoftmax {
  float out[D / 2] = {};  // columns 8 i + 2 (lane % 4) + {0, 1} of query h: out[4 i + 2 h + {0, 1}]
  float running_max[2] = {-INFINITY, -INFINITY}, sum[2] = {};
};

/// The positions that the thread's two queries see among the pinned or the ring keys; queries past the last see all.
__device__ __forceinline__ QueryLimits LimitsAt(const AttentionPlan& a, const StagedTile& tile, int m, bool is_pinned) {
  QueryLimits out;
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    const int row = RowOfQuery(a, m + 8 * h), t = tile.position + row;
    const bool real = m + 8 * h < tile.rows * a.tile_heads;
    out.from[h] = is_pinned || !real ? 0 : t < tile.pinned ? INT_MAX : a.rows[tile.row + row].first_live;
    const int to = real ? a.rows[tile.row + row].last_seen : INT_MAX;
    out.to[h] = real && is_pinned ? min(to, tile.pinned - 1) : to;
  }
  return out;
}

/// Turns scores of N keys from position `first` on into unnormalized probabilities, and returns the factors that
/// rescale earlier sums.
template <int D, int N>
__device__ __forceinline__ void ToProbabilities(float (&s)[N / 2], int first, const QueryLimits& limits, int lane,
                                                RunningSoftmax<D>& state, float (&rescale)[2]) {
  const bool whole = first >= max(limits.from[0], limits.from[1]) && first + N - 1 <= min(limits.to[0], limits.to[1]);
  if (!__all_sync(0xffffffffu, whole)) {
#pragma unroll
    for (int i = 0; i < N / 2; ++i) {
      const int p = first + i / 4 * 8 + lane % 4 * 2 + i % 2, h = i / 2 % 2;
      if (p < limits.from[h] || p > limits.to[h]) s[i] = -INFINITY;
    }
  }
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    float running_max = state.running_max[h];
#pragma unroll
    for (int i = 0; i < N / 8; ++i) running_max = fmaxf(running_max, fmaxf(s[4 * i + 2 * h], s[4 * i + 2 * h + 1]));
    running_max = fmaxf(running_max, __shfl_xor_sync(0xffffffffu, running_max, 1));
    running_max = fmaxf(running_max, __shfl_xor_sync(0xffffffffu, running_max, 2));
    const float base = running_max == -INFINITY ? 0.0f : running_max;
    rescale[h] = Exp2(state.running_max[h] - base);
    state.running_max[h] = running_max;
    float sum = state.sum[h] * rescale[h];
#pragma unroll
    for (int i = 0; i < N / 8; ++i) {
      float& u = s[4 * i + 2 * h];
      float& v = s[4 * i + 2 * h + 1];
      u = Exp2(u - base), v = Exp2(v - base);
      sum += u + v;
    }
    state.sum[h] = sum;
  }
}
template <int D>
__device__ __forceinline__ void Rescale(RunningSoftmax<D>& state, const float (&rescale)[2]) {
  if (__all_sync(0xffffffffu, rescale[0] == 1.0f && rescale[1] == 1.0f)) return;
#pragma unroll
  for (int i = 0; i < D / 2; ++i) state.out[i] *= rescale[i / 2 % 2];
}

/// Sum over the four threads that share two queries.
__device__ __forceinline__ float SumOfQuad(float x) {
  x += __shfl_xor_sync(0xffffffffu, x, 1);
  return x + __shfl_xor_sync(0xffffffffu, x, 2);
}

}  // namespace ringside::cuda
