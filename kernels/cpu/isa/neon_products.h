// Integer dot products of lanes_neon.h for three generations of processors: with i8mm (USDOT), with dotprod (SDOT), and
// without (widening multiplies). See lanes_prefix.h for the semantics.
#pragma once

#include "kernels/cpu/isa/lanes_neon.h"

namespace ringside::cpu::RINGSIDE_LANES {
namespace {

LANES_INLINE int8x16_t Broadcast4Bytes(const int8_t* x) {
  int32_t four;
  __builtin_memcpy(&four, x, 4);
  return vreinterpretq_s8_s32(vdupq_n_s32(four));
}
/// Bytes at most 127.
LANES_INLINE int8x16_t AsSigned(uint8x16_t a) { return vreinterpretq_s8_u8(a); }
/// Bytes stored with + 128.
LANES_INLINE int8x16_t WithoutOffset(uint8x16_t a) { return AsSigned(veorq_u8(a, vdupq_n_u8(128))); }

#ifdef __ARM_FEATURE_MATMUL_INT8
constexpr bool kUnsignedEightBits = true;
LANES_INLINE I32x16 DotOne(I32x16 s, U8x64 a, const int8_t* xa) {
  const int8x16_t x = Broadcast4Bytes(xa);
  return EachInt([&](int i) LANES_LAMBDA { return vusdotq_s32(s.v[i], a.v[i], x); });
}
LANES_INLINE I32x16 DotEightBits(I32x16 s, U8x64 a, const int8_t* xa) { return DotOne(s, a, xa); }
#else
constexpr bool kUnsignedEightBits = false;
#ifdef __ARM_FEATURE_DOTPROD
LANES_INLINE int32x4_t DotSigned(int32x4_t s, int8x16_t a, int8x16_t x) { return vdotq_s32(s, a, x); }
#else
/// |a| <= 128 times |x| <= 127: the sum of two products fits in 16 bits.
LANES_INLINE int32x4_t DotSigned(int32x4_t s, int8x16_t a, int8x16_t x) {
  return vpadalq_s16(s, vpaddq_s16(vmull_s8(vget_low_s8(a), vget_low_s8(x)), vmull_high_s8(a, x)));
}
#endif
LANES_INLINE I32x16 DotOne(I32x16 s, U8x64 a, const int8_t* xa) {
  const int8x16_t x = Broadcast4Bytes(xa);
  return EachInt([&](int i) LANES_LAMBDA { return DotSigned(s.v[i], AsSigned(a.v[i]), x); });
}
LANES_INLINE I32x16 DotEightBits(I32x16 s, U8x64 a, const int8_t* xa) {
  const int8x16_t x = Broadcast4Bytes(xa);
  return EachInt([&](int i) LANES_LAMBDA { return DotSigned(s.v[i], WithoutOffset(a.v[i]), x); });
}
#endif

#ifdef __ARM_FEATURE_DOTPROD
LANES_INLINE I32x16 DotPair(I32x16 s, U8x64 a, const int8_t* xa, U8x64 b, const int8_t* xb) {
  return DotOne(DotOne(s, a, xa), b, xb);
}
#else
/// a and b are at most 63: the sum of four products fits in 16 bits.
LANES_INLINE I32x16 DotPair(I32x16 s, U8x64 a, const int8_t* xa, U8x64 b, const int8_t* xb) {
  const int8x16_t x = Broadcast4Bytes(xa), y = Broadcast4Bytes(xb);
  return EachInt([&](int i) LANES_LAMBDA {
    const int8x16_t c = AsSigned(a.v[i]), d = AsSigned(b.v[i]);
    const int16x8_t low = vmlal_s8(vmull_s8(vget_low_s8(c), vget_low_s8(x)), vget_low_s8(d), vget_low_s8(y));
    return vpadalq_s16(s.v[i], vpaddq_s16(low, vmlal_high_s8(vmull_high_s8(c, x), d, y)));
  });
}
#endif

}  // namespace
}  // namespace ringside::cpu::RINGSIDE_LANES
