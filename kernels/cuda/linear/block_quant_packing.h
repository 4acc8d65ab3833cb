// Packs block-quantized weights of a file into the tiles of block_quant_layout.h.
// THREAD: any.
#pragma once

#include <cstdint>
#include <optional>

#include "base/status.h"
#include "kernels/tensor.h"

namespace ringside::cuda {

/// The device type of a block-quantized file type; nullopt for types without blocks.
std::optional<DType> BlockQuantTypeOf(DType file);

/// Packs panel `panel` (64 rows) of a checked weight, all inputs in file order, into `tiles` (PanelBytes bytes, zeroed
/// by the caller) and writes its scales (PanelScales floats): the units of the rows that exist, or the scales of tiles.
/// Unquantized values, a multiple of 32 per row, are quantized to kBlockQuant8: integers with a scale per 32.
/// ERRORS: kCorruption if a scale or an E4M3 value is not finite; kInvalidArgument if a value cannot be represented (a
/// byte of -128 in Q8_0, E4M3 values of a tile with different scales or with one of an extreme magnitude).
Status PackPanel(const HostTensor& host, int64_t panel, uint8_t* tiles, float* scales);

/// The dequantized value of an element, as kernels see it before rounding. For tests.
float BlockQuantValue(DType block_type, const uint8_t* tiles, const float* scales, int64_t cols, int64_t row,
                      int64_t col);

}  // namespace ringside::cuda
