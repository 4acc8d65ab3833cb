// Blocks of a file on their way to the tiles of grouped_layout.h. Plain functions, any thread.
#pragma once

#include <cstdint>
#include <optional>

#include "base/status.h"
#include "kernels/tensor.h"

namespace ringside::cuda {

/// What blocks of a file become; none for types that have no blocks.
std::optional<DType> GroupedTypeOf(DType file);

/// Packs panel `panel` (64 rows) of a checked weight of such a type, all its inputs in the order that the file has them
/// in, into PanelBytes bytes, zeroed before, and the units of its rows (at most 64 that are there). Values that lie in
/// no blocks, a multiple of 32 a row, are rounded to those of kGrouped8: whole numbers times a scale for each 32.
/// kCorruption if a scale is not finite, kInvalidArgument if a value cannot be kept as it is (a byte of -128 in Q8_0).
Status PackPanel(const HostTensor& host, int64_t panel, uint8_t* tiles, float* units);

/// The value of an element as the tiles have it: what kernels compute with, before they round. For tests.
float GroupedValue(DType grouped, const uint8_t* tiles, const float* units, int64_t cols, int64_t row, int64_t col);

}  // namespace ringside::cuda
