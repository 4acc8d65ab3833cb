// A slab tile (16 keys and their values) in shared memory and as MMA operands, for each cache element type. Included by
// .cu files only.
//
// In the slab keys are [dimension][16] and values [16][dimension]. In both the contraction runs across rows, so both
// are loaded by the same transposing ldmatrix, and the GPU needs no layout different from the slab's. In shared memory
// eight rows that are read together use different banks.
//
// 8-bit elements are loaded as if two neighbours were one 16-bit element, then separated and converted to float16 in
// registers, which is exact. The neighbours (two keys, or two dimensions of a value) end up in different MMAs of 8
// columns, so the columns of the results are permuted: KeyOf and DimensionOf give the mapping. No data movement undoes
// the permutation; the second MMA contracts over keys in the order in which the first leaves them.
#pragma once

#include <cuda_fp8.h>

#include "kernels/cuda/device.cuh"

namespace ringside::cuda {

/// 16-bit elements. Rows of values are padded to an odd number of 16-byte units; rows of keys, which are two units, are
/// swizzled instead.
template <class C, int D>
struct CacheTile {
  using Product = C;  // operand type of the MMAs
  static constexpr int kValueRow = D + 8, kElements = 16 * D + 16 * kValueRow, kBytes = 2 * kElements;

  /// Element offsets.
  static __device__ __forceinline__ int Key(int d, int key) { return (2 * d + (key / 8 ^ (d >> 2 & 1))) * 8 + key % 8; }
  static __device__ __forceinline__ int Value(int key, int d) { return 16 * D + key * kValueRow + d; }

  /// Starts one of kShares equal parts of the copy of the keys, or of the values, by a warp.
  template <int kShares>
  static __device__ __forceinline__ void FetchKeys(const char* tile, C* stage, int share, int lane) {
    // Each further copy is 16 dimensions on, which leaves the swizzle unchanged.
    const uint32_t to = SharedAddress(stage + Key(lane / 2, lane % 2 * 8));
#pragma unroll
    for (int i = 0; i < D / 16; ++i) {
      if (i % kShares == share) CopyAsync(to + i * 512, tile + lane * 16 + i * 512);
    }
  }
  template <int kShares>
  static __device__ __forceinline__ void FetchValues(const char* tile, C* stage, int share, int lane) {
    const uint32_t to = SharedAddress(stage + 16 * D);
#pragma unroll
    for (int i = 0; i < D / 16; ++i) {
      const int unit = i * 32 + lane, key = unit / (D / 8), part = unit % (D / 8);
      if (i % kShares == share) CopyAsync(to + key * kValueRow * 2 + part * 16, tile + 32 * D + lane * 16 + i * 512);
    }
  }

  /// A lane's read addresses in a tile at shared-memory address `stage`.
  static __device__ __forceinline__ uint32_t KeyAddress(uint32_t stage, int lane) {
    return stage + 2 * Key(lane / 8 % 2 * 8 + lane % 8, lane / 16 * 8);
  }
  static __device__ __forceinline__ uint32_t ValueAddress(uint32_t stage, int lane) {
    return stage + 2 * Value(lane / 8 % 2 * 8 + lane % 8, lane / 16 * 8);
  }
  /// Right operands: 16 keys of dimensions 16 k ..., or dimensions 16 n ... of 16 values. Columns 0 to 7 are b[0],
  /// b[1].
  static __device__ __forceinline__ void LoadKeys(uint32_t b[4], uint32_t address, int k) {
    LoadMatricesTransposed(b, address + k * 512);
  }
  static __device__ __forceinline__ void LoadValues(uint32_t b[4], uint32_t address, int n) {
    LoadMatricesTransposed(b, address + n * 32);
  }

  /// The key of a lane's score i: columns 2 (lane % 4) and + 1 of the first MMA, then of the second.
  static __device__ __forceinline__ int KeyOf(int i, int lane) { return i / 2 * 8 + lane % 4 * 2 + i % 2; }
  /// The first of the n-th two dimensions that a lane accumulates, and their sums, for query quad + 8 h.
  static __device__ __forceinline__ int DimensionOf(int n, int lane) { return n * 8 + lane % 4 * 2; }
  static __device__ __forceinline__ float2 SumsOf(const float (&out)[D / 8][4], int n, int h) {
    return float2{out[n][2 * h], out[n][2 * h + 1]};
  }
};

/// Converts bytes 0 and 2, and bytes 1 and 3, of four E4M3 to two float16 each.
__device__ __forceinline__ void E4M3ToHalf2(uint32_t four, uint32_t* even, uint32_t* odd) {
#if __CUDA_ARCH__ >= 890
  const uint32_t pairs = __byte_perm(four, 0, 0x3120);
  asm("{ .reg .b16 low, high; mov.b32 {low, high}, %2; cvt.rn.f16x2.e4m3x2 %0, low; cvt.rn.f16x2.e4m3x2 %1, high; }"
      : "=r"(*even), "=r"(*odd)
      : "r"(pairs));
#else
  // Reinterpreted as float16, exponent and mantissa bits are 2^-8 of the value, subnormals included. (NaN becomes 480.)
  const auto to_f16x2 = [](uint32_t high) {  // elements in the high byte of each half
    const uint32_t bits = (high & 0x80008000u) | (high & 0x7f007f00u) >> 1;
    const __half2 x = __hmul2(*reinterpret_cast<const __half2*>(&bits), __float2half2_rn(256));
    return *reinterpret_cast<const uint32_t*>(&x);
  };
  *even = to_f16x2(four << 8), *odd = to_f16x2(four);
#endif
}

/// E4M3. Rows of keys are one 16-byte unit; rows of values are an odd number of units. One unit is skipped after the
/// eighth row, because every other row is read.
template <int D>
struct CacheTile<__nv_fp8_e4m3, D> {
  using C = __nv_fp8_e4m3;
  using Product = __half;
  static constexpr int kValueRow = (D / 16 | 1) * 16, kElements = 16 * D + 16 * kValueRow + 16, kBytes = kElements;

  static __device__ __forceinline__ int Key(int d, int key) { return d * 16 + key; }
  static __device__ __forceinline__ int Value(int key, int d) { return 16 * D + key * kValueRow + key / 8 * 16 + d; }

  template <int kShares>
  static __device__ __forceinline__ void FetchKeys(const char* tile, C* stage, int share, int lane) {
    const uint32_t to = SharedAddress(stage);
#pragma unroll
    for (int i = 0; i < (D + 31) / 32; ++i) {
      const int unit = i * 32 + lane;
      if (unit < D && i % kShares == share) CopyAsync(to + unit * 16, tile + unit * 16);
    }
  }
  template <int kShares>
  static __device__ __forceinline__ void FetchValues(const char* tile, C* stage, int share, int lane) {
    const uint32_t to = SharedAddress(stage);
#pragma unroll
    for (int i = 0; i < (D + 31) / 32; ++i) {
      const int unit = i * 32 + lane, key = unit / (D / 16), part = unit % (D / 16);
      if (unit < D && i % kShares == share) CopyAsync(to + Value(key, part * 16), tile + 16 * D + unit * 16);
    }
  }

  static __device__ __forceinline__ uint32_t KeyAddress(uint32_t stage, int lane) { return stage + lane % 16 * 16; }
  static __device__ __forceinline__ uint32_t ValueAddress(uint32_t stage, int lane) {
    return stage + Value(lane % 8 * 2 + lane / 8 % 2, 0);
  }
  static __device__ __forceinline__ void LoadKeys(uint32_t b[4], uint32_t address, int k) {
    Load(b, address + k * 256);
  }
  static __device__ __forceinline__ void LoadValues(uint32_t b[4], uint32_t address, int n) {
    Load(b, address + n * 16);
  }

  static __device__ __forceinline__ int KeyOf(int i, int lane) { return lane % 4 * 4 + i % 2 * 2 + i / 2; }
  static __device__ __forceinline__ int DimensionOf(int n, int lane) { return n / 2 * 16 + lane % 4 * 4 + n % 2 * 2; }
  static __device__ __forceinline__ float2 SumsOf(const float (&out)[D / 8][4], int n, int h) {
    return float2{out[n / 2 * 2][2 * h + n % 2], out[n / 2 * 2 + 1][2 * h + n % 2]};
  }

 private:
  static __device__ __forceinline__ void Load(uint32_t b[4], uint32_t address) {
    uint32_t pairs[2];
    LoadTwoMatricesTransposed(pairs, address);
    E4M3ToHalf2(pairs[0], &b[0], &b[2]);
    E4M3ToHalf2(pairs[1], &b[1], &b[3]);
  }
};

template <>
__device__ __forceinline__ __nv_fp8_e4m3 FromFloat<__nv_fp8_e4m3>(float x) {
  __nv_fp8_e4m3 out;
  out.__x = __nv_cvt_float_to_fp8(x, __NV_SATFINITE, __NV_E4M3);
  return out;
}

/// Element i of a cache whose type is known only at run time; the branches are uniform.
__device__ __forceinline__ float LoadCached(const void* data, DType dtype, int64_t i) {
  if (dtype == DType::kF8E4M3) return static_cast<float>(static_cast<const __nv_fp8_e4m3*>(data)[i]);
  return LoadElement(data, dtype, i);
}
__device__ __forceinline__ void StoreCached(void* data, DType dtype, int64_t i, float x) {
  if (dtype != DType::kF8E4M3) return StoreElement(data, dtype, i, x);
  static_cast<__nv_fp8_e4m3*>(data)[i] = FromFloat<__nv_fp8_e4m3>(x);
}
/// Elements i ... i + 3. REQUIRES: i and the address are multiples of four.
__device__ __forceinline__ void StoreFloat4Cached(void* data, DType dtype, int64_t i, float4 x) {
  if (dtype != DType::kF8E4M3) return StoreFloat4(data, dtype, i, x);
  const __nv_fp8_e4m3 values[4] = {FromFloat<__nv_fp8_e4m3>(x.x), FromFloat<__nv_fp8_e4m3>(x.y),
                                   FromFloat<__nv_fp8_e4m3>(x.z), FromFloat<__nv_fp8_e4m3>(x.w)};
  *reinterpret_cast<uint32_t*>(static_cast<__nv_fp8_e4m3*>(data) + i) = *reinterpret_cast<const uint32_t*>(values);
}

}  // namespace ringside::cuda
