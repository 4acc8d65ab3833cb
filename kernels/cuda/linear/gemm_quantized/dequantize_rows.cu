// Dequantizes one-byte weights to 16 bits, for GEMMs of many rows.
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/linear/w8_layout.h"
#include "kernels/cuda/linear/w8_weights.cuh"

namespace ringside::cuda {
namespace {

__device__ __forceinline__ float2 Floats(uint32_t pair, __half) {
  return __half22float2(*reinterpret_cast<const __half2*>(&pair));
}
__device__ __forceinline__ float2 Floats(uint32_t pair, __nv_bfloat16) {
  return __bfloat1622float2(*reinterpret_cast<const __nv_bfloat162*>(&pair));
}

template <class T>
__device__ __forceinline__ uint32_t ScalePair(uint32_t pair, float scale) {
  const float2 x = Floats(pair, T());
  return Pack(x.x * scale, x.y * scale, T());
}

constexpr int kHalves = 4;  // per thread, to keep enough bytes in flight

/// Dequantizes rows of a weight; an item is half a group, 8 inputs. Neighbouring threads read the same 16 bytes and
/// their stores are coalesced. `wide`: halves are 16-byte aligned in y.
template <class T, class W>
__global__ void DequantizeRowsKernel(const W* weight, const float* scales, int halves, int halves_of_row, int cols,
                                     bool wide, T* y) {
  const int first = static_cast<int>(blockIdx.x) * kHalves * kBlockThreads + static_cast<int>(threadIdx.x);
  TriggerProgrammaticLaunch();
  uint4 bytes[kHalves];
  float scale[kHalves];
#pragma unroll
  for (int i = 0; i < kHalves; ++i) {
    const int half = min(first + i * kBlockThreads, halves - 1);
    bytes[i] = LoadWeightBytes(weight + static_cast<int64_t>(half / 2) * kW8Group);
    scale[i] = scales[half / halves_of_row] * kConversionScale<T, W>;
  }
  GridDependencySync();  // the preceding kernel may still read y
#pragma unroll
  for (int i = 0; i < kHalves; ++i) {
    const int half = first + i * kBlockThreads;
    if (half >= halves) return;
    const int row = half / halves_of_row, begin = half % halves_of_row * (kW8Group / 2);
    const uint32_t words[4] = {bytes[i].x, bytes[i].y, bytes[i].z, bytes[i].w};
    uint32_t out[4];
#pragma unroll
    for (int j = 0; j < 4; ++j) out[j] = ScalePair<T>(PairOf(words[j], threadIdx.x % 2 == 1, W(), T()), scale[i]);
    T* to = y + static_cast<int64_t>(row) * cols + begin;
    if (wide) {
      if (begin < cols) *reinterpret_cast<uint4*>(to) = uint4{out[0], out[1], out[2], out[3]};
      continue;
    }
#pragma unroll
    for (int c = 0; c < kW8Group / 2; ++c) {
      if (begin + c < cols) to[c] = reinterpret_cast<const T*>(out)[c];
    }
  }
}

template <class T>
void LaunchOfType(const Launcher& on, const void* weight, DType dtype, const float* scales, Tensor y) {
  const int64_t halves_of_row = W8RowBytes(y.cols) / kW8Group * 2, halves = y.rows * halves_of_row;
  CHECK_LE(halves, int64_t{1} << 30);
  const bool wide = y.cols % 8 == 0 && reinterpret_cast<uintptr_t>(y.data) % 16 == 0;
  const auto launch = [&](auto kernel, const auto* elements) {
    Launch(on, kernel, Grid((halves + kHalves * kBlockThreads - 1) / (kHalves * kBlockThreads)), kBlockThreads, 0,
           elements, scales, static_cast<int>(halves), static_cast<int>(halves_of_row), static_cast<int>(y.cols), wide,
           static_cast<T*>(y.data));
  };
  if (dtype == DType::kI8) return launch(DequantizeRowsKernel<T, Int8>, static_cast<const Int8*>(weight));
  launch(DequantizeRowsKernel<T, E4M3>, static_cast<const E4M3*>(weight));
}

}  // namespace

void LaunchDequantizeRows(const Launcher& on, const void* weight, DType dtype, const float* scales, int64_t first,
                          Tensor y) {
  if (HasGroupScales(dtype)) return LaunchDequantizeTiles(on, weight, dtype, scales, first, y);
  CHECK(HasRowScales(dtype));
  CHECK_EQ(y.stride, y.cols);
  weight = static_cast<const std::byte*>(weight) + first * W8RowBytes(y.cols);
  scales += first;
  if (y.dtype == DType::kF16) return LaunchOfType<__half>(on, weight, dtype, scales, y);
  LaunchOfType<__nv_bfloat16>(on, weight, dtype, scales, y);
}

}  // namespace ringside::cuda
