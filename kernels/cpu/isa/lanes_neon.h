// Sixteen lanes on NEON (AArch64): four registers; their integer dot products are in neon_products.h. See
// lanes_prefix.h for the semantics of each operation. Included only by files compiled for this instruction set, inside
// their own namespace.
#pragma once

#include <arm_neon.h>

#include <cstddef>

#include "kernels/cpu/isa/lanes_prefix.h"

namespace ringside::cpu::RINGSIDE_LANES {
namespace {

struct F32x16 {
  float32x4_t v[4];
};
struct I32x16 {
  int32x4_t v[4];
};
struct U8x64 {
  uint8x16_t v[4];
};

constexpr bool kWideRegisters = false;
constexpr int kMostRows = 4;

/// The four registers f(0) ... f(3).
template <class T, class F>
LANES_INLINE T Each(F f) {
  return {{f(0), f(1), f(2), f(3)}};
}
template <class F>
LANES_INLINE F32x16 EachFloat(F f) {
  return Each<F32x16>(f);
}
template <class F>
LANES_INLINE I32x16 EachInt(F f) {
  return Each<I32x16>(f);
}
template <class F>
LANES_INLINE U8x64 EachByte(F f) {
  return Each<U8x64>(f);
}

LANES_INLINE F32x16 Set(float x) {
  return EachFloat([&](int) LANES_LAMBDA { return vdupq_n_f32(x); });
}
LANES_INLINE F32x16 Zero() { return Set(0); }
LANES_INLINE F32x16 Load(const float* p) {
  return EachFloat([&](int i) LANES_LAMBDA { return vld1q_f32(p + 4 * i); });
}
LANES_INLINE F32x16 LoadPartial(const float* p, int64_t n) {
  float copy[16] = {};
  __builtin_memcpy(copy, p, static_cast<size_t>(n) * 4);
  return Load(copy);
}
LANES_INLINE void Store(float* p, F32x16 a) { LANES_UNROLL for (int i = 0; i < 4; ++i) vst1q_f32(p + 4 * i, a.v[i]); }
LANES_INLINE void StorePartial(float* p, F32x16 a, int64_t n) {
  float copy[16];
  Store(copy, a);
  __builtin_memcpy(p, copy, static_cast<size_t>(n) * 4);
}

LANES_INLINE F32x16 Add(F32x16 a, F32x16 b) {
  return EachFloat([&](int i) LANES_LAMBDA { return vaddq_f32(a.v[i], b.v[i]); });
}
LANES_INLINE F32x16 Sub(F32x16 a, F32x16 b) {
  return EachFloat([&](int i) LANES_LAMBDA { return vsubq_f32(a.v[i], b.v[i]); });
}
LANES_INLINE F32x16 Mul(F32x16 a, F32x16 b) {
  return EachFloat([&](int i) LANES_LAMBDA { return vmulq_f32(a.v[i], b.v[i]); });
}
LANES_INLINE F32x16 Div(F32x16 a, F32x16 b) {
  return EachFloat([&](int i) LANES_LAMBDA { return vdivq_f32(a.v[i], b.v[i]); });
}
LANES_INLINE F32x16 Fma(F32x16 a, F32x16 b, F32x16 c) {
  return EachFloat([&](int i) LANES_LAMBDA { return vfmaq_f32(c.v[i], a.v[i], b.v[i]); });
}
LANES_INLINE F32x16 MinusFma(F32x16 a, F32x16 b, F32x16 c) {
  return EachFloat([&](int i) LANES_LAMBDA { return vfmsq_f32(c.v[i], a.v[i], b.v[i]); });
}
// Not vmaxq_f32: it returns NaN if either operand is NaN, and +0 for zeros of either sign.
LANES_INLINE float32x4_t MaxFour(float32x4_t a, float32x4_t b) { return vbslq_f32(vcgtq_f32(a, b), a, b); }
LANES_INLINE F32x16 Max(F32x16 a, F32x16 b) {
  return EachFloat([&](int i) LANES_LAMBDA { return MaxFour(a.v[i], b.v[i]); });
}
LANES_INLINE F32x16 Min(F32x16 a, F32x16 b) {
  return EachFloat([&](int i) LANES_LAMBDA { return vbslq_f32(vcltq_f32(a.v[i], b.v[i]), a.v[i], b.v[i]); });
}
LANES_INLINE F32x16 Abs(F32x16 a) {
  return EachFloat([&](int i) LANES_LAMBDA { return vabsq_f32(a.v[i]); });
}
LANES_INLINE F32x16 SelectLess(F32x16 a, F32x16 b, F32x16 then, F32x16 otherwise) {
  return EachFloat([&](int i) LANES_LAMBDA { return vbslq_f32(vcltq_f32(a.v[i], b.v[i]), then.v[i], otherwise.v[i]); });
}
LANES_INLINE F32x16 KeepLanes(F32x16 a, int64_t first, int64_t last, F32x16 other) {
  static constexpr int32_t kLane[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  const int32x4_t from = vdupq_n_s32(static_cast<int32_t>(first)), to = vdupq_n_s32(static_cast<int32_t>(last));
  return EachFloat([&](int i) LANES_LAMBDA {
    const int32x4_t lane = vld1q_s32(kLane + 4 * i);
    return vbslq_f32(vandq_u32(vcgeq_s32(lane, from), vcltq_s32(lane, to)), a.v[i], other.v[i]);
  });
}

LANES_INLINE float Sum(F32x16 a) {
  const float32x4_t b = vaddq_f32(vaddq_f32(a.v[0], a.v[2]), vaddq_f32(a.v[1], a.v[3]));
  const float32x2_t c = vadd_f32(vget_low_f32(b), vget_high_f32(b));
  return vget_lane_f32(c, 0) + vget_lane_f32(c, 1);
}
LANES_INLINE float Largest(F32x16 a) {
  const float32x4_t b = MaxFour(MaxFour(a.v[0], a.v[2]), MaxFour(a.v[1], a.v[3]));
  const float32x4_t c = MaxFour(b, vextq_f32(b, b, 2));
  const float x = vgetq_lane_f32(c, 0), y = vgetq_lane_f32(c, 1);
  return x > y ? x : y;
}

LANES_INLINE F32x16 LoadF16(const uint16_t* p) {
  return EachFloat([&](int i) LANES_LAMBDA { return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p + 4 * i))); });
}
LANES_INLINE void StoreF16Partial(uint16_t* p, F32x16 a, int64_t n) {
  uint16_t copy[16];
  LANES_UNROLL for (int i = 0; i < 4; ++i) vst1_u16(copy + 4 * i, vreinterpret_u16_f16(vcvt_f16_f32(a.v[i])));
  __builtin_memcpy(p, copy, static_cast<size_t>(n) * 2);
}
LANES_INLINE F32x16 LoadBf16(const uint16_t* p) {
  return EachFloat([&](int i) LANES_LAMBDA { return vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(p + 4 * i), 16)); });
}
LANES_INLINE uint16x4_t RoundBf16(float32x4_t a) {
  const uint32x4_t bits = vreinterpretq_u32_f32(a);
  const uint32x4_t odd = vandq_u32(vshrq_n_u32(bits, 16), vdupq_n_u32(1));
  const uint32x4_t rounded = vaddq_u32(bits, vaddq_u32(odd, vdupq_n_u32(0x7fff)));
  const uint32x4_t quiet = vorrq_u32(bits, vdupq_n_u32(0x400000));
  return vshrn_n_u32(vbslq_u32(vceqq_f32(a, a), rounded, quiet), 16);
}
LANES_INLINE void StoreBf16Partial(uint16_t* p, F32x16 a, int64_t n) {
  uint16_t copy[16];
  LANES_UNROLL for (int i = 0; i < 4; ++i) vst1_u16(copy + 4 * i, RoundBf16(a.v[i]));
  __builtin_memcpy(p, copy, static_cast<size_t>(n) * 2);
}
LANES_INLINE F32x16 LoadU8(const uint8_t* p) {
  const uint8x16_t a = vld1q_u8(p);
  const uint16x8_t l = vmovl_u8(vget_low_u8(a)), h = vmovl_high_u8(a);
  return {{vcvtq_f32_u32(vmovl_u16(vget_low_u16(l))), vcvtq_f32_u32(vmovl_high_u16(l)),
           vcvtq_f32_u32(vmovl_u16(vget_low_u16(h))), vcvtq_f32_u32(vmovl_high_u16(h))}};
}
LANES_INLINE F32x16 LoadI8(const uint8_t* p) {
  const int8x16_t a = vreinterpretq_s8_u8(vld1q_u8(p));
  const int16x8_t l = vmovl_s8(vget_low_s8(a)), h = vmovl_high_s8(a);
  return {{vcvtq_f32_s32(vmovl_s16(vget_low_s16(l))), vcvtq_f32_s32(vmovl_high_s16(l)),
           vcvtq_f32_s32(vmovl_s16(vget_low_s16(h))), vcvtq_f32_s32(vmovl_high_s16(h))}};
}
LANES_INLINE void Deinterleave(const float* p, F32x16* even, F32x16* odd) {
  LANES_UNROLL for (int i = 0; i < 4; ++i) {
    const float32x4x2_t both = vld2q_f32(p + 8 * i);
    even->v[i] = both.val[0], odd->v[i] = both.val[1];
  }
}
LANES_INLINE void Interleave(F32x16 even, F32x16 odd, float* p) {
  LANES_UNROLL for (int i = 0; i < 4; ++i) vst2q_f32(p + 8 * i, float32x4x2_t{{even.v[i], odd.v[i]}});
}

LANES_INLINE I32x16 SetInt(int32_t x) {
  return EachInt([&](int) LANES_LAMBDA { return vdupq_n_s32(x); });
}
LANES_INLINE I32x16 ZeroInt() { return SetInt(0); }
LANES_INLINE I32x16 SubInt(I32x16 a, I32x16 b) {
  return EachInt([&](int i) LANES_LAMBDA { return vsubq_s32(a.v[i], b.v[i]); });
}
template <int kBits>
LANES_INLINE I32x16 ShiftLeftInt(I32x16 a) {
  return EachInt([&](int i) LANES_LAMBDA { return vshlq_n_s32(a.v[i], kBits); });
}
LANES_INLINE F32x16 ToFloat(I32x16 a) {
  return EachFloat([&](int i) LANES_LAMBDA { return vcvtq_f32_s32(a.v[i]); });
}
/// The conversion saturates; from 2^31 on, and for NaN, the result is INT32_MIN.
LANES_INLINE I32x16 RoundToInt(F32x16 a) {
  return EachInt([&](int i) LANES_LAMBDA {
    return vbslq_s32(vcltq_f32(a.v[i], vdupq_n_f32(0x1p31f)), vcvtnq_s32_f32(a.v[i]), vdupq_n_s32(INT32_MIN));
  });
}
LANES_INLINE F32x16 PowerOfTwo(I32x16 n) {
  return EachFloat(
      [&](int i) LANES_LAMBDA { return vreinterpretq_f32_s32(vshlq_n_s32(vaddq_s32(n.v[i], vdupq_n_s32(127)), 23)); });
}
LANES_INLINE int32_t SumInt(I32x16 a) {
  return vaddvq_s32(vaddq_s32(vaddq_s32(a.v[0], a.v[2]), vaddq_s32(a.v[1], a.v[3])));
}
LANES_INLINE void StoreI8(int8_t* p, I32x16 a) {
  const int16x8_t l = vcombine_s16(vmovn_s32(a.v[0]), vmovn_s32(a.v[1]));
  const int16x8_t h = vcombine_s16(vmovn_s32(a.v[2]), vmovn_s32(a.v[3]));
  vst1q_s8(p, vcombine_s8(vmovn_s16(l), vmovn_s16(h)));
}

LANES_INLINE U8x64 LoadBytes(const uint8_t* p) {
  return EachByte([&](int i) LANES_LAMBDA { return vld1q_u8(p + 16 * i); });
}
LANES_INLINE U8x64 OrBytes(U8x64 a, U8x64 b) {
  return EachByte([&](int i) LANES_LAMBDA { return vorrq_u8(a.v[i], b.v[i]); });
}
template <int kMask>
LANES_INLINE U8x64 AndBytes(U8x64 a) {
  return EachByte([&](int i) LANES_LAMBDA { return vandq_u8(a.v[i], vdupq_n_u8(kMask)); });
}
template <int kBits>
LANES_INLINE U8x64 ShiftBytes(U8x64 a) {
  if constexpr (kBits >= 0)
    return EachByte([&](int i) LANES_LAMBDA { return vshlq_n_u8(a.v[i], kBits); });
  else
    return EachByte([&](int i) LANES_LAMBDA { return vshrq_n_u8(a.v[i], -kBits); });
}
LANES_INLINE U8x64 LookUp(U8x64 q, const uint8_t* table) {
  const uint8x16_t t = vld1q_u8(table);
  return EachByte([&](int i) LANES_LAMBDA { return vqtbl1q_u8(t, q.v[i]); });
}

}  // namespace
}  // namespace ringside::cpu::RINGSIDE_LANES

#include "kernels/cpu/isa/lanes_halves.h"
