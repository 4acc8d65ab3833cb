// LoRA adapters (Hu et al. 2021) of linear layers, as passed to backends. Plain data.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/tensor.h"

namespace ringside {

/// A low-rank update of some outputs of one input's matrices: y[:, first_output ...] += (x A^T) B^T. Not quantized.
struct LowRank {
  Weight a;                  // [r, inputs]
  Weight b;                  // [outputs, r], with the scale folded in
  int64_t first_output = 0;  // index into the concatenated outputs of this input's matrices
};

struct LowRankArgs {
  Tensor x;                       // [T, k]
  std::span<const int> adapters;  // [T], on the host: adapter of each row, counted from 1; 0 = none
  std::span<const std::span<const LowRank>> matrices;  // by adapter; their outputs do not overlap
  const void* packed = nullptr;                        // result of Backend::PackLowRank for them
  Tensor low;         // [T, r] kF32 workspace: r is at least the total rank of any adapter
  Tensor y;           // [T, n]
  uint64_t step = 0;  // as AttentionArgs::step: equal numbers promise equal `adapters`
};

}  // namespace ringside
