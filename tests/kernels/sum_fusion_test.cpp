// Which recorded sums of rows one launch computes. No GPU.
#include "kernels/cuda/steps/sum_fusion.h"

#include <gtest/gtest.h>

namespace ringside::cuda {
namespace {

/// Rows of several streams, as columns of one matrix.
struct Streams {
  std::vector<float> memory = std::vector<float>(3 * 5 * 8);
  Tensor all{DType::kF32, memory.data(), 3, 5 * 8, 5 * 8};

  Tensor Part(int64_t i) const { return all.Columns(8 * i, 8); }
};

StepOp AddOp(Tensor x, Tensor y) { return {.kind = OpKind::kAdd, .x = x, .y = y}; }
StepOp AddScaledOp(Tensor x, Tensor factors, Tensor y) {
  return {
      .kind = OpKind::kRowOp, .x = x, .y = y, .row_op = {.kind = RowOpKind::kAddScaledRows, .row_factors = factors}};
}

class SumFusion : public ::testing::Test {
 protected:
  size_t Collect(const StepOps& ops) { return CollectSums(ops, &sums_); }

  Streams from_, to_;
  std::vector<float> values_ = std::vector<float>(3 * 16);
  Tensor factors_{DType::kF32, values_.data(), 3, 16, 16};
  RowSums sums_;
};

// Four streams, each mixed from four.
TEST_F(SumFusion, TakesTheMixtureOfStreams) {
  StepOps ops;
  for (int64_t i = 0; i < 4; ++i) {
    for (int64_t j = 0; j < 4; ++j) {
      ops.push_back(AddScaledOp(from_.Part(j), factors_.Columns(4 * i + j, 1), to_.Part(i)));
    }
  }
  EXPECT_EQ(Collect(ops), 16U);
  ASSERT_EQ(sums_.count, 4);
  for (int64_t i = 0; i < 4; ++i) {
    const RowSums::Sum& sum = sums_.sums[i];
    EXPECT_EQ(sum.y.data, to_.Part(i).data);
    ASSERT_EQ(sum.count, 4);
    for (int64_t j = 0; j < 4; ++j) {
      EXPECT_EQ(sum.terms[j].x.data, from_.Part(j).data);
      EXPECT_EQ(sum.terms[j].factors.data, factors_.Columns(4 * i + j, 1).data);
    }
  }
}

TEST_F(SumFusion, TakesSumsWithAndWithoutFactors) {
  const Tensor x = from_.Part(0);
  StepOps ops;
  for (int64_t i = 0; i < 2; ++i) {
    ops.push_back(AddOp(x, to_.Part(i)));
    ops.push_back(AddScaledOp(x, factors_.Columns(i, 1), to_.Part(i)));
  }
  ops.push_back({.kind = OpKind::kRowOp, .x = x, .y = to_.Part(2), .row_op = {.kind = RowOpKind::kGate}});
  EXPECT_EQ(Collect(ops), 4U);
  ASSERT_EQ(sums_.count, 2);
  EXPECT_EQ(sums_.sums[1].count, 2);
  EXPECT_EQ(sums_.sums[1].terms[0].factors.data, nullptr);
}

TEST_F(SumFusion, EndsWhereAnOperationDependsOnAnother) {
  const Tensor a = to_.Part(0), b = to_.Part(1), c = to_.Part(2), x = from_.Part(0);
  EXPECT_EQ(Collect({AddOp(x, a), AddOp(a, b)}), 1U) << "reads a sum";
  EXPECT_EQ(Collect({AddOp(a, b), AddOp(x, a)}), 1U) << "replaces a term";
  EXPECT_EQ(Collect({AddScaledOp(x, a.Columns(0, 1), b), AddOp(x, a)}), 1U) << "replaces factors";
  EXPECT_EQ(Collect({AddOp(a, a), AddOp(x, b)}), 0U) << "doubles";
  EXPECT_EQ(Collect({AddOp(x, a), AddOp(x, to_.all.Columns(4, 8))}), 1U) << "overlaps a sum";
  EXPECT_EQ(Collect({AddOp(a, b), AddOp(a, c)}), 2U) << "columns of one matrix";
}

TEST_F(SumFusion, EndsAtTheLimits) {
  StepOps sums, terms;
  for (int64_t i = 0; i < 5; ++i) {
    sums.push_back(AddOp(from_.Part(0), to_.Part(i))), terms.push_back(AddOp(from_.Part(i), to_.Part(0)));
  }
  EXPECT_EQ(Collect(sums), static_cast<size_t>(RowSums::kMaxSums));
  EXPECT_EQ(Collect(terms), static_cast<size_t>(RowSums::kMaxTerms));
  EXPECT_EQ(Collect({AddOp(from_.Part(0), to_.Part(0)), AddOp(from_.all.Columns(0, 4), to_.all.Columns(8, 4))}), 1U)
      << "another size";
}

}  // namespace
}  // namespace ringside::cuda
