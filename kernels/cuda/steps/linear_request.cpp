#include "kernels/cuda/steps/linear_request.h"

#include <algorithm>

#include "kernels/cuda/steps/neighbours.h"

namespace ringside::cuda {
namespace {

/// Whether the address allows 16-byte accesses.
bool IsAligned(const void* address) { return reinterpret_cast<uintptr_t>(address) % 16 == 0; }

MatrixLayout LayoutOf(const Tensor& x) { return {.dtype = x.dtype, .stride = x.stride, .aligned = IsAligned(x.data)}; }
VectorLayout LayoutOf(const void* vector) { return {.present = vector != nullptr, .aligned = IsAligned(vector)}; }

/// Whether 16-bit matrices are adjacent in memory.
bool AreContiguous(const StepOp& op) {
  int64_t before = 0;
  for (int i = 0; i < StepOp::kMaxWeights && op.outputs[i] > 0; ++i) {
    if (op.weights[i] != static_cast<const uint16_t*>(op.weights[0]) + before * op.x.cols) return false;
    before += op.outputs[i];
  }
  return true;
}

LinearLayer LayerOf(const StepOp& op, const LinearSettings& settings) {
  LinearLayer layer{.rows = op.x.rows, .k = op.x.cols, .dtype = settings.dtype, .weights = op.weight_dtype};
  std::ranges::copy(op.outputs, layer.outputs.begin());
  layer.x = LayoutOf(op.x), layer.y = LayoutOf(op.y);
  layer.weights_aligned = std::ranges::all_of(op.weights, IsAligned);
  layer.scales_aligned = IsAligned(op.scales[0]);
  layer.contiguous = AreContiguous(op);
  layer.bias = LayoutOf(op.bias), layer.rounded_bias = LayoutOf(op.rounded_bias);
  layer.accumulate = op.accumulate;
  layer.fixed_order = settings.fixed_order;
  layer.scratch_bytes = static_cast<int64_t>(settings.scratch_bytes);
  return layer;
}

LinearEpilogue EpilogueOf(const StepOp& op) {
  if (IsGelu(op)) {
    return op.activation == Activation::kGeluTanh ? LinearEpilogue::kGeluTanh : LinearEpilogue::kGeluErf;
  }
  const bool silu = op.kind == OpKind::kMultiplyActivated && op.activation == Activation::kSilu;
  return silu ? LinearEpilogue::kSiluMultiply : LinearEpilogue::kNothing;
}

}  // namespace

LinearRequest RequestOf(std::span<const StepOp> ops, size_t linear, const LinearSettings& settings) {
  LinearRequest out{.layer = LayerOf(ops[linear], settings), .norm = linear > 0};
  const std::span<const StepOp> rest = ops.subspan(linear);
  if (const StepOp* consumer = ConsumerOf(rest)) {
    out.epilogue = EpilogueOf(*consumer), out.product = LayoutOf(consumer->y);
  }
  if (const StepOp* sibling = SiblingLinear(rest)) out.partner = LayerOf(*sibling, settings);
  return out;
}

}  // namespace ringside::cuda
