// Relations between a recorded operation and those after it, for fusion.
#pragma once

#include <optional>
#include <span>

#include "kernels/cuda/steps/step_op.h"

namespace ringside::cuda {

inline bool SameMatrix(const Tensor& a, const Tensor& b) {
  return a.data == b.data && a.rows == b.rows && a.cols == b.cols && a.stride == b.stride && a.dtype == b.dtype;
}

/// A norm that overwrites its input (post-norm): its store cannot be elided, because later operations read it.
inline bool IsInPlace(const StepOp& norm) { return SameMatrix(norm.x, norm.y); }

inline bool IsGelu(const StepOp& op) {
  return op.kind == OpKind::kActivate &&
         (op.activation == Activation::kGeluTanh || op.activation == Activation::kGeluErf);
}

/// The operation that directly follows and consumes the first one's result, or null.
inline const StepOp* ConsumerOf(std::span<const StepOp> ops) {
  return ops.size() > 1 && SameMatrix(ops[0].y, ops[1].x) ? &ops[1] : nullptr;
}

/// The linear layer that directly follows the first operation and has the same input rows, or null.
inline const StepOp* SiblingLinear(std::span<const StepOp> ops) {
  return ops.size() > 1 && ops[1].kind == OpKind::kLinear && SameMatrix(ops[0].x, ops[1].x) ? &ops[1] : nullptr;
}

constexpr size_t kMlpAmongExperts = 6;  // operations: norm; gate and up, their product, down; router; experts
/// The MLP of ops[1 ... 3], whose input is the norm ops[0] and whose result is added to the stream, as an expert, if a
/// router and experts of the same row follow that have its sizes and types and add to the same stream.
std::optional<PackedExpert> MlpAmongExperts(std::span<const StepOp> ops);

}  // namespace ringside::cuda
