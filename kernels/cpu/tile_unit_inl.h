// Row tiles (row_tiles_inl.h) on AMX: one tile product gives the integer sums of a block for 16 rows and 16 outputs,
// followed by the same float operations as elsewhere (linear_inl.h). The activation layout is the left operand as is
// (16 rows of 32 int8, one block apart); the unpacked groups are the right one (8 rows of 16 outputs x 4 bytes). A
// thread configures the tiles at the start of a piece and releases them at its end, so that the kernel need not save 8
// KiB of tile state on context switches. Included only by isa_amx.cpp.
#pragma once

#include <immintrin.h>

#include "kernels/cpu/row_tiles_inl.h"

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

/// Compiler barrier before tile loads: the compiler does not know that they read memory.
LANES_INLINE void StoresBeforeTiles(const void* p) { __asm__ volatile("" : : "r"(p) : "memory"); }

/// Keeps the tiles configured for format F while it lives.
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

struct alignas(64) TileSums {
  int32_t low[256], high[256];  // [row][output]
};

/// Integer sums of one block for 16 rows. `x` is the block of the first row, followed by those of the next rows. kTile
/// 0 or 1 selects the tiles, so that two products can be in flight.
template <class F, int kTile>
LANES_INLINE void SumBlock(const uint8_t* weights, const ActivationBlock* x, TileSums* t) {
  if constexpr (F::kTwoScales) {
    _tile_zero(0);
    _tile_zero(1);
    _tile_loadd(2, x->q, sizeof(ActivationBlock));
    _tile_loadd(4, weights, 64);
    _tile_loadd(3, x->q + 16, sizeof(ActivationBlock));
    _tile_loadd(5, weights + 256, 64);
    _tile_dpbsud(0, 2, 4);
    _tile_dpbsud(1, 3, 5);
    _tile_stored(0, t->low, 64);
    _tile_stored(1, t->high, 64);
  } else if constexpr (kTile == 0) {
    _tile_zero(0);
    _tile_loadd(2, x->q, sizeof(ActivationBlock));
    _tile_loadd(4, weights, 64);
    _tile_dpbsud(0, 2, 4);
    _tile_stored(0, t->low, 64);
  } else {
    _tile_zero(1);
    _tile_loadd(3, x->q, sizeof(ActivationBlock));
    _tile_loadd(5, weights, 64);
    _tile_dpbsud(1, 3, 5);
    _tile_stored(1, t->low, 64);
  }
}

/// Adds the block's sums to acc of 16 rows.
template <class F>
LANES_INLINE void AddTileSums(const TileSums& t, const BlockScales& scales, const ActivationBlock* x, F32x16* acc) {
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

  static LANES_INLINE void StoreGroups(const U8x64* groups, uint8_t* weights) {
    LANES_UNROLL for (int j = 0; j < 8; ++j) _mm512_store_si512(weights + 64 * j, groups[j]);
    StoresBeforeTiles(weights);
  }

  /// Overlaps a block's tile product with the float operations of the previous block.
  static LANES_INLINE void RunBlocks(const UnpackedBlocks& w, int64_t count, const ActivationBlock* x, F32x16* acc) {
    TileSums even, odd;
    SumBlock<F, 0>(w.weights[0], x, &even);
    int64_t b = 0;
    for (; b + 2 < count; b += 2) {
      SumBlock<F, 1>(w.weights[b + 1], x + (b + 1) * kRowTile, &odd);
      AddTileSums<F>(even, w.scales[b], x + b * kRowTile, acc);
      SumBlock<F, 0>(w.weights[b + 2], x + (b + 2) * kRowTile, &even);
      AddTileSums<F>(odd, w.scales[b + 1], x + (b + 1) * kRowTile, acc);
    }
    if (b + 1 < count) SumBlock<F, 1>(w.weights[b + 1], x + (b + 1) * kRowTile, &odd);
    AddTileSums<F>(even, w.scales[b], x + b * kRowTile, acc);
    if (b + 1 < count) AddTileSums<F>(odd, w.scales[b + 1], x + (b + 1) * kRowTile, acc);
  }
};

}  // namespace
}  // namespace ringside::cpu::RINGSIDE_LANES
