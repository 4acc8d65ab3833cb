// Shared by the expert GEMM kernels: weight and row addressing, and the epilogue. kIn: the first GEMM, from x to
// activation(gate) * up; otherwise the second, from that to the expert's output. Without a gate, the first GEMM
// computes the two halves of its outputs as if they were gate and up. Included by .cu files only.
#pragma once

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/linear/block_quant_weights.cuh"

namespace ringside::cuda {

/// Loads past the L1 cache, because the group may be read before the grid dependency sync, once its writer has ended.
__device__ __forceinline__ ExpertRows LoadGroup(const ExpertRows* group) {
  const int4 words = __ldcg(reinterpret_cast<const int4*>(group));
  return {words.x, words.y, words.z, words.w};
}

template <class T, bool kIn>
struct ExpertProduct {
  const ExpertsCall& a;
  const ExpertRows rows;
  const PackedExpert& expert;
  const int inputs, outputs;  // kIn: outputs of gate, and of up; without a gate half of the outputs

  __device__ __forceinline__ ExpertProduct(const ExpertsCall& call, const ExpertRows& group, const PackedExpert& packed)
      : a(call),
        rows(group),
        expert(packed),
        inputs(static_cast<int>(kIn ? call.x.cols : expert.inner)),
        outputs(static_cast<int>(kIn ? call.plan.Pairs(expert.inner) : call.x.cols)) {}

  __device__ __forceinline__ const PackedMatrix& Matrix(bool up) const {
    return !kIn ? expert.out : up ? expert.up : expert.gate;
  }
  /// An output's weights; null past the last.
  __device__ __forceinline__ const T* WeightRow(int output, bool up) const {
    const PackedMatrix& matrix = Matrix(up);
    return output < outputs
               ? static_cast<const T*>(matrix.data) + static_cast<int64_t>(matrix.first_row + output) * inputs
               : nullptr;
  }
  /// The tile of 8 outputs in a K tile; null past the last.
  template <int kBits>
  __device__ __forceinline__ const unsigned char* Tile(int output, bool up, int chunk) const {
    const PackedMatrix& matrix = Matrix(up);
    if (output >= outputs) return nullptr;
    return static_cast<const unsigned char*>(matrix.data) +
           TileNumber(matrix.first_row + output, chunk, TilesAcross(inputs)) * TileOf<kBits>::kBytes;
  }
  /// The i-th row of the group; null past the last.
  __device__ __forceinline__ const T* InputRow(int i) const {
    if (i >= rows.count) return nullptr;
    if constexpr (!kIn) return static_cast<const T*>(a.mid) + (rows.first + i) * a.plan.widest();
    return static_cast<const T*>(a.x.data) + a.order[rows.first + i] / a.plan.experts_per_row * a.x.stride;
  }
  /// Destination of the i-th row's results: row of `mid`, or index of the (row, expert) pair.
  __device__ __forceinline__ int Target(int i) const { return kIn ? rows.first + i : a.order[rows.first + i]; }
  /// The scales of E4M3 tiles of 8 outputs; any past the last.
  __device__ __forceinline__ const float* TileScales(int output, bool up) const {
    const PackedMatrix& matrix = Matrix(up);
    return matrix.units + TileScaleAt(matrix.first_row + min(output, outputs - 1), 0, inputs);
  }
  /// The scale of an output's sums; `up`: of its up.
  template <int kBits>
  __device__ __forceinline__ float UnitOf(int output, bool up) const {
    if constexpr (kBits == 16 || kBits == kE4M3) return 1;
    const PackedMatrix& matrix = Matrix(up);
    return matrix.units[matrix.first_row + output];
  }
  /// Stores a result. With kIn `value` is the gate's sum and `up` its up's.
  __device__ __forceinline__ void Store(int target, int output, float value, float up) const {
    if constexpr (kIn) {
      if (a.plan.traits.scales_input) {
        const float weight = a.weights[a.order[target]];
        value *= weight, up *= weight;
      }
      if (expert.in_bias != nullptr) value += expert.in_bias[output], up += expert.in_bias[outputs + output];
      T* to = static_cast<T*>(a.mid) + target * a.plan.widest() + output;
      if (a.plan.gated) {
        *to = FromFloat<T>(MultipliedOf(value, up, a.activation));
      } else {
        to[0] = FromFloat<T>(ActivatedOf(value, a.activation)),
        to[outputs] = FromFloat<T>(ActivatedOf(up, a.activation));
      }
    } else {
      if (expert.out_bias != nullptr) value += expert.out_bias[output];
      a.parts[static_cast<int64_t>(target) * outputs + output] = value;
    }
  }
};

}  // namespace ringside::cuda
