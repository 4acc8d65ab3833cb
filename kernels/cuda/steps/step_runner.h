// Launches recorded operations and fuses neighbours where one kernel covers several: norm + linear, linear + GELU,
// linear + SiLU(gate) * up, attention or head norms + gate, an MLP + experts. A fused kernel writes everything that the
// separate operations would have left, except an MLP's inner values. Linear layers follow their plan
// (linear/linear_plan.h). Owned by the backend.
// THREAD: one.
#pragma once

#include <span>

#include "base/status.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/linear/gemm_bf16/cublas_gemm.h"
#include "kernels/cuda/ranks/rank_exchange.h"
#include "kernels/cuda/ranks/stage_exchange.h"
#include "kernels/cuda/steps/step_op.h"

namespace ringside::cuda {

class StepRunner {
 public:
  StepRunner() = default;
  StepRunner(const StepRunner&) = delete;
  StepRunner& operator=(const StepRunner&) = delete;

  /// `workspace` serves cuBLAS; `scratch` holds converted inputs and dequantized weights. Both are borrowed.
  Status Start(const Launcher& on, DType dtype, void* workspace, size_t workspace_bytes, void* scratch,
               size_t scratch_bytes);
  void Run(std::span<const StepOp> ops);
  /// Whether GEMMs with E4M3 weights quantize their rows to E4M3, from some number of rows on.
  bool multiplies_in_e4m3() const { return on_.hopper && !fixed_order_; }
  /// Makes linear layers of up to kMaxFixedOrderRows rows sum in one order.
  void FixOrder() { fixed_order_ = true; }
  /// Sets the collectives of tensor parallelism; null: none.
  void Join(RankExchange* exchange) { exchange_ = exchange; }
  /// Sets the transfers between pipeline stages; null: none.
  void Join(StageExchange* stages) { stages_ = stages; }
  const Launcher& launcher() const { return on_; }

 private:
  /// Runs the first operation and those fused with it; returns their number.
  size_t RunFirst(std::span<const StepOp> ops);
  /// As RunFirst for an all-reduce, fused with the norm after it.
  size_t RunAllReduce(std::span<const StepOp> ops);
  /// As RunFirst for an operation of rows, or several sums of rows in one launch.
  size_t RunRowOp(std::span<const StepOp> ops);
  /// As RunFirst for head norms: those of queries and keys in one launch, or with the gate of their results.
  size_t NormHeads(std::span<const StepOp> ops);
  /// The plan of ops[linear], a linear layer; if `linear` is 1, ops[0] is a norm that may be fused.
  LinearPlan Plan(std::span<const StepOp> ops, size_t linear) const;
  LinearPlan PlanOf(const LinearRequest& request) const;
  /// As RunFirst, for ops[linear].
  size_t RunLinear(std::span<const StepOp> ops, size_t linear, const LinearPlan& plan);
  /// Runs a norm or SiLU(gate) * up with the linear layer that consumes its rows in E4M3; 0 if there is none.
  size_t RunWithE4M3Output(std::span<const StepOp> ops);
  /// Runs a linear layer by cuBLAS or the reference kernel. The next operation may be fused with its bias.
  size_t Multiply(std::span<const StepOp> ops, const LinearPlan& plan);
  /// Adds the bias of the layer that was just multiplied without it, fused with the next operation if possible; returns
  /// the number of operations including the layer.
  size_t AddBias(std::span<const StepOp> ops);
  bool RunsInE4M3(const StepOp& op) const;
  /// Scratch memory for the quantized rows of such a layer.
  QuantizedRows E4M3Workspace(const StepOp& op) const;
  void MultiplyE4M3(const StepOp& op, const QuantizedRows& x);
  /// Runs all of a layer's matrices in one GEMM with a bias and GELU epilogue, if one is available.
  bool MultiplyWithBias(const StepOp& op, Tensor x, const LinearPlan& plan);
  void MultiplyRuns(const StepOp& op, Tensor x, const LinearPlan& plan);
  /// Dequantizes weights to 16 bits in `memory` and multiplies, one panel of outputs at a time.
  void MultiplyDequantized(const StepOp& op, Tensor x, std::span<std::byte> memory);
  void MultiplyOne(const StepOp& op, Tensor x, const void* weight, Tensor y, const LinearPlan& plan);
  std::span<std::byte> scratch() const { return {static_cast<std::byte*>(scratch_), scratch_bytes_}; }
  /// Dequantizes the weight first if it is quantized.
  void RunLinearHeads(const StepOp& op);
  void RunRecurrence(const RecurrencePlan& plan);
  /// Runs whole chunks, as many at a time as the scratch memory has room for.
  void RunChunks(RecurrencePlan plan);
  /// As RunFirst, for an attention, fused with the gate of its results if possible.
  size_t RunAttention(std::span<const StepOp> ops);
  /// Runs the experts in chunks of rows that fit in the scratch memory. `dense`: of a single row, a further expert with
  /// the weight 1, or null.
  void RunExperts(const StepOp& op, const PackedExpert* dense = nullptr);
  /// As RunFirst for a norm, an MLP, a router and experts of the same row, if the MLP can be one of the experts; else
  /// 0.
  size_t RunMlpAndExperts(std::span<const StepOp> ops);

  Launcher on_;
  bool overlaps_ = true;  // on_.overlap, except directly after NCCL
  DType dtype_ = DType::kBF16;
  CublasGemm product_;
  bool fixed_order_ = false;
  RankExchange* exchange_ = nullptr;
  StageExchange* stages_ = nullptr;
  void* scratch_ = nullptr;
  size_t scratch_bytes_ = 0;
};

}  // namespace ringside::cuda
