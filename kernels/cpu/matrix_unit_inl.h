// Row tiles (row_tiles_inl.h) on NEON with i8mm: USMMLA multiplies 8 inputs of 2 outputs by 8 inputs of 2 rows. The
// float operations are the same as elsewhere (linear_inl.h). Included only by isa_neon_i8mm.cpp.
#pragma once

#include "kernels/cpu/row_tiles_inl.h"

namespace ringside::cpu::RINGSIDE_LANES {
namespace {

constexpr bool kTileUnit = true;

/// Integer sums of two rows: [p] has outputs 2 p and 2 p + 1, each of the first and of the second row.
struct PairSums {
  int32x4_t v[8];
};

LANES_INLINE PairSums ZeroPairSums() {
  PairSums s;
  LANES_UNROLL for (int p = 0; p < 8; ++p) s.v[p] = vdupq_n_s32(0);
  return s;
}

/// Adds the products of inputs [16 kHalf, 16 kHalf + 16) of rows x[0] and x[1].
template <int kHalf>
LANES_INLINE void AddHalf(const uint8_t* weights, const ActivationBlock* x, PairSums* s) {
  const int64x2_t a = vreinterpretq_s64_s8(vld1q_s8(x[0].q + 16 * kHalf));
  const int64x2_t b = vreinterpretq_s64_s8(vld1q_s8(x[1].q + 16 * kHalf));
  const int8x16_t low = vreinterpretq_s8_s64(vzip1q_s64(a, b)), high = vreinterpretq_s8_s64(vzip2q_s64(a, b));
  const uint8_t* w = weights + 256 * kHalf;
  LANES_UNROLL for (int p = 0; p < 8; ++p) s->v[p] = vusmmlaq_s32(s->v[p], vld1q_u8(w + 16 * p), low);
  LANES_UNROLL for (int p = 0; p < 8; ++p) s->v[p] = vusmmlaq_s32(s->v[p], vld1q_u8(w + 128 + 16 * p), high);
}

/// Adds the sums of the first row to `first`, those of the second to `second`.
LANES_INLINE void AddPairSums(const PairSums& s, I32x16* first, I32x16* second) {
  LANES_UNROLL for (int i = 0; i < 4; ++i) {
    first->v[i] = vaddq_s32(first->v[i], vuzp1q_s32(s.v[2 * i], s.v[2 * i + 1]));
    second->v[i] = vaddq_s32(second->v[i], vuzp2q_s32(s.v[2 * i], s.v[2 * i + 1]));
  }
}

template <class F>
struct TileUnit {
  struct Use {
    Use() {}
  };

  /// 16 bytes for inputs 8 g ... 8 g + 7 of outputs 2 p and 2 p + 1, at 128 g + 16 p.
  static LANES_INLINE void StoreGroups(const U8x64* groups, uint8_t* weights) {
    LANES_UNROLL for (int g = 0; g < 4; ++g) {
      LANES_UNROLL for (int i = 0; i < 4; ++i) {
        const uint32x4_t a = vreinterpretq_u32_u8(groups[2 * g].v[i]), b = vreinterpretq_u32_u8(groups[2 * g + 1].v[i]);
        vst1q_u8(weights + 128 * g + 32 * i, vreinterpretq_u8_u32(vzip1q_u32(a, b)));
        vst1q_u8(weights + 128 * g + 32 * i + 16, vreinterpretq_u8_u32(vzip2q_u32(a, b)));
      }
    }
  }

  static LANES_INLINE void RunBlocks(const UnpackedBlocks& w, int64_t count, const ActivationBlock* x, F32x16* acc) {
    for (int64_t i = 0; i < kRowTile; i += 2) {
      F32x16 first = acc[i], second = acc[i + 1];
      const ActivationBlock* pair = x + i;
      for (int64_t b = 0; b < count; ++b, pair += kRowTile) {
        BlockSums s = StartSums<F>(pair[0]), t = StartSums<F>(pair[1]);
        PairSums sums = ZeroPairSums();
        AddHalf<0>(w.weights[b], pair, &sums);
        if constexpr (F::kTwoScales) {
          AddPairSums(sums, &s.low, &t.low);
          sums = ZeroPairSums();
        }
        AddHalf<1>(w.weights[b], pair, &sums);
        AddPairSums(sums, F::kTwoScales ? &s.high : &s.low, F::kTwoScales ? &t.high : &t.low);
        first = AddBlock<F>(s, w.scales[b], pair[0], first);
        second = AddBlock<F>(t, w.scales[b], pair[1], second);
      }
      acc[i] = first, acc[i + 1] = second;
    }
  }
};

}  // namespace
}  // namespace ringside::cpu::RINGSIDE_LANES
