// Row-wise operations, written once in terms of the lanes: norms, activations and the quantization of activations to
// int8. Sums run over 16 fixed lanes (lane i takes elements i, i + 16, ...) and then a fixed tree, so their bits do not
// depend on the machine's register width. Included by one file per instruction set.
// THREAD: any.
#pragma once

#include "kernels/cpu/isa/lanes_prefix.h"
#include "kernels/cpu/kernel_table.h"

namespace ringside::cpu::RINGSIDE_LANES {
namespace {

/// e^x, within 2 ulps; 0 below -87.3, e^88 above 88, NaN for NaN. x = n ln 2 + r with |r| <= ln 2 / 2; e^r by its
/// series to r^7 (the rest is below 6e-9).
LANES_INLINE F32x16 Exp(F32x16 x) {
  const F32x16 bounded = Min(Set(88.0f), x);
  const I32x16 n = RoundToInt(Mul(bounded, Set(1.44269504f)));
  const F32x16 whole = ToFloat(n);
  F32x16 r = MinusFma(whole, Set(0.693359375f), bounded);  // ln 2 in two parts; the first has 10 bits
  r = MinusFma(whole, Set(-2.12194440e-4f), r);
  F32x16 p = Fma(Set(1.0f / 5040.0f), r, Set(1.0f / 720.0f));
  p = Fma(p, r, Set(1.0f / 120.0f));
  p = Fma(p, r, Set(1.0f / 24.0f));
  p = Fma(p, r, Set(1.0f / 6.0f));
  p = Fma(p, r, Set(0.5f));
  p = Fma(p, r, Set(1.0f));
  p = Fma(p, r, Set(1.0f));
  return SelectLess(x, Set(-87.3f), Zero(), Mul(p, PowerOfTwo(n)));
}

/// x / (1 + e^-y): silu for y = x.
LANES_INLINE F32x16 TimesSigmoid(F32x16 x, F32x16 y) { return Div(x, Add(Set(1.0f), Exp(Sub(Zero(), y)))); }

/// ln(1 + e^x) = max(x, 0) + ln(1 + y), y = e^-|x|; ln(1 + y) = 2 artanh(s), s = y / (2 + y) <= 1/3, by its series to
/// s^15 (the rest is below 4e-10).
LANES_INLINE F32x16 Softplus(F32x16 x) {
  const F32x16 y = Exp(Sub(Zero(), Abs(x))), s = Div(y, Add(Set(2.0f), y)), t = Mul(s, s);
  F32x16 p = Fma(Set(1.0f / 15.0f), t, Set(1.0f / 13.0f));
  p = Fma(p, t, Set(1.0f / 11.0f));
  p = Fma(p, t, Set(1.0f / 9.0f));
  p = Fma(p, t, Set(1.0f / 7.0f));
  p = Fma(p, t, Set(1.0f / 5.0f));
  p = Fma(p, t, Set(1.0f / 3.0f));
  p = Fma(p, t, Set(1.0f));
  return Fma(Add(s, s), p, Max(x, Zero()));
}

/// x * Phi(x) through erfc(z) = t P(t) e^(-z^2), t = 1 / (1 + z / 2): a least-squares fit, relative error below 5e-8.
LANES_INLINE F32x16 GeluErf(F32x16 x) {
  const F32x16 z = Mul(Abs(x), Set(0.70710678f));
  const F32x16 t = Div(Set(1.0f), Fma(z, Set(0.5f), Set(1.0f)));
  F32x16 p = Fma(Set(-0.05906921625137329f), t, Set(0.2845761775970459f));
  p = Fma(p, t, Set(-0.48720231652259827f));
  p = Fma(p, t, Set(0.27806979417800903f));
  p = Fma(p, t, Set(-0.02662738598883152f));
  p = Fma(p, t, Set(0.2026875615119934f));
  p = Fma(p, t, Set(0.24310359358787537f));
  p = Fma(p, t, Set(0.2823753356933594f));
  p = Fma(p, t, Set(0.28208640217781067f));
  const F32x16 tail = Mul(Mul(p, t), Mul(Set(0.5f), Exp(Mul(Mul(x, x), Set(-0.5f)))));  // Phi(-|x|)
  return Mul(x, SelectLess(x, Zero(), tail, Sub(Set(1.0f), tail)));
}

/// u = sqrt(2 / pi) (x + 0.044715 x^3); 0.5 x (1 + tanh u) = x / (1 + e^(-2u)).
LANES_INLINE F32x16 GeluTanh(F32x16 x) {
  const F32x16 u = Mul(x, Fma(Mul(x, x), Set(0.0713548163f), Set(1.59576912f)));
  return TimesSigmoid(x, u);
}

/// Calls f(first, count) for runs of 16 elements and a shorter last one.
template <class F>
LANES_INLINE void EachRun(int64_t n, F f) {
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) f(i, int64_t{16});
  if (i < n) f(i, n - i);
}
LANES_INLINE F32x16 LoadRun(const float* p, int64_t n) { return n == 16 ? Load(p) : LoadPartial(p, n); }
LANES_INLINE void StoreRun(float* p, F32x16 a, int64_t n) {
  if (n == 16) {
    Store(p, a);
  } else {
    StorePartial(p, a, n);
  }
}

void RmsNormRow(const float* x, const float* weight, float eps, int64_t n, float* y) {
  F32x16 squares = Zero();
  EachRun(n, [&](int64_t i, int64_t c) LANES_LAMBDA {
    const F32x16 a = LoadRun(x + i, c);
    squares = Fma(a, a, squares);
  });
  const F32x16 factor = Set(1.0f / __builtin_sqrtf(Sum(squares) / static_cast<float>(n) + eps));
  EachRun(n, [&](int64_t i, int64_t c)
                 LANES_LAMBDA { StoreRun(y + i, Mul(Mul(LoadRun(x + i, c), factor), LoadRun(weight + i, c)), c); });
}

void LayerNormRow(const float* x, const float* weight, const float* bias, float eps, int64_t n, float* y) {
  F32x16 sum = Zero(), squares = Zero();
  EachRun(n, [&](int64_t i, int64_t c) LANES_LAMBDA { sum = Add(sum, LoadRun(x + i, c)); });
  const F32x16 mean = Set(Sum(sum) / static_cast<float>(n));
  EachRun(n, [&](int64_t i, int64_t c) LANES_LAMBDA {
    const F32x16 a = KeepLanes(Sub(LoadRun(x + i, c), mean), 0, c, Zero());
    squares = Fma(a, a, squares);
  });
  const F32x16 factor = Set(1.0f / __builtin_sqrtf(Sum(squares) / static_cast<float>(n) + eps));
  EachRun(n, [&](int64_t i, int64_t c) LANES_LAMBDA {
    const F32x16 scaled = Mul(Sub(LoadRun(x + i, c), mean), factor);
    const F32x16 shift = bias != nullptr ? LoadRun(bias + i, c) : Zero();
    StoreRun(y + i, Fma(scaled, LoadRun(weight + i, c), shift), c);
  });
}

LANES_INLINE F32x16 Activated(F32x16 x, Activation activation) {
  switch (activation) {
    case Activation::kGeluTanh:
      return GeluTanh(x);
    case Activation::kGeluErf:
      return GeluErf(x);
    case Activation::kRelu:
      return SelectLess(x, Zero(), Zero(), x);  // keeps NaN
    case Activation::kReluSquared:
      return SelectLess(x, Zero(), Zero(), Mul(x, x));
    default:
      return TimesSigmoid(x, x);
  }
}

/// kClampedSilu of a gate and an up.
LANES_INLINE F32x16 ClampedSilu(F32x16 gate, F32x16 up) {
  const F32x16 g = Min(Set(7.0f), gate), u = Min(Set(7.0f), Max(Set(-7.0f), up));
  return Mul(TimesSigmoid(g, Mul(g, Set(1.702f))), Add(u, Set(1.0f)));
}

void MultiplyActivatedRow(const float* gate, const float* up, Activation activation, int64_t n, float* y) {
  EachRun(n, [&](int64_t i, int64_t c) LANES_LAMBDA {
    const F32x16 a = LoadRun(gate + i, c), b = LoadRun(up + i, c);
    StoreRun(y + i, activation == Activation::kClampedSilu ? ClampedSilu(a, b) : Mul(Activated(a, activation), b), c);
  });
}

void ActivateRow(float* x, int64_t n, Activation activation) {
  EachRun(n, [&](int64_t i, int64_t c) LANES_LAMBDA { StoreRun(x + i, Activated(LoadRun(x + i, c), activation), c); });
}

void GateRow(const float* gate, GateKind kind, int64_t n, float* y) {
  EachRun(n, [&](int64_t i, int64_t c) LANES_LAMBDA {
    const F32x16 x = LoadRun(y + i, c), g = LoadRun(gate + i, c);
    const F32x16 gated = kind == GateKind::kSigmoid    ? TimesSigmoid(x, g)
                         : kind == GateKind::kSilu     ? Mul(x, TimesSigmoid(g, g))
                         : kind == GateKind::kSoftplus ? Mul(x, Softplus(g))
                                                       : Mul(x, g);
    StoreRun(y + i, gated, c);
  });
}

/// cap tanh(x / cap): tanh u = (1 - e^-2u) / (1 + e^-2u), with u >= 0, so that the exponential cannot overflow.
LANES_INLINE F32x16 SoftCapped(F32x16 x, F32x16 cap) {
  const F32x16 u = Div(Abs(x), cap), falls = Exp(Mul(u, Set(-2.0f)));
  const F32x16 capped = Mul(cap, Div(Sub(Set(1.0f), falls), Add(Set(1.0f), falls)));
  return SelectLess(x, Zero(), Sub(Zero(), capped), capped);
}

void SoftCapRow(float* x, int64_t n, float cap) {
  EachRun(n, [&](int64_t i, int64_t c) LANES_LAMBDA { StoreRun(x + i, SoftCapped(LoadRun(x + i, c), Set(cap)), c); });
}

LANES_INLINE I32x16 RoundToEightBits(F32x16 x, F32x16 inverse) {
  return RoundToInt(Min(Max(Mul(x, inverse), Set(-127.0f)), Set(127.0f)));
}

/// See ActivationBlock.
LANES_INLINE void QuantizeBlock(const float* x, ActivationBlock* out) {
  const F32x16 a = Load(x), b = Load(x + 16);
  const float amax = Largest(Max(Abs(a), Abs(b)));
  const bool live = amax >= 1e-30f;
  const F32x16 inverse = Set(live ? 127.0f / amax : 0.0f);
  const I32x16 low = RoundToEightBits(a, inverse), high = RoundToEightBits(b, inverse);
  StoreI8(out->q, low);
  StoreI8(out->q + 16, high);
  const int32_t low_sum = SumInt(low), sum = low_sum + SumInt(high);
  out->scale = live ? amax / 127.0f : 0.0f;
  out->scaled_sum = out->scale * static_cast<float>(sum);
  out->minus_sum = -sum;
  out->minus_low = -low_sum;
}

void QuantizeRows(const float* x, int64_t stride, int64_t first, int64_t last, int64_t all_rows, int64_t cols,
                  ActivationBlock* out) {
  const int64_t blocks = cols / kBlock;
  for (int64_t r = first; r < last; ++r) {
    const int64_t tile = r / kRowTile, top = tile * kRowTile;
    const int64_t tile_rows = all_rows - top < kRowTile ? all_rows - top : kRowTile;
    ActivationBlock* block = out + top * blocks + (r - top);
    for (int64_t b = 0; b < blocks; ++b, block += tile_rows) QuantizeBlock(x + r * stride + b * kBlock, block);
  }
}

}  // namespace
}  // namespace ringside::cpu::RINGSIDE_LANES
