// Helpers shared by the kernels here: element types, block reductions, tensor core and copy instructions, and the two
// halves of programmatic dependent launch. Included by .cu files only.
//
// Every kernel is launched so that it may start before its predecessor has ended (launch.h). It calls
// BeginDependentKernel before it reads or writes anything but weights, which no kernel of a step writes.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "kernels/activation.h"
#include "kernels/cuda/kernel_config.h"
#include "kernels/recurrence.h"
#include "kernels/tensor.h"

namespace ringside::cuda {

/// Grid dependency sync: waits until all preceding kernels are done and their writes are visible.
__device__ __forceinline__ void GridDependencySync() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}
/// Allows the dependent kernel to launch once all blocks of this one have called this or exited.
__device__ __forceinline__ void TriggerProgrammaticLaunch() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;");
#endif
}
__device__ __forceinline__ void BeginDependentKernel() {
  TriggerProgrammaticLaunch();
  GridDependencySync();
}

__device__ __forceinline__ float ToFloat(float x) { return x; }
__device__ __forceinline__ float ToFloat(__half x) { return __half2float(x); }
__device__ __forceinline__ float ToFloat(__nv_bfloat16 x) { return __bfloat162float(x); }

template <class T>
__device__ __forceinline__ T FromFloat(float x);
template <>
__device__ __forceinline__ float FromFloat<float>(float x) {
  return x;
}
// Saturates: one row's overflow must not become an infinity that another row multiplies by a weight of zero.
template <>
__device__ __forceinline__ __half FromFloat<__half>(float x) {
  return __float2half_rn(x > 65504.0f ? 65504.0f : x < -65504.0f ? -65504.0f : x);
}
template <>
__device__ __forceinline__ __nv_bfloat16 FromFloat<__nv_bfloat16>(float x) {
  return __float2bfloat16_rn(x > 3.38e38f ? 3.38e38f : x < -3.38e38f ? -3.38e38f : x);
}

/// Element i of a float tensor whose type is known only at run time; the branch is uniform.
__device__ __forceinline__ float LoadElement(const void* data, DType dtype, int64_t i) {
  if (dtype == DType::kF32) return static_cast<const float*>(data)[i];
  if (dtype == DType::kF16) return __half2float(static_cast<const __half*>(data)[i]);
  return __bfloat162float(static_cast<const __nv_bfloat16*>(data)[i]);
}
__device__ __forceinline__ void StoreElement(void* data, DType dtype, int64_t i, float x) {
  if (dtype == DType::kF32) {
    static_cast<float*>(data)[i] = x;
  } else if (dtype == DType::kF16) {
    static_cast<__half*>(data)[i] = FromFloat<__half>(x);
  } else {
    static_cast<__nv_bfloat16*>(data)[i] = FromFloat<__nv_bfloat16>(x);
  }
}
/// Elements i ... i + 3. REQUIRES: i and the tensor's address are multiples of four.
__device__ __forceinline__ float4 LoadFloat4(const void* data, DType dtype, int64_t i) {
  if (dtype == DType::kF32) return *reinterpret_cast<const float4*>(static_cast<const float*>(data) + i);
  const uint2 bits = *reinterpret_cast<const uint2*>(static_cast<const uint16_t*>(data) + i);
  if (dtype == DType::kF16) {
    const auto* x = reinterpret_cast<const __half*>(&bits);
    return {ToFloat(x[0]), ToFloat(x[1]), ToFloat(x[2]), ToFloat(x[3])};
  }
  const auto* x = reinterpret_cast<const __nv_bfloat16*>(&bits);
  return {ToFloat(x[0]), ToFloat(x[1]), ToFloat(x[2]), ToFloat(x[3])};
}
__device__ __forceinline__ void StoreFloat4(void* data, DType dtype, int64_t i, float4 x) {
  if (dtype == DType::kF32) {
    *reinterpret_cast<float4*>(static_cast<float*>(data) + i) = x;
  } else if (dtype == DType::kF16) {
    const __half values[4] = {FromFloat<__half>(x.x), FromFloat<__half>(x.y), FromFloat<__half>(x.z),
                              FromFloat<__half>(x.w)};
    *reinterpret_cast<uint2*>(static_cast<__half*>(data) + i) = *reinterpret_cast<const uint2*>(values);
  } else {
    const __nv_bfloat16 values[4] = {FromFloat<__nv_bfloat16>(x.x), FromFloat<__nv_bfloat16>(x.y),
                                     FromFloat<__nv_bfloat16>(x.z), FromFloat<__nv_bfloat16>(x.w)};
    *reinterpret_cast<uint2*>(static_cast<__nv_bfloat16*>(data) + i) = *reinterpret_cast<const uint2*>(values);
  }
}
struct Vec8 {
  float x[8];
};
/// Eight elements at a 16-byte aligned address.
template <class T>
__device__ __forceinline__ Vec8 LoadVec8(const T* data) {
  alignas(16) T raw[8];
#pragma unroll
  for (int i = 0; i < static_cast<int>(sizeof(T)) / 2; ++i) {
    reinterpret_cast<uint4*>(raw)[i] = reinterpret_cast<const uint4*>(data)[i];
  }
  Vec8 out;
#pragma unroll
  for (int i = 0; i < 8; ++i) out.x[i] = ToFloat(raw[i]);
  return out;
}

/// x after a store and a load in `dtype`.
__device__ __forceinline__ float RoundTo(DType dtype, float x) {
  if (dtype == DType::kF16) return __half2float(FromFloat<__half>(x));
  if (dtype == DType::kBF16) return __bfloat162float(FromFloat<__nv_bfloat16>(x));
  return x;
}

/// As RoundTo; one branch for all four.
__device__ __forceinline__ float4 RoundFloat4To(DType dtype, float4 x) {
  const auto through = [&](auto type) {
    using T = decltype(type);
    return float4{ToFloat(FromFloat<T>(x.x)), ToFloat(FromFloat<T>(x.y)), ToFloat(FromFloat<T>(x.z)),
                  ToFloat(FromFloat<T>(x.w))};
  };
  if (dtype == DType::kF16) return through(__half());
  if (dtype == DType::kBF16) return through(__nv_bfloat16());
  return x;
}

/// Maps floats to integers of the same order, above 0 except for NaN; -0 and 0 map to the same key.
__device__ __forceinline__ uint32_t OrderedKey(float x) {
  const uint32_t bits = __float_as_uint(x + 0.0f);
  return bits ^ ((bits >> 31) != 0 ? 0xffffffffu : 0x80000000u);
}
__device__ __forceinline__ float ValueOfKey(uint32_t key) {
  return __uint_as_float(key ^ ((key >> 31) != 0 ? 0x80000000u : 0xffffffffu));
}

/// Warp reduction; every lane gets the sum.
template <class T>
__device__ __forceinline__ T SumOverWarp(T x) {
  for (int step = 16; step > 0; step /= 2) x += __shfl_xor_sync(0xffffffffu, x, step);
  return x;
}
/// Inclusive prefix sum over the lanes.
template <class T>
__device__ __forceinline__ T ScanOverWarp(T x) {
  for (int step = 1; step < 32; step *= 2) {
    const T before = __shfl_up_sync(0xffffffffu, x, step);
    if (static_cast<int>(threadIdx.x % 32) >= step) x += before;
  }
  return x;
}
/// Block reductions over kThreads threads in a fixed order; every thread gets the sums. `shared` holds kSums floats per
/// warp.
template <int kThreads = kBlockThreads, int kSums>
__device__ __forceinline__ void BlockSums(float (&x)[kSums], float* shared) {
#pragma unroll
  for (float& sum : x) sum = SumOverWarp(sum);
  __syncthreads();
  if (threadIdx.x % 32 == 0) {
#pragma unroll
    for (int i = 0; i < kSums; ++i) shared[i * (kThreads / 32) + threadIdx.x / 32] = x[i];
  }
  __syncthreads();
#pragma unroll
  for (int i = 0; i < kSums; ++i) {
    x[i] = 0;
    for (int w = 0; w < kThreads / 32; ++w) x[i] += shared[i * (kThreads / 32) + w];
  }
}
template <int kThreads = kBlockThreads>
__device__ __forceinline__ float BlockSum(float x, float* shared) {
  float sums[1] = {x};
  BlockSums<kThreads>(sums, shared);
  return sums[0];
}

__device__ __forceinline__ bool AllowsVectorAccess(const void* p) { return reinterpret_cast<uintptr_t>(p) % 16 == 0; }

/// Index of this thread's j-th float4 in a row that kThreads threads (a warp or a block) read in a strided loop.
template <int kThreads>
__device__ __forceinline__ int Float4Index(int j) {
  return (j * kThreads + static_cast<int>(threadIdx.x) % kThreads) * 4;
}
/// That float4 of a vector of n values, or zeros past its end or if p is null.
template <int kThreads>
__device__ __forceinline__ float4 RowFloat4(const float* p, int j, int n) {
  const int c = Float4Index<kThreads>(j);
  return p != nullptr && c < n ? *reinterpret_cast<const float4*>(p + c) : float4{0, 0, 0, 0};
}

/// RMSNorm (Zhang and Sennrich 2019) or LayerNorm (Ba et al. 2016) of rows of n values held in the registers of
/// kThreads threads. Calls emit(r, c, four) with elements c to c + 3 of row r. weight(j) and bias(j) return this
/// thread's j-th float4 of the norm's parameters. `shared` holds kRows floats per warp of the block.
template <int kThreads, int kRows, int kVectors, class Weight, class Bias, class Emit>
__device__ __forceinline__ void NormFloat4sOfRows(float4 (&v)[kRows][kVectors], int n, bool layer, float eps,
                                                  float* shared, const Weight& weight, const Bias& bias,
                                                  const Emit& emit) {
  const auto add_up = [&](float(&sums)[kRows]) {
    if constexpr (kThreads == 32) {
#pragma unroll
      for (float& sum : sums) sum = SumOverWarp(sum);
    } else {
      BlockSums<kThreads>(sums, shared);
    }
  };
  float sums[kRows] = {}, means[kRows] = {};
  if (layer) {
#pragma unroll
    for (int r = 0; r < kRows; ++r) {
#pragma unroll
      for (int j = 0; j < kVectors; ++j) sums[r] += v[r][j].x + v[r][j].y + v[r][j].z + v[r][j].w;
    }
    add_up(sums);
#pragma unroll
    for (int r = 0; r < kRows; ++r) means[r] = sums[r] / n, sums[r] = 0;
  }
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
#pragma unroll
    for (int j = 0; j < kVectors; ++j) {
      float4& x = v[r][j];
      if (Float4Index<kThreads>(j) >= n) continue;
      x.x -= means[r], x.y -= means[r], x.z -= means[r], x.w -= means[r];
      sums[r] += x.x * x.x + x.y * x.y + x.z * x.z + x.w * x.w;
    }
  }
  add_up(sums);
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    const float factor = rsqrtf(sums[r] / n + eps);
#pragma unroll
    for (int j = 0; j < kVectors; ++j) {
      const int c = Float4Index<kThreads>(j);
      if (c >= n) continue;
      const float4 w = weight(j), b = bias(j), x = v[r][j];
      emit(r, c,
           float4{x.x * factor * w.x + b.x, x.y * factor * w.y + b.y, x.z * factor * w.z + b.z,
                  x.w * factor * w.w + b.w});
    }
  }
}
/// As NormFloat4sOfRows for one row: emit(c, four).
template <int kThreads, int kVectors, class Weight, class Bias, class Emit>
__device__ __forceinline__ void NormFloat4s(float4 (&v)[kVectors], int n, bool layer, float eps, float* shared,
                                            const Weight& weight, const Bias& bias, const Emit& emit) {
  float4 rows[1][kVectors];
#pragma unroll
  for (int j = 0; j < kVectors; ++j) rows[0][j] = v[j];
  NormFloat4sOfRows<kThreads>(rows, n, layer, eps, shared, weight, bias,
                              [&](int, int c, float4 four) { emit(c, four); });
}

/// Weights of a norm, and biases of a LayerNorm, preloaded into the registers of a block for rows of n values: up to
/// 1,024 kVectors values if they can be read as float4. They are constant during a step, so the load need not wait for
/// preceding kernels.
template <int kVectors>
struct NormVectors {
  bool wide = false;
  float4 weight[kVectors] = {}, bias[kVectors] = {};

  __device__ __forceinline__ void Load(const float* weights, const float* biases, int n, bool layer) {
    wide = n % 4 == 0 && n <= 4 * kBlockThreads * kVectors && AllowsVectorAccess(weights) &&
           (!layer || AllowsVectorAccess(biases));
    if (!wide) return;
#pragma unroll
    for (int j = 0; j < kVectors; ++j) {
      weight[j] = RowFloat4<kBlockThreads>(weights, j, n);
      bias[j] = RowFloat4<kBlockThreads>(layer ? biases : nullptr, j, n);
    }
  }
};

/// Norm of a float32 row of n values by a whole block; calls emit(c, value) once per element. With `vectors` preloaded
/// for this norm the row is read once, with all loads in flight together.
template <int kVectors, class Emit>
__device__ __forceinline__ void NormRow(const float* x, const NormVectors<kVectors>& vectors, const float* weight,
                                        const float* bias, int n, bool layer, float eps, float* shared,
                                        const Emit& emit) {
  if (vectors.wide && AllowsVectorAccess(x)) {
    float4 v[kVectors];
#pragma unroll
    for (int j = 0; j < kVectors; ++j) v[j] = RowFloat4<kBlockThreads>(x, j, n);
    return NormFloat4s<kBlockThreads>(
        v, n, layer, eps, shared, [&](int j) { return vectors.weight[j]; }, [&](int j) { return vectors.bias[j]; },
        [&](int c, float4 four) { emit(c, four.x), emit(c + 1, four.y), emit(c + 2, four.z), emit(c + 3, four.w); });
  }
  float sum = 0, mean = 0;
  if (layer) {
    for (int i = threadIdx.x; i < n; i += kBlockThreads) sum += x[i];
    mean = BlockSum(sum, shared) / n;
    sum = 0;
  }
  for (int i = threadIdx.x; i < n; i += kBlockThreads) sum = fmaf(x[i] - mean, x[i] - mean, sum);
  const float factor = rsqrtf(BlockSum(sum, shared) / n + eps);
  for (int c = threadIdx.x; c < n; c += kBlockThreads) {
    emit(c, (x[c] - mean) * factor * weight[c] + (layer ? bias[c] : 0.0f));
  }
}

// Fast exponential and division: a few ulps of float32, well below the rounding to 16 bits.
__device__ __forceinline__ float SiluOf(float x) { return __fdividef(x, 1.0f + __expf(-x)); }
__device__ __forceinline__ float GeluOf(float x, bool tanh_approximation) {
  if (!tanh_approximation) return 0.5f * x * erfcf(-x * 0.70710678f);
  const float u = 0.7978845608f * (x + 0.044715f * x * x * x);
  return __fdividef(x, 1.0f + __expf(-2.0f * u));  // 0.5 x (1 + tanh u)
}

__device__ __forceinline__ float ActivatedOf(float x, Activation activation) {
  switch (activation) {
    case Activation::kGeluTanh:
      return GeluOf(x, true);
    case Activation::kGeluErf:
      return GeluOf(x, false);
    case Activation::kRelu:
      return x < 0 ? 0 : x;
    case Activation::kReluSquared:
      return x < 0 ? 0 : x * x;
    default:
      return SiluOf(x);
  }
}
/// activation(gate) * up.
__device__ __forceinline__ float MultipliedOf(float gate, float up, Activation activation) {
  if (activation != Activation::kClampedSilu) return ActivatedOf(gate, activation) * up;
  const float g = gate > 7 ? 7 : gate, u = up > 7 ? 7 : up < -7 ? -7 : up;  // keeps NaN
  return __fdividef(g, 1.0f + __expf(-1.702f * g)) * (u + 1);
}

/// The factor of a gate's value.
__device__ __forceinline__ float GateFactor(float x, GateKind kind) {
  switch (kind) {
    case GateKind::kSigmoid:
      return __fdividef(1.0f, 1.0f + __expf(-x));
    case GateKind::kSilu:
      return SiluOf(x);
    case GateKind::kSoftplus:
      return fmaxf(x, 0.0f) + log1pf(__expf(-fabsf(x)));
    default:
      return x;
  }
}
/// y times the factors of four gate values from column c of a row on. A gate has a value for each column of y, or for
/// `columns` of them, a multiple of four.
__device__ __forceinline__ float4 TimesGate(float4 y, const Tensor& gate, GateKind kind, int columns, int64_t row,
                                            int64_t c) {
  if (columns > 1) {
    const float factor = GateFactor(LoadElement(gate.data, gate.dtype, row * gate.stride + c / columns), kind);
    return {y.x * factor, y.y * factor, y.z * factor, y.w * factor};
  }
  const float4 g = LoadFloat4(gate.data, gate.dtype, row * gate.stride + c);
  return {y.x * GateFactor(g.x, kind), y.y * GateFactor(g.y, kind), y.z * GateFactor(g.z, kind),
          y.w * GateFactor(g.w, kind)};
}

/// 2^x in one instruction; returns zero for x far below zero.
__device__ __forceinline__ float Exp2(float x) {
  float out;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(out) : "f"(x));
  return out;
}

/// c += a b: a 16 x 16 row-major, b 16 x 8 column-major, float32 accumulators.
__device__ __forceinline__ void MultiplyAdd(float c[4], const uint32_t a[4], uint32_t b0, uint32_t b1, __nv_bfloat16) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
__device__ __forceinline__ void MultiplyAdd(float c[4], const uint32_t a[4], uint32_t b0, uint32_t b1, __half) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

/// c += a b with unsigned bytes a (16 x 32) and signed or unsigned bytes b (32 x 8), int32 accumulators.
template <bool kSigned>
__device__ __forceinline__ void MultiplyAddBytes(int32_t c[4], const uint32_t a[4], uint32_t b0, uint32_t b1) {
  if constexpr (kSigned) {
    asm("mma.sync.aligned.m16n8k32.row.col.s32.u8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  } else {
    asm("mma.sync.aligned.m16n8k32.row.col.s32.u8.u8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  }
}
/// As above with a 16 x 16 and b 16 x 8.
template <bool kSigned>
__device__ __forceinline__ void MultiplyAddBytes(int32_t c[4], const uint32_t a[2], uint32_t b) {
  if constexpr (kSigned) {
    asm("mma.sync.aligned.m16n8k16.row.col.s32.u8.s8.s32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
        : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(b));
  } else {
    asm("mma.sync.aligned.m16n8k16.row.col.s32.u8.u8.s32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
        : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(b));
  }
}

__device__ __forceinline__ uint32_t Pack(float low, float high, __nv_bfloat16) {
  const __nv_bfloat162 both = __floats2bfloat162_rn(low, high);
  return *reinterpret_cast<const uint32_t*>(&both);
}
__device__ __forceinline__ uint32_t Pack(float low, float high, __half) {
  const __half2 both = __floats2half2_rn(low, high);
  return *reinterpret_cast<const uint32_t*>(&both);
}

__device__ __forceinline__ uint32_t SharedAddress(const void* p) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}
/// Four 8 x 8 matrices of 16-bit elements; lane l passes the address of row l % 8 of matrix l / 8.
__device__ __forceinline__ void LoadMatrices(uint32_t out[4], uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
               : "r"(address)
               : "memory");
}
/// Loads one, two or four words from a shared-memory address aligned to the access size.
__device__ __forceinline__ uint32_t LoadSharedWord(uint32_t address) {
  uint32_t out;
  asm volatile("ld.shared.u32 %0, [%1];" : "=r"(out) : "r"(address) : "memory");
  return out;
}
__device__ __forceinline__ void LoadSharedVec2(uint32_t out[2], uint32_t address) {
  asm volatile("ld.shared.v2.u32 {%0,%1}, [%2];" : "=r"(out[0]), "=r"(out[1]) : "r"(address) : "memory");
}
__device__ __forceinline__ void LoadSharedVec4(uint32_t out[4], uint32_t address) {
  asm volatile("ld.shared.v4.u32 {%0,%1,%2,%3}, [%4];"
               : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
               : "r"(address)
               : "memory");
}
__device__ __forceinline__ void LoadMatricesTransposed(uint32_t out[4], uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])
               : "r"(address)
               : "memory");
}
/// Two matrices; lanes 0 to 15 pass the addresses.
__device__ __forceinline__ void LoadTwoMatricesTransposed(uint32_t out[2], uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];"
               : "=r"(out[0]), "=r"(out[1])
               : "r"(address)
               : "memory");
}

/// Asynchronous 16-byte copy from global to shared memory.
__device__ __forceinline__ void CopyAsync(uint32_t shared, const void* global) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared), "l"(global) : "memory");
}
/// As CopyAsync, or 16 zero bytes if !real; `global` must be a valid address either way.
__device__ __forceinline__ void CopyAsyncOrZero(uint32_t shared, const void* global, bool real) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared), "l"(global), "r"(real ? 16 : 0)
               : "memory");
}
/// Asynchronous 4-byte copy.
__device__ __forceinline__ void CopyFloatAsync(float* shared, const float* global) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(SharedAddress(shared)), "l"(global) : "memory");
}
/// An L2 cache policy that evicts streamed data first.
__device__ __forceinline__ uint64_t EvictFirst() {
  uint64_t policy;
  asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}
/// As CopyAsyncOrZero, with an L2 cache policy.
__device__ __forceinline__ void CopyAsyncOrZero(uint32_t shared, const void* global, bool real, uint64_t policy) {
  asm volatile("cp.async.cg.shared.global.L2::cache_hint [%0], [%1], 16, %2, %3;" ::"r"(shared), "l"(global),
               "r"(real ? 16 : 0), "l"(policy)
               : "memory");
}
__device__ __forceinline__ void CommitCopies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
/// Waits until at most N committed groups are in flight.
template <int N>
__device__ __forceinline__ void WaitForCopies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}

/// Waits for all copies, committed or not.
__device__ __forceinline__ void WaitForAllCopies() { asm volatile("cp.async.wait_all;" ::: "memory"); }

/// Prefetches into the L2 cache; does not block.
__device__ __forceinline__ void Prefetch(const void* p) { asm volatile("prefetch.global.L2 [%0];" ::"l"(p)); }

/// Loads 16 bytes of a weight, bypassing L1: each is read once per step, by one block.
__device__ __forceinline__ uint4 LoadWeightBytes(const void* p) {
  uint4 v;
  asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0,%1,%2,%3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(p));
  return v;
}

}  // namespace ringside::cuda
