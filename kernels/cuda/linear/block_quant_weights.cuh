// Dequantizes block-quantized weights (block_quant_layout.h) to 16 bits. Integers of up to 6 bits become the low
// mantissa bits of a power of two in T, which takes one bit operation per pair; the contribution of that power is
// subtracted with the offset. Included by .cu files only.
#pragma once

#include <type_traits>

#include "kernels/cuda/device.cuh"
#include "kernels/cuda/linear/block_quant_layout.h"
#include "kernels/cuda/linear/w8_weights.cuh"

namespace ringside::cuda {

/// Tag type: a byte of tiles of kElementBits bits per element.
template <int kElementBits>
struct BlockQuant {
  static constexpr int kBits = kElementBits;
  using Tile = TileOf<kBits>;
  uint8_t byte;
};

template <class W>
constexpr bool kIsBlockQuant = false;
template <int kBits>
constexpr bool kIsBlockQuant<BlockQuant<kBits>> = true;

/// Whether sums over the inputs are multiplied by a scale or unit of their output.
template <class W>
constexpr bool kHasRowScales = sizeof(W) == 1;
template <>
constexpr bool kHasRowScales<BlockQuant<kE4M3>> = false;

/// The power of two whose low mantissa bits hold an integer, and a pair of these.
template <class T>
constexpr float kBase = 128;
template <>
constexpr float kBase<__half> = 1024;
__device__ __forceinline__ constexpr uint32_t BasePair(__nv_bfloat16) { return 0x43004300u; }
__device__ __forceinline__ constexpr uint32_t BasePair(__half) { return 0x64006400u; }

/// A scale and an offset to add.
struct ScaleAndOffset {
  float scale, offset;
};

/// (x & mask) | with, as one LOP3; the compiler does not find it if both masks are constants.
__device__ __forceinline__ uint32_t MaskedOr(uint32_t x, uint32_t mask, uint32_t with) {
  uint32_t out;
  asm("lop3.b32 %0, %1, %2, %3, 0xea;" : "=r"(out) : "r"(x), "r"(mask), "r"(with));
  return out;
}

__device__ __forceinline__ float2 HalvesOf(uint32_t pair) {
  return __half22float2(*reinterpret_cast<const __half2*>(&pair));
}

/// Doubled magnitudes of E2M1 codes as bytes, indexed by their low three bits (kernels/formats/code_values.h). Empty
/// for other types.
template <int kBits>
struct CodeTable {
  __device__ __forceinline__ void Hold() {}
};
template <>
struct CodeTable<kE2M1> {
  uint32_t low = 0x03020100u, high = 0x0c080604u;

  /// Keeps the words in registers; all lanes must call it. Otherwise the compiler would rematerialize the constants
  /// before every PRMT. The shuffle returns zero (lane 0 reads its own lane index), which the compiler cannot know.
  __device__ __forceinline__ void Hold() {
    for (uint32_t* word : {&low, &high}) *word |= __shfl_sync(0xffffffffu, threadIdx.x % 32, 0);
  }
  /// Table entries of those of the four codes in the lower half of a word whose sign bit is clear; 0 for the others,
  /// because PRMT then replicates the (clear) top bit of the table byte.
  __device__ __forceinline__ uint32_t Pick(uint32_t codes) const {
    uint32_t out;
    asm("prmt.b32 %0, %1, %2, %3;" : "=r"(out) : "r"(low), "r"(high), "r"(codes));
    return out;
  }
  /// Doubled values of the four codes in half h of a word, plus 12 (TileOf<kE2M1>::kMiddle).
  __device__ __forceinline__ uint32_t Bytes(uint32_t word, int h) const {
    return Pick(word >> 16 * h) + TileOf<kE2M1>::kMiddle * 0x01010101u - Pick((word ^ 0x88888888u) >> 16 * h);
  }
};
/// Pair i of a word of E2M1 codes as numbers of T with the same bits. Their doubled value is kOfCodes times that;
/// subnormals are exact too.
template <class T>
__device__ __forceinline__ uint32_t PairOfCodes(uint32_t word, int i, T) {
  constexpr int kExponent = std::is_same_v<T, __half> ? 9 : 6;         // position in T of a code's three magnitude bits
  const uint32_t two = __byte_perm(word, 0, i < 2 ? 0x4140 : 0x4342);  // one byte of codes for each element of T
  return MaskedOr(two << (kExponent - CodeShift(i % 2)), (7u << kExponent) * 0x00010001u,
                  (two << (12 - CodeShift(i % 2))) & 0x80008000u);
}
/// Type tag of the elements of byte tiles (w8_weights.cuh).
template <int kBits>
using ByteType = std::conditional_t<kBits == kE4M3, E4M3, Int8>;
template <class T, int kBits>
constexpr float kOfCodes = 1;
template <>
constexpr float kOfCodes<__nv_bfloat16, kE2M1> = 0x1p127f;
template <>
constexpr float kOfCodes<__half, kE2M1> = 0x1p15f;

template <class T>
struct PairTypeOf {
  using Type = __nv_bfloat162;
};
template <>
struct PairTypeOf<__half> {
  using Type = __half2;
};
template <class T>
using PairType = typename PairTypeOf<T>::Type;

template <class T>
__device__ __forceinline__ PairType<T> PairOfValue(float x) {
  if constexpr (std::is_same_v<T, __half>) {
    return __float2half2_rn(x);
  } else {
    return __float2bfloat162_rn(x);
  }
}

/// One lane's share of a tile: 32 inputs of a row.
template <int kBits>
struct LaneTile {
  using Tile = TileOf<kBits>;
  static constexpr float kMiddle = Tile::kMiddle;
  uint32_t low[Tile::kHasBytes ? 8 : 4];  // or bytes
  uint32_t pairs[2], singles;
  uint32_t scales[Tile::kHasTileScale ? 1 : Tile::kRowScales / 4];  // the scale of an E4M3 tile is loaded by the caller
  CodeTable<kBits> table;

  __device__ __forceinline__ void Load(const unsigned char* tile, int lane) {
    if constexpr (kBits >= 4) LoadFloat4(low, tile + lane * 16);
    if constexpr (Tile::kHasBytes) LoadFloat4(low + 4, tile + 512 + lane * 16);
    if constexpr (Tile::kHasPair) LoadTwo(pairs, tile + Tile::kPairs + lane * 8);
    if constexpr (Tile::kHasSingle) singles = *reinterpret_cast<const uint32_t*>(tile + Tile::kSingles + lane * 4);
    const unsigned char* own = tile + Tile::kScales + lane / 4 * Tile::kRowScales;
    if constexpr (Tile::kRowScales == 8) {
      LoadTwo(scales, own);
    } else {
#pragma unroll
      for (int i = 0; i < Tile::kRowScales; i += 16) LoadFloat4(scales + i / 4, own + i);
    }
  }
  __device__ __forceinline__ void SetTileScale(float scale) { scales[0] = __float_as_uint(scale); }

  /// Inputs 8 i + 2 j and 8 i + 2 j + 1 of group g, j = lane % 4, as T. Their value is Scale().scale times that, plus
  /// Scale().offset.
  template <class T>
  __device__ __forceinline__ uint32_t Pair(int g, int i) const {
    if constexpr (Tile::kHasBytes) {
      const uint32_t word = low[g * 2 + i / 2];
      return i % 2 == 0 ? LowPair(word, ByteType<kBits>(), T()) : HighPair(word, ByteType<kBits>(), T());
    } else {
      if constexpr (Tile::kHasCodes) return PairOfCodes(low[g], i, T());
      return Elements<0x00010001u>(g, i, BasePair(T()));
    }
  }
  /// The lane's four integers of half h of group g as bytes: inputs 16 h + 2 j, 16 h + 8 + 2 j and the input after
  /// each. For codes: their doubled values plus kMiddle. Not for 8-bit elements.
  __device__ __forceinline__ uint32_t Bytes(int g, int h) const {
    static_assert(!Tile::kHasBytes);
    if constexpr (Tile::kHasCodes) return table.Bytes(low[g], h);
    return Elements<0x01010101u>(g, 2 * h, 0);
  }
  /// Scale and offset to apply to pairs 2 half and 2 half + 1 of group g as returned by Pair. `half` matters only if
  /// halves have scales of their own.
  template <class T>
  __device__ __forceinline__ ScaleAndOffset Scale(int g, int half) const {
    const ScaleAndOffset own = Stored(g, half);
    if constexpr (Tile::kHasBytes) return {own.scale * kConversionScale<T, ByteType<kBits>>, 0};
    if constexpr (Tile::kHasCodes) return {own.scale * kOfCodes<T, kBits>, 0};
    return {own.scale, Tile::kHasOffset ? fmaf(-kBase<T>, own.scale, own.offset) : -(kBase<T> + kMiddle) * own.scale};
  }
  /// A group's scale and offset in T, for Rounded.
  template <class T>
  struct InType {
    PairType<T> scale, offset;
  };
  template <class T>
  __device__ __forceinline__ InType<T> ScaleInType(int g, int half) const {
    if constexpr (Tile::kHasTileScale) return {};
    const ScaleAndOffset own = Stored(g, half);
    if constexpr (!Tile::kHasOffset) return {PairOfValue<T>(own.scale * kOfCodes<T, kBits>), {}};
    return {PairOfValue<T>(own.scale), PairOfValue<T>(fmaf(kMiddle, own.scale, own.offset))};
  }
  /// The pair in the row's units, in T. The centred integer is exact; its product with the scale and the remaining
  /// offset are each rounded to T. E4M3 tiles: the exact values in units of the tile's scale.
  template <class T>
  __device__ __forceinline__ uint32_t Rounded(int g, int i, const InType<T>& by) const {
    const uint32_t bits = Pair<T>(g, i);
    if constexpr (Tile::kHasTileScale) return bits;
    PairType<T> x = *reinterpret_cast<const PairType<T>*>(&bits);
    if constexpr (kBits == 8) {
      // Converts to integers; float16 needs two steps because a single factor would exceed its range.
      if constexpr (std::is_same_v<T, __half>) x = __hmul2(x, BitsAsPair<T>(0x78007800u));   // 2^15
      x = __hmul2(x, BitsAsPair<T>(std::is_same_v<T, __half> ? 0x60006000u : 0x42804280u));  // 2^9, 2^6
      x = __hmul2(x, by.scale);
    } else if constexpr (Tile::kHasCodes) {
      x = __hmul2(x, by.scale);
    } else {
      x = __hsub2(x, BitsAsPair<T>(BasePair(T()) | static_cast<uint32_t>(kMiddle) * 0x10001u));
      x = Tile::kHasOffset ? __hfma2(x, by.scale, by.offset) : __hmul2(x, by.scale);
    }
    return *reinterpret_cast<const uint32_t*>(&x);
  }

  static __device__ __forceinline__ float2 Floats(uint32_t pair, __half) { return HalvesOf(pair); }
  static __device__ __forceinline__ float2 Floats(uint32_t pair, __nv_bfloat16) {
    return {__uint_as_float(pair << 16), __uint_as_float(pair & 0xffff0000u)};
  }

 private:
  /// The elements of group g that start at pair i's bit positions, one for each set bit of kOnes, OR-ed onto `with`.
  template <uint32_t kOnes>
  __device__ __forceinline__ uint32_t Elements(int g, int i, uint32_t with) const {
    if constexpr (Tile::kHasLow) with = MaskedOr(low[g] >> LowShift(i), 15 * kOnes, with);
    if constexpr (Tile::kHasPair) {
      constexpr int kShift = Tile::kPairShift;
      with = MaskedOr(Shifted(pairs[g / 2], PairShift(g, i) - kShift), (3u << kShift) * kOnes, with);
    }
    if constexpr (Tile::kHasSingle) {
      constexpr int kShift = Tile::kSingleShift;
      with = MaskedOr(Shifted(singles, SingleShift(g, i) - kShift), (1u << kShift) * kOnes, with);
    }
    return with;
  }
  /// Stored scale and offset; the offset is 0 for types without one.
  __device__ __forceinline__ ScaleAndOffset Stored(int g, int half) const {
    if constexpr (Tile::kHasTileScale) return {__uint_as_float(scales[0]), 0};
    const int n = g * Tile::kHalves + half % Tile::kHalves;
    if constexpr (Tile::kHasOffset) {
      const float2 two = HalvesOf(scales[n]);
      return {two.x, two.y};
    }
    const float2 two = HalvesOf(scales[n / 2]);
    return {n % 2 == 0 ? two.x : two.y, 0};
  }
  template <class T>
  static __device__ __forceinline__ PairType<T> BitsAsPair(uint32_t bits) {
    return *reinterpret_cast<const PairType<T>*>(&bits);
  }
  static __device__ __forceinline__ uint32_t Shifted(uint32_t x, int right) {
    return right >= 0 ? x >> right : x << -right;
  }
  static __device__ __forceinline__ void LoadFloat4(uint32_t* to, const unsigned char* from) {
    const uint4 four = *reinterpret_cast<const uint4*>(from);
    to[0] = four.x, to[1] = four.y, to[2] = four.z, to[3] = four.w;
  }
  static __device__ __forceinline__ void LoadTwo(uint32_t* to, const unsigned char* from) {
    const uint2 two = *reinterpret_cast<const uint2*>(from);
    to[0] = two.x, to[1] = two.y;
  }
};

/// One element of a weight with `cols` inputs, in units of its row, or of its tile's scale.
template <int kBits>
__device__ float LoadBlockQuantOf(const unsigned char* tiles, int64_t row, int64_t c, int64_t cols) {
  const int g = static_cast<int>(c % kTileInputs / 32), i = static_cast<int>(c % 32), tile_row = row % kTileRows;
  const unsigned char* tile = tiles + TileNumber(row, c / kTileInputs, TilesAcross(cols)) * TileOf<kBits>::kBytes;
  LaneTile<kBits> lane;
  lane.Load(tile, tile_row * 4 + i % 8 / 2);
  if constexpr (TileOf<kBits>::kHasTileScale) lane.SetTileScale(1);
  // The indices are known only at run time; the unrolled loop keeps the lane's data in registers.
  float value = 0;
#pragma unroll
  for (int place = 0; place < 16; ++place) {
    const int group = place / 4, pair = place % 4;
    const ScaleAndOffset by = lane.template Scale<__half>(group, pair / 2);
    const float2 two = LaneTile<kBits>::Floats(lane.template Pair<__half>(group, pair), __half());
    if (group == g && pair == i / 8) value = fmaf(i % 2 == 0 ? two.x : two.y, by.scale, by.offset);
  }
  return value;
}
/// As stored, with its unit or scale.
__device__ __forceinline__ float LoadBlockQuant(const void* weight, DType dtype, const float* scales, int64_t row,
                                                int64_t c, int64_t cols) {
  const auto* tiles = static_cast<const unsigned char*>(weight);
  const float scale = scales[dtype == DType::kBlockQuantE4M3 ? TileScaleAt(row, c / kTileInputs, cols) : row];
  return scale * WithBits(BitsOf(dtype),
                          [&](auto bits) { return LoadBlockQuantOf<decltype(bits)::value>(tiles, row, c, cols); });
}

}  // namespace ringside::cuda
