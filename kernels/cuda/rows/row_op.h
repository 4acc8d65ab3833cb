// A row-wise operation with factors, without its tensors x and y (row_ops.cu). Plain data.
#pragma once

#include "kernels/activation.h"
#include "kernels/recurrence.h"
#include "kernels/tensor.h"

namespace ringside::cuda {

enum class RowOpKind {
  kGate,            // y *= f(x)
  kScale,           // y *= factor
  kXielu,           // y = xIELU(y)
  kScaleColumns,    // y *= column_factors
  kAddScaledRows,   // y += x * row_factors
  kMatchMagnitude,  // y *= rms(x) / rms(y)
  kSparsify,        // y = max(0, y - (mean + factor * standard deviation))
};

struct RowOp {
  RowOpKind kind = RowOpKind::kGate;
  GateKind gate = GateKind::kIdentity;
  float factor = 1;
  const float* column_factors = nullptr;
  Tensor row_factors;
  XieluParameters xielu;

  friend bool operator==(const RowOp&, const RowOp&) = default;
};

}  // namespace ringside::cuda
