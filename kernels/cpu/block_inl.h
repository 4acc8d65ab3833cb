// Shared by all matrix-product variants: the contribution of a block of quantized weights to an output, and the store
// of an output (linear_inl.h defines the arithmetic). Included by one file per instruction set.
#pragma once

#include "kernels/cpu/formats_inl.h"

namespace ringside::cpu::RINGSIDE_LANES {
namespace {

LANES_RESULT void StoreOutputs(const LinearPiece& piece, int64_t panel, int64_t row, F32x16 acc) {
  const int64_t first = kLanes * panel, n = piece.outputs - first < kLanes ? piece.outputs - first : kLanes;
  float* y = piece.y + row * piece.y_stride + first;
  if (n == kLanes) {
    if (piece.bias != nullptr) acc = Add(acc, Load(piece.bias + first));
    if (piece.accumulate) acc = Add(Load(y), acc);
    Store(y, acc);
  } else {
    if (piece.bias != nullptr) acc = Add(acc, LoadPartial(piece.bias + first, n));
    if (piece.accumulate) acc = Add(LoadPartial(y, n), acc);
    StorePartial(y, acc, n);
  }
}

struct BlockSums {
  I32x16 low, high;  // high is used only by formats with two scales
};

template <class F>
LANES_INLINE BlockSums StartSums(const ActivationBlock& x) {
  if constexpr (F::kOffset < 0 || (F::kEightBits && !kUnsignedEightBits)) {
    return {ZeroInt(), ZeroInt()};
  } else if constexpr (F::kTwoScales) {
    const I32x16 low = SetInt(x.minus_low);
    return {ShiftLeftInt<F::kOffset>(low), ShiftLeftInt<F::kOffset>(SubInt(SetInt(x.minus_sum), low))};
  } else {
    return {ShiftLeftInt<F::kOffset>(SetInt(x.minus_sum)), ZeroInt()};
  }
}

template <class F, int J>
LANES_INLINE void AddGroups(U8x64 a, U8x64 b, const ActivationBlock& x, BlockSums* s) {
  const int8_t *xa = x.q + 4 * J, *xb = x.q + 16 + 4 * J;
  if constexpr (F::kTwoScales) {
    s->low = DotOne(s->low, a, xa);
    s->high = DotOne(s->high, b, xb);
  } else if constexpr (F::kEightBits) {
    s->low = DotEightBits(DotEightBits(s->low, a, xa), b, xb);
  } else {
    s->low = DotPair(s->low, a, xa, b, xb);
  }
}

template <class F>
LANES_INLINE F32x16 AddBlock(const BlockSums& s, const BlockScales& scales, const ActivationBlock& x, F32x16 acc) {
  F32x16 sum = ToFloat(s.low);
  if constexpr (F::kTwoScales) sum = Fma(ToFloat(s.high), scales.high, Mul(sum, scales.low));
  acc = Fma(sum, Mul(scales.d, Set(x.scale)), acc);
  if constexpr (F::kMinimum) acc = Fma(scales.m, Set(x.scaled_sum), acc);
  if constexpr (F::kTwoMinima) {
    const auto minus_low = static_cast<float>(x.minus_low), minus_high = static_cast<float>(x.minus_sum - x.minus_low);
    const F32x16 minima = Fma(scales.high_m, Set(minus_high), Mul(scales.low_m, Set(minus_low)));
    acc = Fma(minima, Mul(scales.m, Set(x.scale)), acc);
  }
  return acc;
}

}  // namespace
}  // namespace ringside::cpu::RINGSIDE_LANES
