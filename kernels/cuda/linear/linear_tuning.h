// Measured thresholds of kernel selection, recorded per GPU model in linear/tuning/. Limits of a kernel (registers,
// shared memory, instruction shapes) are not among these: they are in linear_sizes.h.
#pragma once

#include <cstdint>
#include <string_view>

namespace ringside::cuda {

/// Cost model of a split-K factor, for tiles of n rows. In microseconds; only the ratios matter.
struct SplitKCost {
  double k_tile, k_tile_per_row;  // per K tile
  double wave, wave_per_row;      // per wave, to fill the pipeline
  double split;                   // per split, to reduce the sums
};

/// Expected rows of an expert up to which a kernel path is the fastest.
struct ExpertsTuning {
  double integer_rows;  // block-quantized weights, multiplied as integers
  double several_rows;  // block-quantized weights, a warp per tile
  double few_rows;      // 16-bit weights, read once for up to 16 rows
};

struct LinearTuning {
  std::string_view gpu;  // start of the name that the driver reports

  int64_t gemv_short_row;            // inputs; too few K tiles for the eight warps of a block
  int64_t small_elements;            // elements of W up to which all row counts take the small-M GEMM
  int64_t small_wide, small_medium;  // outputs per SM from which a block has four, or two, tiles
  int64_t narrow;                    // inputs or outputs below which a small W is left to the small-M GEMM
  int64_t wgmma_short_row;           // inputs; too short for split-K
  int64_t wgmma_split_outputs;       // outputs per SM below which K is split further
  int64_t wgmma_one_wave_outputs;    // outputs per SM below which a cluster has one tile
  int64_t w8_wide;                   // wide tiles per SM, counted with all splits, from which tiles are wide
  int64_t block_quant_rows;          // with more rows it is faster to dequantize the weights once
  SplitKCost block_quant_split;
  int64_t fp8_rows;            // with fewer rows it is as fast to dequantize the weights in the kernel
  int64_t cached_panel_bytes;  // of dequantized weights that stay in the L2 cache
  int64_t product_tile;        // approximate rows and outputs of a cuBLAS thread block tile
  ExpertsTuning experts;
};

/// The record of a GPU model; that of the H200 for models without one.
const LinearTuning& TuningOf(std::string_view gpu);

}  // namespace ringside::cuda
