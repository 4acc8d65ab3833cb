// The rotation angles of positions, kept once computed: conversations share positions, and a cosine in float64 costs more
// than all else the host does for a row of a prompt. One thread.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/model_spec.h"

namespace ringside {

class AngleTable {
 public:
  /// Positions held at once; one that falls on another's place takes it.
  static constexpr int64_t kPositions = 16384;

  /// Writes cosine and sine of position * inverse frequency, times the model's magnitude: taken in float64 and rounded,
  /// [rotary / 2] each. Always the same model.
  void Fill(const ModelSpec& spec, int64_t position, float* cosines, float* sines);

 private:
  std::vector<int64_t> held_;  // [kPositions] the position whose angles stand there, or -1
  std::vector<float> angles_;  // [kPositions, rotary]: cosines, then sines
};

}  // namespace ringside
