// Producer warps of attention_wide.cuh for E4M3 caches: 8 bits are converted to float16 in registers. The layout in
// shared memory is that of wide_keys.cuh. The tile after the next is prefetched into the L2 cache, because a warp has
// registers for few loads in flight.
#pragma once

#include "kernels/cuda/attention/wgmma_convert.cuh"
#include "kernels/cuda/attention/wide/wide_keys.cuh"

namespace ringside::cuda {

/// Converts a tile's kPieces pieces of 16 elements. place(piece, half) is the shared-memory address of eight of them;
/// pieces that are not seen(piece) become zero.
template <int kPieces, class Place, class Seen>
__device__ __forceinline__ void WidenPieces(const char* from, int lane, const Place& place, const Seen& seen) {
  constexpr int kOfLane = kPieces / 32, kAtATime = 6;  // pieces whose loads are in flight together
  static_assert(kPieces % 32 == 0);
#pragma unroll 1
  for (int begin = 0; begin < kOfLane; begin += kAtATime) {
    uint4 pieces[kAtATime];
#pragma unroll
    for (int i = 0; i < kAtATime; ++i) {
      const int piece = (begin + i) * 32 + lane;
      pieces[i] = begin + i < kOfLane && seen(piece) ? reinterpret_cast<const uint4*>(from)[piece] : uint4{0, 0, 0, 0};
    }
#pragma unroll
    for (int i = 0; i < kAtATime; ++i) {
      const int piece = (begin + i) * 32 + lane;
      if (begin + i >= kOfLane) break;
      StoreShared(place(piece, 0), E4M3ToHalf8(pieces[i].x, pieces[i].y));
      StoreShared(place(piece, 1), E4M3ToHalf8(pieces[i].z, pieces[i].w));
    }
  }
}

/// As FetchWideUnits (wide_keys.cuh), for E4M3.
template <class S>
__device__ __forceinline__ void WidenUnits(const AttentionPlan& a, const StagedTile& tile, const WideUnits& units,
                                           int begin, int end, const WideShared<S>& shared, int warp, int lane) {
  constexpr int kRows = S::kLatent ? 0 : 1, kRowDims = S::kLatent ? S::kDim : S::kValueDim;
  constexpr int kKeyBytes = S::kLatent ? 0 : S::kDim * 16, kTileBytes = kKeyBytes + 16 * kRowDims;
  const WideTiles tiles(a, tile);
  const auto fill = [&](int n, int half) {
    FenceProxyAsync();
    ArriveAsWarp(shared.Full(n, half), lane);
  };
  for (int n = 0; n < end - begin; ++n) {
    const WideUnit unit = units.At(tile, begin + n), later = units.At(tile, min(begin + n + 2, end - 1));
    const int first = unit.first + warp * 16;
    const bool exists = unit.Has(tile, warp);
    const char* from = tiles.At(unit, warp);
    const char* next = tiles.At(later, warp);
    for (int i = lane; i < kTileBytes / 128; i += 32) Prefetch(next + i * 128);
    if constexpr (!S::kLatent) {
      shared.AwaitEmpty(n, 0);
      const uint32_t keys = shared.Keys(n) + warp * S::kDim * 32;
      WidenPieces<S::kDim>(
          from, lane, [&](int d, int half) { return keys + d * 32 + (half ^ (d >> 2 & 1)) * 16; },
          [&](int) { return exists; });
      fill(n, 0);
    }
    shared.AwaitEmpty(n, kRows);
    const uint32_t rows = shared.Values(n) + warp * 16 * 128;
    WidenPieces<kRowDims>(
        from + kKeyBytes, lane,
        [&](int piece, int half) {
          const int part = piece % (kRowDims / 16) * 2 + half;
          return rows + part / 8 * kWideBox + InBox(piece / (kRowDims / 16), part % 8);
        },
        [&](int piece) {
          const int position = first + piece / (kRowDims / 16);
          return exists && position >= unit.from && position <= unit.to;
        });
    fill(n, kRows);
  }
}

}  // namespace ringside::cuda
