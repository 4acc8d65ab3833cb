// A cache of rotary angles by position. Conversations share positions, and a cosine in float64 costs more than
// everything else that the host does for a prompt row. THREAD: one.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/families/model_spec.h"

namespace ringside {

class AngleTable {
 public:
  /// Capacity; direct-mapped, so a position evicts the one in its place.
  static constexpr int64_t kPositions = 16384;

  /// Cosine and sine of position * inverse frequency, times the rotation's magnitude, computed in float64 and rounded:
  /// [rotary / 2] each. The angles of the next positions follow if they are SideBySide and were requested since.
  struct Angles {
    const float* cosines;
    const float* sines;
  };
  /// REQUIRES: the same rotation in every call.
  Angles Of(const Rotation& rotation, int64_t position);

  static bool SideBySide(int64_t position, int64_t count) { return position % kPositions + count <= kPositions; }

 private:
  std::vector<int64_t> held_;           // [kPositions] the cached position, or -1
  std::vector<float> cosines_, sines_;  // [kPositions, rotary / 2]
};

}  // namespace ringside
