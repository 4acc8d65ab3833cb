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

  /// Whether its t-th tile exists.
  __device__ __forceinline__ bool Has(const StagedTile& of, int t) const {
    return tile + t >= 0 && tile + t < (is_pinned ? of.pinned_tiles : of.ring_tiles);
  }
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

/// With a fixed order: the splits of pinned units come first, then those of ring units, which begin at multiples of
/// split_units from S on. So a key's split depends on its position alone.
struct FixedSplits {
  int pinned, count, first_ring;  // splits of pinned units; all; number of the first ring split, counted from S
  int size;                       // units per split

  __device__ __forceinline__ FixedSplits(const AttentionPlan& a, const StagedTile& tile, const WideUnits& units) {
    size = a.split_units;
    pinned = (units.pinned + size - 1) / size;
    first_ring = units.first_ring / size;
    const int end = (units.first_ring + units.all - units.pinned + size - 1) / size;
    count = pinned + (tile.ring_tiles > 0 ? end - first_ring : 0);
  }
  /// A split of a tile; none if it does not exist.
  __device__ __forceinline__ StagedSplit At(const WideUnits& units, int tile, int split) const {
    if (split >= count) return {-1, 0, 0};
    if (split < pinned) return {tile, split * size, min((split + 1) * size, units.pinned)};
    const int ring = (first_ring + split - pinned) * size - units.first_ring + units.pinned;
    return {tile, max(ring, units.pinned), min(ring + size, units.all)};
  }
};

/// Where the splits of a tile store partial results: [query][kValues] sums, then [query][2] running maxima and sums of
/// probabilities.
template <int kValues>
struct WidePartials {
  static constexpr int kFloats = kWideQueries * (kValues + 2);
  float* first;    // of the tile's first split
  int64_t stride;  // floats from split to split

  /// `fixed_tile`: with a fixed order, the tile's number among those of the launch.
  __device__ __forceinline__ WidePartials(const AttentionPlan& a, int tile, int fixed_tile, int head_tile,
                                          int head_tiles) {
    const bool fixed = a.wide_splits == nullptr;
    stride = int64_t{fixed ? 1 : head_tiles} * kFloats;
    const int64_t block = fixed ? (int64_t{fixed_tile} * head_tiles + head_tile) * a.splits
                                : int64_t{a.first_splits[tile]} * head_tiles + head_tile;
    first = a.partial + block * kFloats;
  }
};
/// The number of splits of a tile if they are listed.
__device__ __forceinline__ int ListedSplits(const AttentionPlan& a, int tile) {
  return a.first_splits[tile + 1] - a.first_splits[tile];
}

}  // namespace ringside::cuda
