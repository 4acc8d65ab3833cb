// What the two kernels of experts' products share: which matrix, which rows, and the way out. kIn: x to the activated
// product of gate and up; otherwise that to the expert's part. Included by .cu files only.
#pragma once

#include "kernels/cuda/device.cuh"
#include "kernels/cuda/launch.cuh"

namespace ringside::cuda {

/// From behind the L1 cache: it may be read before WaitForStep, when the kernel that wrote it has ended.
__device__ __forceinline__ ExpertRows LoadGroup(const ExpertRows* group) {
  const int4 words = __ldcg(reinterpret_cast<const int4*>(group));
  return {words.x, words.y, words.z, words.w};
}

template <class T, bool kIn>
struct ExpertProduct {
  const ExpertsCall& a;
  const ExpertRows rows;
  const PlacedExpert expert;
  const int inputs, outputs;  // kIn: of gate, and of up

  __device__ __forceinline__ ExpertProduct(const ExpertsCall& call, int group)
      : a(call),
        rows(LoadGroup(call.groups + group)),
        expert(call.plan.placed[rows.expert]),
        inputs(static_cast<int>(kIn ? call.x.cols : expert.inner)),
        outputs(static_cast<int>(kIn ? expert.inner : call.x.cols)) {}

  /// An output's weights; null past the last.
  __device__ __forceinline__ const T* WeightRow(int output, bool up) const {
    const void* matrix = !kIn ? expert.out : up ? expert.up : expert.gate;
    return output < outputs ? static_cast<const T*>(matrix) + static_cast<int64_t>(output) * inputs : nullptr;
  }
  /// The i-th of the group's rows; null past the last.
  __device__ __forceinline__ const T* InputRow(int i) const {
    if (i >= rows.count) return nullptr;
    if constexpr (!kIn) return static_cast<const T*>(a.mid) + (rows.first + i) * a.plan.widest;
    return static_cast<const T*>(a.x.data) + a.order[rows.first + i] / a.plan.taken * a.x.stride;
  }
  /// Results of the i-th row: `value` is the gate's where there is an `up`.
  __device__ __forceinline__ void Store(int i, int output, float value, float up) const {
    if constexpr (kIn) {
      if (expert.in_bias != nullptr) value += expert.in_bias[output], up += expert.in_bias[outputs + output];
      static_cast<T*>(a.mid)[(rows.first + i) * a.plan.widest + output] =
          FromFloat<T>(MultipliedOf(value, up, a.activation));
    } else {
      if (expert.out_bias != nullptr) value += expert.out_bias[output];
      a.parts[static_cast<int64_t>(a.order[rows.first + i]) * outputs + output] = value;
    }
  }
};

}  // namespace ringside::cuda
