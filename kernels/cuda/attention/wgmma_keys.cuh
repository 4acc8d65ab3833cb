// Supplies keys and values of the ring to attention_wgmma.cuh: the block shape, the division of a row tile's keys into
// units, the pipeline stages and their barriers, and the producer warps. Full tiles are copied as TMA boxes
// (tensor_map.h); values that no row may see are zeroed. In a stage, keys are stored tile by tile with the 16 positions
// of a dimension contiguous, and values in columns of 64 dimensions, key by key; both are swizzled in 16-byte units as
// RightDescriptor (wgmma.cuh) expects.
#pragma once

#include "kernels/cuda/attention/attention_inl.cuh"
#include "kernels/cuda/tensor_map.h"
#include "kernels/cuda/wgmma.cuh"

namespace ringside::cuda {

/// Block shape by head size, with one or two consumer groups. Heads of 64 have both variants: two groups are faster
/// with many keys, one with few.
template <int D, int kGroupsOfQueries>
struct WgmmaShape {
  static_assert(D == 64 || (D == 128 && kGroupsOfQueries == 2));
  static constexpr int kDim = D, kGroups = kGroupsOfQueries;
  static constexpr int kBlocks = kGroups == 1 ? 2 : 1;  // resident blocks per SM
  static constexpr bool kWide = D == 64 && kGroups == 2;
  static constexpr int kStages = kWide ? 4 : 3, kTiles = kWide ? 12 : 8, kKeys = 16 * kTiles;
  static constexpr int kQueries = 64 * kGroups, kConsumerWarps = 4 * kGroups,
                       kProducerWarps = 4;  // kProducerWarps: producer warps
  static constexpr int kThreads = 32 * (kConsumerWarps + kProducerWarps);
  // Registers per thread: the launch gives kEven to all threads; producers keep kFetcher and consumers take the rest.
  static constexpr int kEven = 65536 / kBlocks / kThreads / 8 * 8;
  template <int kFetcher>
  static constexpr int kRegisters = (kEven * (kGroups + 1) - kFetcher) / kGroups / 8 * 8;
  static constexpr int kHalf = kKeys * D * 2, kStage = 2 * kHalf;   // bytes of a unit's keys, of a unit
  static constexpr int kReceived = 4 * kQueries * (D + 2);          // received from other splits; overlays the stages
  static constexpr int kBytes = kStages * (kStage + 4 * 8) + 1024;  // stages start at a multiple of 1,024
  static_assert(kReceived <= kStages * kStage);
};

/// Keys that are loaded and processed together: tiles of either the pinned or the ring keys.
struct UnitKeys {
  bool is_pinned;
  int of, tiles;        // first tile among those of its kind, and number
  int first, from, to;  // position of its first key; range of positions that some row sees
};
/// Division of a row tile's keys into units. If there are only a few pinned tiles, as with attention sinks, each is a
/// separate unit.
struct KeyUnits {
  int pinned_step, pinned, all;
};
template <class S>
__device__ __forceinline__ KeyUnits UnitsOf(const StagedTile& tile) {
  const int step = tile.pinned_tiles <= 2 ? 1 : S::kTiles, pinned = (tile.pinned_tiles + step - 1) / step;
  return {step, pinned, pinned + (tile.ring_tiles + S::kTiles - 1) / S::kTiles};
}
template <class S>
__device__ __forceinline__ UnitKeys UnitAt(const StagedTile& tile, const KeyUnits& units, int i) {
  if (i < units.pinned) {
    const int of = i * units.pinned_step;
    return {.is_pinned = true,
            .of = of,
            .tiles = min(units.pinned_step, tile.pinned_tiles - of),
            .first = of * 16,
            .from = 0,
            .to = min(tile.pinned - 1, tile.last)};
  }
  const int of = (i - units.pinned) * S::kTiles;
  return {.is_pinned = false,
          .of = of,
          .tiles = min(S::kTiles, tile.ring_tiles - of),
          .first = tile.pinned + (tile.first_tile + of) * 16,
          .from = tile.first,
          .to = tile.last};
}

/// Stages and their barriers in shared memory: full[2 stage + half], empty[...]; half 0 is keys, 1 values.
template <class S>
struct Stages {
  uint32_t base, barriers;
  __device__ __forceinline__ explicit Stages(const void* shared) {
    base = (SharedAddress(shared) + 1023) / 1024 * 1024;
    barriers = base + S::kStages * S::kStage;
  }
  __device__ __forceinline__ uint32_t Half(int n, int half) const {
    return base + n % S::kStages * S::kStage + half * S::kHalf;
  }
  __device__ __forceinline__ uint32_t Full(int n, int half) const { return barriers + (n % S::kStages * 4 + half) * 8; }
  __device__ __forceinline__ uint32_t Empty(int n, int half) const { return Full(n, half) + 16; }
  /// Called by one thread.
  __device__ __forceinline__ void Init() const {
    for (int n = 0; n < S::kStages; ++n) {
      for (int half = 0; half < 2; ++half) {
        InitBarrier(Full(n, half), S::kProducerWarps);
        InitBarrier(Empty(n, half), S::kConsumerWarps);
      }
    }
    FenceBarriers();
  }
  // `n`: index of the tile half in the order in which this block consumes them, from 0.
  __device__ __forceinline__ void AwaitFull(int n, int half) const {
    WaitAt(Full(n, half), n / S::kStages % 2);
    if (half == 1) FenceProxyAsync();  // some values are copied by threads and need a proxy fence; TMA boxes do not
  }
  __device__ __forceinline__ void AwaitEmpty(int n, int half) const { WaitAt(Empty(n, half), n / S::kStages % 2 ^ 1); }
  /// Arrival of a warp that wrote its part with ordinary stores.
  __device__ __forceinline__ void Fill(int n, int half, int lane) const {
    FenceProxyAsync();
    ArriveAsWarp(Full(n, half), lane);
  }
  __device__ __forceinline__ void Release(int n, int half, int lane) const { ArriveAsWarp(Empty(n, half), lane); }
};

/// TMA descriptors over the memory of all slabs (MapKeyTiles, MapValueTiles).
struct KeyMaps {
  CUtensorMap keys, values;
};
/// Copies a box. REQUIRES: one thread; the barrier expects its bytes (ArriveExpectTx).
__device__ __forceinline__ void CopyTileBox(uint32_t to, const CUtensorMap& map, int column, int half,
                                            uint32_t barrier) {
  RINGSIDE_WGMMA(
      "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%2, %3, %4, %5}], [%6];" ::"r"(to),
      "l"(&map), "r"(0), "r"(column), "r"(0), "r"(half), "r"(barrier)
      : "memory");
}

/// A warp copies the values [16][D] of a unit's t-th tile, whose first position is `first`. Values that no row sees
/// become zero: that memory may hold anything, and 0 x NaN is NaN.
template <class S>
__device__ __forceinline__ void FetchSeenValues(const char* tile, uint32_t values, int t, int first,
                                                const UnitKeys& unit, int lane) {
  constexpr int D = S::kDim;
#pragma unroll
  for (int i = 0; i < D / 16; ++i) {
    const int key = (i * 32 + lane) / (D / 8), part = lane % (D / 8), position = first + key;
    const uint32_t to = values + part / 8 * S::kKeys * 128 + (t * 16 + key) * 128 + (part % 8 ^ key % 8) * 16;
    CopyAsyncOrZero(to, tile + (i * 32 + lane) * 16, t < unit.tiles && position >= unit.from && position <= unit.to);
  }
}
/// The address of a unit's t-th tile, or of its last. `slab` is the address of the head's tile 0 in this layer.
__device__ __forceinline__ const char* TileOfUnit(const AttentionPlan& a, const StagedTile& tile, const char* slab,
                                                  const UnitKeys& unit, int t) {
  return KeyTile(a, tile, slab, unit.is_pinned, unit.of + min(t, unit.tiles - 1));
}
/// Producer loop: copies a warp's tiles of the block's units, by TMA boxes; values are copied by threads if some must
/// be masked.
template <class S>
__device__ __forceinline__ void FetchUnits(const AttentionPlan& a, const StagedTile& tile, const KeyUnits& units,
                                           int begin, int end, const char* slab, const Stages<S>& stages,
                                           const KeyMaps& maps, int warp, int lane) {
  constexpr int D = S::kDim, kHalfTileBytes = D * 32;
  const int first_half = static_cast<int>((slab - static_cast<const char*>(a.memory)) / kHalfTileBytes);
  const int tile_halves = static_cast<int>(a.tile_bytes / kHalfTileBytes);
  for (int n = 0; n < end - begin; ++n) {
    const UnitKeys unit = UnitAt<S>(tile, units, begin + n);
    const int all = unit.is_pinned ? units.pinned_step : S::kTiles;
    const auto half = [&](int t) {  // half tile index of its keys
      return first_half + PhysicalTile(a, tile, unit.is_pinned, unit.of + t) * tile_halves;
    };
    const int own = max(0, (unit.tiles - warp + S::kProducerWarps - 1) / S::kProducerWarps);
    stages.AwaitEmpty(n, 0);
    if (lane == 0) {
      ArriveExpectTx(stages.Full(n, 0), own * kHalfTileBytes);
      for (int t = warp; t < unit.tiles; t += S::kProducerWarps) {
        CopyTileBox(stages.Half(n, 0) + t * kHalfTileBytes, maps.keys, 0, half(t), stages.Full(n, 0));
      }
    }
    stages.AwaitEmpty(n, 1);
    const uint32_t values = stages.Half(n, 1);
    if (unit.tiles == all && unit.first >= unit.from && unit.first + all * 16 - 1 <= unit.to) {
      if (lane == 0) {
        ArriveExpectTx(stages.Full(n, 1), own * kHalfTileBytes);
        for (int t = warp; t < all; t += S::kProducerWarps) {
          for (int column = 0; column < D / 64; ++column) {
            CopyTileBox(values + column * S::kKeys * 128 + t * 2048, maps.values, column, half(t) + 1,
                        stages.Full(n, 1));
          }
        }
      }
    } else {
      for (int t = warp; t < all; t += S::kProducerWarps) {
        FetchSeenValues<S>(TileOfUnit(a, tile, slab, unit, t) + a.half_tile_bytes, values, t, unit.first + t * 16, unit,
                           lane);
      }
      ArriveOnCopies(stages.Full(n, 1));
      ArriveAsWarp(stages.Full(n, 1), lane);
    }
    __syncwarp();
  }
}

}  // namespace ringside::cuda
