// The epilogue of StoreOutputEpilogue and StoreGateUp (gemm_inl.cuh) for four adjacent outputs. Scales and biases are
// loaded once for all rows. Included by .cu files only.
#pragma once

#include "kernels/cuda/linear/gemm_inl.cuh"

namespace ringside::cuda {

template <class T>
struct Float4Epilogue {
  int first, count;  // of outputs; missing ones are neither read nor stored
  bool wide;         // y allows float4 accesses
  float unit[4], bias[4];

  /// The outputs from `output` on, at most up to `end`.
  template <class W>
  static __device__ __forceinline__ Float4Epilogue Of(const GemmParams& a, int output, int end) {
    Float4Epilogue out;
    out.first = output, out.count = min(4, end - output);
    out.wide = out.count == 4 && output % 4 == 0 && a.y_stride % 4 == 0 && AllowsVectorAccess(a.y);
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      out.unit[j] = j < out.count ? Scaled<T, W>(a, 1, output + j) : 0;
      out.bias[j] = j < out.count && a.bias != nullptr ? a.bias[output + j] : 0;
    }
    return out;
  }

  __device__ __forceinline__ float4 Old(const GemmParams& a, int row) const {
    const int64_t at = row * a.y_stride + first;
    if (wide) return LoadFloat4(a.y, a.y_dtype, at);
    float x[4] = {};
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      if (j < count) x[j] = LoadElement(a.y, a.y_dtype, at + j);
    }
    return {x[0], x[1], x[2], x[3]};
  }
  /// `old`: previous values of y, or zeros if the layer does not accumulate.
  __device__ __forceinline__ void Finish(const GemmParams& a, int row, float4 sum, float4 old) const {
    float4 x = WithBias(sum);
    if (a.epilogue == LinearEpilogue::kGeluTanh || a.epilogue == LinearEpilogue::kGeluErf) {
      const auto gelu = [&](float value) {
        return GeluOf(RoundTo(a.y_dtype, value), a.epilogue == LinearEpilogue::kGeluTanh);
      };
      x = {gelu(x.x), gelu(x.y), gelu(x.z), gelu(x.w)};
    }
    Store(a, row, {old.x + x.x, old.y + x.y, old.z + x.z, old.w + x.w});
  }
  __device__ __forceinline__ float4 WithBias(float4 sum) const {
    return {sum.x * unit[0] + bias[0], sum.y * unit[1] + bias[1], sum.z * unit[2] + bias[2], sum.w * unit[3] + bias[3]};
  }
  __device__ __forceinline__ void Store(const GemmParams& a, int row, float4 x) const {
    const int64_t at = row * a.y_stride + first;
    if (wide) return StoreFloat4(a.y, a.y_dtype, at, x);
    const float each[4] = {x.x, x.y, x.z, x.w};
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      if (j < count) StoreElement(a.y, a.y_dtype, at + j, each[j]);
    }
  }
};

/// Stores SiLU(gate) * up for four gates and their ups.
template <class T>
__device__ __forceinline__ void StoreGateUpFloat4(const GemmParams& a, int row, const Float4Epilogue<T>& gates,
                                                  const Float4Epilogue<T>& ups, float4 gate_sum, float4 up_sum) {
  const float4 gate = RoundFloat4To(a.y_dtype, gates.WithBias(gate_sum)),
               up = RoundFloat4To(a.y_dtype, ups.WithBias(up_sum));
  const float products[4] = {SiluOf(gate.x) * up.x, SiluOf(gate.y) * up.y, SiluOf(gate.z) * up.z,
                             SiluOf(gate.w) * up.w};
  T* const to = static_cast<T*>(a.product) + row * a.product_stride + gates.first;
  if (gates.count == 4 && a.product_stride % 4 == 0 && AllowsVectorAccess(a.product)) {
    *reinterpret_cast<uint2*>(to) = {Pack(products[0], products[1], T()), Pack(products[2], products[3], T())};
    return;
  }
#pragma unroll
  for (int j = 0; j < 4; ++j) {
    if (j < gates.count) to[j] = FromFloat<T>(products[j]);
  }
}

}  // namespace ringside::cuda
