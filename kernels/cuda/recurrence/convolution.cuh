// The causal convolution of a recurrent mixer (kernels/recurrence.h), and norms and decays after it, by warps. Included
// by .cu files only.
#pragma once

#include "kernels/cuda/recurrence/tail_rows.cuh"

namespace ringside::cuda {

constexpr float kKeyNormEps = 1e-6f;

/// Consecutive channels of the convolution; a lane has some in steps of 32.
struct UnitChannels {
  int first = 0, count = 0;
  bool is_head = false, is_query = false;

  /// Calls visit(j, channel) for the lane's channels; j < kLanes.
  template <int kLanes, class Visit>
  __device__ __forceinline__ void Each(const Visit& visit) const {
    const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
    for (int j = 0; j < kLanes; ++j) {
      if (32 * j + lane < count) visit(j, first + 32 * j + lane);
    }
  }
};

__device__ __forceinline__ float SigmoidOf(float x) { return 1.0f / (1.0f + expf(-x)); }
__device__ __forceinline__ float SoftplusOf(float x) { return x > 20.0f ? x : log1pf(expf(x)); }

/// An element of a float tensor as it is stored. Conversions are apart from loads: a conversion in one branch per type
/// would wait for its load before the next is issued.
__device__ __forceinline__ uint32_t LoadBits(const void* data, DType dtype, int64_t i) {
  const bool wide = dtype == DType::kF32;
  const char* at = static_cast<const char*>(data) + i * (wide ? 4 : 2);
  return wide ? *reinterpret_cast<const uint32_t*>(at) : *reinterpret_cast<const uint16_t*>(at);
}
__device__ __forceinline__ float FloatOfBits(uint32_t bits, DType dtype) {
  if (dtype == DType::kF32) return __uint_as_float(bits);
  if (dtype == DType::kBF16) return __uint_as_float(bits << 16);
  return __half2float(__ushort_as_half(static_cast<uint16_t>(bits)));
}

/// A row of inputs of the convolution; data is null for zeros.
struct InputRow {
  const void* data;
  DType dtype;
  int64_t at;

  __device__ __forceinline__ uint32_t LoadBits(int channel) const {
    return data != nullptr ? cuda::LoadBits(data, dtype, at + channel) : 0;
  }
};

/// The inputs at a position: from the step, the tail, or the window of the boundary.
__device__ __forceinline__ InputRow InputAt(const RecurrencePlan& a, const StagedState& s, int position) {
  if (position >= s.position) {
    return {a.x.data, a.x.dtype, (s.first_row + position - s.position) * a.x.stride};
  }
  const int boundary = s.position - s.position % kStateChunk;
  if (position >= boundary) return {TailRow(a, s, position), DType::kF32, 0};
  if (position < 0 || s.slot < 0) return {nullptr, DType::kF32, 0};
  const int64_t row = position - (boundary - (a.kernel - 1));
  return {BoundaryOf(a, s, s.slot), DType::kF32, a.state_floats + row * a.channels};
}

/// Inputs of a warp's channels at kRows consecutive positions from `position` on; those from `end` on are not loaded.
template <int kLanes, int kRows>
__device__ __forceinline__ void LoadInputs(const RecurrencePlan& a, const StagedState& s, const UnitChannels& unit,
                                           int position, int end, float (&x)[kRows][kLanes]) {
  uint32_t bits[kRows][kLanes];
  DType types[kRows];
#pragma unroll
  for (int i = 0; i < kRows; ++i) {
    const InputRow input = InputAt(a, s, min(position + i, end - 1));
    types[i] = input.dtype;
    unit.Each<kLanes>([&](int j, int c) { bits[i][j] = input.LoadBits(c); });
  }
#pragma unroll
  for (int i = 0; i < kRows; ++i) {
    unit.Each<kLanes>([&](int j, int) { x[i][j] = FloatOfBits(bits[i][j], types[i]); });
  }
}

/// The window of the boundary after a row, if it is stored, or null.
__device__ __forceinline__ float* WindowAfter(const RecurrencePlan& a, const StagedState& s, int position) {
  const int slot = (position + 1) % kStateChunk == 0 ? WrittenSlot(a, s, position + 1) : -1;
  return slot < 0 ? nullptr : BoundaryOf(a, s, slot) + a.state_floats;
}

/// Applies the activation to a row's convolved channels, and the norm to those of a query or key.
template <int kLanes>
__device__ __forceinline__ void ActivateRow(const RecurrencePlan& a, const UnitChannels& unit, float (&y)[kLanes]) {
  if (a.has_state == 0) return;
  float squares = 0;
  unit.Each<kLanes>([&](int j, int) { y[j] = SiluOf(y[j]), squares = fmaf(y[j], y[j], squares); });
  if (!unit.is_head || a.corrects == 0) return;
  float factor = 1.0f / sqrtf(SumOverWarp(squares) + kKeyNormEps);
  if (unit.is_query) factor *= 1.0f / sqrtf(static_cast<float>(a.key_size));
  unit.Each<kLanes>([&](int j, int) { y[j] *= factor; });
}

}  // namespace ringside::cuda
