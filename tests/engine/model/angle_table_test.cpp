#include "engine/model/angle_table.h"

#include <gtest/gtest.h>

#include <cmath>

namespace ringside {
namespace {

TEST(AngleTable, EveryPositionHasItsOwnAngles) {
  Rotation rotation;
  rotation.inverse_frequencies = {1.0, 0.1, 0.003};
  rotation.magnitude = 1.25;
  AngleTable table;
  // The third replaces the first, and the first replaces it again.
  for (const int64_t position : {int64_t{5}, int64_t{6}, 5 + AngleTable::kPositions, int64_t{5}, int64_t{5}}) {
    const auto [cosines, sines] = table.Of(rotation, position);
    for (size_t j = 0; j < 3; ++j) {
      const double angle = static_cast<double>(position) * rotation.inverse_frequencies[j];
      EXPECT_EQ(cosines[j], static_cast<float>(std::cos(angle) * 1.25)) << position;
      EXPECT_EQ(sines[j], static_cast<float>(std::sin(angle) * 1.25)) << position;
    }
  }
}

TEST(AngleTable, AdjacentPositionsAreContiguous) {
  Rotation rotation;
  rotation.inverse_frequencies = {1.0, 0.1};
  AngleTable table;
  const AngleTable::Angles first = table.Of(rotation, 40), second = table.Of(rotation, 41);
  EXPECT_EQ(second.cosines, first.cosines + 2);
  EXPECT_EQ(second.sines, first.sines + 2);
  EXPECT_TRUE(AngleTable::SideBySide(AngleTable::kPositions - 2, 2));
  EXPECT_FALSE(AngleTable::SideBySide(AngleTable::kPositions - 2, 3));
  EXPECT_TRUE(AngleTable::SideBySide(AngleTable::kPositions, 3));
}

}  // namespace
}  // namespace ringside
