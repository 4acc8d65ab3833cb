// float16, bfloat16 and E4M3 by integer arithmetic, for machines and files without the instructions. Rounding is to
// nearest, ties to even; NaN stays NaN. Internal to the including file, like the lanes.
// THREAD: any.
#pragma once

#include <cstdint>

namespace ringside {
namespace {

inline float BitsToFloat(uint32_t bits) {
  float x;
  __builtin_memcpy(&x, &bits, 4);
  return x;
}
inline uint32_t FloatToBits(float x) {
  uint32_t bits;
  __builtin_memcpy(&bits, &x, 4);
  return bits;
}

inline float HalfToFloat(uint16_t h) {
  const uint32_t sign = static_cast<uint32_t>(h & 0x8000) << 16, exponent = (h >> 10) & 31, mantissa = h & 1023;
  if (exponent == 31) return BitsToFloat(sign | 0x7f800000u | (mantissa != 0 ? 0x400000u : 0) | mantissa << 13);
  if (exponent != 0) return BitsToFloat(sign | (exponent + 112) << 23 | mantissa << 13);
  const float tiny = static_cast<float>(mantissa) * (1.0f / 16777216.0f);  // subnormal: mantissa * 2^-24, exact
  return BitsToFloat(sign | FloatToBits(tiny));
}

inline uint16_t FloatToHalf(float x) {
  const uint32_t bits = FloatToBits(x), sign = (bits >> 16) & 0x8000, magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000) return static_cast<uint16_t>(sign | 0x7e00 | ((magnitude >> 13) & 1023));
  if (magnitude >= 0x477ff000) return static_cast<uint16_t>(sign | 0x7c00);  // rounds to 65536 or is infinite
  if (magnitude < 0x38800000) {                                              // subnormal or zero
    // Adding 0.5 leaves the value in units of 2^-24 in the low mantissa bits, rounded to nearest even by the addition.
    const float shifted = BitsToFloat(magnitude) + 0.5f;
    return static_cast<uint16_t>(sign | (FloatToBits(shifted) - 0x3f000000u));
  }
  const uint32_t rounded = magnitude + 0xfff + ((magnitude >> 13) & 1);
  return static_cast<uint16_t>(sign | ((rounded - 0x38000000u) >> 13));
}

inline float Bf16ToFloat(uint16_t h) { return BitsToFloat(static_cast<uint32_t>(h) << 16); }

inline uint16_t FloatToBf16(float x) {
  const uint32_t bits = FloatToBits(x);
  if ((bits & 0x7fffffff) > 0x7f800000) return static_cast<uint16_t>((bits | 0x400000) >> 16);
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

/// The bits of a float16 that equals 2^-8 times an E4M3 number (Micikevicius et al. 2022): sign, 4 bits of exponent, 3
/// of mantissa, no infinity, magnitudes up to 448.
inline uint16_t E4M3ToSmallHalf(uint8_t x) {
  const int magnitude = x & 0x7f;
  return static_cast<uint16_t>((x & 0x80) << 8 | (magnitude == 0x7f ? 0x7e00 : magnitude << 7));
}
inline float E4M3ToFloat(uint8_t x) { return HalfToFloat(E4M3ToSmallHalf(x)) * 256.0f; }

/// Saturates at 448.
inline uint8_t FloatToE4M3(float x) {
  const uint32_t bits = FloatToBits(x), sign = bits >> 24 & 0x80, magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000) return static_cast<uint8_t>(sign | 0x7f);
  if (magnitude >= 0x43e00000) return static_cast<uint8_t>(sign | 0x7e);
  if (magnitude < 0x3c800000) {  // subnormal or zero: as for float16, in units of 2^-9
    return static_cast<uint8_t>(sign | (FloatToBits(BitsToFloat(magnitude) + 16384.0f) - 0x46800000u));
  }
  const uint32_t rounded = magnitude + 0x7ffff + ((magnitude >> 20) & 1);
  return static_cast<uint8_t>(sign | (rounded - 0x3c000000u) >> 20);
}

}  // namespace
}  // namespace ringside
