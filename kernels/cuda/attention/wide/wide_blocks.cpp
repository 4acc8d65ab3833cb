#include "kernels/cuda/attention/wide/wide_blocks.h"

#include <algorithm>
#include <bit>

namespace ringside::cuda {
namespace {

constexpr int64_t kUnitTiles = 4;  // key tiles per unit
constexpr int64_t kMaxWaves = 4;
constexpr int64_t kFixedUnits = 3;  // time of a block apart from its units, for queries and sums
constexpr int64_t kMaxPartialBytes = int64_t{96} << 20;

/// As WideUnits::all (wide_splits.cuh).
int64_t UnitsOf(const StagedTile& tile) {
  const int64_t end = (int64_t{tile.first_tile} + tile.ring_tiles + kUnitTiles - 1) / kUnitTiles;
  return (tile.pinned_tiles + kUnitTiles - 1) / kUnitTiles +
         (tile.ring_tiles > 0 ? end - tile.first_tile / kUnitTiles : 0);
}

int64_t SplitsOf(int64_t units, int64_t size) { return std::max<int64_t>((units + size - 1) / size, 1); }

/// The least number of units per split with which all tiles have at most `most` splits in total.
int64_t LeastSize(std::span<const int64_t> units, int64_t most) {
  int64_t low = 1, high = std::max<int64_t>(*std::ranges::max_element(units), 1);
  while (low < high) {
    const int64_t size = (low + high) / 2;
    int64_t splits = 0;
    for (const int64_t count : units) splits += SplitsOf(count, size);
    splits <= most ? high = size : low = size + 1;
  }
  return low;
}

}  // namespace

WideBlocks DivideWideTiles(int64_t multiprocessors, int64_t head_tiles, int64_t partial_bytes,
                           std::span<const StagedTile> tiles) {
  const auto count = std::ssize(tiles);
  std::vector<int64_t> units;
  for (const StagedTile& tile : tiles) units.push_back(UnitsOf(tile));
  // Without splits, or in some waves of blocks: the shortest estimate.
  int64_t size = std::max<int64_t>(*std::ranges::max_element(units), 1), blocks = count;
  int64_t least = (count * head_tiles + multiprocessors - 1) / multiprocessors * (size + kFixedUnits);
  for (int64_t waves = 1; waves <= kMaxWaves; ++waves) {
    const int64_t most = std::max<int64_t>(waves * multiprocessors / head_tiles, 1);
    if (most * head_tiles * partial_bytes > kMaxPartialBytes) break;
    if (most <= count) continue;
    const int64_t smaller = LeastSize(units, most), time = waves * (smaller + kFixedUnits);
    if (time < least) least = time, size = smaller, blocks = most;
  }
  WideBlocks out{.splits = {}, .first = {0}};
  for (int64_t t = 0; t < count; ++t) {
    const int64_t all = units[static_cast<size_t>(t)], splits = SplitsOf(all, size);
    for (int64_t i = 0; i < splits; ++i) {
      out.splits.push_back({static_cast<int32_t>(t), static_cast<int32_t>(all * i / splits),
                            static_cast<int32_t>(all * (i + 1) / splits)});
    }
    out.first.push_back(static_cast<int32_t>(out.splits.size()));
  }
  out.splits.resize(static_cast<size_t>(std::max<int64_t>(blocks, std::ssize(out.splits))), {-1, 0, 0});
  return out;
}

int32_t MostFixedSplits(std::span<const StagedTile> tiles) {
  constexpr int64_t kTiles = kUnitTiles * kFixedSplitUnits;
  int64_t most = 1;
  for (const StagedTile& tile : tiles) {
    const int64_t pinned = (tile.pinned_tiles + kTiles - 1) / kTiles,
                  end = (int64_t{tile.first_tile} + tile.ring_tiles + kTiles - 1) / kTiles;
    most = std::max(most, pinned + (tile.ring_tiles > 0 ? end - tile.first_tile / kTiles : 0));
  }
  return static_cast<int32_t>(std::bit_ceil(static_cast<uint64_t>(most)));
}

}  // namespace ringside::cuda
