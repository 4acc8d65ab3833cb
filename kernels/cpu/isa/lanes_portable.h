// Sixteen lanes in plain C++: an array. Slow; the reference for the other implementations. See lanes_prefix.h.
#pragma once

#include "kernels/cpu/isa/lanes_prefix.h"
#include "kernels/formats/half.h"

namespace ringside::cpu::RINGSIDE_LANES {
namespace {

struct F32x16 {
  float v[16];
};
struct I32x16 {
  int32_t v[16];
};
struct U8x64 {
  uint8_t v[64];
};

constexpr bool kWideRegisters = false;
constexpr int kMostRows = 4;
constexpr bool kUnsignedEightBits = false;

template <class F>
LANES_INLINE F32x16 Each(F f) {
  F32x16 out;
  for (int i = 0; i < 16; ++i) out.v[i] = f(i);
  return out;
}

LANES_INLINE F32x16 Set(float x) {
  return Each([&](int) { return x; });
}
LANES_INLINE F32x16 Zero() { return Set(0); }
LANES_INLINE F32x16 Load(const float* p) {
  return Each([&](int i) { return p[i]; });
}
LANES_INLINE F32x16 LoadPartial(const float* p, int64_t n) {
  return Each([&](int i) { return i < n ? p[i] : 0; });
}
LANES_INLINE void StorePartial(float* p, F32x16 a, int64_t n) {
  for (int64_t i = 0; i < n; ++i) p[i] = a.v[i];
}
LANES_INLINE void Store(float* p, F32x16 a) { StorePartial(p, a, 16); }

LANES_INLINE F32x16 Add(F32x16 a, F32x16 b) {
  return Each([&](int i) { return a.v[i] + b.v[i]; });
}
LANES_INLINE F32x16 Sub(F32x16 a, F32x16 b) {
  return Each([&](int i) { return a.v[i] - b.v[i]; });
}
LANES_INLINE F32x16 Mul(F32x16 a, F32x16 b) {
  return Each([&](int i) { return a.v[i] * b.v[i]; });
}
LANES_INLINE F32x16 Div(F32x16 a, F32x16 b) {
  return Each([&](int i) { return a.v[i] / b.v[i]; });
}
LANES_INLINE F32x16 Fma(F32x16 a, F32x16 b, F32x16 c) {
  return Each([&](int i) { return __builtin_fmaf(a.v[i], b.v[i], c.v[i]); });
}
LANES_INLINE F32x16 MinusFma(F32x16 a, F32x16 b, F32x16 c) {
  return Each([&](int i) { return __builtin_fmaf(-a.v[i], b.v[i], c.v[i]); });
}
LANES_INLINE F32x16 Max(F32x16 a, F32x16 b) {
  return Each([&](int i) { return a.v[i] > b.v[i] ? a.v[i] : b.v[i]; });
}
LANES_INLINE F32x16 Min(F32x16 a, F32x16 b) {
  return Each([&](int i) { return a.v[i] < b.v[i] ? a.v[i] : b.v[i]; });
}
LANES_INLINE F32x16 Abs(F32x16 a) {
  return Each([&](int i) { return __builtin_fabsf(a.v[i]); });
}
LANES_INLINE F32x16 SelectLess(F32x16 a, F32x16 b, F32x16 then, F32x16 otherwise) {
  return Each([&](int i) { return a.v[i] < b.v[i] ? then.v[i] : otherwise.v[i]; });
}
LANES_INLINE F32x16 KeepLanes(F32x16 a, int64_t first, int64_t last, F32x16 other) {
  return Each([&](int i) { return i >= first && i < last ? a.v[i] : other.v[i]; });
}

LANES_INLINE float Sum(F32x16 a) {
  for (int half = 8; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) a.v[i] += a.v[i + half];
  }
  return a.v[0];
}
LANES_INLINE float Largest(F32x16 a) {
  for (int half = 8; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) a.v[i] = a.v[i] > a.v[i + half] ? a.v[i] : a.v[i + half];
  }
  return a.v[0];
}

LANES_INLINE F32x16 LoadF16(const uint16_t* p) {
  return Each([&](int i) { return HalfToFloat(p[i]); });
}
LANES_INLINE F32x16 LoadF16Partial(const uint16_t* p, int64_t n) {
  return Each([&](int i) { return i < n ? HalfToFloat(p[i]) : 0; });
}
LANES_INLINE void StoreF16Partial(uint16_t* p, F32x16 a, int64_t n) {
  for (int64_t i = 0; i < n; ++i) p[i] = FloatToHalf(a.v[i]);
}
LANES_INLINE F32x16 LoadBf16(const uint16_t* p) {
  return Each([&](int i) { return Bf16ToFloat(p[i]); });
}
LANES_INLINE F32x16 LoadBf16Partial(const uint16_t* p, int64_t n) {
  return Each([&](int i) { return i < n ? Bf16ToFloat(p[i]) : 0; });
}
LANES_INLINE void StoreBf16Partial(uint16_t* p, F32x16 a, int64_t n) {
  for (int64_t i = 0; i < n; ++i) p[i] = FloatToBf16(a.v[i]);
}
LANES_INLINE F32x16 LoadU8(const uint8_t* p) {
  return Each([&](int i) { return static_cast<float>(p[i]); });
}
LANES_INLINE F32x16 LoadI8(const uint8_t* p) {
  return Each([&](int i) { return static_cast<float>(static_cast<int8_t>(p[i])); });
}
LANES_INLINE void Deinterleave(const float* p, F32x16* even, F32x16* odd) {
  for (int i = 0; i < 16; ++i) even->v[i] = p[2 * i], odd->v[i] = p[2 * i + 1];
}
LANES_INLINE void Interleave(F32x16 even, F32x16 odd, float* p) {
  for (int i = 0; i < 16; ++i) p[2 * i] = even.v[i], p[2 * i + 1] = odd.v[i];
}

template <class F>
LANES_INLINE I32x16 EachInt(F f) {
  I32x16 out;
  for (int i = 0; i < 16; ++i) out.v[i] = f(i);
  return out;
}
LANES_INLINE I32x16 SetInt(int32_t x) {
  return EachInt([&](int) { return x; });
}
LANES_INLINE I32x16 ZeroInt() { return SetInt(0); }
LANES_INLINE I32x16 SubInt(I32x16 a, I32x16 b) {
  return EachInt([&](int i) { return a.v[i] - b.v[i]; });
}
template <int kBits>
LANES_INLINE I32x16 ShiftLeftInt(I32x16 a) {
  return EachInt([&](int i) { return a.v[i] * (1 << kBits); });
}
LANES_INLINE F32x16 ToFloat(I32x16 a) {
  return Each([&](int i) { return static_cast<float>(a.v[i]); });
}
LANES_INLINE I32x16 RoundToInt(F32x16 a) {
  return EachInt([&](int i) {
    const float x = a.v[i];
    return x >= -2147483648.0f && x < 2147483648.0f ? static_cast<int32_t>(__builtin_rintf(x)) : INT32_MIN;
  });
}
LANES_INLINE F32x16 PowerOfTwo(I32x16 n) {
  return Each([&](int i) { return BitsToFloat((static_cast<uint32_t>(n.v[i]) + 127u) << 23); });
}
LANES_INLINE int32_t SumInt(I32x16 a) {
  int32_t sum = 0;
  for (int i = 0; i < 16; ++i) sum += a.v[i];
  return sum;
}
LANES_INLINE void StoreI8(int8_t* p, I32x16 a) {
  for (int i = 0; i < 16; ++i) p[i] = static_cast<int8_t>(a.v[i]);
}

template <class F>
LANES_INLINE U8x64 EachByte(F f) {
  U8x64 out;
  for (int i = 0; i < 64; ++i) out.v[i] = static_cast<uint8_t>(f(i));
  return out;
}
LANES_INLINE U8x64 LoadBytes(const uint8_t* p) {
  return EachByte([&](int i) { return p[i]; });
}
LANES_INLINE U8x64 OrBytes(U8x64 a, U8x64 b) {
  return EachByte([&](int i) { return a.v[i] | b.v[i]; });
}
template <int kMask>
LANES_INLINE U8x64 AndBytes(U8x64 a) {
  return EachByte([&](int i) { return a.v[i] & kMask; });
}
template <int kBits>
LANES_INLINE U8x64 ShiftBytes(U8x64 a) {
  return EachByte([&](int i) { return kBits >= 0 ? a.v[i] << (kBits & 7) : a.v[i] >> (-kBits & 7); });
}
LANES_INLINE U8x64 LookUp(U8x64 q, const uint8_t* table) {
  return EachByte([&](int i) { return table[q.v[i]]; });
}
LANES_INLINE I32x16 DotOne(I32x16 s, U8x64 a, const int8_t* x) {
  return EachInt([&](int i) {
    const uint8_t* w = a.v + 4 * i;
    return s.v[i] + w[0] * x[0] + w[1] * x[1] + w[2] * x[2] + w[3] * x[3];
  });
}
LANES_INLINE I32x16 DotPair(I32x16 s, U8x64 a, const int8_t* xa, U8x64 b, const int8_t* xb) {
  return DotOne(DotOne(s, a, xa), b, xb);
}
LANES_INLINE I32x16 DotEightBits(I32x16 s, U8x64 a, const int8_t* x) {
  return EachInt([&](int i) {
    const uint8_t* w = a.v + 4 * i;
    return s.v[i] + (w[0] - 128) * x[0] + (w[1] - 128) * x[1] + (w[2] - 128) * x[2] + (w[3] - 128) * x[3];
  });
}

}  // namespace
}  // namespace ringside::cpu::RINGSIDE_LANES
