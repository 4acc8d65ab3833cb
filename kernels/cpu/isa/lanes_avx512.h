// Sixteen lanes on AVX-512 (F, BW, VL, DQ): one register. See lanes_prefix.h for the semantics of each operation.
// Included only by files compiled for this instruction set, inside their own namespace.
#pragma once

#include <immintrin.h>

#include "kernels/cpu/isa/lanes_prefix.h"

namespace ringside::cpu::RINGSIDE_LANES {
namespace {

using F32x16 = __m512;
using I32x16 = __m512i;
using U8x64 = __m512i;

constexpr bool kWideRegisters = true;  // 32 registers of 16 lanes hold whole blocks and large tiles
constexpr int kMostRows = 16;

LANES_INLINE __mmask16 FirstLanes(int64_t n) { return static_cast<__mmask16>((1u << n) - 1u); }

LANES_INLINE F32x16 Zero() { return _mm512_setzero_ps(); }
LANES_INLINE F32x16 Set(float x) { return _mm512_set1_ps(x); }
LANES_INLINE F32x16 Load(const float* p) { return _mm512_loadu_ps(p); }
LANES_INLINE F32x16 LoadPartial(const float* p, int64_t n) { return _mm512_maskz_loadu_ps(FirstLanes(n), p); }
LANES_INLINE void Store(float* p, F32x16 a) { _mm512_storeu_ps(p, a); }
LANES_INLINE void StorePartial(float* p, F32x16 a, int64_t n) { _mm512_mask_storeu_ps(p, FirstLanes(n), a); }

LANES_INLINE F32x16 Add(F32x16 a, F32x16 b) { return _mm512_add_ps(a, b); }
LANES_INLINE F32x16 Sub(F32x16 a, F32x16 b) { return _mm512_sub_ps(a, b); }
LANES_INLINE F32x16 Mul(F32x16 a, F32x16 b) { return _mm512_mul_ps(a, b); }
LANES_INLINE F32x16 Div(F32x16 a, F32x16 b) { return _mm512_div_ps(a, b); }
LANES_INLINE F32x16 Fma(F32x16 a, F32x16 b, F32x16 c) { return _mm512_fmadd_ps(a, b, c); }
LANES_INLINE F32x16 MinusFma(F32x16 a, F32x16 b, F32x16 c) { return _mm512_fnmadd_ps(a, b, c); }
LANES_INLINE F32x16 Max(F32x16 a, F32x16 b) { return _mm512_max_ps(a, b); }
LANES_INLINE F32x16 Min(F32x16 a, F32x16 b) { return _mm512_min_ps(a, b); }
LANES_INLINE F32x16 Abs(F32x16 a) { return _mm512_abs_ps(a); }
LANES_INLINE F32x16 SelectLess(F32x16 a, F32x16 b, F32x16 then, F32x16 otherwise) {
  return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, b, _CMP_LT_OQ), otherwise, then);
}
LANES_INLINE F32x16 KeepLanes(F32x16 a, int64_t first, int64_t last, F32x16 other) {
  return _mm512_mask_blend_ps(static_cast<__mmask16>(FirstLanes(last) & ~FirstLanes(first)), other, a);
}

LANES_INLINE float Sum(F32x16 a) {
  const __m256 b = _mm256_add_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1));
  const __m128 c = _mm_add_ps(_mm256_castps256_ps128(b), _mm256_extractf128_ps(b, 1));
  const __m128 d = _mm_add_ps(c, _mm_movehl_ps(c, c));
  return _mm_cvtss_f32(_mm_add_ss(d, _mm_movehdup_ps(d)));
}
LANES_INLINE float Largest(F32x16 a) {
  const __m256 b = _mm256_max_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1));
  const __m128 c = _mm_max_ps(_mm256_castps256_ps128(b), _mm256_extractf128_ps(b, 1));
  const __m128 d = _mm_max_ps(c, _mm_movehl_ps(c, c));
  return _mm_cvtss_f32(_mm_max_ss(d, _mm_movehdup_ps(d)));
}

LANES_INLINE F32x16 LoadF16(const uint16_t* p) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}
LANES_INLINE F32x16 LoadF16Partial(const uint16_t* p, int64_t n) {
  return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(FirstLanes(n), p));
}
LANES_INLINE void StoreF16Partial(uint16_t* p, F32x16 a, int64_t n) {
  _mm256_mask_storeu_epi16(p, FirstLanes(n), _mm512_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT));
}
LANES_INLINE F32x16 ConvertBf16(__m256i a) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(a), 16));
}
LANES_INLINE F32x16 LoadBf16(const uint16_t* p) {
  return ConvertBf16(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}
LANES_INLINE F32x16 LoadBf16Partial(const uint16_t* p, int64_t n) {
  return ConvertBf16(_mm256_maskz_loadu_epi16(FirstLanes(n), p));
}
LANES_INLINE void StoreBf16Partial(uint16_t* p, F32x16 a, int64_t n) {
  const __m512i bits = _mm512_castps_si512(a);
  const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
  const __m512i rounded = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
  const __m512i quiet = _mm512_or_si512(bits, _mm512_set1_epi32(0x400000));
  const __m512i either = _mm512_mask_blend_epi32(_mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q), rounded, quiet);
  _mm256_mask_storeu_epi16(p, FirstLanes(n), _mm512_cvtepi32_epi16(_mm512_srli_epi32(either, 16)));
}
LANES_INLINE F32x16 LoadU8(const uint8_t* p) {
  return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
}
LANES_INLINE F32x16 LoadI8(const uint8_t* p) {
  return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
}
LANES_INLINE void Deinterleave(const float* p, F32x16* even, F32x16* odd) {
  const __m512 a = _mm512_loadu_ps(p), b = _mm512_loadu_ps(p + 16);
  const __m512i i = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
  *even = _mm512_permutex2var_ps(a, i, b);
  *odd = _mm512_permutex2var_ps(a, _mm512_add_epi32(i, _mm512_set1_epi32(1)), b);
}
LANES_INLINE void Interleave(F32x16 even, F32x16 odd, float* p) {
  const __m512i i = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
  _mm512_storeu_ps(p, _mm512_permutex2var_ps(even, i, odd));
  _mm512_storeu_ps(p + 16, _mm512_permutex2var_ps(even, _mm512_add_epi32(i, _mm512_set1_epi32(8)), odd));
}

LANES_INLINE I32x16 SetInt(int32_t x) { return _mm512_set1_epi32(x); }
LANES_INLINE I32x16 ZeroInt() { return _mm512_setzero_si512(); }
LANES_INLINE I32x16 SubInt(I32x16 a, I32x16 b) { return _mm512_sub_epi32(a, b); }
template <int kBits>
LANES_INLINE I32x16 ShiftLeftInt(I32x16 a) {
  return _mm512_slli_epi32(a, kBits);
}
LANES_INLINE F32x16 ToFloat(I32x16 a) { return _mm512_cvtepi32_ps(a); }
LANES_INLINE I32x16 RoundToInt(F32x16 a) { return _mm512_cvtps_epi32(a); }
LANES_INLINE F32x16 PowerOfTwo(I32x16 n) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_add_epi32(n, _mm512_set1_epi32(127)), 23));
}
LANES_INLINE int32_t SumInt(I32x16 a) { return _mm512_reduce_add_epi32(a); }
LANES_INLINE void StoreI8(int8_t* p, I32x16 a) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtepi32_epi8(a));
}

LANES_INLINE U8x64 LoadBytes(const uint8_t* p) { return _mm512_loadu_si512(p); }
LANES_INLINE U8x64 OrBytes(U8x64 a, U8x64 b) { return _mm512_or_si512(a, b); }
template <int kMask>
LANES_INLINE U8x64 AndBytes(U8x64 a) {
  return _mm512_and_si512(a, _mm512_set1_epi8(kMask));
}
/// Shifts 16-bit pairs, so bits may cross between the two bytes of a pair: mask afterwards.
template <int kBits>
LANES_INLINE U8x64 ShiftBytes(U8x64 a) {
  if constexpr (kBits >= 0)
    return _mm512_slli_epi16(a, kBits);
  else
    return _mm512_srli_epi16(a, -kBits);
}
LANES_INLINE U8x64 LookUp(U8x64 q, const uint8_t* table) {
  const __m128i t = _mm_loadu_si128(reinterpret_cast<const __m128i*>(table));
  return _mm512_shuffle_epi8(_mm512_broadcast_i32x4(t), q);
}
LANES_INLINE __m512i Broadcast4Bytes(const int8_t* x) {
  int32_t four;
  __builtin_memcpy(&four, x, 4);
  return _mm512_set1_epi32(four);
}

#ifdef __AVX512VNNI__
constexpr bool kUnsignedEightBits = true;
/// GCC 12 broadcasts to a register first, which doubles the instructions of a product.
LANES_INLINE I32x16 DotOne(I32x16 s, U8x64 a, const int8_t* xa) {
  using FourBytes = int8_t[4];
  __asm__("vpdpbusd %2%{1to16%}, %1, %0" : "+v"(s) : "v"(a), "m"(*reinterpret_cast<const FourBytes*>(xa)));
  return s;
}
LANES_INLINE I32x16 DotPair(I32x16 s, U8x64 a, const int8_t* xa, U8x64 b, const int8_t* xb) {
  return DotOne(DotOne(s, a, xa), b, xb);
}
LANES_INLINE I32x16 DotEightBits(I32x16 s, U8x64 a, const int8_t* xa) { return DotOne(s, a, xa); }
#else
constexpr bool kUnsignedEightBits = false;
LANES_INLINE I32x16 AddPairs(I32x16 s, __m512i products) {
  return _mm512_add_epi32(s, _mm512_madd_epi16(products, _mm512_set1_epi16(1)));
}
LANES_INLINE I32x16 DotPair(I32x16 s, U8x64 a, const int8_t* xa, U8x64 b, const int8_t* xb) {
  return AddPairs(
      s, _mm512_add_epi16(_mm512_maddubs_epi16(a, Broadcast4Bytes(xa)), _mm512_maddubs_epi16(b, Broadcast4Bytes(xb))));
}
LANES_INLINE I32x16 DotOne(I32x16 s, U8x64 a, const int8_t* xa) {
  return AddPairs(s, _mm512_maddubs_epi16(a, Broadcast4Bytes(xa)));
}
LANES_INLINE I32x16 DotEightBits(I32x16 s, U8x64 a, const int8_t* xa) {
  const __m512i w = _mm512_xor_si512(a, _mm512_set1_epi8(-128)), x = Broadcast4Bytes(xa);
  const __m512i signed_x = _mm512_mask_sub_epi8(x, _mm512_movepi8_mask(w), _mm512_setzero_si512(), x);
  return AddPairs(s, _mm512_maddubs_epi16(_mm512_abs_epi8(w), signed_x));
}
#endif

}  // namespace
}  // namespace ringside::cpu::RINGSIDE_LANES
