// The first steps of a recurrent mixer, row by row: causal convolution, norms of queries and keys, decays and update
// weights (kernels/recurrence.h). Included by one file per instruction set.
// THREAD: any.
#pragma once

#include "kernels/cpu/isa/lanes_prefix.h"
#include "kernels/cpu/kernel_table.h"
#include "kernels/cpu/rows_inl.h"

namespace ringside::cpu::RINGSIDE_LANES {
namespace {

constexpr int64_t kStateChunk = 64;  // StateShape::kChunk
constexpr float kKeyNormEps = 1e-6f;

/// The position's row of the tail.
LANES_INLINE const float* TailRow(const RecurrenceCall& call, const RecurrenceSegment& segment, int64_t position) {
  return segment.tail + position % kStateChunk * call.row_floats;
}

/// The convolution's input at a position, or null for zeros: from the step, the tail, or the window of the boundary.
LANES_INLINE const float* InputAt(const RecurrenceCall& call, const RecurrenceSegment& segment, int64_t position) {
  if (position < 0) return nullptr;
  if (position >= segment.position) return call.x + (segment.row + position - segment.position) * call.x_stride;
  const int64_t boundary = segment.position - segment.position % kStateChunk;
  if (position >= boundary) return TailRow(call, segment, position);
  const int64_t row = position - (boundary - (call.kernel - 1));
  return segment.boundary == nullptr ? nullptr : segment.boundary + call.state_floats + row * call.channels;
}

LANES_INLINE void NormalizeHead(float* x, int64_t n, float scale) {
  F32x16 squares = Zero();
  EachRun(n, [&](int64_t i, int64_t c) LANES_LAMBDA {
    const F32x16 a = LoadRun(x + i, c);
    squares = Fma(a, a, squares);
  });
  const F32x16 factor = Set(1.0f / __builtin_sqrtf(Sum(squares) + kKeyNormEps)), second = Set(scale);
  EachRun(n,
          [&](int64_t i, int64_t c) LANES_LAMBDA { StoreRun(x + i, Mul(Mul(LoadRun(x + i, c), factor), second), c); });
}

/// g and b of a row.
LANES_INLINE void WeighRow(const RecurrenceCall& call, int64_t row, float* decays, float* weights) {
  const float* rates = call.rates + row * call.rates_stride;
  EachRun(call.decays, [&](int64_t i, int64_t c) LANES_LAMBDA {
    const F32x16 rate = Softplus(Add(LoadRun(rates + i, c), LoadRun(call.weights.rate_bias + i, c)));
    StoreRun(decays + i, Mul(LoadRun(call.weights.rate + i, c), rate), c);
    if (!call.corrects) StoreRun(weights + i, rate, c);
  });
  if (!call.corrects) return;
  const float* betas = call.betas + row * call.betas_stride;
  EachRun(call.value_heads, [&](int64_t i, int64_t c) LANES_LAMBDA {
    StoreRun(weights + i, TimesSigmoid(Set(call.largest_beta), LoadRun(betas + i, c)), c);
  });
}

void ConvolveRow(const RecurrenceCall& call, const RecurrenceSegment& segment, int64_t row) {
  const float* inputs[RecurrenceShape::kMaxKernel];
  for (int64_t j = 0; j < call.kernel; ++j) {
    inputs[j] = InputAt(call, segment, segment.position + row - (call.kernel - 1) + j);
  }
  const int64_t r = segment.row + row;
  float* y = call.has_state ? call.mixed + r * call.mixed_stride : call.out + r * call.out_stride;
  EachRun(call.channels, [&](int64_t i, int64_t c) LANES_LAMBDA {
    F32x16 sum = call.weights.convolution_bias != nullptr ? LoadRun(call.weights.convolution_bias + i, c) : Zero();
    for (int64_t j = 0; j < call.kernel; ++j) {
      if (inputs[j] == nullptr) continue;
      sum = Fma(LoadRun(call.weights.convolution + j * call.channels + i, c), LoadRun(inputs[j] + i, c), sum);
    }
    StoreRun(y + i, call.has_state ? TimesSigmoid(sum, sum) : sum, c);
  });
  if (!call.has_state) return;
  if (call.corrects) {
    const float scale = 1.0f / __builtin_sqrtf(static_cast<float>(call.key_size));
    for (int64_t head = 0; head < call.key_heads; ++head) {
      NormalizeHead(y + call.query_channel + head * call.key_size, call.key_size, scale);
      NormalizeHead(y + call.key_channel + head * call.key_size, call.key_size, 1.0f);
    }
  }
  WeighRow(call, r, y + call.channels, y + call.channels + call.decays);
}

void SumDecays(const RecurrenceCall& call, const RecurrenceSegment& segment) {
  for (int64_t row = 0; row < segment.rows; ++row) {
    const int64_t position = segment.position + row;
    float* decays = call.mixed + (segment.row + row) * call.mixed_stride + call.channels;
    if (position % kStateChunk == 0) continue;  // the first since a boundary
    const float* before =
        row > 0 ? decays - call.mixed_stride : TailRow(call, segment, position - 1) + call.decay_in_row;
    EachRun(call.decays, [&](int64_t i, int64_t c) LANES_LAMBDA {
      StoreRun(decays + i, Add(LoadRun(before + i, c), LoadRun(decays + i, c)), c);
    });
  }
}

}  // namespace
}  // namespace ringside::cpu::RINGSIDE_LANES
