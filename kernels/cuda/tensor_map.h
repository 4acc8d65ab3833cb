// Descriptions of matrices, and of the tiles of KV caches, for the tensor memory accelerator (compute capability 9.0
// on): boxes with 64 elements of 16 bits to a row, which it puts into shared memory in the pattern that tensor cores
// read without bank conflicts (128-byte swizzle: row r, 16-byte piece p at r * 128 + (p ^ r % 8) * 16). What lies
// outside is zero.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "kernels/tensor.h"

namespace ringside::cuda {

constexpr int kBoxColumns = 64;

/// Whether Map takes rows of such a stride at this address.
bool CanMap(const void* data, int64_t stride);
/// Boxes of `box_rows` <= 256 rows of [rows, cols]; coordinates (column, row). The stride is a multiple of 8.
CUtensorMap MapRows(DType dtype, const void* data, int64_t rows, int64_t cols, int64_t stride, int box_rows);
/// Boxes of `box_rows` rows of [2n, cols], n a multiple of 8: eight of the first n, the eight that belong to them of
/// the second n, and so on; coordinates (column, 0, 0, eight).
CUtensorMap MapPairs(DType dtype, const void* data, int64_t rows, int64_t cols, int box_rows);

/// Tiles of a KV cache (kv_shape.h) of 16 bits in a memory of half tiles - one head's keys, or values, of `dims` x 16
/// elements - whichever way they lie there. Nothing but the boxes asked for is read: the rest of it need not be there.
/// Boxes are a tile's keys [dims][16], with two 16-byte pieces to a row and those of every second four rows exchanged
/// (32-byte swizzle), or 64 dimensions of its values [16][64]; coordinates (0, 0, 0, half tile) and (0, column of 64
/// dimensions, 0, half tile).
CUtensorMap MapKeyTiles(const void* memory, int64_t bytes, int dims);
CUtensorMap MapValueTiles(const void* memory, int64_t bytes, int dims);

}  // namespace ringside::cuda
