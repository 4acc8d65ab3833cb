// Rotary positions of timelines with images.
#include "engine/vision/image_grid.h"

#include <gtest/gtest.h>

#include "engine/vision/image_tokens.h"

namespace ringside {
namespace {

void AddImage(int64_t rows, int64_t columns, uint8_t digest, std::vector<TokenId>* timeline) {
  for (int64_t i = 0; i < rows * columns; ++i) timeline->push_back(GridImageToken({digest}, i, i % columns == 0));
}

std::vector<TokenId> Timeline() {
  std::vector<TokenId> timeline{1, 80};
  AddImage(2, 3, 1, &timeline);
  timeline.insert(timeline.end(), {5, 4});
  AddImage(4, 1, 2, &timeline);
  timeline.push_back(5);
  AddImage(1, 2, 3, &timeline);
  timeline.insert(timeline.end(), {5, 90});
  return timeline;
}

TEST(ImageGrids, FollowFromTheIds) {
  const std::vector<ImageGrid> grids = FindImageGrids(Timeline());
  ASSERT_EQ(grids.size(), 3u);
  EXPECT_EQ(grids[0].position, 2);
  EXPECT_EQ(grids[0].rows, 2);
  EXPECT_EQ(grids[0].columns, 3);
  EXPECT_EQ(grids[0].saved, 3);
  EXPECT_EQ(grids[1].position, 10);
  EXPECT_EQ(grids[1].rows, 4);
  EXPECT_EQ(grids[1].columns, 1);
  EXPECT_EQ(grids[1].saved, 3);
  EXPECT_EQ(grids[2].rows, 1);
  EXPECT_EQ(grids[2].columns, 2);
  EXPECT_EQ(grids[2].saved, 3);
  EXPECT_TRUE(FindImageGrids(std::vector<TokenId>{1, 2, 3}).empty());
}

// As get_rope_index of transformers 5.24 gives them for this timeline.
TEST(ImageGrids, TextContinuesAfterTheLargestPosition) {
  const std::vector<TokenId> timeline = Timeline();
  const std::vector<ImageGrid> grids = FindImageGrids(timeline);
  const int64_t want[][3] = {{0, 0, 0},    {1, 1, 1},    {2, 2, 2},    {2, 2, 3},    {2, 2, 4},   {2, 3, 2}, {2, 3, 3},
                             {2, 3, 4},    {5, 5, 5},    {6, 6, 6},    {7, 7, 7},    {7, 8, 7},   {7, 9, 7}, {7, 10, 7},
                             {11, 11, 11}, {12, 12, 12}, {12, 12, 13}, {14, 14, 14}, {15, 15, 15}};
  ASSERT_EQ(timeline.size(), std::size(want));
  for (size_t i = 0; i < timeline.size(); ++i) {
    const RotaryPosition at = RotaryPositionOf(grids, static_cast<int64_t>(i));
    EXPECT_EQ(at, (RotaryPosition{want[i][0], want[i][1], want[i][2]})) << i;
  }
  // Later images are not needed.
  EXPECT_EQ(RotaryPositionOf(std::span(grids).first(1), 9).time, 6);
}

}  // namespace
}  // namespace ringside
