// The rotation angles of positions, kept once computed: conversations share positions, and a cosine in float64 costs
// more than all else the host does for a row of a prompt. One thread.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/families/model_spec.h"

namespace ringside {

class AngleTable {
 public:
  /// Positions held at once; one that falls on another's place takes it.
  static constexpr int64_t kPositions = 16384;

  /// Cosine and sine of position * inverse frequency, times the rotation's magnitude: taken in float64 and rounded,
  /// [rotary / 2] each. Those of the positions behind it follow, if they lie side by side and were asked for since.
  struct Angles {
    const float* cosines;
    const float* sines;
  };
  /// Always the same rotation.
  Angles Of(const Rotation& rotation, int64_t position);

  static bool SideBySide(int64_t position, int64_t count) { return position % kPositions + count <= kPositions; }

 private:
  std::vector<int64_t> held_;           // [kPositions] the position whose angles stand there, or -1
  std::vector<float> cosines_, sines_;  // [kPositions, rotary / 2]
};

}  // namespace ringside
