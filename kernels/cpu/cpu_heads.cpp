// Linear layers with a matrix per head, on the CPU: a piece has some heads of some rows.
#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/panels.h"

namespace ringside::cpu {

void CpuBackend::LinearHeads(const HeadsArgs& args) {
  const Tensor &x = args.x, &y = args.y;
  const Weight& w = *args.weight;
  CHECK(x.dtype == DType::kF32 && y.dtype == DType::kF32);
  CHECK(args.heads > 0 && w.rows % (args.heads * kLanes) == 0 && !w.order);
  const int64_t outputs = w.rows / args.heads, panels = outputs / kLanes;
  const int64_t x_step = w.cols + args.carried, y_step = outputs + args.carried;
  CHECK(x.rows == y.rows && x.cols == args.heads * x_step && y.cols == args.heads * y_step);
  if (x.rows == 0) return;
  const int64_t head_blocks = x.rows * (w.cols / kBlock);
  ActivationBlock* activations = nullptr;
  if (HasIntegers(w.dtype)) {
    activations = static_cast<ActivationBlock*>(Scratch(
        static_cast<size_t>(args.heads * head_blocks) * sizeof(ActivationBlock), &activations_, &activation_bytes_));
    EachRow(args.heads, x.rows * w.cols, [&](int64_t h) {
      kernels_.quantize(x.f32() + h * x_step, x.stride, 0, x.rows, x.rows, w.cols, activations + h * head_blocks);
    });
  }
  const int64_t row_blocks = (x.rows + kMaxPieceRows - 1) / kMaxPieceRows;
  EachRow(args.heads * row_blocks, std::min(x.rows, kMaxPieceRows) * outputs * w.cols, [&](int64_t i) {
    const int64_t h = i % args.heads, first = i / args.heads * kMaxPieceRows;
    const int64_t last = std::min(x.rows, first + kMaxPieceRows);
    kernels_.linear({.dtype = w.dtype,
                     .panels = static_cast<const uint8_t*>(w.data.data()),
                     .outputs = w.rows,
                     .cols = w.cols,
                     .first_panel = h * panels,
                     .last_panel = (h + 1) * panels,
                     .first_row = first,
                     .last_row = last,
                     .all_rows = x.rows,
                     .x = x.f32() + h * x_step,
                     .x_stride = x.stride,
                     .activations = activations + h * head_blocks,
                     .bias = nullptr,
                     .y = y.f32() + h * args.carried,  // a panel's outputs are at their numbers in the whole weight
                     .y_stride = y.stride,
                     .accumulate = false});
    for (int64_t r = first; r < last && args.carried > 0; ++r) {
      std::memcpy(y.f32_row(r) + h * y_step + outputs, x.f32_row(r) + h * x_step + w.cols,
                  static_cast<size_t>(args.carried) * sizeof(float));
    }
  });
}

}  // namespace ringside::cpu
