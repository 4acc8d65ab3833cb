// TMA descriptors of matrices and of KV cache tiles (compute capability 9.0 on). Boxes have 64 16-bit elements per row,
// stored in shared memory in the pattern that tensor cores read without bank conflicts (128-byte swizzle: row r,
// 16-byte chunk p at r * 128 + (p ^ r % 8) * 16). Out-of-bounds elements are zero.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "kernels/tensor.h"

namespace ringside::cuda {

constexpr int kBoxColumns = 64;

/// Whether the TMA supports rows of this stride at this address.
bool CanMap(const void* data, int64_t stride);
/// Boxes of `box_rows` <= 256 rows of [rows, cols]; coordinates (column, row). The stride is a multiple of 8.
CUtensorMap MapRows(DType dtype, const void* data, int64_t rows, int64_t cols, int64_t stride, int box_rows);
/// Boxes of `box_rows` rows of a gate-up matrix [2n, cols], n a multiple of 8: eight gate rows, the matching eight up
/// rows, and so on; coordinates (column, 0, 0, group of eight).
CUtensorMap MapGateUp(DType dtype, const void* data, int64_t rows, int64_t cols, int box_rows);

/// Tiles of a 16-bit KV cache (kv_shape.h) in memory viewed as an array of half tiles: one head's keys or values,
/// `dims` x 16 elements each, whatever their placement. Only the requested boxes are read, so the remaining addresses
/// need no memory. A box is a tile's keys [dims][16], two 16-byte chunks per row, swapped in every second group of four
/// rows (32-byte swizzle), or 64 dimensions of its values [16][64]. Coordinates are (0, 0, 0, half tile) for keys and
/// (0, group of 64 dimensions, 0, half tile) for values.
CUtensorMap MapKeyTiles(const void* memory, int64_t bytes, int dims);
CUtensorMap MapValueTiles(const void* memory, int64_t bytes, int dims);
/// As above, for wide heads (attention_wide.cuh), whose tiles are at any multiples of kWideUnitBytes. Coordinates are
/// (0, 0, 0, offset of the keys in this unit), and for values (0, offset in 128 bytes, 0, 0); 64 dimensions are 128
/// bytes. Keys that are stored token by token are mapped as values.
constexpr int64_t kWideUnitBytes = 256;
constexpr int kWideUnitBoxes = 2;
CUtensorMap MapWideKeys(const void* memory, int64_t bytes, int dims);
CUtensorMap MapWideValues(const void* memory, int64_t bytes, int dims);

}  // namespace ringside::cuda
