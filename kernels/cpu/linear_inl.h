// y = x W^T for one piece: some panels of one weight, some rows. There is one accumulator per output and row, and
// blocks (or inputs, for float weights) are added in order, so the tile size only changes how many outputs are computed
// together.
//
// Quantized, per block b, with s the exact integer sum of q x over the block (offset subtracted in integers):
//   acc = fma(float(s), d * x.scale, acc), and with a minimum: acc = fma(m, x.scaled_sum, acc)
//   Two scales: float(s) is s_low * scale_low + s_high * scale_high, also exact. Two minima: analogous, with sums of x.
// Float and scaled E4M3: acc = fma(w, x, acc). At the end: y = acc, + bias if given, + old y if accumulating.
// Included by one file per instruction set.
// THREAD: any.
#pragma once

#include "kernels/cpu/row_tiles_inl.h"
#ifdef RINGSIDE_TILE_UNIT
#include RINGSIDE_TILE_UNIT
#endif

namespace ringside::cpu::RINGSIDE_LANES {
namespace {

/// Prefetch distance in bytes, and the number of first rows that prefetch a panel; later rows find it in the cache.
constexpr int64_t kFetchAhead = 2560, kRowsThatFetch = 8;

template <int64_t kBytes>
LANES_INLINE void Fetch(const uint8_t* p) {
  LANES_UNROLL for (int64_t i = 0; i < kBytes; i += 64) __builtin_prefetch(p + i, 0, 3);
}

/// All groups of the block stay in registers while up to four rows at a time are processed. An integer sum is one
/// dependency chain, so several must be in flight: one per row, or two per row with two scales.
template <class F, int M>
LANES_INLINE void BlockTimesRowsWide(const uint8_t* p, const BlockScales& scales, const ActivationBlock* x,
                                     F32x16* acc) {
  constexpr int kMost = F::kTwoScales ? 2 : 4, kTogether = M < kMost ? M : kMost;
  static_assert(M % kTogether == 0);
  U8x64 a[4], b[4];
  F::template Groups<0>(p, &a[0], &b[0]);
  F::template Groups<1>(p, &a[1], &b[1]);
  F::template Groups<2>(p, &a[2], &b[2]);
  F::template Groups<3>(p, &a[3], &b[3]);
  LANES_UNROLL for (int i = 0; i < M; i += kTogether) {
    BlockSums s[kTogether];
    LANES_UNROLL for (int r = 0; r < kTogether; ++r) s[r] = StartSums<F>(x[i + r]);
    LANES_UNROLL for (int r = 0; r < kTogether; ++r) AddGroups<F, 0>(a[0], b[0], x[i + r], &s[r]);
    LANES_UNROLL for (int r = 0; r < kTogether; ++r) AddGroups<F, 1>(a[1], b[1], x[i + r], &s[r]);
    LANES_UNROLL for (int r = 0; r < kTogether; ++r) AddGroups<F, 2>(a[2], b[2], x[i + r], &s[r]);
    LANES_UNROLL for (int r = 0; r < kTogether; ++r) AddGroups<F, 3>(a[3], b[3], x[i + r], &s[r]);
    LANES_UNROLL for (int r = 0; r < kTogether; ++r) acc[i + r] = AddBlock<F>(s[r], scales, x[i + r], acc[i + r]);
  }
}

template <class F, int M, int J>
LANES_INLINE void GroupTimesRows(const uint8_t* p, const ActivationBlock* x, BlockSums* s) {
  U8x64 a, b;
  F::template Groups<J>(p, &a, &b);
  LANES_UNROLL for (int i = 0; i < M; ++i) AddGroups<F, J>(a, b, x[i], &s[i]);
}

/// Two groups at a time; the sums of all rows stay in registers.
template <class F, int M>
LANES_INLINE void BlockTimesRowsNarrow(const uint8_t* p, const BlockScales& scales, const ActivationBlock* x,
                                       F32x16* acc) {
  BlockSums s[M];
  LANES_UNROLL for (int i = 0; i < M; ++i) s[i] = StartSums<F>(x[i]);
  GroupTimesRows<F, M, 0>(p, x, s);
  GroupTimesRows<F, M, 1>(p, x, s);
  GroupTimesRows<F, M, 2>(p, x, s);
  GroupTimesRows<F, M, 3>(p, x, s);
  LANES_UNROLL for (int i = 0; i < M; ++i) acc[i] = AddBlock<F>(s[i], scales, x[i], acc[i]);
}

/// One panel times M rows of a tile; consecutive blocks of a row are `pitch` apart.
template <class F, int M>
LANES_PRODUCT void QuantizedTile(const LinearPiece& piece, const uint8_t* p, int64_t panel, const ActivationBlock* x,
                                 int64_t pitch, int64_t row) {
  using L = typename F::Layout;
  const bool fetch = row < piece.first_row + kRowsThatFetch;
  F32x16 acc[M];
  LANES_UNROLL for (int i = 0; i < M; ++i) acc[i] = Zero();
  for (int64_t unit = piece.cols / (kBlock * L::kBlocks); unit > 0; --unit) {
    const uint8_t* header = p;
    p += L::kHeader;
    for (int64_t b = 0; b < L::kBlocks; ++b, p += L::kBytes, x += pitch) {
      if (fetch) Fetch<L::kBytes>(p + kFetchAhead);
      BlockScales scales;
      F::Scales(header, p, &scales);
      if constexpr (kWideRegisters) {
        BlockTimesRowsWide<F, M>(p, scales, x, acc);
      } else {
        BlockTimesRowsNarrow<F, M>(p, scales, x, acc);
      }
    }
  }
  LANES_UNROLL for (int i = 0; i < M; ++i) StoreOutputs(piece, panel, row + i, acc[i]);
}

#ifndef RINGSIDE_TILE_UNIT
constexpr bool kTileUnit = false;
template <class F>
struct TileUnit {  // no tile unit: no setup
  struct Use {
    Use() {}
  };
};
#endif

/// One panel times the rows of one tile of activations.
template <class F>
void PanelTimesRowTile(const LinearPiece& piece, const uint8_t* p, int64_t panel, const ActivationBlock* x,
                       int64_t tile_rows, int64_t row) {
  int64_t i = 0;
  if constexpr (kMostRows >= 16) {
    for (; i + 16 <= tile_rows; i += 16) QuantizedTile<F, 16>(piece, p, panel, x + i, tile_rows, row + i);
    for (; i + 8 <= tile_rows; i += 8) QuantizedTile<F, 8>(piece, p, panel, x + i, tile_rows, row + i);
  }
  for (; i + 4 <= tile_rows; i += 4) QuantizedTile<F, 4>(piece, p, panel, x + i, tile_rows, row + i);
  for (; i + 2 <= tile_rows; i += 2) QuantizedTile<F, 2>(piece, p, panel, x + i, tile_rows, row + i);
  for (; i < tile_rows; ++i) QuantizedTile<F, 1>(piece, p, panel, x + i, tile_rows, row + i);
}

template <class F>
void QuantizedPiece(const LinearPiece& piece) {
  using L = typename F::Layout;
  const int64_t blocks = piece.cols / kBlock;
  const int64_t panel_bytes = blocks / L::kBlocks * (L::kHeader + L::kBlocks * L::kBytes);
  const typename TileUnit<F>::Use use;
  for (int64_t panel = piece.first_panel; panel < piece.last_panel; ++panel) {
    const uint8_t* p = piece.panels + panel * panel_bytes;
    int64_t row = piece.first_row;
    if constexpr (kTileUnit) {
      const int64_t tiles = (piece.last_row - row) / kRowTile;
      if (tiles > 0) PanelTimesRowTiles<F>(piece, p, panel, row, tiles);
      row += tiles * kRowTile;
    }
    for (; row < piece.last_row; row += kRowTile) {
      const int64_t tile_rows = piece.all_rows - row < kRowTile ? piece.all_rows - row : kRowTile;
      PanelTimesRowTile<F>(piece, p, panel, piece.activations + row * blocks, tile_rows, row);
    }
  }
}

/// P panels times M rows.
template <class W, int M, int P>
LANES_PRODUCT void FloatTile(const LinearPiece& piece, int64_t panel, int64_t row) {
  F32x16 acc[M][P];
  LANES_UNROLL for (int i = 0; i < M; ++i) { LANES_UNROLL for (int j = 0; j < P; ++j) acc[i][j] = Zero(); }
  const int64_t panel_bytes = piece.cols / W::kInputs * (W::kHeader + W::kInputs * W::kBytes);
  const uint8_t* w = piece.panels + panel * panel_bytes;
  const float* x = piece.x + row * piece.x_stride;
  for (int64_t unit = piece.cols / W::kInputs; unit > 0; --unit) {
    typename W::Scales scales[P];
    LANES_UNROLL for (int j = 0; j < P; ++j) scales[j] = W::ReadScales(w + j * panel_bytes);
    w += W::kHeader;
    for (int64_t k = 0; k < W::kInputs; ++k, ++x, w += W::kBytes) {
      F32x16 v[P];
      LANES_UNROLL for (int j = 0; j < P; ++j) v[j] = W::Read(w + j * panel_bytes, scales[j]);
      LANES_UNROLL for (int i = 0; i < M; ++i) {
        const F32x16 a = Set(x[i * piece.x_stride]);
        LANES_UNROLL for (int j = 0; j < P; ++j) acc[i][j] = Fma(v[j], a, acc[i][j]);
      }
    }
  }
  LANES_UNROLL for (int i = 0; i < M; ++i) {
    LANES_UNROLL for (int j = 0; j < P; ++j) StoreOutputs(piece, panel + j, row + i, acc[i][j]);
  }
}

template <class W, int P>
void FloatPanels(const LinearPiece& piece, int64_t panel) {
  constexpr int kMany = kWideRegisters || P == 1 ? 6 : 3;
  int64_t row = piece.first_row;
  for (; row + kMany <= piece.last_row; row += kMany) FloatTile<W, kMany, P>(piece, panel, row);
  for (; row + 2 <= piece.last_row; row += 2) FloatTile<W, 2, P>(piece, panel, row);
  for (; row < piece.last_row; ++row) FloatTile<W, 1, P>(piece, panel, row);
}

template <class W>
void FloatPiece(const LinearPiece& piece) {
  // Narrow registers hold 6 rows of 1 panel, or 1 row of 4 panels: enough independent sums to hide the latency.
  const bool four = kWideRegisters || piece.last_row - piece.first_row < 6;
  int64_t panel = piece.first_panel;
  if (four) {
    for (; panel + 4 <= piece.last_panel; panel += 4) FloatPanels<W, 4>(piece, panel);
  }
  for (; panel < piece.last_panel; ++panel) FloatPanels<W, 1>(piece, panel);
}

void LinearPieceAny(const LinearPiece& piece) {
  switch (piece.dtype) {
    case DType::kF32:
      return FloatPiece<FloatF32>(piece);
    case DType::kF16:
      return FloatPiece<FloatF16>(piece);
    case DType::kBF16:
      return FloatPiece<FloatBf16>(piece);
    case DType::kScaledE4M3:
      return FloatPiece<ScaledE4M3>(piece);
#define PANEL(type, ...) \
  case DType::k##type:   \
    return QuantizedPiece<type>(piece);
#include "kernels/cpu/panel_types.def"
#undef PANEL
    default:  // never loaded: not file types
      return;
  }
}

}  // namespace
}  // namespace ringside::cpu::RINGSIDE_LANES
