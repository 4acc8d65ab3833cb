#include "engine/speculation/draft_control.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace ringside {
namespace {

// A draft row costs this share of a step.
DraftCosts Costs(double row, int64_t decoding = 1) {
  DraftCosts costs{.decoding = decoding};
  for (size_t rows = 1; rows < costs.extra.size(); ++rows) costs.extra[rows] = static_cast<double>(rows) * row;
  return costs;
}

int64_t Planned(DraftControl& control, int64_t matched, int64_t most, const DraftCosts& costs) {
  return control.Plan({.matched = matched, .ngram = most}, costs).tokens;
}

// Draft tokens over `steps` steps in which the first `right` tokens of each draft are accepted.
int64_t Drafted(DraftControl& control, int64_t steps, int64_t right, const DraftCosts& costs, int64_t matched = 4) {
  int64_t total = 0;
  for (int64_t step = 0; step < steps; ++step) {
    const int64_t drafts = Planned(control, matched, 16, costs);
    total += drafts;
    if (drafts > 0) control.Note(matched, drafts, std::min(right, drafts));
  }
  return total;
}

TEST(DraftControl, DraftsNothingWithoutAMatchOrRoom) {
  DraftControl control;
  EXPECT_EQ(Planned(control, 0, 16, Costs(0.1)), 0);
  EXPECT_EQ(Planned(control, 20, 0, Costs(0.1)), 0);
  EXPECT_EQ(Planned(control, 20, 2, Costs(0.01)), 2);
}

TEST(DraftControl, StartsShortAndGrowsWithAcceptance) {
  DraftControl control;
  EXPECT_LE(Planned(control, 4, 16, Costs(0.2)), 3);
  Drafted(control, 30, 16, Costs(0.2));
  EXPECT_GE(Planned(control, 4, 16, Costs(0.2)), 12);
}

TEST(DraftControl, ExpensiveRowsShortenDrafts) {
  DraftControl control;
  Drafted(control, 50, 3, Costs(0.1));
  const int64_t cheap = Planned(control, 4, 16, Costs(0.02)), dear = Planned(control, 4, 16, Costs(0.3));
  EXPECT_GT(cheap, dear);
  EXPECT_GT(dear, 0);
}

TEST(DraftControl, StopsWhereNothingIsAcceptedAndProbesMoreAndMoreRarely) {
  DraftControl control;
  const int64_t first = Drafted(control, 100, 0, Costs(0.2));
  EXPECT_LE(first, 12);
  const int64_t later = Drafted(control, 10'000, 0, Costs(0.2));
  EXPECT_GT(later, 0);
  EXPECT_LE(later, 40);
}

TEST(DraftControl, ResumesAfterAProbeWasAccepted) {
  DraftControl control;
  Drafted(control, 300, 0, Costs(0.2));
  EXPECT_GT(Drafted(control, 2000, 16, Costs(0.2)), 10'000);
}

TEST(DraftControl, ABatchThatFillsTheDeviceGetsProbesOnly) {
  DraftControl control;
  Drafted(control, 50, 3, Costs(0.1));
  // 16 turns decode, and a draft row costs what one of their rows costs.
  EXPECT_LE(Drafted(control, 1000, 3, Costs(1.0 / 16, 16)), 300);
  // One turn decodes, and a draft row doubles the time of the step.
  EXPECT_LE(Drafted(control, 1000, 1, Costs(1.0)), 300);
}

TEST(DraftControl, ProbesOfABatchAreAsRareAsThoseOfOneTurn) {
  DraftControl one, of_many;
  Drafted(one, 100, 0, Costs(0.2)), Drafted(of_many, 100, 0, Costs(0.2));
  const int64_t alone = Drafted(one, 1600, 0, Costs(0.2)), many = Drafted(of_many, 1600, 0, Costs(0.2, 16));
  EXPECT_GT(alone, 0);
  EXPECT_LE(many, alone / 2);
}

// A device that runs ahead asks before it knows the token that a draft continues.
TEST(DraftControl, ExpectsADraftWherePlanMakesOne) {
  DraftControl pays;
  EXPECT_TRUE(pays.Expects({.matched = 20, .ngram = 16}, Costs(0.1)));
  EXPECT_FALSE(pays.Expects({.matched = 0, .ngram = 16}, Costs(0.1)));
  EXPECT_FALSE(pays.Expects({.matched = 20, .ngram = 0}, Costs(0.1)));
  DraftControl never;
  Drafted(never, 100, 0, Costs(0.2));
  int64_t asked = 1;  // the tokens until a probe count without Plan
  while (!never.Expects({.matched = 4, .ngram = 16}, Costs(0.2))) ASSERT_LT(++asked, 2000);
  EXPECT_GT(asked, 1);
  EXPECT_GT(Planned(never, 4, 16, Costs(0.2)), 0);
}

// The draft layer's tokens take time, those of a match none.
TEST(DraftControl, PrefersTheSourceWithTheMostTokensPerSecond) {
  DraftControl control;
  DraftCosts costs = Costs(0.02);
  const DraftControl::Sources layer{.layer = 16}, both{.matched = 4, .ngram = 16, .layer = 16},
      both_long{.matched = 20, .ngram = 16, .layer = 16};
  EXPECT_EQ(control.Plan(layer, costs).tokens, 0);
  costs.layer_token = 0.05;
  EXPECT_TRUE(control.Expects(layer, costs));
  EXPECT_TRUE(control.Plan(layer, costs).by_layer);
  EXPECT_LE(control.Plan(layer, costs).tokens, DraftCosts::kMaxOfLayer);
  EXPECT_TRUE(control.Plan(both, costs).by_layer);
  EXPECT_FALSE(control.Plan(both_long, costs).by_layer);
  for (int i = 0; i < 30; ++i) control.Note(0, 4, 0);
  EXPECT_FALSE(control.Plan(both, costs).by_layer);
  EXPECT_EQ(control.Plan(layer, costs).tokens, 0);
}

TEST(DraftControl, ASlowDraftLayerIsNotUsed) {
  DraftControl control;
  DraftCosts costs = Costs(0.02);
  costs.layer_token = 1;
  EXPECT_EQ(control.Plan({.layer = 16}, costs).tokens, 0);
}

TEST(DraftControl, LongMatchesAreMeasuredApart) {
  DraftControl control;
  Drafted(control, 100, 0, Costs(0.2), 3);
  EXPECT_EQ(Planned(control, 3, 16, Costs(0.2)), 0);
  EXPECT_GT(Planned(control, 20, 16, Costs(0.2)), 0);
}

}  // namespace
}  // namespace ringside
