// Tile sizes and shared-memory budgets that the selection (linear_plan.h) and the kernels share. Host and device.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "kernels/cuda/host_device.h"
#include "kernels/cuda/kernel_config.h"
#include "kernels/cuda/linear/block_quant_layout.h"

namespace ringside::cuda {

constexpr int kWarps = kBlockThreads / 32;

RINGSIDE_HOST_DEVICE constexpr int64_t DivideUp(int64_t a, int64_t b) { return (a + b - 1) / b; }

// ---- GEMV (gemv.cuh, block_quant_gemv.cuh)

constexpr int kBlocksPerProcessor = 2;
constexpr int kMaxGemvRows = 4;  // rows of x
constexpr int kMinGemvInputs = 64;
constexpr int kGemvLineBytes = 128;  // bytes of a row of W in a stage
/// Shared memory per block that lets two blocks share an SM (one on 8.6, 8.9 and 12.0).
constexpr size_t MaxGemvSharedBytes(bool large) { return size_t{large ? 113u : 81u} << 10; }
/// Elements between rows of x in shared memory: whole K tiles of `k_tile` inputs; eight rows use different banks.
constexpr int64_t GemvRowStride(int64_t k, int k_tile) { return DivideUp(k, k_tile) * k_tile + 8; }
/// Rows of W per stage; with gate-up half of the rows are ups.
constexpr int GemvUnitRows(bool bytewise, bool gate_up) { return bytewise || gate_up ? 16 : 8; }
/// Pipeline stages per warp.
constexpr int GemvStages(int unit_rows, bool large) {
  return ((large ? 80 : 48) << 10) / (kWarps * unit_rows * kGemvLineBytes);
}
constexpr size_t GemvSharedBytes(int unit_rows, bool large, int64_t rows, int64_t row_stride) {
  return static_cast<size_t>(GemvStages(unit_rows, large) * kWarps * unit_rows * kGemvLineBytes +
                             static_cast<int64_t>(sizeof(float)) * 2 * kWarps * rows * unit_rows +
                             static_cast<int64_t>(sizeof(uint16_t)) * rows * row_stride);
}

// ---- GEMV of block-quantized weights (block_quant_gemv.cuh)

constexpr int kKTileChunks = 2, kKTileInputs = kKTileChunks * kTileInputs;
constexpr int kNTileRows = 16;  // rows of W
// Pipeline stages of a warp, one K tile each. With fewer than kStagesForTwoBlocks stages it is better to run one block
// per SM with more stages.
constexpr int kMinStages = 2, kMaxStages = 5, kStagesForTwoBlocks = 3;
/// Floats prefetched per thread for its first result: two scales and the old output.
constexpr int kGemvExtras = 3;
constexpr size_t kZeroInputsBytes = 640;  // of ZeroInputs (integer_inputs.cuh)
/// Upper bound of a block's static shared memory: barriers, norm sums, zeros. Kernels of two layers need it twice.
constexpr size_t kGemvStaticBytes = 1152;
/// Bytes of a K tile in a pipeline stage: two halves of two tiles each, then the scales of E4M3 tiles, padded because
/// stages start at multiples of 128 bytes.
template <int kBits>
constexpr int kTilePairBytes = 2 * TileOf<kBits>::kBytes;
template <int kBits>
constexpr int kKTileScales = kKTileChunks* kTilePairBytes<kBits>;  // byte offset
template <int kBits>
constexpr int kKTileBytes = kKTileScales<kBits> + (TileOf<kBits>::kHasTileScale ? 128 : 0);
inline int64_t KTileBytes(DType block_type) {
  return WithBits(block_type, [](auto bits) -> int64_t { return kKTileBytes<decltype(bits)::value>; });
}
/// Whether weights are multiplied as integers; 8-bit weights are converted to 16-bit floats instead.
template <int kBits>
constexpr bool kTakesIntegers = !TileOf<kBits>::kHasBytes;
inline bool TakesIntegers(DType block_type) {
  return WithBits(block_type, [](auto bits) { return kTakesIntegers<decltype(bits)::value>; });
}
/// Inputs per partial sum of x, which the offset of a scale group multiplies: the inputs that share a scale.
template <int kBits>
constexpr int kSumInputs = 32 / TileOf<kBits>::kHalves;
/// Floats stored in addition to a row of integers: a unit and the partial sums of each 32 inputs.
template <int kBits>
RINGSIDE_HOST_DEVICE constexpr int IntegerRowUnits(int row_stride) {
  return kTakesIntegers<kBits> ? row_stride / 32 : 0;
}
template <int kBits>
RINGSIDE_HOST_DEVICE constexpr int IntegerRowSums(int row_stride) {
  return IntegerRowUnits<kBits>(row_stride) * (32 / kSumInputs<kBits>);
}
template <int kBits>
RINGSIDE_HOST_DEVICE constexpr int IntegerRowFloats(int row_stride) {
  return IntegerRowUnits<kBits>(row_stride) + IntegerRowSums<kBits>(row_stride);
}

// ---- GEMM of block-quantized weights (block_quant_gemm.cuh)

constexpr int kBlockQuantWarpGroups = 4;  // consumers, each multiplies a panel of 64 outputs
constexpr int kBlockQuantOutputs = kBlockQuantWarpGroups * kPanelRows;  // per block; gate-up: half of these are ups

// ---- small-M GEMM (small_gemm.cu)

constexpr int64_t kMaxSmallGemmRows = 32;  // rows of x of a small W
// Rows of x of a large W: with more rows cuBLAS reads W at twice the speed.
constexpr int64_t kMaxLargeSmallGemmRows = 4;

// ---- one-byte weights (w8a16_gemm.cu)

constexpr int64_t kMaxW8Rows = 128;  // rows of x
constexpr int kW8KTile = 128;        // inputs per stage
constexpr int kW8Outputs = 64;       // per tile of a block
constexpr int kW8MaxSplitK = 8;

// ---- WGMMA GEMM (wgmma_gemm.cu)

constexpr int kMaxWgmmaGemmRows = 64;
// Shared memory of a block alone on an SM, and of one of two blocks on an SM. Below kTwoBlocksLeast three would fit.
constexpr size_t kOneBlockBytes = 224 << 10, kTwoBlockBytes = 110 << 10, kTwoBlocksLeast = 77 << 10;

// ---- FP8 GEMM (fp8_gemm.cu)

constexpr int kFp8KTile = 128;     // inputs, one byte each
constexpr int kFp8GroupRows = 64;  // rows per warp group
constexpr int kMaxFp8Rows = 2 * kFp8GroupRows;
constexpr int64_t kMaxQuantizedRowValues = 4 * 16 * 1024;  // values of a row that quantize_rows.cu takes

}  // namespace ringside::cuda
