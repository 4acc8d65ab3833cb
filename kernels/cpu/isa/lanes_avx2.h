// Sixteen lanes on AVX2, FMA and F16C: two registers. See lanes_prefix.h for the semantics of each operation. Included
// only by files compiled for this instruction set, inside their own namespace.
#pragma once

#include <immintrin.h>

#include "kernels/cpu/isa/lanes_prefix.h"

namespace ringside::cpu::RINGSIDE_LANES {
namespace {

struct F32x16 {
  __m256 l, h;
};
struct I32x16 {
  __m256i l, h;
};
struct U8x64 {
  __m256i l, h;
};

constexpr bool kWideRegisters = false;

/// All ones in the first n of 8 lanes.
LANES_INLINE __m256i FirstEight(int64_t n) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int32_t>(n)), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

LANES_INLINE F32x16 Zero() { return {_mm256_setzero_ps(), _mm256_setzero_ps()}; }
LANES_INLINE F32x16 Set(float x) {
  const __m256 a = _mm256_set1_ps(x);
  return {a, a};
}
LANES_INLINE F32x16 Load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
LANES_INLINE F32x16 LoadPartial(const float* p, int64_t n) {
  return {_mm256_maskload_ps(p, FirstEight(n)),
          n > 8 ? _mm256_maskload_ps(p + 8, FirstEight(n - 8)) : _mm256_setzero_ps()};
}
LANES_INLINE void Store(float* p, F32x16 a) {
  _mm256_storeu_ps(p, a.l);
  _mm256_storeu_ps(p + 8, a.h);
}
LANES_INLINE void StorePartial(float* p, F32x16 a, int64_t n) {
  _mm256_maskstore_ps(p, FirstEight(n), a.l);
  if (n > 8) _mm256_maskstore_ps(p + 8, FirstEight(n - 8), a.h);
}

LANES_INLINE F32x16 Add(F32x16 a, F32x16 b) { return {_mm256_add_ps(a.l, b.l), _mm256_add_ps(a.h, b.h)}; }
LANES_INLINE F32x16 Sub(F32x16 a, F32x16 b) { return {_mm256_sub_ps(a.l, b.l), _mm256_sub_ps(a.h, b.h)}; }
LANES_INLINE F32x16 Mul(F32x16 a, F32x16 b) { return {_mm256_mul_ps(a.l, b.l), _mm256_mul_ps(a.h, b.h)}; }
LANES_INLINE F32x16 Div(F32x16 a, F32x16 b) { return {_mm256_div_ps(a.l, b.l), _mm256_div_ps(a.h, b.h)}; }
LANES_INLINE F32x16 Fma(F32x16 a, F32x16 b, F32x16 c) {
  return {_mm256_fmadd_ps(a.l, b.l, c.l), _mm256_fmadd_ps(a.h, b.h, c.h)};
}
LANES_INLINE F32x16 MinusFma(F32x16 a, F32x16 b, F32x16 c) {
  return {_mm256_fnmadd_ps(a.l, b.l, c.l), _mm256_fnmadd_ps(a.h, b.h, c.h)};
}
LANES_INLINE F32x16 Max(F32x16 a, F32x16 b) { return {_mm256_max_ps(a.l, b.l), _mm256_max_ps(a.h, b.h)}; }
LANES_INLINE F32x16 Min(F32x16 a, F32x16 b) { return {_mm256_min_ps(a.l, b.l), _mm256_min_ps(a.h, b.h)}; }
LANES_INLINE F32x16 Abs(F32x16 a) {
  const __m256 sign = _mm256_set1_ps(-0.0f);
  return {_mm256_andnot_ps(sign, a.l), _mm256_andnot_ps(sign, a.h)};
}
LANES_INLINE F32x16 SelectLess(F32x16 a, F32x16 b, F32x16 then, F32x16 otherwise) {
  return {_mm256_blendv_ps(otherwise.l, then.l, _mm256_cmp_ps(a.l, b.l, _CMP_LT_OQ)),
          _mm256_blendv_ps(otherwise.h, then.h, _mm256_cmp_ps(a.h, b.h, _CMP_LT_OQ))};
}
LANES_INLINE F32x16 KeepLanes(F32x16 a, int64_t first, int64_t last, F32x16 other) {
  const __m256i l = _mm256_andnot_si256(FirstEight(first), FirstEight(last));
  const __m256i h = _mm256_andnot_si256(FirstEight(first - 8), FirstEight(last - 8));
  return {_mm256_blendv_ps(other.l, a.l, _mm256_castsi256_ps(l)),
          _mm256_blendv_ps(other.h, a.h, _mm256_castsi256_ps(h))};
}

LANES_INLINE float Sum(F32x16 a) {
  const __m256 b = _mm256_add_ps(a.l, a.h);
  const __m128 c = _mm_add_ps(_mm256_castps256_ps128(b), _mm256_extractf128_ps(b, 1));
  const __m128 d = _mm_add_ps(c, _mm_movehl_ps(c, c));
  return _mm_cvtss_f32(_mm_add_ss(d, _mm_movehdup_ps(d)));
}
LANES_INLINE float Largest(F32x16 a) {
  const __m256 b = _mm256_max_ps(a.l, a.h);
  const __m128 c = _mm_max_ps(_mm256_castps256_ps128(b), _mm256_extractf128_ps(b, 1));
  const __m128 d = _mm_max_ps(c, _mm_movehl_ps(c, c));
  return _mm_cvtss_f32(_mm_max_ss(d, _mm_movehdup_ps(d)));
}

LANES_INLINE __m128i LoadHalf(const void* p) { return _mm_loadu_si128(static_cast<const __m128i*>(p)); }
LANES_INLINE F32x16 LoadF16(const uint16_t* p) {
  return {_mm256_cvtph_ps(LoadHalf(p)), _mm256_cvtph_ps(LoadHalf(p + 8))};
}
LANES_INLINE void StoreF16Partial(uint16_t* p, F32x16 a, int64_t n) {
  uint16_t copy[16];
  _mm_storeu_si128(reinterpret_cast<__m128i*>(copy), _mm256_cvtps_ph(a.l, _MM_FROUND_TO_NEAREST_INT));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(copy + 8), _mm256_cvtps_ph(a.h, _MM_FROUND_TO_NEAREST_INT));
  __builtin_memcpy(p, copy, static_cast<size_t>(n) * 2);
}
LANES_INLINE __m256 ConvertBf16(__m128i a) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(a), 16));
}
LANES_INLINE F32x16 LoadBf16(const uint16_t* p) { return {ConvertBf16(LoadHalf(p)), ConvertBf16(LoadHalf(p + 8))}; }
LANES_INLINE __m256i RoundBf16(__m256 a) {
  const __m256i bits = _mm256_castps_si256(a);
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
  const __m256i rounded = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff)));
  const __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x400000));
  const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(a, a, _CMP_UNORD_Q));
  return _mm256_srli_epi32(_mm256_blendv_epi8(rounded, quiet, nan), 16);
}
LANES_INLINE void StoreBf16Partial(uint16_t* p, F32x16 a, int64_t n) {
  uint16_t copy[16];
  const __m256i both = _mm256_permute4x64_epi64(_mm256_packus_epi32(RoundBf16(a.l), RoundBf16(a.h)), 0xd8);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(copy), both);
  __builtin_memcpy(p, copy, static_cast<size_t>(n) * 2);
}
LANES_INLINE F32x16 LoadU8(const uint8_t* p) {
  const __m128i a = LoadHalf(p);
  return {_mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(a)), _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_srli_si128(a, 8)))};
}
LANES_INLINE F32x16 LoadI8(const uint8_t* p) {
  const __m128i a = LoadHalf(p);
  return {_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(a)), _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_srli_si128(a, 8)))};
}
LANES_INLINE __m256 InOrder(__m256 a) { return _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(a), 0xd8)); }
LANES_INLINE void Deinterleave(const float* p, F32x16* even, F32x16* odd) {
  const __m256 a = _mm256_loadu_ps(p), b = _mm256_loadu_ps(p + 8), c = _mm256_loadu_ps(p + 16),
               d = _mm256_loadu_ps(p + 24);
  *even = {InOrder(_mm256_shuffle_ps(a, b, 0x88)), InOrder(_mm256_shuffle_ps(c, d, 0x88))};
  *odd = {InOrder(_mm256_shuffle_ps(a, b, 0xdd)), InOrder(_mm256_shuffle_ps(c, d, 0xdd))};
}
LANES_INLINE void InterleaveEight(__m256 even, __m256 odd, float* p) {
  const __m256 a = _mm256_unpacklo_ps(even, odd), b = _mm256_unpackhi_ps(even, odd);
  _mm256_storeu_ps(p, _mm256_permute2f128_ps(a, b, 0x20));
  _mm256_storeu_ps(p + 8, _mm256_permute2f128_ps(a, b, 0x31));
}
LANES_INLINE void Interleave(F32x16 even, F32x16 odd, float* p) {
  InterleaveEight(even.l, odd.l, p);
  InterleaveEight(even.h, odd.h, p + 16);
}

LANES_INLINE I32x16 SetInt(int32_t x) {
  const __m256i a = _mm256_set1_epi32(x);
  return {a, a};
}
LANES_INLINE I32x16 ZeroInt() { return {_mm256_setzero_si256(), _mm256_setzero_si256()}; }
LANES_INLINE I32x16 SubInt(I32x16 a, I32x16 b) { return {_mm256_sub_epi32(a.l, b.l), _mm256_sub_epi32(a.h, b.h)}; }
template <int kBits>
LANES_INLINE I32x16 ShiftLeftInt(I32x16 a) {
  return {_mm256_slli_epi32(a.l, kBits), _mm256_slli_epi32(a.h, kBits)};
}
LANES_INLINE F32x16 ToFloat(I32x16 a) { return {_mm256_cvtepi32_ps(a.l), _mm256_cvtepi32_ps(a.h)}; }
LANES_INLINE I32x16 RoundToInt(F32x16 a) { return {_mm256_cvtps_epi32(a.l), _mm256_cvtps_epi32(a.h)}; }
LANES_INLINE __m256 PowerOfTwoEight(__m256i n) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(n, _mm256_set1_epi32(127)), 23));
}
LANES_INLINE F32x16 PowerOfTwo(I32x16 n) { return {PowerOfTwoEight(n.l), PowerOfTwoEight(n.h)}; }
LANES_INLINE int32_t SumInt(I32x16 a) {
  const __m256i b = _mm256_add_epi32(a.l, a.h);
  const __m128i c = _mm_add_epi32(_mm256_castsi256_si128(b), _mm256_extracti128_si256(b, 1));
  const __m128i d = _mm_add_epi32(c, _mm_shuffle_epi32(c, 0x4e));
  return _mm_cvtsi128_si32(_mm_add_epi32(d, _mm_shuffle_epi32(d, 0xb1)));
}
LANES_INLINE void StoreI8(int8_t* p, I32x16 a) {
  const __m256i words = _mm256_permute4x64_epi64(_mm256_packs_epi32(a.l, a.h), 0xd8);
  const __m128i bytes = _mm_packs_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), bytes);
}

LANES_INLINE U8x64 LoadBytes(const uint8_t* p) {
  return {_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)),
          _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p + 32))};
}
LANES_INLINE U8x64 OrBytes(U8x64 a, U8x64 b) { return {_mm256_or_si256(a.l, b.l), _mm256_or_si256(a.h, b.h)}; }
template <int kMask>
LANES_INLINE U8x64 AndBytes(U8x64 a) {
  const __m256i mask = _mm256_set1_epi8(kMask);
  return {_mm256_and_si256(a.l, mask), _mm256_and_si256(a.h, mask)};
}
/// Shifts 16-bit pairs, so bits may cross between the two bytes of a pair: mask afterwards.
template <int kBits>
LANES_INLINE U8x64 ShiftBytes(U8x64 a) {
  if constexpr (kBits >= 0)
    return {_mm256_slli_epi16(a.l, kBits), _mm256_slli_epi16(a.h, kBits)};
  else
    return {_mm256_srli_epi16(a.l, -kBits), _mm256_srli_epi16(a.h, -kBits)};
}
LANES_INLINE U8x64 LookUp(U8x64 q, const uint8_t* table) {
  const __m256i t = _mm256_broadcastsi128_si256(LoadHalf(table));
  return {_mm256_shuffle_epi8(t, q.l), _mm256_shuffle_epi8(t, q.h)};
}
LANES_INLINE __m256i Broadcast4Bytes(const int8_t* x) {
  int32_t four;
  __builtin_memcpy(&four, x, 4);
  return _mm256_set1_epi32(four);
}

#ifdef __AVXVNNI__
constexpr bool kUnsignedEightBits = true;
constexpr int kMostRows = 16;
LANES_INLINE I32x16 DotOne(I32x16 s, U8x64 a, const int8_t* xa) {
  const __m256i x = Broadcast4Bytes(xa);
  return {_mm256_dpbusd_avx_epi32(s.l, a.l, x), _mm256_dpbusd_avx_epi32(s.h, a.h, x)};
}
LANES_INLINE I32x16 DotPair(I32x16 s, U8x64 a, const int8_t* xa, U8x64 b, const int8_t* xb) {
  return DotOne(DotOne(s, a, xa), b, xb);
}
LANES_INLINE I32x16 DotEightBits(I32x16 s, U8x64 a, const int8_t* xa) { return DotOne(s, a, xa); }
#else
constexpr bool kUnsignedEightBits = false;
constexpr int kMostRows = 4;
LANES_INLINE __m256i AddPairs(__m256i s, __m256i products) {
  return _mm256_add_epi32(s, _mm256_madd_epi16(products, _mm256_set1_epi16(1)));
}
LANES_INLINE I32x16 DotPair(I32x16 s, U8x64 a, const int8_t* xa, U8x64 b, const int8_t* xb) {
  const __m256i x = Broadcast4Bytes(xa), y = Broadcast4Bytes(xb);
  return {AddPairs(s.l, _mm256_add_epi16(_mm256_maddubs_epi16(a.l, x), _mm256_maddubs_epi16(b.l, y))),
          AddPairs(s.h, _mm256_add_epi16(_mm256_maddubs_epi16(a.h, x), _mm256_maddubs_epi16(b.h, y)))};
}
LANES_INLINE I32x16 DotOne(I32x16 s, U8x64 a, const int8_t* xa) {
  const __m256i x = Broadcast4Bytes(xa);
  return {AddPairs(s.l, _mm256_maddubs_epi16(a.l, x)), AddPairs(s.h, _mm256_maddubs_epi16(a.h, x))};
}
/// w| <= 128 times +-x with |x| <= 127: the sum of two products fits in 16 bits.
LANES_INLINE __m256i DotEightBitsHalf(__m256i s, __m256i a, __m256i x) {
  const __m256i w = _mm256_xor_si256(a, _mm256_set1_epi8(-128));
  return AddPairs(s, _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(x, w)));
}
LANES_INLINE I32x16 DotEightBits(I32x16 s, U8x64 a, const int8_t* xa) {
  const __m256i x = Broadcast4Bytes(xa);
  return {DotEightBitsHalf(s.l, a.l, x), DotEightBitsHalf(s.h, a.h, x)};
}
#endif

}  // namespace
}  // namespace ringside::cpu::RINGSIDE_LANES

#include "kernels/cpu/isa/lanes_halves.h"
