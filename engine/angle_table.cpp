#include "engine/angle_table.h"

#include <algorithm>
#include <cmath>

namespace ringside {

void AngleTable::Fill(const ModelSpec& spec, int64_t position, float* cosines, float* sines) {
  const size_t pairs = spec.inverse_frequencies.size();
  if (held_.empty()) {
    held_.assign(kPositions, -1);
    angles_.resize(static_cast<size_t>(kPositions) * 2 * pairs);
  }
  const auto place = static_cast<size_t>(position % kPositions);
  float* row = angles_.data() + place * 2 * pairs;
  if (held_[place] != position) {
    for (size_t j = 0; j < pairs; ++j) {
      const double angle = static_cast<double>(position) * spec.inverse_frequencies[j];
      row[j] = static_cast<float>(std::cos(angle) * spec.rope_magnitude);
      row[pairs + j] = static_cast<float>(std::sin(angle) * spec.rope_magnitude);
    }
    held_[place] = position;
  }
  std::copy_n(row, pairs, cosines);
  std::copy_n(row + pairs, pairs, sines);
}

}  // namespace ringside
