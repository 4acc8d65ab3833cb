// Quantizes rows of activations to E4M3 with one scale per row. Values equal those of QuantizeRow (row_quantization.h).
// Their order is that of one-byte weights (w8_layout.h): a dot product allows any order of the inputs that both
// operands share. One block per row. It finds the largest magnitude, in the fused variants while it computes the row.
// It keeps the row in registers for the second pass or rereads it from cache.
#include <cuda_fp8.h>

#include <algorithm>
#include <type_traits>

#include "kernels/cuda/device.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/linear/linear_sizes.h"
#include "kernels/cuda/linear/w8_layout.h"
#include "kernels/formats/row_quantization.h"

namespace ringside::cuda {
namespace {

constexpr int kMaxThreads = 1024;

/// Magnitudes compare like their bits; non-finite values compare highest.
__device__ __forceinline__ uint32_t MagnitudeBits(float x) { return __float_as_uint(x) & 0x7fffffffu; }

/// Block-wide maximum, returned to all threads. Also a barrier: earlier writes of the block are visible afterwards.
__device__ __forceinline__ uint32_t LargestOfBlock(uint32_t bits) {
  static_assert(kMaxThreads == 32 * 32);
  __shared__ uint32_t shared[32];
  bits = __reduce_max_sync(0xffffffffu, bits);
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = bits;
  __syncthreads();
  return __reduce_max_sync(0xffffffffu, threadIdx.x % 32 < blockDim.x / 32 ? shared[threadIdx.x % 32] : 0);
}

__device__ __forceinline__ uint32_t E4M3Pair(float low, float high) {
  return __nv_cvt_float2_to_fp8x2(float2{low, high}, __NV_SATFINITE, __NV_E4M3);
}

/// The rounding of a row, given the bits of its largest magnitude.
struct RowRounding {
  float scale, inverse;

  __device__ __forceinline__ explicit RowRounding(uint32_t largest_bits) {
    constexpr float kSmallestNormal = 0x1p-126f;
    const float largest = __uint_as_float(largest_bits);
    const bool finite = largest_bits < 0x7f800000u, zero = !finite || largest / kLargestE4M3 < kSmallestNormal;
    inverse = zero ? 0.0f : kLargestE4M3 / largest;
    scale = !finite ? __uint_as_float(0x7fc00000u) : zero ? 0.0f : largest / kLargestE4M3;
  }
  /// 16 adjacent values in the order of the tensor core operand.
  __device__ __forceinline__ uint4 Round(const Vec8& low, const Vec8& high) const {
    uint32_t words[4] = {};
    if (inverse != 0) {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        words[j] = E4M3Pair(low.x[2 * j] * inverse, high.x[2 * j] * inverse) |
                   E4M3Pair(low.x[2 * j + 1] * inverse, high.x[2 * j + 1] * inverse) << 16;
      }
    }
    return {words[0], words[1], words[2], words[3]};
  }
};
static_assert(kW8Group == 16);

/// Quantizes a row of `cols` values, given the bits of its largest magnitude, by the whole block.
template <class T>
__device__ __forceinline__ void QuantizeRowOf(const T* x, int cols, uint32_t largest_bits, uint8_t* q,
                                              float* row_scale) {
  const RowRounding rounding(largest_bits);
  if (threadIdx.x == 0) *row_scale = rounding.scale;
  for (int c = static_cast<int>(threadIdx.x) * 16; c < cols; c += static_cast<int>(blockDim.x) * 16) {
    const Vec8 low = LoadVec8(x + c), high = c + 8 < cols ? LoadVec8(x + c + 8) : Vec8{};
    *reinterpret_cast<uint4*>(q + c) = rounding.Round(low, high);
  }
}

/// A thread's part of a row: kGroups times 16 adjacent values.
template <class T, int kGroups>
struct RowInRegisters {
  alignas(16) T x[kGroups][16] = {};
  uint32_t bits = 0;  // bits of the largest magnitude

  /// Calls make(c, to), which stores eight values from input c on; c < cols is a multiple of 8.
  template <class Make>
  __device__ __forceinline__ void Fill(int cols, const Make& make) {
#pragma unroll
    for (int g = 0; g < kGroups; ++g) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int c = First(g) + half * 8;
        if (c >= cols) continue;
        make(c, x[g] + half * 8);
#pragma unroll
        for (int i = 0; i < 8; ++i) bits = max(bits, MagnitudeBits(ToFloat(x[g][half * 8 + i])));
      }
    }
  }
  __device__ __forceinline__ void Quantize(int cols, const QuantizedRows& to) const {
    const RowRounding rounding(LargestOfBlock(bits));
    if (threadIdx.x == 0) to.scales[blockIdx.x] = rounding.scale;
    uint8_t* q = static_cast<uint8_t*>(to.q.data) + blockIdx.x * to.q.stride;
#pragma unroll
    for (int g = 0; g < kGroups; ++g) {
      if (First(g) >= cols) break;
      *reinterpret_cast<uint4*>(q + First(g)) = rounding.Round(LoadVec8(x[g]), LoadVec8(x[g] + 8));
    }
  }
  __device__ __forceinline__ int First(int g) const {
    return (g * static_cast<int>(blockDim.x) + static_cast<int>(threadIdx.x)) * 16;
  }
};

template <class T>
__device__ __forceinline__ const T* RowOf(const Tensor& x) {
  return static_cast<const T*>(x.data) + blockIdx.x * x.stride;
}
/// Quantizes row y of the block, which the block itself has written.
template <class T>
__device__ __forceinline__ void QuantizeOwnRow(const Tensor& y, uint32_t bits, const QuantizedRows& to) {
  QuantizeRowOf(RowOf<T>(y), static_cast<int>(y.cols), LargestOfBlock(bits),
                static_cast<uint8_t*>(to.q.data) + blockIdx.x * to.q.stride, to.scales + blockIdx.x);
}

template <class T, int kGroups>
__global__ void __launch_bounds__(kMaxThreads) QuantizeKernel(Tensor x, QuantizedRows to) {
  BeginDependentKernel();
  const T* row = RowOf<T>(x);
  RowInRegisters<T, kGroups> values;
  values.Fill(static_cast<int>(x.cols),
              [&](int c, T* to) { *reinterpret_cast<uint4*>(to) = *reinterpret_cast<const uint4*>(row + c); });
  values.Quantize(static_cast<int>(x.cols), to);
}

/// y = silu(gate) * up; x holds both.
template <class T, int kGroups>
__global__ void __launch_bounds__(kMaxThreads) SiluQuantizeKernel(Tensor x, Tensor y, QuantizedRows to) {
  BeginDependentKernel();
  const T* __restrict__ gates = RowOf<T>(x);
  T* out = static_cast<T*>(y.data) + blockIdx.x * y.stride;
  const int cols = static_cast<int>(y.cols);
  RowInRegisters<T, kGroups> values;
  values.Fill(cols, [&](int c, T* to) {
    const Vec8 gate = LoadVec8(gates + c), up = LoadVec8(gates + cols + c);
#pragma unroll
    for (int i = 0; i < 8; ++i) to[i] = FromFloat<T>(SiluOf(gate.x[i]) * up.x[i]);
  });
  values.Quantize(cols, to);
#pragma unroll
  for (int g = 0; g < kGroups; ++g) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int c = values.First(g) + half * 8;
      if (c < cols) *reinterpret_cast<uint4*>(out + c) = *reinterpret_cast<const uint4*>(values.x[g] + half * 8);
    }
  }
}

template <class T, int kVectors>
__global__ void __launch_bounds__(kBlockThreads) NormQuantizeKernel(Tensor x, const float* weights, const float* biases,
                                                                    bool layer, float eps, Tensor y, QuantizedRows to) {
  __shared__ float shared[kBlockThreads / 32];
  const int n = static_cast<int>(x.cols);
  TriggerProgrammaticLaunch();
  float4 weight[kVectors], bias[kVectors], v[kVectors];
#pragma unroll
  for (int j = 0; j < kVectors; ++j) {
    weight[j] = RowFloat4<kBlockThreads>(weights, j, n);
    bias[j] = RowFloat4<kBlockThreads>(layer ? biases : nullptr, j, n);
  }
  GridDependencySync();
#pragma unroll
  for (int j = 0; j < kVectors; ++j) v[j] = RowFloat4<kBlockThreads>(RowOf<float>(x), j, n);
  uint32_t bits = 0;
  NormFloat4s<kBlockThreads>(
      v, n, layer, eps, shared, [&](int j) { return weight[j]; }, [&](int j) { return bias[j]; },
      [&](int c, float4 four) {
        StoreFloat4(y.data, y.dtype, blockIdx.x * y.stride + c, four);
        const float values[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
        for (int i = 0; i < 4; ++i) bits = max(bits, MagnitudeBits(RoundTo(y.dtype, values[i])));
      });
  QuantizeOwnRow<T>(y, bits, to);
}

static_assert(kMaxQuantizedRowValues == 4 * 16 * kMaxThreads);

/// Calls launch(groups of 16 values per thread as a compile-time constant, threads) for rows of `cols` values.
template <class Launch>
void WithGroups(int64_t cols, const Launch& launch) {
  CHECK_LE(cols, kMaxQuantizedRowValues);
  const int64_t groups = (cols + 15) / 16;
  const auto threads = [&](int64_t each) { return static_cast<int>(((groups + each - 1) / each + 31) / 32 * 32); };
  if (threads(1) <= kMaxThreads) return launch(std::integral_constant<int, 1>(), threads(1));
  if (threads(2) <= kMaxThreads) return launch(std::integral_constant<int, 2>(), threads(2));
  launch(std::integral_constant<int, 4>(), threads(4));
}

template <class T>
void LaunchNormOfType(const Launcher& on, Tensor x, const float* weight, const float* bias, bool layer, float eps,
                      Tensor y, const QuantizedRows& to) {
  const auto launch = [&](auto kernel) {
    Launch(on, kernel, Grid(x.rows), kBlockThreads, 0, x, weight, bias, layer, eps, y, to);
  };
  if (x.cols <= 2048) return launch(NormQuantizeKernel<T, 2>);
  if (x.cols <= 4096) return launch(NormQuantizeKernel<T, 4>);
  launch(NormQuantizeKernel<T, 8>);
}

/// Whether rows can be read 16 bytes at a time.
bool AllowsWideLoads(const Tensor& x) {
  return x.cols % 8 == 0 && StorageBytes(x.dtype, x.stride) % 16 == 0 && Aligned(x.data);
}

/// Whether x can be quantized: 16-bit elements, rows readable 16 bytes at a time.
bool CanQuantizeRows(const Tensor& x) {
  return (x.dtype == DType::kF16 || x.dtype == DType::kBF16) && AllowsWideLoads(x) && x.cols <= kMaxQuantizedRowValues;
}

}  // namespace

void LaunchQuantizeRows(const Launcher& on, Tensor x, const QuantizedRows& to) {
  CHECK(CanQuantizeRows(x));
  WithGroups(x.cols, [&](auto groups, int threads) {
    const auto kernel =
        x.dtype == DType::kF16 ? QuantizeKernel<__half, groups()> : QuantizeKernel<__nv_bfloat16, groups()>;
    Launch(on, kernel, Grid(x.rows), threads, 0, x, to);
  });
}

bool CanQuantizeSilu(const Tensor& x, const Tensor& y) {
  return x.dtype == y.dtype && AllowsWideLoads(x) && CanQuantizeRows(y);
}

void LaunchSiluQuantize(const Launcher& on, Tensor x, Tensor y, const QuantizedRows& to) {
  CHECK(CanQuantizeSilu(x, y));
  WithGroups(y.cols, [&](auto groups, int threads) {
    const auto kernel =
        x.dtype == DType::kF16 ? SiluQuantizeKernel<__half, groups()> : SiluQuantizeKernel<__nv_bfloat16, groups()>;
    Launch(on, kernel, Grid(y.rows), threads, 0, x, y, to);
  });
}

bool CanQuantizeNorm(const Tensor& x, const float* weight, const float* bias, const Tensor& y) {
  constexpr int64_t kMaxCols = 8 * 4 * kBlockThreads;
  return x.cols <= kMaxCols && AllowsWideLoads(x) && Aligned(weight) && Aligned(bias) && CanQuantizeRows(y);
}

void LaunchNormQuantize(const Launcher& on, Tensor x, const float* weight, const float* bias, bool layer, float eps,
                        Tensor y, const QuantizedRows& to) {
  CHECK(CanQuantizeNorm(x, weight, bias, y));
  if (y.dtype == DType::kF16) return LaunchNormOfType<__half>(on, x, weight, bias, layer, eps, y, to);
  LaunchNormOfType<__nv_bfloat16>(on, x, weight, bias, layer, eps, y, to);
}

}  // namespace ringside::cuda
