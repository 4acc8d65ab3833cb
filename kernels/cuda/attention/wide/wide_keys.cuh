// Supplies keys and values to attention_wide.cuh: the block shape, shared memory with its pipeline stages and barriers,
// and the producer warps. Included by .cu files.
#pragma once

#include "kernels/cuda/attention/wgmma_keys.cuh"
#include "kernels/cuda/attention/wide/wide_splits.cuh"

namespace ringside::cuda {

constexpr int kWideBox = 64 * 128;  // bytes of 64 dimensions of 64 queries, keys or values: rows of 128 bytes, swizzled

/// D: dimensions of a key, V: of a value. kIsLatent: values are a part of the keys, which are stored token by token.
template <int D, int V, bool kIsLatent>
struct WideShape {
  static constexpr int kDim = D, kValueDim = V;
  static constexpr bool kLatent = kIsLatent;
  static constexpr int kStages = !kLatent ? 1 : D > 320 ? 2 : 4;
  static constexpr int kConsumerWarps = 8, kProducerWarps = kWideTiles;  // a producer warp copies one tile of a unit
  static constexpr int kConsumers = 32 * kConsumerWarps, kThreads = kConsumers + 32 * kProducerWarps;
  // Registers per thread: producers keep kFetcher and consumers take the rest.
  template <int kFetcher>
  static constexpr int kConsumerRegisters = (65536 / kThreads / 8 * 8 * 3 - kFetcher) / 2 / 8 * 8;
  static constexpr int kQueryBytes = D / 64 * kWideBox;
  static constexpr int kKeyBytes = 64 * D * 2, kStage = kKeyBytes + (kLatent ? 0 : 64 * V * 2);
  static constexpr int kGroupValues = V / 2, kParts = kGroupValues / 128;  // of a consumer group; of one WGMMA each
  static constexpr int kExchange = 2 * 8 * 128 * 4, kMaxima = 2 * kWideQueries * 4;
  static constexpr int kBytes = 1024 + kQueryBytes + kStages * (kStage + 4 * 8) + kExchange + kMaxima;
  static_assert(D % 64 == 0 && V % 256 == 0 && kBytes <= static_cast<int>(SharedBytes(true)));
};

/// A block's shared memory: queries, stages, exchanged registers and maxima, barriers. A unit's half 0 is its keys, 1
/// its values; a latent cache has half 0 alone.
template <class S>
struct WideShared {
  uint32_t queries, barriers;
  uint32_t* exchanged;  // [group][register][thread]
  float* maxima;        // [group][query]

  __device__ __forceinline__ explicit WideShared(unsigned char* shared) {
    queries = (SharedAddress(shared) + 1023) / 1024 * 1024;
    unsigned char* after = shared + (queries - SharedAddress(shared)) + S::kQueryBytes + S::kStages * S::kStage;
    exchanged = reinterpret_cast<uint32_t*>(after);
    maxima = reinterpret_cast<float*>(after + S::kExchange);
    barriers = SharedAddress(maxima) + S::kMaxima;
  }
  // `n`: index of a unit in the order in which the block consumes them.
  __device__ __forceinline__ uint32_t Keys(int n) const {
    return queries + S::kQueryBytes + n % S::kStages * S::kStage;
  }
  __device__ __forceinline__ uint32_t Values(int n) const { return Keys(n) + (S::kLatent ? 0 : S::kKeyBytes); }
  __device__ __forceinline__ uint32_t Full(int n, int half) const { return barriers + (n % S::kStages * 4 + half) * 8; }
  __device__ __forceinline__ uint32_t Empty(int n, int half) const { return Full(n, half) + 16; }
  /// Called by one thread.
  __device__ __forceinline__ void Init() const {
    for (int n = 0; n < S::kStages; ++n) {
      for (int half = 0; half < 2; ++half) {
        InitBarrier(Full(n, half), S::kProducerWarps), InitBarrier(Empty(n, half), S::kConsumerWarps);
      }
    }
    FenceBarriers();
  }
  __device__ __forceinline__ void AwaitFull(int n, int half) const { WaitAt(Full(n, half), n / S::kStages % 2); }
  __device__ __forceinline__ void AwaitEmpty(int n, int half) const { WaitAt(Empty(n, half), n / S::kStages % 2 ^ 1); }
  __device__ __forceinline__ void Release(int n, int half, int lane) const { ArriveAsWarp(Empty(n, half), lane); }
};

/// Byte offset of 16 bytes, eight dimensions, in a box.
__device__ __forceinline__ int InBox(int row, int unit) { return row * 128 + (unit ^ row % 8) * 16; }

/// A warp copies 16 rows of kDims elements, a tile's values or latent keys, to `to`, the tile's rows of the stage. Rows
/// that no query sees become zero: that memory may hold anything, and 0 x NaN is NaN.
template <int kDims>
__device__ __forceinline__ void FetchSeenRows(const char* from, uint32_t to, int first, const WideUnit& unit,
                                              bool exists, uint32_t barrier, int lane) {
  for (int i = lane; i < 16 * (kDims / 8); i += 32) {
    const int key = i / (kDims / 8), part = i % (kDims / 8), position = first + key;
    CopyAsyncOrZero(to + part / 8 * kWideBox + InBox(key, part % 8), from + i * 16,
                    exists && position >= unit.from && position <= unit.to);
  }
  ArriveOnCopies(barrier);
  ArriveAsWarp(barrier, lane);
}
/// As FetchSeenRows, of a tile whose rows are all seen.
template <int kDims>
__device__ __forceinline__ void FetchRows(int at, uint32_t to, const CUtensorMap& map, uint32_t barrier, int lane) {
  if (lane != 0) return;
  ArriveExpectTx(barrier, 16 * kDims * 2);
  for (int box = 0; box < kDims / 64; ++box)
    CopyTileBox(to + box * kWideBox, map, at * kWideUnitBoxes + box, 0, barrier);
}

/// The addresses of a row tile's key tiles, for the block's key head.
struct WideTiles {
  const AttentionPlan& a;
  const StagedTile& tile;
  const char *history, *own;

  __device__ __forceinline__ WideTiles(const AttentionPlan& plan, const StagedTile& of) : a(plan), tile(of) {
    const int kv_head = static_cast<int>(blockIdx.y) / a.tiles_of_group;
    history = TileAddress(a, const_cast<void*>(tile.history), 0, kv_head);
    own = TileAddress(a, tile.slab, 0, kv_head);
  }
  /// A unit's t-th tile; the first of all if it does not exist.
  __device__ __forceinline__ const char* At(const WideUnit& unit, int t) const {
    const int i = unit.tile + t;
    if (!unit.Has(tile, t)) return history;
    return !unit.is_pinned && i >= tile.own ? own + OwnTile(a, tile, i) * a.tile_bytes
                                            : KeyTile(a, tile, history, unit.is_pinned, i);
  }
};

/// Producer loop of a warp: copies tile `warp` of each of the block's units.
template <class S>
__device__ __forceinline__ void FetchWideUnits(const AttentionPlan& a, const StagedTile& tile, const WideUnits& units,
                                               int begin, int end, const WideShared<S>& shared, const KeyMaps& maps,
                                               int warp, int lane) {
  constexpr int kRows = S::kLatent ? 0 : 1, kRowDims = S::kLatent ? S::kDim : S::kValueDim;  // the half stored by rows
  const WideTiles tiles(a, tile);
  for (int n = 0; n < end - begin; ++n) {
    const WideUnit unit = units.At(tile, begin + n);
    const int first = unit.first + warp * 16;  // position of the tile's first key
    const bool exists = unit.Has(tile, warp);
    const char* from = tiles.At(unit, warp);
    const auto at = static_cast<int>((from - static_cast<const char*>(a.memory)) / kWideUnitBytes);
    if constexpr (!S::kLatent) {  // keys of a tile that does not exist are masked
      shared.AwaitEmpty(n, 0);
      if (lane == 0 && exists) {
        ArriveExpectTx(shared.Full(n, 0), S::kDim * 32);
        CopyTileBox(shared.Keys(n) + warp * S::kDim * 32, maps.keys, 0, at, shared.Full(n, 0));
      } else if (lane == 0) {
        ArriveAt(shared.Full(n, 0));
      }
    }
    shared.AwaitEmpty(n, kRows);
    const uint32_t to = shared.Values(n) + warp * 16 * 128, full = shared.Full(n, kRows);
    if (exists && first >= unit.from && first + 15 <= unit.to) {
      FetchRows<kRowDims>(at + kRows * (S::kDim * 32 / kWideUnitBytes), to, maps.values, full, lane);
    } else {
      FetchSeenRows<kRowDims>(from + kRows * S::kDim * 32, to, first, unit, exists, full, lane);
    }
    __syncwarp();
  }
}

}  // namespace ringside::cuda
