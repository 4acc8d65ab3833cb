// Mixture-of-experts layers of the CUDA backend: weight placement and the recorded operation.
#include <fmt/format.h>

#include <algorithm>

#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/linear/block_quant_layout.h"

namespace ringside::cuda {
namespace {

/// Weights are loaded 16 bytes at a time.
constexpr int64_t kMultiple = 8;

Status CheckExpert(const Expert& expert, DType dtype, int64_t hidden, int64_t inner) {
  const auto computed = [&](const Weight& weight) { return weight.dtype == dtype || HasGroupScales(weight.dtype); };
  int64_t rows = 0;
  for (const Weight& weight : expert.in) {
    CHECK_EQ(weight.cols, hidden);
    rows += weight.rows;
  }
  CHECK(!expert.in.empty() && expert.in.size() <= 2 && rows == 2 * inner);
  CHECK(expert.out->rows == hidden && expert.out->cols == inner);
  if (hidden % kMultiple != 0 || inner % kMultiple != 0) {
    return InvalidArgument(fmt::format(
        "experts of {} x {} are not supported on a GPU: both sizes must be multiples of {}", inner, hidden, kMultiple));
  }
  if (computed(*expert.out) && std::ranges::all_of(expert.in, computed)) return Status::Ok();
  return InvalidArgument(fmt::format("expert weights must be {} or block-quantized in the file", Traits(dtype).name));
}

int32_t BitsIn(DType dtype) { return HasGroupScales(dtype) ? BitsOf(dtype) : 16; }

/// The set of types of one matrix over all experts; type(expert) returns the type of that matrix.
template <class TypeOf>
uint32_t TileTypes(std::span<const Expert> experts, const TypeOf& type) {
  uint32_t types = 0;
  for (const Expert& expert : experts) types |= TileTypeBit(type(expert));
  return types;
}

PackedMatrix Place(const Weight& weight, int64_t first_row) {
  return {.data = weight.data.data(),
          .units = static_cast<const float*>(weight.scales.data()),
          .first_row = static_cast<int32_t>(first_row),
          .bits = BitsIn(weight.dtype)};
}

/// One launch computes the same GEMM of all experts, so they must use one kernel path.
Status CheckTypes(std::span<const PackedExpert> experts) {
  const auto alike = [](const PackedMatrix& a, const PackedMatrix& b) { return (a.bits == 16) == (b.bits == 16); };
  for (const PackedExpert& expert : experts) {
    if (expert.gate.bits == expert.up.bits && alike(expert.gate, experts.front().gate) &&
        alike(expert.out, experts.front().out)) {
      continue;
    }
    return InvalidArgument(
        "a layer's experts mix block-quantized and other weights, or an expert's gate and up have different types, "
        "which "
        "is not supported on a GPU; --quantization none dequantizes all weights");
  }
  return Status::Ok();
}

}  // namespace

Result<Buffer> CudaBackend::PackExperts(std::span<const Expert> experts) {
  CHECK(!experts.empty());
  std::vector<PackedExpert> packed;
  for (const Expert& expert : experts) {
    const int64_t hidden = expert.out->rows, inner = expert.out->cols;
    RETURN_IF_ERROR(CheckExpert(expert, options_.dtype, hidden, inner));
    packed.push_back({.gate = Place(expert.in.front(), 0),
                      .up = Place(expert.in.back(), expert.in.size() == 2 ? 0 : inner),
                      .out = Place(*expert.out, 0),
                      .in_bias = expert.in_bias,
                      .out_bias = expert.out_bias,
                      .inner = inner});
  }
  RETURN_IF_ERROR(CheckTypes(packed));
  return weights_.Keep(std::as_bytes(std::span(packed)));
}

void CudaBackend::Experts(const ExpertsArgs& args) {
  const Tensor &x = args.x, &y = args.y, &router = args.router;
  CHECK(x.dtype == options_.dtype && y.dtype == DType::kF32 && router.dtype == DType::kF32);
  CHECK(x.rows == y.rows && x.cols == y.cols && x.rows == router.rows);
  CHECK(x.stride % kMultiple == 0 && y.stride % kMultiple == 0);
  CHECK_EQ(router.cols, static_cast<int64_t>(args.experts.size()));
  CHECK(args.accumulate && args.traits.plain());
  CHECK(args.top_k > 0 && args.top_k <= router.cols - (args.shared ? 1 : 0));
  CHECK(args.packed != nullptr && args.traits.plain());
  const auto top_k = static_cast<int32_t>(args.top_k);
  StepOp op{.kind = OpKind::kExperts, .x = x, .y = y, .activation = args.activation};
  op.experts = {.router = router,
                .packed = static_cast<const PackedExpert*>(args.packed),
                .top_k = top_k,
                .experts_per_row = top_k + (args.shared ? 1 : 0),
                .normalised = args.normalised,
                .fixed = options_.deterministic,
                .inner = args.experts.front().out->cols,
                .last_inner = args.experts.back().out->cols,
                .in_types = TileTypes(args.experts, [](const Expert& expert) { return expert.in.front().dtype; }),
                .out_types = TileTypes(args.experts, [](const Expert& expert) { return expert.out->dtype; })};
  if (!options_.deterministic) return recorder_.Record(op, x.rows);
  for (int64_t first = 0; first < x.rows; first += kFewExpertRows) {
    const int64_t rows = std::min(kFewExpertRows, x.rows - first);
    op.x = x.Rows(first, rows), op.y = y.Rows(first, rows);
    op.experts.router = router.Rows(first, rows);
    recorder_.Record(op, rows);
  }
}

}  // namespace ringside::cuda
