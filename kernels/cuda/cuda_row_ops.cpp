// Row-wise operations with factors of the CUDA backend: the recorded operations.
#include "kernels/cuda/cuda_backend.h"

namespace ringside::cuda {
namespace {

void CheckRows(const Tensor& x) {
  CHECK(!IsQuantized(x.dtype));
  CHECK(x.rows == 0 || x.data != nullptr);
  CHECK(x.rows <= 1 || x.stride >= x.cols);
}

/// y = op(x, y)
void RecordRowOp(StepRecorder* recorder, const Tensor& x, const Tensor& y, const RowOp& op) {
  CheckRows(x), CheckRows(y);
  CHECK_EQ(x.rows, y.rows);
  recorder->Record({.kind = OpKind::kRowOp, .x = x, .y = y, .row_op = op}, y.rows);
}

}  // namespace

void CudaBackend::Gate(Tensor gate, GateKind kind, Tensor y) {
  CHECK(gate.cols > 0 && y.cols % gate.cols == 0);
  RecordRowOp(&recorder_, gate, y, {.kind = RowOpKind::kGate, .gate = kind});
}

void CudaBackend::Scale(Tensor x, float factor) {
  RecordRowOp(&recorder_, x, x, {.kind = RowOpKind::kScale, .factor = factor});
}

void CudaBackend::Xielu(Tensor x, const XieluParameters& parameters) {
  RecordRowOp(&recorder_, x, x, {.kind = RowOpKind::kXielu, .xielu = parameters});
}

void CudaBackend::ScaleColumns(Tensor x, const float* factors) {
  RecordRowOp(&recorder_, x, x, {.kind = RowOpKind::kScaleColumns, .column_factors = factors});
}

void CudaBackend::AddScaledRows(Tensor x, Tensor factors, Tensor y) {
  CheckRows(factors);
  CHECK(x.cols == y.cols && factors.rows == x.rows && factors.cols == 1);
  RecordRowOp(&recorder_, x, y, {.kind = RowOpKind::kAddScaledRows, .row_factors = factors});
}

void CudaBackend::MatchMagnitude(Tensor like, Tensor x) {
  RecordRowOp(&recorder_, like, x, {.kind = RowOpKind::kMatchMagnitude});
}

void CudaBackend::Sparsify(Tensor x, float deviations) {
  RecordRowOp(&recorder_, x, x, {.kind = RowOpKind::kSparsify, .factor = deviations});
}

}  // namespace ringside::cuda
