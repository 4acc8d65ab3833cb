// Measured thresholds of kernel selection. Limits of a kernel (registers, shared memory, instruction shapes) are not
// among these: they are in linear_sizes.h.
#pragma once

#include <cstdint>
#include <string_view>

namespace ringside::cuda {

/// Cost model of a split-K factor, for tiles of n rows. In microseconds; only the ratios matter.
struct SplitKCost {
  double k_tile = 0.78, k_tile_per_row = 0.0055;  // per K tile
  double wave = 2.5, wave_per_row = 0.045;        // per wave, to fill the pipeline
  double split = 0.8;                             // per split, to reduce the sums
};

/// Expected rows of an expert up to which a kernel path is the fastest.
struct ExpertsTuning {
  double integer_rows = 1.5;   // block-quantized weights, multiplied as integers
  double several_rows = 16.0;  // block-quantized weights, a warp per tile
  double few_rows = 2.0;       // 16-bit weights, read once for up to 16 rows
};

struct LinearTuning {
  std::string_view gpu;  // name as the driver reports it, or its start; empty: the fallback

  int64_t gemv_short_row = 1024;               // inputs; too few K tiles for the eight warps of a block
  int64_t small_elements = int64_t{2} << 20;   // elements of W up to which all row counts take the small-M GEMM
  int64_t small_wide = 64, small_medium = 24;  // outputs per SM from which a block has four, or two, tiles
  int64_t narrow = 1024;                       // inputs or outputs below which a small W is left to the small-M GEMM
  int64_t wgmma_short_row = 768;               // inputs; too short for split-K
  int64_t wgmma_split_outputs = 60;            // outputs per SM below which K is split further
  int64_t wgmma_one_wave_outputs = 96;         // outputs per SM below which a cluster has one tile
  int64_t w8_wide = 3;                         // with this number of wide tiles per SM, counted with all splits
  int64_t block_quant_rows = 1024;             // with more rows it is faster to dequantize the weights once
  SplitKCost block_quant_split;
  int64_t fp8_rows = 17;  // with fewer rows it is as fast to dequantize the weights in the kernel
  int64_t cached_panel_bytes = int64_t{32} << 20;  // of dequantized weights that stay in the L2 cache
  int64_t product_tile = 128;                      // approximate rows and outputs of a cuBLAS thread block tile
  ExpertsTuning experts;
};

inline constexpr LinearTuning kDefaultTuning;

}  // namespace ringside::cuda
