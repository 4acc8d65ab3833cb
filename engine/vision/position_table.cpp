#include "engine/vision/position_table.h"

#include <algorithm>

namespace ringside {
namespace {

/// Two neighbours in the table, and the weight of the second.
struct Between {
  int64_t first = 0, second = 0;
  float weight = 0;
};

Between PlaceOf(int64_t index, int64_t count, int64_t side) {
  if (count < 2) return {};
  const double place = static_cast<double>(index * (side - 1)) / static_cast<double>(count - 1);
  const auto first = static_cast<int64_t>(place);
  return {first, std::min(first + 1, side - 1), static_cast<float>(place - static_cast<double>(first))};
}

}  // namespace

void InterpolatePositions(std::span<const float> table, int64_t side, const Patches& patches, std::vector<float>* out) {
  const auto columns = std::ssize(table) / (side * side);
  out->resize(patches.positions.size() * static_cast<size_t>(columns));
  float* to = out->data();
  for (const PatchPosition& at : patches.positions) {
    const Between row = PlaceOf(at.row, patches.rows, side), column = PlaceOf(at.column, patches.columns, side);
    const auto entry = [&](int64_t y, int64_t x) { return table.data() + (y * side + x) * columns; };
    const float *upper_left = entry(row.first, column.first), *upper_right = entry(row.first, column.second),
                *lower_left = entry(row.second, column.first), *lower_right = entry(row.second, column.second);
    for (int64_t c = 0; c < columns; ++c) {
      const float upper = upper_left[c] + column.weight * (upper_right[c] - upper_left[c]),
                  lower = lower_left[c] + column.weight * (lower_right[c] - lower_left[c]);
      to[c] = upper + row.weight * (lower - upper);
    }
    to += columns;
  }
}

}  // namespace ringside
