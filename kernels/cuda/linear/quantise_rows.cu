// Rows of activations in E4M3, one scale a row, for products in E4M3: value for value what QuantiseRow
// (row_quantisation.h) makes of them, in the order in which weights of one byte lie (quantised_layout.h), since a sum
// of products does not mind in which order both have their inputs. A block a row: it finds the largest magnitude, while
// it makes the row if it does, and reads the row once more, from a cache.
#include <cuda_fp8.h>

#include <algorithm>

#include "kernels/cuda/device.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/linear/quantised_layout.h"
#include "kernels/formats/row_quantisation.h"

namespace ringside::cuda {
namespace {

constexpr int kMostThreads = 1024;

/// Magnitudes are in the order of their bits; what is not finite comes last.
__device__ __forceinline__ uint32_t MagnitudeBits(float x) { return __float_as_uint(x) & 0x7fffffffu; }

/// The largest of a block's, known to all its threads, which see behind it what the others wrote before.
__device__ __forceinline__ uint32_t LargestOfBlock(uint32_t bits) {
  __shared__ uint32_t shared[kMostThreads / 32];
  bits = __reduce_max_sync(0xffffffffu, bits);
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = bits;
  __syncthreads();
  for (unsigned warp = 0; warp < blockDim.x / 32; ++warp) bits = max(bits, shared[warp]);
  return bits;
}

__device__ __forceinline__ uint32_t E4M3Pair(float low, float high) {
  return __nv_cvt_float2_to_fp8x2(float2{low, high}, __NV_SATFINITE, __NV_E4M3);
}

/// A row of `cols` values whose largest magnitude has these bits, by the whole block.
template <class T>
__device__ __forceinline__ void QuantiseRowOf(const T* x, int cols, uint32_t largest_bits, uint8_t* q,
                                              float* row_scale) {
  constexpr float kSmallestNormal = 0x1p-126f;
  const float largest = __uint_as_float(largest_bits), scale = largest / kLargestE4M3;
  const bool finite = largest_bits < 0x7f800000u, zero = !finite || scale < kSmallestNormal;
  const float inverse = zero ? 0.0f : kLargestE4M3 / largest;
  if (threadIdx.x == 0) *row_scale = !finite ? __uint_as_float(0x7fc00000u) : zero ? 0.0f : scale;
  for (int c = static_cast<int>(threadIdx.x) * kQuantisedGroup; c < cols;
       c += static_cast<int>(blockDim.x) * kQuantisedGroup) {
    uint32_t words[4] = {};
    if (!zero) {
      const Eight low = LoadEight(x + c), high = c + 8 < cols ? LoadEight(x + c + 8) : Eight{};
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        words[j] = E4M3Pair(low.x[2 * j] * inverse, high.x[2 * j] * inverse) |
                   E4M3Pair(low.x[2 * j + 1] * inverse, high.x[2 * j + 1] * inverse) << 16;
      }
    }
    *reinterpret_cast<uint4*>(q + c) = uint4{words[0], words[1], words[2], words[3]};
  }
}

template <class T>
__device__ __forceinline__ const T* RowOf(const Tensor& x) {
  return static_cast<const T*>(x.data) + blockIdx.x * x.stride;
}
/// Row y of the block, made by it, to its place in E4M3.
template <class T>
__device__ __forceinline__ void QuantiseOwnRow(const Tensor& y, uint32_t bits, const E4M3Rows& to) {
  QuantiseRowOf(RowOf<T>(y), static_cast<int>(y.cols), LargestOfBlock(bits),
                static_cast<uint8_t*>(to.q.data) + blockIdx.x * to.q.stride, to.scales + blockIdx.x);
}

template <class T>
__global__ void __launch_bounds__(kMostThreads) QuantiseKernel(Tensor x, E4M3Rows to) {
  StartStep();
  const T* row = RowOf<T>(x);
  uint32_t bits = 0;
  for (int c = static_cast<int>(threadIdx.x) * 8; c < x.cols; c += static_cast<int>(blockDim.x) * 8) {
    const Eight values = LoadEight(row + c);
#pragma unroll
    for (int i = 0; i < 8; ++i) bits = max(bits, MagnitudeBits(values.x[i]));
  }
  QuantiseOwnRow<T>(x, bits, to);
}

/// y = silu(gate) * up, x being both.
template <class T>
__global__ void __launch_bounds__(kMostThreads) SiluQuantiseKernel(Tensor x, Tensor y, E4M3Rows to) {
  StartStep();
  const T* __restrict__ gates = RowOf<T>(x);
  T* out = static_cast<T*>(y.data) + blockIdx.x * y.stride;
  uint32_t bits = 0;
#pragma unroll 2
  for (int c = static_cast<int>(threadIdx.x) * 8; c < y.cols; c += static_cast<int>(blockDim.x) * 8) {
    const Eight gate = LoadEight(gates + c), up = LoadEight(gates + y.cols + c);
    alignas(16) T values[8];
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      values[i] = FromFloat<T>(SiluOf(gate.x[i]) * up.x[i]);
      bits = max(bits, MagnitudeBits(ToFloat(values[i])));
    }
    *reinterpret_cast<uint4*>(out + c) = *reinterpret_cast<const uint4*>(values);
  }
  QuantiseOwnRow<T>(y, bits, to);
}

template <class T, int kVectors>
__global__ void __launch_bounds__(kBlockThreads) NormQuantiseKernel(Tensor x, const float* weights, const float* biases,
                                                                    bool layer, float eps, Tensor y, E4M3Rows to) {
  __shared__ float shared[kBlockThreads / 32];
  const int n = static_cast<int>(x.cols);
  LetNextStart();
  float4 weight[kVectors], bias[kVectors], v[kVectors];
#pragma unroll
  for (int j = 0; j < kVectors; ++j) {
    weight[j] = RowFour<kBlockThreads>(weights, j, n);
    bias[j] = RowFour<kBlockThreads>(layer ? biases : nullptr, j, n);
  }
  WaitForStep();
#pragma unroll
  for (int j = 0; j < kVectors; ++j) v[j] = RowFour<kBlockThreads>(RowOf<float>(x), j, n);
  uint32_t bits = 0;
  NormFours<kBlockThreads>(
      v, n, layer, eps, shared, [&](int j) { return weight[j]; }, [&](int j) { return bias[j]; },
      [&](int c, float4 four) {
        StoreFour(y.data, y.dtype, blockIdx.x * y.stride + c, four);
        const float values[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
        for (int i = 0; i < 4; ++i) bits = max(bits, MagnitudeBits(RoundTo(y.dtype, values[i])));
      });
  QuantiseOwnRow<T>(y, bits, to);
}

/// A thread for eight elements, where that is not too many.
int ThreadsFor(int64_t cols) { return static_cast<int>(std::min<int64_t>((cols / 8 + 31) / 32 * 32, kMostThreads)); }

template <class T>
void LaunchNormOfType(const Launcher& on, Tensor x, const float* weight, const float* bias, bool layer, float eps,
                      Tensor y, const E4M3Rows& to) {
  const auto launch = [&](auto kernel) {
    Launch(on, kernel, Grid(x.rows), kBlockThreads, 0, x, weight, bias, layer, eps, y, to);
  };
  if (x.cols <= 2048) return launch(NormQuantiseKernel<T, 2>);
  if (x.cols <= 4096) return launch(NormQuantiseKernel<T, 4>);
  launch(NormQuantiseKernel<T, 8>);
}

/// Whether rows may be read 16 bytes at a time.
bool AllowsWideLoads(const Tensor& x) {
  return x.cols % 8 == 0 && StorageBytes(x.dtype, x.stride) % 16 == 0 && Aligned(x.data);
}

}  // namespace

bool CanQuantiseRows(const Tensor& x) {
  return (x.dtype == DType::kF16 || x.dtype == DType::kBF16) && AllowsWideLoads(x);
}

void LaunchQuantiseRows(const Launcher& on, Tensor x, const E4M3Rows& to) {
  CHECK(CanQuantiseRows(x));
  const auto kernel = x.dtype == DType::kF16 ? QuantiseKernel<__half> : QuantiseKernel<__nv_bfloat16>;
  Launch(on, kernel, Grid(x.rows), ThreadsFor(x.cols), 0, x, to);
}

bool CanQuantiseSilu(const Tensor& x, const Tensor& y) {
  return x.dtype == y.dtype && AllowsWideLoads(x) && CanQuantiseRows(y);
}

void LaunchSiluQuantise(const Launcher& on, Tensor x, Tensor y, const E4M3Rows& to) {
  CHECK(CanQuantiseSilu(x, y));
  const auto kernel = x.dtype == DType::kF16 ? SiluQuantiseKernel<__half> : SiluQuantiseKernel<__nv_bfloat16>;
  Launch(on, kernel, Grid(y.rows), ThreadsFor(y.cols), 0, x, y, to);
}

bool CanQuantiseNorm(const Tensor& x, const float* weight, const float* bias, const Tensor& y) {
  constexpr int64_t kMostCols = 8 * 4 * kBlockThreads;
  return x.cols <= kMostCols && AllowsWideLoads(x) && Aligned(weight) && Aligned(bias) && CanQuantiseRows(y);
}

void LaunchNormQuantise(const Launcher& on, Tensor x, const float* weight, const float* bias, bool layer, float eps,
                        Tensor y, const E4M3Rows& to) {
  CHECK(CanQuantiseNorm(x, weight, bias, y));
  if (y.dtype == DType::kF16) return LaunchNormOfType<__half>(on, x, weight, bias, layer, eps, y, to);
  LaunchNormOfType<__nv_bfloat16>(on, x, weight, bias, layer, eps, y, to);
}

}  // namespace ringside::cuda
