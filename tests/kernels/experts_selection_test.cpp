// Selection of the kernel path of mixtures of experts. No GPU.
#include "kernels/cuda/experts/experts_selection.h"

#include <gtest/gtest.h>

namespace ringside::cuda {
namespace {

/// 128 experts of 768 x 2,048; each row uses 8 (Qwen3-30B-A3B).
ExpertsPlan Plan(DType in, DType out) {
  ExpertsPlan plan;
  plan.router.cols = 128;
  plan.top_k = plan.experts_per_row = 8;
  plan.inner = plan.last_inner = 768;
  plan.in_types = TileTypeBit(in), plan.out_types = TileTypeBit(out);
  return plan;
}

ExpertsSelection Select(const ExpertsPlan& plan, int64_t rows, std::string_view capability = "9.0") {
  const Result<DeviceTraits> device = TypicalDevice(capability);
  EXPECT_TRUE(device.ok());
  return SelectExperts(device.value(), plan, 2048, rows);
}

TEST(ExpertsSelection, FollowsTheExpectedRowsOfAnExpert) {
  const ExpertsPlan plan = Plan(DType::kBlockQuant4, DType::kBlockQuant6);
  EXPECT_EQ(Select(plan, 1).path, ExpertsPath::kIntegers);
  EXPECT_EQ(Select(plan, 16).path, ExpertsPath::kIntegers);
  EXPECT_EQ(Select(plan, 17).path, ExpertsPath::kWholeIntegers);
  EXPECT_EQ(Select(plan, 40).path, ExpertsPath::kWholeIntegers);  // 2.5 rows each
  EXPECT_EQ(Select(plan, 41).path, ExpertsPath::kSeveral);
  EXPECT_EQ(Select(plan, 256).path, ExpertsPath::kSeveral);  // 16 rows each
  EXPECT_EQ(Select(plan, 257).path, ExpertsPath::kMany);
}

TEST(ExpertsSelection, TakesOneRowOfEqualExpertsAtOnce) {
  ExpertsPlan plan = Plan(DType::kBlockQuant4, DType::kBlockQuant6);
  const ExpertsSelection one = Select(plan, 1);
  EXPECT_TRUE(one.one_row);
  EXPECT_EQ(one.in.blocks, 264);  // two per multiprocessor
  EXPECT_EQ(one.out.blocks, 2048 / 16);
  EXPECT_FALSE(Select(plan, 2).one_row);
  EXPECT_FALSE(Select(Plan(DType::kBlockQuant8, DType::kBlockQuant8), 1).one_row);
  plan.fixed = true;
  EXPECT_FALSE(Select(plan, 1).one_row) << "a row's bits would depend on whether it is alone";
  plan.fixed = false, plan.last_inner = 1536;
  EXPECT_FALSE(Select(plan, 1).one_row);
  plan.last_inner = 768, plan.traits.scales_input = true;
  EXPECT_FALSE(Select(plan, 1).one_row);
}

TEST(ExpertsSelection, PairsOutputsWithoutAGate) {
  ExpertsPlan plan = Plan(DType::kBlockQuant4, DType::kBlockQuant4);
  EXPECT_EQ(plan.Pairs(768), 768);
  const int gated = Select(plan, 1).in.tiles;
  plan.gated = false;
  EXPECT_EQ(plan.Pairs(768), 384);
  EXPECT_EQ(Select(plan, 1).in.tiles, (gated + 1) / 2);
}

TEST(ExpertsSelection, MultipliesEightBitsAsFloats) {
  const ExpertsPlan plan = Plan(DType::kBlockQuant8, DType::kBlockQuant8);
  EXPECT_EQ(Select(plan, 4).path, ExpertsPath::kFew);
  EXPECT_EQ(Select(plan, 16).path, ExpertsPath::kMany);  // the rows do not fit next to two stages
  EXPECT_EQ(Select(plan, 17).path, ExpertsPath::kSeveral);
}

TEST(ExpertsSelection, ReadsSixteenBitWeightsOnceForFewRows) {
  const ExpertsPlan plan = Plan(DType::kBF16, DType::kBF16);
  EXPECT_EQ(Select(plan, 32).path, ExpertsPath::kFew);  // two rows each
  EXPECT_EQ(Select(plan, 33).path, ExpertsPath::kMany);
  EXPECT_FALSE(Select(plan, 32).tiled);
}

TEST(ExpertsSelection, LeavesMixedTypesToTheKernelOfManyRows) {
  ExpertsPlan plan = Plan(DType::kBlockQuant4, DType::kBlockQuant6);
  plan.out_types |= TileTypeBit(DType::kBlockQuant4);
  EXPECT_EQ(Select(plan, 1).path, ExpertsPath::kMany);
  EXPECT_FALSE(Select(plan, 1).tiled);
}

TEST(ExpertsSelection, DividesTheDeviceAmongTiles) {
  const ExpertsSelection on_hopper = Select(Plan(DType::kBlockQuant4, DType::kBlockQuant4), 16);
  EXPECT_TRUE(on_hopper.tiled);
  EXPECT_EQ(on_hopper.in.blocks, 264);  // two per multiprocessor
  EXPECT_GE(on_hopper.in.stages, 2);
  const ExpertsSelection on_ampere = Select(Plan(DType::kBlockQuant4, DType::kBlockQuant4), 16, "8.0");
  EXPECT_EQ(on_ampere.in.blocks, 216);
  EXPECT_LT(on_ampere.in.shared_bytes, on_hopper.in.shared_bytes);
}

}  // namespace
}  // namespace ringside::cuda
