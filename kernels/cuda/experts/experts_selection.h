// Selects the kernel path of a mixture-of-experts layer, and the tiles of its two GEMMs: the counterpart of
// linear/linear_plan.h for experts. Pure, without CUDA.
// THREAD: any.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/device_traits.h"
#include "kernels/cuda/experts/experts_plan.h"

namespace ringside::cuda {

/// Properties of the kernels for block-quantized weights (tile_rows.cuh).
struct TiledPathTraits {
  int threads, blocks;               // per block; blocks per SM
  int max_split_parts, round_parts;  // split-K parts per tile; parts per round
  bool integers;                     // multiplies integers of fewer than 8 bits
};
constexpr TiledPathTraits kIntegerPath = {256, 2, 8, 32, true}, kWholeIntegerPath = {256, 2, 1, 0, true},
                          kFloatPath = {512, 1, 8, 16, false}, kWholeTilePath = {512, 1, 1, 0, false};

/// The grid of a GEMM with block-quantized weights.
struct TiledExpertsGrid {
  int blocks, stages, x_stride;  // pipeline stages; elements per row in shared memory
  int tiles, segments;           // upper bounds per block
  int sums;                      // floats of a round's sums
  size_t shared_bytes;

  friend bool operator==(const TiledExpertsGrid&, const TiledExpertsGrid&) = default;
};

struct ExpertsSelection {
  ExpertsPath path = ExpertsPath::kMany;
  bool tiled = false;    // by tiled_experts.cu: `in` and `out` are its grids
  bool one_row = false;  // by row_experts.cu, from the router's logits to the sum; `in` and `out` are its grids
  TiledExpertsGrid in = {}, out = {};
};

/// The fastest kernel path, as measured on an H200 with randomly routed rows. `hidden`: D.
ExpertsSelection SelectExperts(const DeviceTraits& device, const ExpertsPlan& plan, int64_t hidden, int64_t rows);

}  // namespace ringside::cuda
