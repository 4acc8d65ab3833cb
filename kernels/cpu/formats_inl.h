// Unpacks a block of 32 quantized weights of 16 outputs (panels.h) into 8 groups of bytes and scales, per format.
// Groups<J> returns group J (inputs 4 J ... 4 J + 3) and group J + 4. w is the weight's value, q its stored integer:
//
//   Q8_0  w = d (q - 128)     Q4_0  w = d (q - 8)     Q5_0  w = d (q - 16)     Q4_1, Q5_1  w = d q + m
//   Q4_K, Q5_K  w = (D s) q - (E t)    s, t: the block's 6-bit scale and minimum; D, E: the super-block's float16
//   Q6_K  w = D s (q - 32)             s: int8, one for inputs 0 ... 15 and one for 16 ... 31
//   Q3_K  w = D s (q - 4)              s: as in Q6_K
//   Q2_K  w = (D s) q - (E t)          s, t: 4 bits, for 16 inputs each
//   IQ4_NL  w = d v[q]                 v: code_values.h
//   IQ4_XS  w = D s v[q]               s: 6 bits, signed
//   MXFP4  w = d v[q]                  d: a power of two
//   Q4_Z  w = d (q - z)                z: a byte
//   IQ3_XXS, IQ3_S  w = D f s v[q]     s: a byte; f: a power of two
//   IQ1_M, IQ2_S  w = D f s v[q]       s: a byte, for 16 inputs each
//   ScaledI8  w = d (q - 128)          d: float32
//   ScaledNVFP4  w = D s v[q]          D: float32; s: E4M3, for 16 inputs each
//
// Products of a float16 and a scale of at most 8 bits are exact in float32, and so are all integer sums and their
// products with scales of 16 inputs: all are below 2^24. NVFP4's two products are added with one rounding. Included by
// one file per instruction set.
#pragma once

#include "kernels/cpu/isa/lanes_prefix.h"
#include "kernels/cpu/kernel_table.h"
#include "kernels/cpu/panels.h"
#include "kernels/formats/code_values.h"
#include "kernels/formats/half.h"

namespace ringside::cpu::RINGSIDE_LANES {
namespace {

struct BlockScales {
  F32x16 d, m;           // of the block; with two scales: of the super-block
  F32x16 low, high;      // the two scales
  F32x16 low_m, high_m;  // Q2_K: the two minima
};

LANES_INLINE const uint16_t* Halves(const uint8_t* p) { return reinterpret_cast<const uint16_t*>(p); }

template <int J>
LANES_INLINE void Nibbles(const uint8_t* p, U8x64* a, U8x64* b) {
  const U8x64 both = LoadBytes(p + 64 * J);
  *a = AndBytes<15>(both);
  *b = AndBytes<15>(ShiftBytes<-4>(both));
}
template <int J>
LANES_INLINE void NibblesAndFifthBits(const uint8_t* p, int64_t high, U8x64* a, U8x64* b) {
  Nibbles<J>(p, a, b);
  const U8x64 bits = LoadBytes(p + high);
  *a = OrBytes(*a, AndBytes<16>(ShiftBytes<4 - J>(bits)));
  *b = OrBytes(*b, AndBytes<16>(ShiftBytes<-J>(bits)));
}

/// Nibbles of a group, mapped to their values.
template <int J>
LANES_INLINE void Codes(const uint8_t* p, const uint8_t* values, U8x64* a, U8x64* b) {
  Nibbles<J>(p, a, b);
  *a = LookUp(*a, values);
  *b = LookUp(*b, values);
}
template <int J>
LANES_INLINE void BitPairs(const uint8_t* p, U8x64* a, U8x64* b) {
  *a = AndBytes<3>(ShiftBytes<-2 * J>(LoadBytes(p)));
  *b = AndBytes<3>(ShiftBytes<-2 * J>(LoadBytes(p + 64)));
}

/// Three-bit integers: pairs, and single bits above them.
template <int J>
LANES_INLINE void ThreeBits(const uint8_t* p, int64_t high, U8x64* a, U8x64* b) {
  BitPairs<J>(p, a, b);
  const U8x64 bits = LoadBytes(p + high);
  *a = OrBytes(*a, AndBytes<4>(ShiftBytes<2 - J>(bits)));
  *b = OrBytes(*b, AndBytes<4>(ShiftBytes<-2 - J>(bits)));
}

/// 2^-8 times 16 numbers in E4M3, none of them NaN.
LANES_INLINE F32x16 LoadSmallE4M3(const uint8_t* p) {
  uint16_t small[16];
  // Shifting the sign as well fills bit 14 with it, which belongs to no exponent of E4M3.
  for (int i = 0; i < 16; ++i) small[i] = static_cast<uint16_t>(static_cast<int16_t>(p[i] << 8) >> 1 & 0xbf80);
  return LoadF16(small);
}

/// Code values as bytes, with an offset added.
struct CodeBytes {
  uint8_t v[16];
};
constexpr CodeBytes WithOffset(const int8_t (&values)[16], int offset) {
  CodeBytes out{};
  for (int i = 0; i < 16; ++i) out.v[i] = static_cast<uint8_t>(values[i] + offset);
  return out;
}
constexpr CodeBytes kIq4Bytes = WithOffset(kIq4Values, 128), kMxfp4Bytes = WithOffset(kMxfp4Values, 16);
template <const CodeForm& kForm, int kOffset>
constexpr CodeBytes kBytesOf = WithOffset(kForm.values, kOffset);

template <int kOffsetBits>  // the format's offset is 2^kOffsetBits; -1: none
struct FormatBase {
  static constexpr int kOffset = kOffsetBits;
  static constexpr bool kMinimum = false, kTwoScales = false, kTwoMinima = false, kEightBits = false;
};

struct Q8_0 : FormatBase<7> {
  using Layout = Q8_0Layout;
  static constexpr bool kEightBits = true;
  template <int J>
  static LANES_INLINE void Groups(const uint8_t* p, U8x64* a, U8x64* b) {
    *a = LoadBytes(p + 64 * J);
    *b = LoadBytes(p + 64 * (J + 4));
  }
  static LANES_INLINE void Scales(const uint8_t*, const uint8_t* p, BlockScales* s) {
    s->d = LoadF16(Halves(p + Layout::kScales));
  }
};

struct Q4_0 : FormatBase<3> {
  using Layout = Q4_0Layout;
  template <int J>
  static LANES_INLINE void Groups(const uint8_t* p, U8x64* a, U8x64* b) {
    Nibbles<J>(p, a, b);
  }
  static LANES_INLINE void Scales(const uint8_t*, const uint8_t* p, BlockScales* s) {
    s->d = LoadF16(Halves(p + Layout::kScales));
  }
};

struct Q4_1 : FormatBase<-1> {
  using Layout = Q4_1Layout;
  static constexpr bool kMinimum = true;
  template <int J>
  static LANES_INLINE void Groups(const uint8_t* p, U8x64* a, U8x64* b) {
    Nibbles<J>(p, a, b);
  }
  static LANES_INLINE void Scales(const uint8_t*, const uint8_t* p, BlockScales* s) {
    s->d = LoadF16(Halves(p + Layout::kScales));
    s->m = LoadF16(Halves(p + Layout::kScales + kHalfRow));
  }
};

struct Q5_0 : FormatBase<4> {
  using Layout = Q5_0Layout;
  template <int J>
  static LANES_INLINE void Groups(const uint8_t* p, U8x64* a, U8x64* b) {
    NibblesAndFifthBits<J>(p, Layout::kHighPart, a, b);
  }
  static LANES_INLINE void Scales(const uint8_t*, const uint8_t* p, BlockScales* s) {
    s->d = LoadF16(Halves(p + Layout::kScales));
  }
};

struct Q5_1 : FormatBase<-1> {
  using Layout = Q5_1Layout;
  static constexpr bool kMinimum = true;
  template <int J>
  static LANES_INLINE void Groups(const uint8_t* p, U8x64* a, U8x64* b) {
    NibblesAndFifthBits<J>(p, Layout::kHighPart, a, b);
  }
  static LANES_INLINE void Scales(const uint8_t*, const uint8_t* p, BlockScales* s) {
    s->d = LoadF16(Halves(p + Layout::kScales));
    s->m = LoadF16(Halves(p + Layout::kScales + kHalfRow));
  }
};

/// Scale and minimum of a block of Q4_K or Q5_K; `header` holds the super-block's.
LANES_INLINE void ScalesK(const uint8_t* header, const uint8_t* scales, BlockScales* s) {
  s->d = Mul(LoadF16(Halves(header)), LoadU8(scales));
  s->m = Sub(Zero(), Mul(LoadF16(Halves(header + kHalfRow)), LoadU8(scales + 16)));
}

struct Q4_K : FormatBase<-1> {
  using Layout = Q4_KLayout;
  static constexpr bool kMinimum = true;
  template <int J>
  static LANES_INLINE void Groups(const uint8_t* p, U8x64* a, U8x64* b) {
    Nibbles<J>(p, a, b);
  }
  static LANES_INLINE void Scales(const uint8_t* header, const uint8_t* p, BlockScales* s) {
    ScalesK(header, p + Layout::kScales, s);
  }
};

struct Q5_K : FormatBase<-1> {
  using Layout = Q5_KLayout;
  static constexpr bool kMinimum = true;
  template <int J>
  static LANES_INLINE void Groups(const uint8_t* p, U8x64* a, U8x64* b) {
    NibblesAndFifthBits<J>(p, Layout::kHighPart, a, b);
  }
  static LANES_INLINE void Scales(const uint8_t* header, const uint8_t* p, BlockScales* s) {
    ScalesK(header, p + Layout::kScales, s);
  }
};

struct Q6_K : FormatBase<5> {
  using Layout = Q6_KLayout;
  static constexpr bool kTwoScales = true;
  template <int J>
  static LANES_INLINE void Groups(const uint8_t* p, U8x64* a, U8x64* b) {
    Nibbles<J>(p, a, b);
    *a = OrBytes(*a, AndBytes<48>(ShiftBytes<4 - 2 * J>(LoadBytes(p + Layout::kHighPart))));
    *b = OrBytes(*b, AndBytes<48>(ShiftBytes<4 - 2 * J>(LoadBytes(p + Layout::kHighPart + 64))));
  }
  static LANES_INLINE void Scales(const uint8_t* header, const uint8_t* p, BlockScales* s) {
    s->d = LoadF16(Halves(header));
    s->low = LoadI8(p + Layout::kScales);
    s->high = LoadI8(p + Layout::kScales + 16);
  }
};

struct Q3_K : FormatBase<2> {
  using Layout = Q3_KLayout;
  static constexpr bool kTwoScales = true;
  template <int J>
  static LANES_INLINE void Groups(const uint8_t* p, U8x64* a, U8x64* b) {
    ThreeBits<J>(p, Layout::kHighPart, a, b);
  }
  static LANES_INLINE void Scales(const uint8_t* header, const uint8_t* p, BlockScales* s) {
    s->d = LoadF16(Halves(header));
    s->low = LoadI8(p + Layout::kScales);
    s->high = LoadI8(p + Layout::kScales + 16);
  }
};

struct Q2_K : FormatBase<-1> {
  using Layout = Q2_KLayout;
  static constexpr bool kTwoScales = true, kTwoMinima = true;
  template <int J>
  static LANES_INLINE void Groups(const uint8_t* p, U8x64* a, U8x64* b) {
    BitPairs<J>(p, a, b);
  }
  static LANES_INLINE void Scales(const uint8_t* header, const uint8_t* p, BlockScales* s) {
    s->d = LoadF16(Halves(header));
    s->m = LoadF16(Halves(header + kHalfRow));
    SplitNibbles(LoadU8(p + Layout::kScales), &s->low, &s->low_m);
    SplitNibbles(LoadU8(p + Layout::kScales + 16), &s->high, &s->high_m);
  }
  /// Splits bytes held as floats. The high half is (byte - low half) / 16, and the low half is within 7.5 of 7.5.
  static LANES_INLINE void SplitNibbles(F32x16 bytes, F32x16* low, F32x16* high) {
    *high = ToFloat(RoundToInt(Mul(Sub(bytes, Set(7.5f)), Set(0.0625f))));
    *low = MinusFma(*high, Set(16.0f), bytes);
  }
};

struct IQ4_NL : FormatBase<7> {
  using Layout = IQ4_NLLayout;
  static constexpr bool kEightBits = true;
  template <int J>
  static LANES_INLINE void Groups(const uint8_t* p, U8x64* a, U8x64* b) {
    Codes<J>(p, kIq4Bytes.v, a, b);
  }
  static LANES_INLINE void Scales(const uint8_t*, const uint8_t* p, BlockScales* s) {
    s->d = LoadF16(Halves(p + Layout::kScales));
  }
};

struct IQ4_XS : FormatBase<7> {
  using Layout = IQ4_XSLayout;
  static constexpr bool kEightBits = true;
  template <int J>
  static LANES_INLINE void Groups(const uint8_t* p, U8x64* a, U8x64* b) {
    Codes<J>(p, kIq4Bytes.v, a, b);
  }
  static LANES_INLINE void Scales(const uint8_t* header, const uint8_t* p, BlockScales* s) {
    s->d = Mul(LoadF16(Halves(header)), LoadI8(p + Layout::kScales));
  }
};

struct MXFP4 : FormatBase<4> {
  using Layout = MXFP4Layout;
  template <int J>
  static LANES_INLINE void Groups(const uint8_t* p, U8x64* a, U8x64* b) {
    Codes<J>(p, kMxfp4Bytes.v, a, b);
  }
  /// Half of 2^(e - 127) for the byte e. 2^-127 is subnormal, which PowerOfTwo does not support.
  static LANES_INLINE void Scales(const uint8_t*, const uint8_t* p, BlockScales* s) {
    const F32x16 power = PowerOfTwo(RoundToInt(Sub(LoadU8(p + Layout::kScales), Set(127.0f))));
    s->d = Mul(Max(power, Set(0x1p-127f)), Set(0.5f));
  }
};

struct Q4_Z : FormatBase<-1> {
  using Layout = Q4_ZLayout;
  static constexpr bool kMinimum = true;
  template <int J>
  static LANES_INLINE void Groups(const uint8_t* p, U8x64* a, U8x64* b) {
    Nibbles<J>(p, a, b);
  }
  static LANES_INLINE void Scales(const uint8_t*, const uint8_t* p, BlockScales* s) {
    s->d = LoadF16(Halves(p + Layout::kScales));
    s->m = Sub(Zero(), Mul(s->d, LoadU8(p + Layout::kScales + kHalfRow)));
  }
};

/// One scale and 4-bit codes per block. The product of D, f and s is exact.
template <class BlockLayout, const CodeForm& kForm, int kOffsetBits>
struct FourBitCodes : FormatBase<kOffsetBits> {
  using Layout = BlockLayout;
  template <int J>
  static LANES_INLINE void Groups(const uint8_t* p, U8x64* a, U8x64* b) {
    Codes<J>(p, kBytesOf<kForm, 1 << kOffsetBits>.v, a, b);
  }
  static LANES_INLINE void Scales(const uint8_t* header, const uint8_t* p, BlockScales* s) {
    s->d = Mul(Mul(LoadF16(Halves(header)), LoadU8(p + Layout::kScales)), Set(kForm.factor));
  }
};
struct IQ3_XXS : FourBitCodes<IQ3_XXSLayout, kIq3XxsForm, 5> {};
struct IQ3_S : FourBitCodes<IQ3_SLayout, kIq3SForm, 4> {};

/// Two scales and 3-bit codes per block.
template <class BlockLayout, const CodeForm& kForm, int kOffsetBits>
struct ThreeBitCodes : FormatBase<kOffsetBits> {
  using Layout = BlockLayout;
  static constexpr bool kTwoScales = true;
  template <int J>
  static LANES_INLINE void Groups(const uint8_t* p, U8x64* a, U8x64* b) {
    ThreeBits<J>(p, Layout::kHighPart, a, b);
    *a = LookUp(*a, kBytesOf<kForm, 1 << kOffsetBits>.v);
    *b = LookUp(*b, kBytesOf<kForm, 1 << kOffsetBits>.v);
  }
  static LANES_INLINE void Scales(const uint8_t* header, const uint8_t* p, BlockScales* s) {
    s->d = Mul(LoadF16(Halves(header)), Set(kForm.factor));
    s->low = LoadU8(p + Layout::kScales);
    s->high = LoadU8(p + Layout::kScales + 16);
  }
};
struct IQ2_S : ThreeBitCodes<IQ2_SLayout, kIq2Form, 6> {};
struct IQ1_M : ThreeBitCodes<IQ1_MLayout, kIq1Form, 4> {};

LANES_INLINE F32x16 FloatScales(const uint8_t* p) { return Load(reinterpret_cast<const float*>(p)); }

struct ScaledI8 : FormatBase<7> {
  using Layout = ScaledI8Layout;
  static constexpr bool kEightBits = true;
  template <int J>
  static LANES_INLINE void Groups(const uint8_t* p, U8x64* a, U8x64* b) {
    Q8_0::Groups<J>(p, a, b);
  }
  static LANES_INLINE void Scales(const uint8_t*, const uint8_t* p, BlockScales* s) {
    s->d = FloatScales(p + Layout::kScales);
  }
};

struct ScaledNVFP4 : FormatBase<4> {
  using Layout = ScaledNVFP4Layout;
  static constexpr bool kTwoScales = true;
  template <int J>
  static LANES_INLINE void Groups(const uint8_t* p, U8x64* a, U8x64* b) {
    Codes<J>(p, kMxfp4Bytes.v, a, b);
  }
  /// Codes count in halves, and LoadSmallE4M3 in 2^-8.
  static LANES_INLINE void Scales(const uint8_t* header, const uint8_t* p, BlockScales* s) {
    s->d = Mul(FloatScales(header), Set(128.0f));
    s->low = LoadSmallE4M3(p + Layout::kScales);
    s->high = LoadSmallE4M3(p + Layout::kScales + 16);
  }
};

// Float weights: 16 outputs of one input. kInputs inputs share the scales at their start.
struct Unscaled {
  static constexpr int64_t kInputs = 1, kHeader = 0;
  struct Scales {};
  static LANES_INLINE Scales ReadScales(const uint8_t*) { return {}; }
};
struct FloatF32 : Unscaled {
  static constexpr int64_t kBytes = 64;
  static LANES_INLINE F32x16 Read(const uint8_t* p, Scales) { return Load(reinterpret_cast<const float*>(p)); }
};
struct FloatF16 : Unscaled {
  static constexpr int64_t kBytes = 32;
  static LANES_INLINE F32x16 Read(const uint8_t* p, Scales) { return LoadF16(Halves(p)); }
};
struct FloatBf16 : Unscaled {
  static constexpr int64_t kBytes = 32;
  static LANES_INLINE F32x16 Read(const uint8_t* p, Scales) { return LoadBf16(Halves(p)); }
};
/// A weight is rounded as in FileBlockValue: the factor of 2^8 is exact.
struct ScaledE4M3 {
  static constexpr int64_t kInputs = kE4M3Unit, kHeader = kFloatRow, kBytes = 16;
  using Scales = F32x16;
  static LANES_INLINE Scales ReadScales(const uint8_t* p) { return Mul(FloatScales(p), Set(256.0f)); }
  static LANES_INLINE F32x16 Read(const uint8_t* p, Scales scales) { return Mul(LoadSmallE4M3(p), scales); }
};

}  // namespace
}  // namespace ringside::cpu::RINGSIDE_LANES
