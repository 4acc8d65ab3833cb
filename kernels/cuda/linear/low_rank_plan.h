// LoRA updates of a linear layer as the kernels consume them. The row-to-adapter mapping is read from device memory, so
// that a captured graph serves any assignment. Plain data.
#pragma once

#include <cstdint>

#include "kernels/tensor.h"

namespace ringside::cuda {

/// One adapter's matrices for one input, in device memory.
struct PlacedLowRank {
  static constexpr int kMaxMatrices = 3;

  struct Matrix {
    const void* a;  // a: [rank, k], b: [outputs, rank], both of the backend's type
    const void* b;
    int32_t rank, first_output, outputs, reserved;
  };
  Matrix matrices[kMaxMatrices];  // unused entries have rank 0 and no outputs
};

/// Up to kAdaptedTileRows consecutive rows with one adapter; rows is 0 if there is none.
struct AdaptedTile {
  int32_t row, rows;
  int32_t adapter;  // zero-based
  int32_t reserved;
};
constexpr int kAdaptedTileRows = 8;

struct LowRankPlan {
  const PlacedLowRank* packed = nullptr;  // [adapters]
  const AdaptedTile* tiles = nullptr;     // [tile_count], staged
  int64_t tile_count = 0;
  Tensor low;  // [T, r] float32: x A^T of all matrices of a row's adapter, concatenated

  friend bool operator==(const LowRankPlan&, const LowRankPlan&) = default;
};

}  // namespace ringside::cuda
