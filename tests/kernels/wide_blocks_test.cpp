// The division of the keys of wide heads among blocks: every unit once, long and short sequences evenly, and as many
// blocks at every length of a decoded sequence.
#include "kernels/cuda/attention/wide/wide_blocks.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace ringside::cuda {
namespace {

constexpr int64_t kProcessors = 132, kPartialBytes = 64 * 514 * 4;

/// A tile whose rows see `pinned` pinned keys and `ring` keys from position `first` of the ring on.
StagedTile TileOf(int32_t pinned, int32_t first, int32_t ring) {
  StagedTile tile{};
  tile.pinned_tiles = (pinned + 15) / 16;
  tile.first_tile = first / 16;
  tile.ring_tiles = ring == 0 ? 0 : (first + ring - 1) / 16 - first / 16 + 1;
  return tile;
}

int32_t UnitsOf(const StagedTile& tile) {
  const int32_t ring = tile.ring_tiles == 0 ? 0 : (tile.first_tile + tile.ring_tiles + 3) / 4 - tile.first_tile / 4;
  return (tile.pinned_tiles + 3) / 4 + ring;
}

int32_t LargestSplit(const WideBlocks& blocks) {
  int32_t most = 0;
  for (const StagedSplit& split : blocks.splits) most = std::max(most, split.end - split.begin);
  return most;
}

TEST(WideBlocks, CoverEveryUnitOnce) {
  const std::vector<StagedTile> tiles = {TileOf(4, 0, 131000), TileOf(70, 48, 300), TileOf(0, 17, 1), TileOf(9, 0, 0)};
  for (const int64_t head_tiles : {1, 2, 5}) {
    const WideBlocks blocks = DivideWideTiles(kProcessors, head_tiles, kPartialBytes, tiles);
    ASSERT_EQ(blocks.first.size(), tiles.size() + 1);
    for (size_t t = 0; t < tiles.size(); ++t) {
      int32_t next = 0;
      for (int32_t i = blocks.first[t]; i < blocks.first[t + 1]; ++i) {
        const StagedSplit& split = blocks.splits[static_cast<size_t>(i)];
        EXPECT_EQ(split.tile, static_cast<int32_t>(t));
        EXPECT_EQ(split.begin, next);
        EXPECT_GT(split.end, split.begin);
        next = split.end;
      }
      EXPECT_EQ(next, UnitsOf(tiles[t]));
    }
    for (size_t i = static_cast<size_t>(blocks.first.back()); i < blocks.splits.size(); ++i) {
      EXPECT_EQ(blocks.splits[i].tile, -1);
    }
  }
}

TEST(WideBlocks, ALongSequenceTakesTheBlocksThatShortOnesLeave) {
  std::vector<StagedTile> tiles(7, TileOf(4, 0, 1000));
  tiles.push_back(TileOf(4, 0, 131000));
  const WideBlocks blocks = DivideWideTiles(kProcessors, 1, kPartialBytes, tiles);
  EXPECT_LE(std::ssize(blocks.splits), 2 * kProcessors);
  EXPECT_LE(LargestSplit(blocks), 2 * (UnitsOf(tiles.back()) + 7 * UnitsOf(tiles[0])) / kProcessors);
}

TEST(WideBlocks, TheirNumberIsTheSameWhileASequenceGrows) {
  for (const int32_t keys : {100, 1000, 5000, 131000}) {
    const StagedTile tiles[] = {TileOf(4, 0, keys)};
    EXPECT_EQ(std::ssize(DivideWideTiles(kProcessors, 1, kPartialBytes, tiles).splits), kProcessors) << keys;
    EXPECT_EQ(std::ssize(DivideWideTiles(kProcessors, 2, kPartialBytes, tiles).splits), kProcessors / 2) << keys;
  }
}

TEST(WideBlocks, AWaveIsNotLeftHalfEmpty) {
  const std::vector<StagedTile> chunk(171, TileOf(4, 0, 4096));  // two waves; the second would have 39 blocks
  const WideBlocks blocks = DivideWideTiles(kProcessors, 1, kPartialBytes, chunk);
  const int64_t waves = (std::ssize(blocks.splits) + kProcessors - 1) / kProcessors;
  EXPECT_LT(waves * LargestSplit(blocks), 17 * UnitsOf(chunk[0]) / 10);
  const std::vector<StagedTile> many(5000, TileOf(4, 0, 4096));
  EXPECT_EQ(DivideWideTiles(kProcessors, 1, kPartialBytes, many).splits.size(), many.size());
}

}  // namespace
}  // namespace ringside::cuda
