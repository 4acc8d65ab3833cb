#include "base/cli/near_name.h"

#include <algorithm>
#include <numeric>
#include <vector>

namespace ringside {
namespace {

constexpr size_t kMostEdits = 2;  // beyond this distance it is not a typo

size_t Distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i + 1;
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t above = row[j + 1];
      row[j + 1] = std::min({above + 1, row[j] + 1, diagonal + (a[i] == b[j] ? 0 : 1)});
      diagonal = above;
    }
  }
  return row[b.size()];
}

}  // namespace

std::string_view NearName(std::string_view word, std::span<const std::string_view> names) {
  std::string_view nearest;
  if (word.size() <= kMostEdits) return nearest;
  size_t least = kMostEdits + 1;
  for (const std::string_view name : names) {
    if (name.size() > word.size() + kMostEdits || word.size() > name.size() + kMostEdits) continue;
    const size_t distance = Distance(word, name);
    if (distance < least) least = distance, nearest = name;
  }
  return nearest;
}

}  // namespace ringside
