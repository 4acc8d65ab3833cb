#include "engine/step_time.h"

#include <gtest/gtest.h>

namespace ringside {
namespace {

// A device on which decoding takes 4 ms plus 50 us per row, and a prompt row 24 us.
int64_t Took(int64_t decoding, double work) {
  return (decoding > 0 ? 4'000'000 : 0) + decoding * 50'000 + static_cast<int64_t>(work * 24'000);
}

TEST(StepTime, LearnsHowManyRowsFitIntoAStep) {
  StepTime time;
  EXPECT_EQ(time.PromptWork(8, 60e6, 64), 64);  // no measurements yet
  time.Note(0, 1024, Took(0, 1024));
  EXPECT_NEAR(time.PromptNs(100), 2.4e6, 1e5);
  for (const int64_t decoding : {1, 8, 32, 128}) time.Note(decoding, 0, Took(decoding, 0));
  for (int i = 0; i < 30; ++i) time.Note(32, 512, Took(32, 512));
  EXPECT_NEAR(time.PromptWork(32, 60e6, 64), (60e6 - Took(32, 0)) / 24'000, 100);
  EXPECT_NEAR(time.DecodeNs(200), Took(128, 0), 1);  // the same power of two
}

TEST(StepTime, AdaptsToASlowerDevice) {
  StepTime time;
  for (int i = 0; i < 40; ++i) time.Note(0, 256, 256 * 10'000);
  for (int i = 0; i < 40; ++i) time.Note(0, 256, 256 * 20'000);
  EXPECT_NEAR(time.PromptNs(1), 20'000, 100);
}

TEST(StepTime, PromptsProgressWhenDecodingExceedsTheStepTime) {
  StepTime time;
  time.Note(0, 256, 256 * 100'000);
  time.Note(4, 0, 400'000'000);
  EXPECT_NEAR(time.PromptWork(4, 100e6, 64), 200e6 / 100'000, 1);
}

TEST(StepTime, LearnsTheCostOfPromptLogits) {
  StepTime time;
  EXPECT_EQ(time.LogitsWork(), 0);
  const auto took = [](double work, int64_t scored) { return Took(0, work) + scored * 72'000; };
  for (int i = 0; i < 40; ++i) time.Note(0, 64, took(64, 64), 64);
  EXPECT_NEAR(time.PromptNs(1), 96'000, 1'000) << "until steps without logits come they are a part of the rows";
  for (int i = 0; i < 40; ++i) time.Note(0, 256, took(256, 0));
  for (int i = 0; i < 40; ++i) time.Note(0, 64, took(64, 32), 32);
  EXPECT_NEAR(time.PromptNs(1), 24'000, 100);
  EXPECT_NEAR(time.LogitsWork(), 3, 0.1);
  time.Note(0, 64, took(64, 8), 8);
  EXPECT_NEAR(time.LogitsWork(), 3, 0.1) << "few rows say little";
}

TEST(StepTime, LearnsTheCostOfDrafts) {
  StepTime time;
  time.Note(1, 0, 2'000'000);
  EXPECT_NEAR(time.DraftNs(1, 4), 2e6, 1) << "a guess";
  for (int i = 0; i < 40; ++i) time.NoteDrafts(1, 2, 2'000'000 + 2 * 200'000);
  EXPECT_NEAR(time.DraftNs(1, 2), 0.4e6, 1e4);
  EXPECT_NEAR(time.DraftNs(1, 8), 1.6e6, 1e4) << "as of the nearest length";
  for (int i = 0; i < 40; ++i) time.NoteDrafts(1, 8, 2'000'000 + 8 * 300'000);
  EXPECT_NEAR(time.DraftNs(1, 8), 2.4e6, 1e4);
  EXPECT_NEAR(time.DraftNs(1, 2), 0.4e6, 1e4);
  EXPECT_NEAR(time.DecodeNs(1), 2e6, 1) << "drafts do not lengthen decode steps";
}

TEST(StepTime, APauseCostsADraftLittle) {
  StepTime time;
  time.Note(1, 0, 2'000'000);
  for (int i = 0; i < 40; ++i) time.NoteDrafts(1, 4, 2'800'000);
  time.NoteDrafts(1, 4, 500'000'000);
  EXPECT_LE(time.DraftNs(1, 1), 0.7e6);
  for (int i = 0; i < 40; ++i) time.NoteDrafts(1, 4, 1'000);
  EXPECT_NEAR(time.DraftNs(1, 4), 0, 1e4) << "rows never take less than no time";
}

TEST(StepTime, AimsAtStepsOfWhichOneInAHundredIsLate) {
  StepTime time;
  constexpr double kGoalNs = 50e6;
  int late = 0;
  constexpr int kSteps = 100'000;
  for (int i = 0; i < kSteps; ++i) {
    // Each step takes up to 20 % longer than predicted.
    const double took = time.TargetNs(kGoalNs) * (1 + 0.2 * ((i * 7919) % 1000) / 1000);
    late += took > kGoalNs ? 1 : 0;
    time.NoteGap(static_cast<int64_t>(took), kGoalNs);
  }
  EXPECT_NEAR(late, kSteps / 100, kSteps / 500);
  EXPECT_NEAR(time.TargetNs(kGoalNs), kGoalNs / 1.2, 2e6);
  const double before = time.TargetNs(kGoalNs);
  time.NoteGap(10'000'000'000, kGoalNs);
  EXPECT_GT(time.TargetNs(kGoalNs), 0.95 * before) << "a pause counts as one late step";
  for (int i = 0; i < 10'000; ++i) time.NoteGap(5'000'000, kGoalNs);
  EXPECT_EQ(time.TargetNs(kGoalNs), kGoalNs);
}

TEST(StepTime, TinyStepsDoNotAffectTheEstimateOfLargeOnes) {
  StepTime time;
  time.Note(0, 2, 5'000'000);
  EXPECT_EQ(time.PromptNs(1), 0);
}

}  // namespace
}  // namespace ringside
