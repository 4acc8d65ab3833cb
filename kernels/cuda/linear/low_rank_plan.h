// What adapters add to a linear layer as its kernels see it. Which rows have which adapter stands in device memory, so
// that a recorded step serves whatever adapters its rows have. Plain data.
#pragma once

#include <cstdint>

#include "kernels/tensor.h"

namespace ringside::cuda {

/// One adapter's matrices for one input, in device memory.
struct PlacedLowRank {
  static constexpr int kMost = 3;

  struct Matrix {
    const void* a;  // [rank, k] and [outputs, rank], of the backend's type
    const void* b;
    int32_t rank, first_output, outputs, reserved;
  };
  Matrix matrices[kMost];  // those behind the last have no rank and no outputs
};

/// Up to kAdaptedTileRows consecutive rows of one adapter; or none.
struct AdaptedTile {
  int32_t row, rows;
  int32_t adapter;  // counted from 0
  int32_t reserved;
};
constexpr int kAdaptedTileRows = 8;

struct LowRankPlan {
  const PlacedLowRank* placed = nullptr;  // [adapters]
  const AdaptedTile* tiles = nullptr;     // [tile_count], staged
  int64_t tile_count = 0;
  Tensor low;  // [T, r] float32: x A^T, of all matrices of a row's adapter side by side

  friend bool operator==(const LowRankPlan&, const LowRankPlan&) = default;
};

}  // namespace ringside::cuda
