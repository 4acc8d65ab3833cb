// Describes recorded linear layers to linear_plan.h: shapes, layouts and neighbours instead of addresses. Pure.
#pragma once

#include <span>

#include "kernels/cuda/linear/linear_plan.h"
#include "kernels/cuda/steps/step_op.h"

namespace ringside::cuda {

/// The settings of a runner that plans depend on.
struct LinearSettings {
  DType dtype = DType::kBF16;
  bool fixed_order = false;
  size_t scratch_bytes = 0;
};

/// The request of ops[linear], a kLinear. If `linear` is 1, ops[0] is the norm whose rows it consumes.
LinearRequest RequestOf(std::span<const StepOp> ops, size_t linear, const LinearSettings& settings);

}  // namespace ringside::cuda
