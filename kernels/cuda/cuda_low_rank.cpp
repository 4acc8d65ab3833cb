// LoRA adapters of the CUDA backend: matrix placement, the row-to-adapter mapping of a step, and the recorded
// operation.
#include <algorithm>

#include "kernels/cuda/cuda_backend.h"

namespace ringside::cuda {
namespace {

/// Tiles of up to `max_rows` consecutive rows with one adapter; with `all` also of rows without an adapter.
std::vector<AdapterTile> TilesOf(std::span<const int> adapters, size_t max_rows, bool all) {
  std::vector<AdapterTile> tiles;
  for (size_t row = 0, end = 0; row < adapters.size(); row = end) {
    const int adapter = adapters[row];
    while (end < adapters.size() && end < row + max_rows && adapters[end] == adapter) ++end;
    if (adapter == 0 && !all) continue;
    tiles.push_back({.row = static_cast<int32_t>(row),
                     .rows = adapter == 0 ? 0 : static_cast<int32_t>(end - row),
                     .adapter = std::max(adapter - 1, 0)});
  }
  return tiles;
}

/// Uploads the adapter mapping of a step unless it is already on the device. Small steps get one tile per row, with or
/// without an adapter, so that one captured graph serves all steps of this row count.
void StageAdapters(const LowRankArgs& args, StepRecorder* recorder, AdapterStep* adapted) {
  if (args.step != 0 && args.step == adapted->step && adapted->epoch == recorder->staging_epoch()) return;
  const bool small = args.x.rows <= StepRecorder::kMaxSmallRows;
  const std::vector<AdapterTile> tiles = TilesOf(args.adapters, small ? 1 : kAdapterTileRows, small);
  const AdapterTile* staged = recorder->Stage<AdapterTile>(tiles);  // may rewind the buffer
  *adapted = {.step = args.step, .epoch = recorder->staging_epoch(), .tiles = staged, .count = std::ssize(tiles)};
}

}  // namespace

Result<Buffer> CudaBackend::PackLowRank(std::span<const std::span<const LowRank>> adapters) {
  std::vector<PackedLowRank> packed;
  for (const std::span<const LowRank> matrices : adapters) {
    CHECK_LE(matrices.size(), size_t{PackedLowRank::kMaxMatrices});
    PackedLowRank& place = packed.emplace_back();
    for (size_t m = 0; m < matrices.size(); ++m) {
      const LowRank& matrix = matrices[m];
      CHECK(matrix.a.dtype == options_.dtype && matrix.b.dtype == options_.dtype);
      CHECK_EQ(matrix.a.rows, matrix.b.cols);
      place.matrices[m] = {.a = matrix.a.data.data(),
                           .b = matrix.b.data.data(),
                           .rank = static_cast<int32_t>(matrix.a.rows),
                           .first_output = static_cast<int32_t>(matrix.first_output),
                           .outputs = static_cast<int32_t>(matrix.b.rows)};
    }
  }
  return weights_.Keep(std::as_bytes(std::span(packed)));
}

void CudaBackend::AddLowRank(const LowRankArgs& args) {
  const Tensor &x = args.x, &y = args.y, &low = args.low;
  CHECK(x.dtype == DType::kF32 || x.dtype == options_.dtype);
  CHECK(y.dtype == DType::kF32 || y.dtype == options_.dtype);
  CHECK(low.dtype == DType::kF32 && args.packed != nullptr);
  CHECK(x.rows == y.rows && x.rows == low.rows && x.rows == std::ssize(args.adapters));
  for (const int adapter : args.adapters) {
    CHECK(adapter >= 0 && static_cast<size_t>(adapter) <= args.matrices.size());
    if (adapter == 0) continue;
    for (const LowRank& matrix : args.matrices[static_cast<size_t>(adapter - 1)]) {
      CHECK(matrix.a.cols == x.cols && matrix.first_output + matrix.b.rows <= y.cols);
    }
  }
  StageAdapters(args, &recorder_, &adapted_);
  if (adapted_.count == 0) return;
  StepOp op{.kind = OpKind::kLowRank, .x = x, .y = y, .weight_dtype = options_.dtype};
  op.low_rank = {.packed = static_cast<const PackedLowRank*>(args.packed),
                 .tiles = adapted_.tiles,
                 .tile_count = adapted_.count,
                 .low = low};
  recorder_.Record(op, x.rows);
}

}  // namespace ringside::cuda
