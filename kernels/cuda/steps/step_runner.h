// Launches recorded operations, neighbours together where one kernel does the work of several: norm + linear, linear +
// GELU, linear + SiLU times up. What is launched writes everything that the single operations would have written. Also
// decides, by rows and shapes, between our own linear kernels and cuBLAS. Owned by the backend, one thread.
#pragma once

#include <span>

#include "base/status.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/linear/matrix_product.h"
#include "kernels/cuda/ranks/rank_exchange.h"
#include "kernels/cuda/ranks/stage_exchange.h"
#include "kernels/cuda/steps/step_op.h"

namespace ringside::cuda {

class StepRunner {
 public:
  StepRunner() = default;
  StepRunner(const StepRunner&) = delete;
  StepRunner& operator=(const StepRunner&) = delete;

  /// `workspace` serves cuBLAS, `scratch` inputs in another type and quantised weights in 16 bits; both are borrowed.
  Status Start(const Launcher& on, DType dtype, void* workspace, size_t workspace_bytes, void* scratch,
               size_t scratch_bytes);
  void Run(std::span<const StepOp> ops);
  /// Whether rows become E4M3 for products with weights of it, from some number of rows on.
  bool multiplies_in_e4m3() const { return on_.hopper && !fixed_order_; }
  /// Linear layers of up to SkinnyLinear::kMaxRows rows sum in one order.
  void FixOrder() { fixed_order_ = true; }
  /// Does the operations of ranks; null: there are none.
  void Join(RankExchange* exchange) { exchange_ = exchange; }
  /// Hands rows to the stages beside this one; null: there are none.
  void Join(StageExchange* stages) { stages_ = stages; }
  const Launcher& launcher() const { return on_; }

 private:
  /// Runs the first operation, and those after it that go with it; returns how many.
  size_t RunFirst(std::span<const StepOp> ops);
  /// The same of a sum over ranks: with the norm behind it.
  size_t AddAllRanks(std::span<const StepOp> ops);
  /// The same of norms of heads: those of queries and of keys at once.
  size_t NormHeads(std::span<const StepOp> ops);
  /// The same for operations of which the one at `linear` is a linear layer.
  size_t RunLinear(std::span<const StepOp> ops, size_t linear);
  /// A norm, or gates times ups, and the linear layer that takes its rows in E4M3; 0 if there is none.
  size_t RunIntoE4M3(std::span<const StepOp> ops);
  /// A linear layer of many rows, or of a shape that our own kernels do not take; what follows it may take its bias.
  size_t Multiply(std::span<const StepOp> ops);
  /// What may take the bias of the layer that has just been multiplied without it; returns how many with the layer.
  size_t AddBias(std::span<const StepOp> ops);
  bool IsInE4M3(const StepOp& op) const;
  /// Where the rows of such a layer go.
  E4M3Rows RoomForE4M3(const StepOp& op) const;
  void MultiplyE4M3(const StepOp& op, const E4M3Rows& x);
  /// All of a layer's products by one call that adds the bias and takes the GELU, if there is one for them.
  bool MultiplyWithBias(const StepOp& op, Tensor x, bool gelu);
  void MultiplyRuns(const StepOp& op, Tensor x);
  /// Weights of one byte, a panel of outputs at a time in 16 bits in `memory`.
  void MultiplyPanels(const StepOp& op, Tensor x, std::span<std::byte> memory);
  void MultiplyOne(const StepOp& op, Tensor x, const void* weight, int64_t outputs, Tensor y);
  std::span<std::byte> scratch() const { return {static_cast<std::byte*>(scratch_), scratch_bytes_}; }
  void Attend(const AttentionPlan& plan);
  /// As many rows at a time as the scratch memory has room for.
  void Mix(const StepOp& op);

  Launcher on_;
  bool overlaps_ = true;  // on_.overlap, but behind NCCL
  DType dtype_ = DType::kBF16;
  MatrixProduct product_;
  bool fixed_order_ = false;
  RankExchange* exchange_ = nullptr;
  StageExchange* stages_ = nullptr;
  void* scratch_ = nullptr;
  size_t scratch_bytes_ = 0;
};

}  // namespace ringside::cuda
