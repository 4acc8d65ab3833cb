// Weights in tiles (grouped_layout.h) on their way to 16 bits. Integers of up to 6 bits come as the last bits of a
// number of T that is a power of two, so that a pair costs one operation on bits; what that power adds to a product
// goes with the offset. Included by .cu files only.
#pragma once

#include <type_traits>

#include "kernels/cuda/device.cuh"
#include "kernels/cuda/linear/grouped_layout.h"
#include "kernels/cuda/linear/quantised_weights.cuh"

namespace ringside::cuda {

/// A byte of tiles of so many bits an element.
template <int kElementBits>
struct Grouped {
  static constexpr int kBits = kElementBits;
  using Tile = TileOf<kBits>;
  uint8_t byte;
};

template <class W>
constexpr bool kIsGrouped = false;
template <int kBits>
constexpr bool kIsGrouped<Grouped<kBits>> = true;

/// The power of two that integers come on top of, and a pair of it.
template <class T>
constexpr float kBase = 128;
template <>
constexpr float kBase<__half> = 1024;
__device__ __forceinline__ constexpr uint32_t BasePair(__nv_bfloat16) { return 0x43004300u; }
__device__ __forceinline__ constexpr uint32_t BasePair(__half) { return 0x64006400u; }

/// A scale, and what to add.
struct ScaleAndOffset {
  float scale, offset;
};

/// (x & mask) | with. As one operation, which the compiler does not find where both others are constants.
__device__ __forceinline__ uint32_t MaskedOr(uint32_t x, uint32_t mask, uint32_t with) {
  uint32_t out;
  asm("lop3.b32 %0, %1, %2, %3, 0xea;" : "=r"(out) : "r"(x), "r"(mask), "r"(with));
  return out;
}

__device__ __forceinline__ float2 HalvesOf(uint32_t pair) {
  return __half22float2(*reinterpret_cast<const __half2*>(&pair));
}

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

/// What a lane holds of a tile: 32 inputs of a row.
template <int kBits>
struct LaneTile {
  using Tile = TileOf<kBits>;
  static constexpr float kMiddle = kBits == 4 ? 8 : kBits == 5 ? 16 : 32;  // integers less it are about zero
  uint32_t low[kBits == 8 ? 8 : 4];
  uint32_t high[2];
  uint32_t scales[4];

  __device__ __forceinline__ void Load(const unsigned char* tile, int lane) {
    LoadFour(low, tile + lane * 16);
    if constexpr (kBits == 8) LoadFour(low + 4, tile + 512 + lane * 16);
    if constexpr (kBits == 5) high[0] = *reinterpret_cast<const uint32_t*>(tile + Tile::kHigh + lane * 4);
    if constexpr (kBits == 6) LoadTwo(high, tile + Tile::kHigh + lane * 8);
    const unsigned char* own = tile + Tile::kScales + lane / 4 * Tile::kRowScales;
    if constexpr (kBits == 8) {
      LoadTwo(scales, own);
    } else {
      LoadFour(scales, own);
    }
  }

  /// Inputs 8 i + 2 j and 8 i + 2 j + 1 of group g, j = lane % 4, as T: Value times them and Add is what they stand
  /// for.
  template <class T>
  __device__ __forceinline__ uint32_t Pair(int g, int i) const {
    if constexpr (kBits == 8) {
      const uint32_t word = low[g * 2 + i / 2];
      return i % 2 == 0 ? LowPair(word, Int8(), T()) : HighPair(word, Int8(), T());
    } else {
      const uint32_t pair = MaskedOr(low[g] >> LowShift(i), 0x000f000fu, BasePair(T()));
      if constexpr (kBits == 5) return MaskedOr(Shifted(high[0], FifthShift(g, i) - 4), 0x00100010u, pair);
      if constexpr (kBits == 6) return MaskedOr(Shifted(high[g / 2], HighShift(g, i) - 4), 0x00300030u, pair);
      return pair;
    }
  }
  /// The lane's four integers of half h of group g, of up to 6 bits, as bytes: of inputs 16 h + 2 j, 16 h + 8 + 2 j and
  /// those behind these two.
  __device__ __forceinline__ uint32_t Bytes(int g, int h) const {
    static_assert(kBits <= 6);
    const uint32_t bytes = (low[g] >> LowShift(2 * h)) & 0x0f0f0f0fu;
    if constexpr (kBits == 5) return MaskedOr(Shifted(high[0], FifthShift(g, 2 * h) - 4), 0x10101010u, bytes);
    if constexpr (kBits == 6) return MaskedOr(Shifted(high[g / 2], HighShift(g, 2 * h) - 4), 0x30303030u, bytes);
    return bytes;
  }
  /// Of group g, and of 6 bits of its half: pairs 2 half and 2 half + 1.
  template <class T>
  __device__ __forceinline__ ScaleAndOffset Scale(int g, int half) const {
    if constexpr (kBits == 8) return {HalfScale(g) * kUnitOf<T, Int8>, 0};
    const float2 two = HalvesOf(scales[g]), offsets = OffsetsOf<T>(two);
    if constexpr (kBits == 6) return half == 0 ? ScaleAndOffset{two.x, offsets.x} : ScaleAndOffset{two.y, offsets.y};
    return {two.x, offsets.x};
  }
  /// Of what a group's scales say, or of 6 bits those of its halves: what is to be added, if the pairs are taken as
  /// Pair gives them.
  template <class T>
  static __device__ __forceinline__ float2 OffsetsOf(float2 two) {
    if constexpr (kBits == 6) return {-(kBase<T> + 32) * two.x, -(kBase<T> + 32) * two.y};
    const float offset = fmaf(-kBase<T>, two.x, two.y);
    return {offset, offset};
  }
  /// What a group's pairs are multiplied by and what is added, in T: for Rounded.
  template <class T>
  struct InType {
    PairType<T> scale, offset;
  };
  template <class T>
  __device__ __forceinline__ InType<T> ScaleInType(int g, int half) const {
    if constexpr (kBits == 8) return {PairOfValue<T>(HalfScale(g)), {}};
    const float2 two = HalvesOf(scales[g]);
    if constexpr (kBits == 6) return {PairOfValue<T>(half == 0 ? two.x : two.y), {}};
    return {PairOfValue<T>(two.x), PairOfValue<T>(fmaf(kMiddle, two.x, two.y))};
  }
  /// The pair in its row's units, in T: an integer about zero, exact, times the scale, plus what is left of the offset,
  /// each of which is rounded to T.
  template <class T>
  __device__ __forceinline__ uint32_t Rounded(int g, int i, const InType<T>& by) const {
    const uint32_t bits = Pair<T>(g, i);
    PairType<T> x = *reinterpret_cast<const PairType<T>*>(&bits);
    if constexpr (kBits == 8) {
      // To integers, in two steps in float16, whose numbers do not reach as far.
      if constexpr (std::is_same_v<T, __half>) x = __hmul2(x, BitsAsPair<T>(0x78007800u));   // 2^15
      x = __hmul2(x, BitsAsPair<T>(std::is_same_v<T, __half> ? 0x60006000u : 0x42804280u));  // 2^9, 2^6
      x = __hmul2(x, by.scale);
    } else {
      x = __hsub2(x, BitsAsPair<T>(BasePair(T()) | static_cast<uint32_t>(kMiddle) * 0x10001u));
      x = kBits == 6 ? __hmul2(x, by.scale) : __hfma2(x, by.scale, by.offset);
    }
    return *reinterpret_cast<const uint32_t*>(&x);
  }

  static __device__ __forceinline__ float2 Floats(uint32_t pair, __half) { return HalvesOf(pair); }
  static __device__ __forceinline__ float2 Floats(uint32_t pair, __nv_bfloat16) {
    return {__uint_as_float(pair << 16), __uint_as_float(pair & 0xffff0000u)};
  }

 private:
  template <class T>
  static __device__ __forceinline__ PairType<T> BitsAsPair(uint32_t bits) {
    return *reinterpret_cast<const PairType<T>*>(&bits);
  }
  /// Of group g of 8 bits.
  __device__ __forceinline__ float HalfScale(int g) const {
    const float2 two = HalvesOf(scales[g / 2]);
    return g % 2 == 0 ? two.x : two.y;
  }
  static __device__ __forceinline__ uint32_t Shifted(uint32_t x, int right) {
    return right >= 0 ? x >> right : x << -right;
  }
  static __device__ __forceinline__ void LoadFour(uint32_t* to, const unsigned char* from) {
    const uint4 four = *reinterpret_cast<const uint4*>(from);
    to[0] = four.x, to[1] = four.y, to[2] = four.z, to[3] = four.w;
  }
  static __device__ __forceinline__ void LoadTwo(uint32_t* to, const unsigned char* from) {
    const uint2 two = *reinterpret_cast<const uint2*>(from);
    to[0] = two.x, to[1] = two.y;
  }
};

/// One element of a weight with `cols` inputs, in its row's units.
template <int kBits>
__device__ float LoadGroupedOf(const unsigned char* tiles, int64_t row, int64_t c, int64_t cols) {
  const int g = static_cast<int>(c % kTileInputs / 32), i = static_cast<int>(c % 32), tile_row = row % kTileRows;
  const unsigned char* tile = tiles + TileNumber(row, c / kTileInputs, TilesAcross(cols)) * TileOf<kBits>::kBytes;
  LaneTile<kBits> lane;
  lane.Load(tile, tile_row * 4 + i % 8 / 2);
  // Indices known at run time only: by a loop, so that the lane stays in registers.
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
__device__ __forceinline__ float LoadGrouped(const void* weight, DType dtype, int64_t row, int64_t c, int64_t cols) {
  const auto* tiles = static_cast<const unsigned char*>(weight);
  switch (dtype) {
    case DType::kGrouped4:
      return LoadGroupedOf<4>(tiles, row, c, cols);
    case DType::kGrouped5:
      return LoadGroupedOf<5>(tiles, row, c, cols);
    case DType::kGrouped6:
      return LoadGroupedOf<6>(tiles, row, c, cols);
    default:
      return LoadGroupedOf<8>(tiles, row, c, cols);
  }
}

}  // namespace ringside::cuda
