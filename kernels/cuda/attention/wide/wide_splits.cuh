// Divides the keys of a row tile into units and splits for attention_wide.cuh, and places the splits' partial results.
// Included by .cu files.
#pragma once

#include "kernels/cuda/attention/attention_inl.cuh"

namespace ringside::cuda {

constexpr int kWideQueries = 64;                            // queries of a block
constexpr int kWideTiles = 4, kWideKeys = 16 * kWideTiles;  // of a unit

/// Four tiles of pinned or of ring keys. Tiles outside the row tile's range do not exist.
struct WideUnit {
  bool is_pinned;
  int tile;             // the first, among the row tile's pinned or ring tiles; below 0: before the first of these
  int first, from, to;  // position of its first key; range of positions that some row sees

  /// Whether all its keys exist and are seen.
  __device__ __forceinline__ bool IsSeen() const { return first >= from && first + kWideKeys - 1 <= to; }
};

/// Units of pinned keys, then of ring keys. Ring units begin at multiples of kWideKeys from S on.
struct WideUnits {
  int pinned, all, first_ring;  // first_ring: number of the first ring unit, counted from S

  __device__ __forceinline__ explicit WideUnits(const StagedTile& tile) {
    pinned = (tile.pinned_tiles + kWideTiles - 1) / kWideTiles;
    first_ring = tile.first_tile / kWideTiles;
    const int end = (tile.first_tile + tile.ring_tiles + kWideTiles - 1) / kWideTiles;
    all = pinned + (tile.ring_tiles > 0 ? end - first_ring : 0);
  }
  __device__ __forceinline__ WideUnit At(const StagedTile& tile, int i) const {
    if (i < pinned) {
      return {true, i * kWideTiles, i * kWideKeys, 0, min(tile.pinned - 1, tile.last)};
    }
    const int ring = first_ring + i - pinned;
    return {false, ring * kWideTiles - tile.first_tile, tile.pinned + ring * kWideKeys, tile.first, tile.last};
  }
};

struct UnitRange {
  int begin, end;
};

/// With a fixed order, the splits of pinned units come first, then those of ring units, which begin at multiples of
/// split_units from S on: a key's split depends on its position alone.
struct WideSplits {
  int pinned, count, first_ring;  // splits of pinned units; all; number of the first ring split, counted from S
  int size;                       // units per split; 0: equal splits

  __device__ __forceinline__ WideSplits(const AttentionPlan& a, const StagedTile& tile, const WideUnits& units,
                                        int blocks) {
    size = a.split_units;
    pinned = 0, first_ring = 0, count = blocks;
    if (size == 0) return;
    pinned = (units.pinned + size - 1) / size;
    first_ring = units.first_ring / size;
    const int end = (units.first_ring + units.all - units.pinned + size - 1) / size;
    count = pinned + (tile.ring_tiles > 0 ? end - first_ring : 0);
  }
  /// Units of a split; none if it does not exist.
  __device__ __forceinline__ UnitRange UnitsOf(const WideUnits& units, int split) const {
    if (size == 0) return {units.all * split / count, units.all * (split + 1) / count};
    if (split >= count) return {0, 0};
    if (split < pinned) return {split * size, min((split + 1) * size, units.pinned)};
    const int ring = (first_ring + split - pinned) * size - units.first_ring + units.pinned;
    return {max(ring, units.pinned), min(ring + size, units.all)};
  }
};

/// Whether blocks store partial results.
__device__ __forceinline__ bool HasWidePartials(const AttentionPlan& a, int splits) {
  return a.split_units > 0 || splits > 1;
}
/// Partial results of a split: [query][kValues] sums, then [query][2] running maxima and sums of probabilities.
template <int kValues>
__device__ __forceinline__ float* WidePartialAt(const AttentionPlan& a, int tile, int head_tile, int head_tiles,
                                                int split, int splits) {
  const int64_t block = (static_cast<int64_t>(tile) * head_tiles + head_tile) * splits + split;
  return a.partial + block * kWideQueries * (kValues + 2);
}

}  // namespace ringside::cuda
