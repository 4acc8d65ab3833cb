#include "engine/vision/image_grid.h"

#include <algorithm>

#include "engine/vision/image_tokens.h"

namespace ringside {

std::vector<ImageGrid> FindImageGrids(std::span<const TokenId> timeline) {
  std::vector<ImageGrid> grids;
  for (auto at = timeline.begin(); at != timeline.end();) {
    at = std::find_if(at, timeline.end(), IsImageToken);
    const auto end = std::find_if_not(at, timeline.end(), IsImageToken);
    if (at == end) break;
    const auto second = std::find_if(at + 1, end, BeginsImageRow);
    const int64_t columns = second - at, rows = (end - at) / columns;
    const int64_t before = grids.empty() ? 0 : grids.back().saved;
    grids.push_back({at - timeline.begin(), rows, columns, before + rows * columns - std::max(rows, columns)});
    at = end;
  }
  return grids;
}

RotaryPosition RotaryPositionOf(std::span<const ImageGrid> grids, int64_t position) {
  const auto after = std::ranges::upper_bound(grids, position, {}, &ImageGrid::position);
  if (after == grids.begin()) return {position, position, position};
  const ImageGrid& grid = *(after - 1);
  if (position >= grid.end()) {
    const int64_t text = position - grid.saved;
    return {text, text, text};
  }
  const int64_t begin = grid.position - (after - 1 == grids.begin() ? 0 : (after - 2)->saved),
                index = position - grid.position;
  return {begin, begin + index / grid.columns, begin + index % grid.columns};
}

}  // namespace ringside
