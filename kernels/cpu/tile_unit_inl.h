// Whole row tiles of 16 through AMX: one tile product gives the integer sums of a block for 16 rows and 16 outputs, and
// the same float operations follow as everywhere (linear_inl.h). The activations' layout is the left operand as it is
// (16 rows of 32 int8, one block apart), the unpacked groups are the right one (8 rows of 16 outputs x 4 bytes).
// A thread configures the tiles at the start of a piece and gives them back at its end, so that the kernel need not
// save 8 KiB of them at every switch. Included only by isa_amx.cpp.
#pragma once

#include <immintrin.h>

#include "kernels/cpu/block_inl.h"

namespace ringside::cpu::RINGSIDE_LANES {
namespace {

constexpr bool kTileUnit = true;

// Tiles: 0, 1 sums (two for formats with two scales); 2, 3 activations; 4, 5 weights.
struct alignas(64) TileConfig {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};
};
static_assert(sizeof(TileConfig) == 64);

LANES_INLINE void ConfigureTile(TileConfig* config, int tile, int rows, int row_bytes) {
  config->rows[tile] = static_cast<uint8_t>(rows);
  config->row_bytes[tile] = static_cast<uint16_t>(row_bytes);
}

/// Makes what has been stored visible to tile loads, which the compiler does not know to read memory.
LANES_INLINE void StoresBeforeTiles(const void* p) { __asm__ volatile("" : : "r"(p) : "memory"); }

/// The tiles, configured for format F as long as this lives.
template <class F>
class TileUse {
 public:
  TileUse() {
    constexpr int kGroups = F::kTwoScales ? 4 : 8;  // groups of 4 inputs that share a scale
    TileConfig config;
    for (int i = 0; i < 2; ++i) {
      ConfigureTile(&config, i, 16, 64);
      ConfigureTile(&config, 2 + i, 16, 4 * kGroups);
      ConfigureTile(&config, 4 + i, kGroups, 64);
    }
    StoresBeforeTiles(&config);
    _tile_loadconfig(&config);
  }
  ~TileUse() { _tile_release(); }
  TileUse(const TileUse&) = delete;
  TileUse& operator=(const TileUse&) = delete;
};

struct alignas(64) TileBuffers {
  uint8_t weights[512];
  int32_t low[256], high[256];  // [row][output]
};

/// Integer sums of one block for 16 rows. `x` is the block of the first row; rows follow one another.
template <class F>
LANES_INLINE void TileSums(const uint8_t* p, const ActivationBlock* x, TileBuffers* t) {
  const uint8_t* weights = p;
  if constexpr (!F::kEightBits) {  // eight bits are stored just so
    U8x64 a[4], b[4];
    F::template Groups<0>(p, &a[0], &b[0]);
    F::template Groups<1>(p, &a[1], &b[1]);
    F::template Groups<2>(p, &a[2], &b[2]);
    F::template Groups<3>(p, &a[3], &b[3]);
    LANES_UNROLL for (int j = 0; j < 4; ++j) {
      _mm512_store_si512(t->weights + 64 * j, a[j]);
      _mm512_store_si512(t->weights + 64 * (j + 4), b[j]);
    }
    weights = t->weights;
  }
  StoresBeforeTiles(weights);
  _tile_zero(0);
  _tile_loadd(2, x->q, sizeof(ActivationBlock));
  _tile_loadd(4, weights, 64);
  _tile_dpbsud(0, 2, 4);
  _tile_stored(0, t->low, 64);
  if constexpr (F::kTwoScales) {
    _tile_zero(1);
    _tile_loadd(3, x->q + 16, sizeof(ActivationBlock));
    _tile_loadd(5, weights + 256, 64);
    _tile_dpbsud(1, 3, 5);
    _tile_stored(1, t->high, 64);
  }
}

/// acc of 16 rows, joined by the block.
template <class F>
LANES_INLINE void AddTileSums(const TileBuffers& t, const BlockScales& scales, const ActivationBlock* x, F32x16* acc) {
  LANES_UNROLL for (int i = 0; i < 16; ++i) {
    BlockSums s = StartSums<F>(x[i]);
    s.low = _mm512_add_epi32(s.low, _mm512_load_si512(t.low + 16 * i));
    if constexpr (F::kTwoScales) s.high = _mm512_add_epi32(s.high, _mm512_load_si512(t.high + 16 * i));
    acc[i] = AddBlock<F>(s, scales, x[i], acc[i]);
  }
}

template <class F>
struct TileUnit {
  using Use = TileUse<F>;

  /// One panel times the 16 rows of a full tile. A block's product is under way while the one before is joined.
  static void PanelTimesRowTile(const LinearPiece& piece, const uint8_t* p, int64_t panel, const ActivationBlock* x,
                                int64_t row) {
    using L = typename F::Layout;
    TileBuffers buffers[2];
    BlockScales scales[2];
    F32x16 acc[16];
    LANES_UNROLL for (int i = 0; i < 16; ++i) acc[i] = Zero();
    const int64_t blocks = piece.cols / kBlock;
    const uint8_t* header = p;
    for (int64_t b = 0; b <= blocks; ++b) {
      if (b < blocks) {
        if (b % L::kBlocks == 0) header = p, p += L::kHeader;
        F::Scales(header, p, &scales[b % 2]);
        TileSums<F>(p, x + b * kRowTile, &buffers[b % 2]);
        p += L::kBytes;
      }
      if (b > 0) AddTileSums<F>(buffers[(b - 1) % 2], scales[(b - 1) % 2], x + (b - 1) * kRowTile, acc);
    }
    LANES_UNROLL for (int i = 0; i < 16; ++i) StoreOutputs(piece, panel, row + i, acc[i]);
  }
};

}  // namespace
}  // namespace ringside::cpu::RINGSIDE_LANES
