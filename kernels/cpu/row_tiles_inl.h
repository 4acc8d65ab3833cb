// Full row tiles of 16 on processors with int8 matrix products: the blocks of a panel are unpacked once for all tiles.
// A tile unit (tile_unit_inl.h, matrix_unit_inl.h) multiplies them: it sets kTileUnit and defines TileUnit<F> with
//
//   Use          held by a thread while it computes a piece
//   StoreGroups  stores a block's 8 groups (formats_inl.h) in 512 bytes, in the unit's order
//   RunBlocks    adds `count` unpacked blocks to the accumulators of 16 rows; `x` is the first block of the first row
//
// Included by one file per instruction set.
#pragma once

#include "kernels/cpu/block_inl.h"

namespace ringside::cpu::RINGSIDE_LANES {
namespace {

template <class F>
struct TileUnit;

/// Some consecutive blocks of a panel, unpacked once for all row tiles.
struct alignas(64) UnpackedBlocks {
  static constexpr int64_t kMaxBlocks =
      24;  // fits in the L1 cache together with these blocks of 16 rows of activations
  uint8_t weights[kMaxBlocks][512];
  BlockScales scales[kMaxBlocks];
};

/// Unpacks blocks [first, first + count) of the panel from p on; returns the address of the next block.
template <class F>
const uint8_t* Unpack(const uint8_t* p, const uint8_t** header, int64_t first, int64_t count, UnpackedBlocks* out) {
  using L = typename F::Layout;
  for (int64_t b = 0; b < count; ++b, p += L::kBytes) {
    if ((first + b) % L::kBlocks == 0) *header = p, p += L::kHeader;
    F::Scales(*header, p, &out->scales[b]);
    U8x64 groups[8];
    F::template Groups<0>(p, &groups[0], &groups[4]);
    F::template Groups<1>(p, &groups[1], &groups[5]);
    F::template Groups<2>(p, &groups[2], &groups[6]);
    F::template Groups<3>(p, &groups[3], &groups[7]);
    TileUnit<F>::StoreGroups(groups, out->weights[b]);
  }
  return p;
}

/// One panel times `tiles` full row tiles from `row` on.
template <class F>
LANES_PRODUCT void PanelTimesRowTiles(const LinearPiece& piece, const uint8_t* p, int64_t panel, int64_t row,
                                      int64_t tiles) {
  constexpr int64_t kMaxTiles = kMaxPieceRows / kRowTile;
  UnpackedBlocks unpacked;
  alignas(64) float sums[kMaxTiles][256];  // acc between two runs of blocks: [tile][row][output]
  const int64_t blocks = piece.cols / kBlock;
  const uint8_t* header = p;
  for (int64_t first = 0; first < blocks; first += UnpackedBlocks::kMaxBlocks) {
    const int64_t count = blocks - first < UnpackedBlocks::kMaxBlocks ? blocks - first : UnpackedBlocks::kMaxBlocks;
    p = Unpack<F>(p, &header, first, count, &unpacked);
    for (int64_t tile = 0; tile < tiles; ++tile) {
      const int64_t tile_row = row + tile * kRowTile;
      F32x16 acc[16];
      LANES_UNROLL for (int i = 0; i < 16; ++i) acc[i] = first == 0 ? Zero() : Load(sums[tile] + 16 * i);
      TileUnit<F>::RunBlocks(unpacked, count, piece.activations + tile_row * blocks + first * kRowTile, acc);
      if (first + count == blocks) {
        LANES_UNROLL for (int i = 0; i < 16; ++i) StoreOutputs(piece, panel, tile_row + i, acc[i]);
      } else {
        LANES_UNROLL for (int i = 0; i < 16; ++i) Store(sums[tile] + 16 * i, acc[i]);
      }
    }
  }
}

}  // namespace
}  // namespace ringside::cpu::RINGSIDE_LANES
