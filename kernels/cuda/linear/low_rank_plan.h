// LoRA updates of a linear layer as the kernels consume them. The row-to-adapter mapping is read from device memory, so
// that a captured graph serves any assignment. Plain data.
#pragma once

#include <cstdint>

#include "kernels/tensor.h"

namespace ringside::cuda {

/// One adapter's matrices for one input, in device memory.
struct PackedLowRank {
  static constexpr int kMaxMatrices = 3;

  struct Matrix {
    const void* a;  // a: [rank, k], b: [outputs, rank], both of the backend's type
    const void* b;
    int32_t rank, first_output, outputs, reserved;
  };
  Matrix matrices[kMaxMatrices];  // unused entries have rank 0 and no outputs
};

/// Up to kAdapterTileRows consecutive rows with one adapter; rows is 0 if there is none.
struct AdapterTile {
  int32_t row, rows;
  int32_t adapter;  // zero-based
  int32_t reserved;
};
constexpr int kAdapterTileRows = 8;

struct LowRankPlan {
  const PackedLowRank* packed = nullptr;  // [adapters]
  const AdapterTile* tiles = nullptr;     // [tile_count], staged
  int64_t tile_count = 0;
  Tensor low;  // [T, r] float32: x A^T of all matrices of a row's adapter, concatenated

  friend bool operator==(const LowRankPlan&, const LowRankPlan&) = default;
};

}  // namespace ringside::cuda
