#include "kernels/cuda/steps/neighbours.h"

#include <algorithm>

#include "kernels/cuda/linear/block_quant_layout.h"

namespace ringside::cuda {
namespace {

PackedMatrix MatrixOf(const StepOp& linear, int i, int64_t first_row) {
  return {.data = linear.weights[i],
          .units = linear.scales[i],
          .first_row = static_cast<int32_t>(first_row),
          .bits = BitsOf(linear.weight_dtype)};
}

/// Whether a linear layer of `outputs` outputs has weights of the only type in a set, and no bias.
bool IsOfType(const StepOp& linear, uint32_t types, int64_t outputs) {
  return TileTypeBit(linear.weight_dtype) == types && types != 0 && linear.y.cols == outputs && linear.bias == nullptr;
}

}  // namespace

std::optional<PackedExpert> MlpAmongExperts(std::span<const StepOp> ops) {
  constexpr OpKind kKinds[kMlpAmongExperts] = {OpKind::kNorm,   OpKind::kLinear, OpKind::kMultiplyActivated,
                                               OpKind::kLinear, OpKind::kLinear, OpKind::kExperts};
  if (ops.size() < kMlpAmongExperts || !std::ranges::equal(ops.first(kMlpAmongExperts), kKinds, {}, &StepOp::kind)) {
    return std::nullopt;
  }
  const StepOp &norm = ops[0], &in = ops[1], &product = ops[2], &out = ops[3], &router = ops[4], &experts = ops[5];
  const ExpertsPlan& plan = experts.experts;
  const bool one_input = SameMatrix(norm.y, in.x) && SameMatrix(norm.y, router.x) && SameMatrix(norm.y, experts.x),
             one_chain = SameMatrix(in.y, product.x) && SameMatrix(product.y, out.x),
             one_sum = SameMatrix(out.y, experts.y) && out.accumulate && plan.accumulate && !in.accumulate,
             routed = SameMatrix(router.y, plan.router);
  if (norm.x.rows != 1 || IsInPlace(norm) || !one_input || !one_chain || !one_sum || !routed) return std::nullopt;
  const bool like = plan.gated && product.activation == experts.activation &&
                    IsOfType(in, plan.in_types, 2 * plan.inner) && IsOfType(out, plan.out_types, experts.x.cols);
  const bool joined = in.outputs[1] == 0;
  if (!like || out.outputs[1] != 0 || in.outputs[joined ? 1 : 2] != 0) return std::nullopt;
  if (!joined && in.outputs[0] != plan.inner) return std::nullopt;
  return PackedExpert{.gate = MatrixOf(in, 0, 0),
                      .up = joined ? MatrixOf(in, 0, plan.inner) : MatrixOf(in, 1, 0),
                      .out = MatrixOf(out, 0, 0),
                      .in_bias = nullptr,
                      .out_bias = nullptr,
                      .inner = plan.inner};
}

}  // namespace ringside::cuda
