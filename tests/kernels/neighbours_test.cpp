// Which recorded MLP can be one of the experts that follow it. No GPU.
#include "kernels/cuda/steps/neighbours.h"

#include <gtest/gtest.h>

#include <vector>

namespace ringside::cuda {
namespace {

constexpr int64_t kHidden = 512, kInner = 256, kExperts = 8;

/// The operations of a layer's second half: norm, MLP, router, experts.
class MlpAndExperts : public ::testing::Test {
 protected:
  MlpAndExperts() {
    ops_.push_back({.kind = OpKind::kNorm, .x = stream_, .y = normed_});
    ops_.push_back(Linear(normed_, {kInner, kInner}, both_, DType::kBlockQuant4));
    ops_.push_back({.kind = OpKind::kMultiplyActivated, .x = both_, .y = product_});
    ops_.push_back(Linear(product_, {kHidden}, stream_, DType::kBlockQuant6));
    ops_.back().accumulate = true;
    ops_.push_back(Linear(normed_, {kExperts}, logits_, DType::kBF16));
    StepOp experts{.kind = OpKind::kExperts, .x = normed_, .y = stream_};
    experts.experts.router = logits_;
    experts.experts.inner = experts.experts.last_inner = kInner;
    experts.experts.in_types = TileTypeBit(DType::kBlockQuant4);
    experts.experts.out_types = TileTypeBit(DType::kBlockQuant6);
    ops_.push_back(experts);
  }

  Tensor Row(DType type, int64_t cols) {
    memory_.emplace_back(static_cast<size_t>(4 * cols));
    return {type, memory_.back().data(), 1, cols, cols};
  }
  StepOp Linear(const Tensor& x, std::vector<int64_t> outputs, const Tensor& y, DType weights) {
    StepOp op{.kind = OpKind::kLinear, .x = x, .y = y, .weight_dtype = weights};
    for (size_t i = 0; i < outputs.size(); ++i) {
      op.weights[i] = memory_.emplace_back(16).data(), op.outputs[i] = outputs[i];
    }
    return op;
  }

  std::vector<std::vector<char>> memory_;
  const Tensor stream_ = Row(DType::kF32, kHidden), normed_ = Row(DType::kBF16, kHidden),
               both_ = Row(DType::kBF16, 2 * kInner), product_ = Row(DType::kBF16, kInner),
               logits_ = Row(DType::kF32, kExperts);
  StepOps ops_;
};

TEST_F(MlpAndExperts, TakesAnMlpOfTheirSizesAndTypes) {
  const std::optional<PackedExpert> mlp = MlpAmongExperts(ops_);
  ASSERT_TRUE(mlp.has_value());
  EXPECT_EQ(mlp->gate.data, ops_[1].weights[0]);
  EXPECT_EQ(mlp->up.data, ops_[1].weights[1]);
  EXPECT_EQ(mlp->up.first_row, 0);
  EXPECT_EQ(mlp->gate.bits, 4);
  EXPECT_EQ(mlp->out.data, ops_[3].weights[0]);
  EXPECT_EQ(mlp->out.bits, 6);
  EXPECT_EQ(mlp->inner, kInner);
  ops_[1].outputs[0] = 2 * kInner, ops_[1].outputs[1] = 0;  // gate and up in one matrix
  const std::optional<PackedExpert> joined = MlpAmongExperts(ops_);
  ASSERT_TRUE(joined.has_value());
  EXPECT_EQ(joined->up.data, ops_[1].weights[0]);
  EXPECT_EQ(joined->up.first_row, kInner);
}

TEST_F(MlpAndExperts, LeavesOthersAlone) {
  const auto refuses = [&](auto change) {
    StepOps ops = ops_;
    change(ops);
    return !MlpAmongExperts(ops).has_value();
  };
  EXPECT_TRUE(refuses([](StepOps& ops) { ops.pop_back(); }));
  EXPECT_TRUE(refuses([](StepOps& ops) { ops[0].x.rows = 2; }));
  EXPECT_TRUE(refuses([](StepOps& ops) { ops[1].weight_dtype = DType::kBlockQuant5; }));
  EXPECT_TRUE(refuses([](StepOps& ops) { ops[3].weight_dtype = DType::kBlockQuant4; }));
  EXPECT_TRUE(refuses([](StepOps& ops) { ops[5].experts.inner = 2 * kInner; }));
  EXPECT_TRUE(refuses([](StepOps& ops) { ops[5].activation = Activation::kGeluTanh; }));
  EXPECT_TRUE(refuses([](StepOps& ops) { ops[3].accumulate = false; }));
  EXPECT_TRUE(refuses([](StepOps& ops) { ops[5].experts.accumulate = false; }));
  EXPECT_TRUE(refuses([](StepOps& ops) { ops[5].experts.gated = false; }));
  EXPECT_TRUE(refuses([&](StepOps& ops) { ops[4].x = product_; }));
  const float bias = 0;
  EXPECT_TRUE(refuses([&](StepOps& ops) { ops[1].bias = &bias; }));
}

}  // namespace
}  // namespace ringside::cuda
