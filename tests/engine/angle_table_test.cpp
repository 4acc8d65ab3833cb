#include "engine/angle_table.h"

#include <gtest/gtest.h>

#include <cmath>

namespace ringside {
namespace {

TEST(AngleTable, GivesEveryPositionItsOwnAngles) {
  ModelSpec spec;
  spec.inverse_frequencies = {1.0, 0.1, 0.003};
  spec.rope_magnitude = 1.25;
  AngleTable table;
  // The third takes the first's place, and the first takes it back.
  for (const int64_t position : {int64_t{5}, int64_t{6}, 5 + AngleTable::kPositions, int64_t{5}, int64_t{5}}) {
    float cosines[3] = {}, sines[3] = {};
    table.Fill(spec, position, cosines, sines);
    for (size_t j = 0; j < 3; ++j) {
      const double angle = static_cast<double>(position) * spec.inverse_frequencies[j];
      EXPECT_EQ(cosines[j], static_cast<float>(std::cos(angle) * 1.25)) << position;
      EXPECT_EQ(sines[j], static_cast<float>(std::sin(angle) * 1.25)) << position;
    }
  }
}

TEST(AngleTable, TakesAModelWithoutRotation) {
  AngleTable table;
  table.Fill(ModelSpec(), 7, nullptr, nullptr);
}

}  // namespace
}  // namespace ringside
