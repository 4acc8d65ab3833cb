// Mixture-of-experts layers of the CUDA backend: weight placement and the recorded operation.
#include <fmt/format.h>

#include <algorithm>

#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/cuda_check.h"
#include "kernels/cuda/linear/block_quant_layout.h"

namespace ringside::cuda {
namespace {

/// Weights are loaded 16 bytes at a time.
constexpr int64_t kMultiple = 8;
constexpr size_t kAlignment = 256;  // of the packed arrays

size_t RoundUp(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

bool IsGated(const Expert& expert) { return expert.in.size() > 1 || expert.in.front().rows != expert.out->cols; }

/// F as the kernels compute it: rows of `out` start at multiples of 16 bytes, and so does the second half of the inputs
/// of an expert without a gate.
int64_t PaddedInner(const Expert& expert) {
  const int64_t multiple = IsGated(expert) ? kMultiple : 2 * kMultiple;
  return (expert.out->cols + multiple - 1) / multiple * multiple;
}
bool IsPadded(const Expert& expert) { return PaddedInner(expert) != expert.out->cols; }

Status CheckExpert(const Expert& expert, DType dtype, bool gated) {
  const int64_t hidden = expert.out->rows, inner = expert.out->cols;
  const auto computed = [&](const Weight& weight) { return weight.dtype == dtype || HasGroupScales(weight.dtype); };
  int64_t rows = 0;
  bool is_float = expert.out->dtype == dtype;
  for (const Weight& weight : expert.in) {
    CHECK_EQ(weight.cols, hidden);
    rows += weight.rows;
    is_float = is_float && weight.dtype == dtype;
  }
  CHECK(!expert.in.empty() && expert.in.size() <= 2 && IsGated(expert) == gated && rows == (gated ? 2 : 1) * inner);
  if (hidden % kMultiple != 0 || (IsPadded(expert) && !is_float)) {
    return InvalidArgument(
        fmt::format("experts of {} x {} are not supported on a GPU: the second size, and with quantized weights also "
                    "the first, must be a multiple of {}",
                    inner, hidden, kMultiple));
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

PackedExpert Pack(const Expert& expert) {
  const int64_t inner = expert.out->cols, second = IsGated(expert) ? inner : inner / 2;  // first row of ups, or half
  return {.gate = Place(expert.in.front(), 0),
          .up = Place(expert.in.back(), expert.in.size() == 2 ? 0 : second),
          .out = Place(*expert.out, 0),
          .in_bias = expert.in_bias,
          .out_bias = expert.out_bias,
          .inner = inner};
}

/// Copies of an expert's 16-bit matrices with F padded by zeros, in zeroed device memory.
class PaddedExpert {
 public:
  explicit PaddedExpert(const Expert& expert)
      : expert_(expert),
        hidden_(expert.out->rows),
        inner_(expert.out->cols),
        padded_(PaddedInner(expert)),
        parts_(IsGated(expert) ? 2 : 1) {}

  size_t bytes() const { return in_bytes() + out_bytes() + bias_bytes(); }
  PackedExpert CopyTo(std::byte* memory, cudaStream_t stream) const {
    std::byte *out = memory + in_bytes(), *bias = out + out_bytes();
    const size_t row = Bytes(hidden_), packed_part = Bytes(padded_ * hidden_);
    for (int64_t part = 0; part < parts_; ++part) {
      const bool separate = part > 0 && expert_.in.size() == 2;
      const auto* from = static_cast<const std::byte*>(expert_.in[separate ? 1 : 0].data.data());
      if (part > 0 && !separate) from += static_cast<size_t>(inner_) * row;
      Copy(memory + static_cast<size_t>(part) * packed_part, from, static_cast<size_t>(inner_) * row, stream);
      if (expert_.in_bias == nullptr) continue;
      Copy(bias + static_cast<size_t>(part * padded_) * sizeof(float), expert_.in_bias + part * inner_,
           static_cast<size_t>(inner_) * sizeof(float), stream);
    }
    CHECK_CUDA(cudaMemcpy2DAsync(out, Bytes(padded_), expert_.out->data.data(), Bytes(inner_), Bytes(inner_),
                                 static_cast<size_t>(hidden_), cudaMemcpyDeviceToDevice, stream));
    const auto second = static_cast<int32_t>(parts_ == 2 ? padded_ : padded_ / 2);
    return {.gate = {.data = memory, .units = nullptr, .first_row = 0, .bits = 16},
            .up = {.data = memory, .units = nullptr, .first_row = second, .bits = 16},
            .out = {.data = out, .units = nullptr, .first_row = 0, .bits = 16},
            .in_bias = expert_.in_bias == nullptr ? nullptr : reinterpret_cast<const float*>(bias),
            .out_bias = expert_.out_bias,
            .inner = padded_};
  }

 private:
  static size_t Bytes(int64_t elements) { return static_cast<size_t>(elements) * sizeof(uint16_t); }
  static void Copy(void* to, const void* from, size_t bytes, cudaStream_t stream) {
    CHECK_CUDA(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream));
  }
  size_t in_bytes() const { return RoundUp(Bytes(parts_ * padded_ * hidden_)); }
  size_t out_bytes() const { return RoundUp(Bytes(hidden_ * padded_)); }
  size_t bias_bytes() const { return RoundUp(static_cast<size_t>(parts_ * padded_) * sizeof(float)); }

  const Expert& expert_;
  const int64_t hidden_, inner_, padded_, parts_;
};

}  // namespace

Result<Buffer> CudaBackend::PackExperts(std::span<const Expert> experts) {
  CHECK(!experts.empty());
  const size_t first = RoundUp(experts.size() * sizeof(PackedExpert));
  size_t bytes = first;
  for (const Expert& expert : experts) {
    RETURN_IF_ERROR(CheckExpert(expert, options_.dtype, IsGated(experts.front())));
    if (IsPadded(expert)) bytes += PaddedExpert(expert).bytes();
  }
  ASSIGN_OR_RETURN(Buffer out, Allocate(bytes));
  std::byte* next = static_cast<std::byte*>(out.data()) + first;
  std::vector<PackedExpert> packed;
  for (const Expert& expert : experts) {
    if (!IsPadded(expert)) {
      packed.push_back(Pack(expert));
      continue;
    }
    const PaddedExpert padded(expert);
    packed.push_back(padded.CopyTo(next, stream_));
    next += padded.bytes();
  }
  RETURN_IF_ERROR(CheckTypes(packed));
  CopyToDevice(out.data(), packed.data(), packed.size() * sizeof(PackedExpert));
  Synchronize();
  return out;
}

void CudaBackend::Experts(const ExpertsArgs& args) {
  const Tensor &x = args.x, &y = args.y, &router = args.router;
  CHECK(x.dtype == options_.dtype && y.dtype == DType::kF32 && router.dtype == DType::kF32);
  CHECK(x.rows == y.rows && x.cols == y.cols && x.rows == router.rows);
  CHECK(x.stride % kMultiple == 0 && y.stride % kMultiple == 0);
  CHECK_EQ(router.cols, static_cast<int64_t>(args.experts.size()));
  CHECK(args.top_k > 0 && args.top_k <= router.cols - (args.shared ? 1 : 0));
  CHECK_LE(args.traits.groups, kMaxExpertGroups);
  CHECK(args.packed != nullptr);
  const auto top_k = static_cast<int32_t>(args.top_k);
  StepOp op{.kind = OpKind::kExperts, .x = x, .y = y, .activation = args.activation};
  op.experts = {.router = router,
                .packed = static_cast<const PackedExpert*>(args.packed),
                .top_k = top_k,
                .experts_per_row = top_k + (args.shared ? 1 : 0),
                .normalised = args.normalised,
                .traits = args.traits,
                .gated = IsGated(args.experts.front()),
                .accumulate = args.accumulate,
                .fixed = options_.deterministic,
                .inner = PaddedInner(args.experts.front()),
                .last_inner = PaddedInner(args.experts.back()),
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
