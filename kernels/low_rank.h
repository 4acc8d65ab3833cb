// What LoRA adapters (Hu et al. 2021) add to linear layers, as backends take it. Plain data.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/tensor.h"

namespace ringside {

/// What is added to some outputs of one input's matrices: y[:, first_output ...] += (x A^T) B^T. Neither is quantised.
struct LowRank {
  Weight a;                  // [r, inputs]
  Weight b;                  // [outputs, r], the scale in it
  int64_t first_output = 0;  // of those that the matrices of this input have together
};

struct LowRankArgs {
  Tensor x;                                            // [T, k]
  std::span<const int> adapters;                       // [T], on the host: each row's, counted from 1; 0 = none
  std::span<const std::span<const LowRank>> matrices;  // of each adapter; their outputs do not overlap
  const void* placed = nullptr;                        // what Backend::PlaceLowRank gave for them
  Tensor low;                                          // [T, r] kF32: room for the rows of all A of any adapter
  Tensor y;                                            // [T, n]
  uint64_t step = 0;                                   // as AttentionArgs has it: promises equal `adapters`
};

}  // namespace ringside
