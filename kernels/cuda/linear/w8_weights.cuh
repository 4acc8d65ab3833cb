// Dequantizes one-byte weights to 16 bits, two of a word at a time (w8_layout.h). Bit operations are the
// bottleneck: a pair of integers costs one or two, a pair of E4M3 three. Included by .cu files only.
#pragma once

#include "kernels/cuda/device.cuh"
#include "kernels/cuda/linear/w8_layout.h"

namespace ringside::cuda {

struct Int8 {
  uint8_t bits;
};
struct E4M3 {
  uint8_t bits;
};

/// Factor from a converted number to its value. Integers become subnormals of float16. In bfloat16 they are only scaled
/// part of the way, because no power of two is large enough.
template <class T, class W>
constexpr float kConversionScale = 1;
template <>
constexpr float kConversionScale<__half, Int8> = 0x1p24f;
template <>
constexpr float kConversionScale<__nv_bfloat16, Int8> = 0x1p6f;

__device__ __forceinline__ uint32_t Times(uint32_t a, uint32_t b, __half) {
  const __half2 out = __hmul2(*reinterpret_cast<const __half2*>(&a), *reinterpret_cast<const __half2*>(&b));
  return *reinterpret_cast<const uint32_t*>(&out);
}
__device__ __forceinline__ uint32_t Times(uint32_t a, uint32_t b, __nv_bfloat16) {
  const __nv_bfloat162 out =
      __hmul2(*reinterpret_cast<const __nv_bfloat162*>(&a), *reinterpret_cast<const __nv_bfloat162*>(&b));
  return *reinterpret_cast<const uint32_t*>(&out);
}

/// The numbers in the low bytes of a word's halves, as a pair of T.
__device__ __forceinline__ uint32_t LowPair(uint32_t word, Int8, __half) { return word & 0x807f807fu; }
__device__ __forceinline__ uint32_t LowPair(uint32_t word, Int8, __nv_bfloat16) {
  return Times(word & 0x807f807fu, 0x7f007f00u, __nv_bfloat16());  // 2^-133 times 2^127
}
/// The numbers in the high bytes. For E4M3 the exponent is shifted to T's position and a multiplication by a power of
/// two corrects its bias; subnormals are exact too.
template <class T>
__device__ __forceinline__ uint32_t HighPair(uint32_t word, Int8, T) {
  return LowPair(__byte_perm(word, 0, 0x2301), Int8(), T());
}
__device__ __forceinline__ uint32_t HighPair(uint32_t word, E4M3, __half) {
  return Times((word & 0x80008000u) | (word & 0x7f007f00u) >> 1, 0x5c005c00u, __half());  // 2^8
}
__device__ __forceinline__ uint32_t HighPair(uint32_t word, E4M3, __nv_bfloat16) {
  return Times((word & 0x80008000u) | (word & 0x7f007f00u) >> 4, 0x7b807b80u, __nv_bfloat16());  // 2^120
}
template <class T>
__device__ __forceinline__ uint32_t LowPair(uint32_t word, E4M3, T) {
  return HighPair(word << 8, E4M3(), T());
}

/// LowPair or HighPair, selected without a branch.
template <class T>
__device__ __forceinline__ uint32_t PairOf(uint32_t word, bool high, Int8, T) {
  return LowPair(__byte_perm(word, 0, high ? 0x2301 : 0x3210), Int8(), T());
}
template <class T>
__device__ __forceinline__ uint32_t PairOf(uint32_t word, bool high, E4M3, T) {
  return HighPair(__byte_perm(word, 0, high ? 0x3210 : 0x2301), E4M3(), T());
}

/// One element, before its scale, of a weight with `cols` inputs.
__device__ __forceinline__ float LoadW8(const void* weight, DType dtype, int64_t row, int64_t c, int64_t cols) {
  const int64_t place = c / kW8Group * kW8Group + W8Position(static_cast<int>(c % kW8Group));
  const auto* bytes = static_cast<const uint8_t*>(weight) + row * W8RowBytes(cols);
  if (dtype == DType::kI8) {
    const auto magnitude = static_cast<float>(bytes[place] & 0x7f);
    return bytes[place ^ 1] & 0x80 ? -magnitude : magnitude;
  }
  const uint32_t pair = LowPair(bytes[place], E4M3(), __half());
  return __half2float(__ushort_as_half(static_cast<unsigned short>(pair & 0xffff)));
}

}  // namespace ringside::cuda
