// Partial results of attention in global memory, and their reduction. Included by .cu files.
#pragma once

#include "kernels/cuda/attention/attention_inl.cuh"

namespace ringside::cuda {

/// Partial sums of four dimensions under a running maximum.
struct PartialSums {
  float4 out = {0, 0, 0, 0};
  float max_score = -INFINITY, total = 0;

  __device__ __forceinline__ void Add(const float4& v, float other_max, float other_total) {
    const float largest = fmaxf(max_score, other_max), own = RescaleFactor(largest, max_score),
                rescale = RescaleFactor(largest, other_max);
    max_score = largest, total = total * own + other_total * rescale;
    out = {out.x * own + v.x * rescale, out.y * own + v.y * rescale, out.z * own + v.z * rescale,
           out.w * own + v.w * rescale};
  }
};

}  // namespace ringside::cuda
