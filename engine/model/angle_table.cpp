#include "engine/model/angle_table.h"

#include <cmath>

namespace ringside {

AngleTable::Angles AngleTable::Of(const Rotation& rotation, int64_t position) {
  const size_t pairs = rotation.inverse_frequencies.size();
  if (held_.empty()) {
    held_.assign(kPositions, -1);
    cosines_.resize(static_cast<size_t>(kPositions) * pairs);
    sines_.resize(cosines_.size());
  }
  const auto place = static_cast<size_t>(position % kPositions);
  float *cosines = cosines_.data() + place * pairs, *sines = sines_.data() + place * pairs;
  if (held_[place] != position) {
    for (size_t j = 0; j < pairs; ++j) {
      const double angle = static_cast<double>(position) * rotation.inverse_frequencies[j];
      cosines[j] = static_cast<float>(std::cos(angle) * rotation.magnitude);
      sines[j] = static_cast<float>(std::sin(angle) * rotation.magnitude);
    }
    held_[place] = position;
  }
  return {cosines, sines};
}

}  // namespace ringside
