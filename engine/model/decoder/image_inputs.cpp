#include "engine/model/decoder/image_inputs.h"

#include <algorithm>
#include <numeric>

#include "base/check.h"

namespace ringside {

Status ImageInputs::Reserve(int64_t rows, int64_t hidden) {
  const int64_t values = layers_ == 0 ? 0 : rows * (1 + layers_) * hidden;
  const auto bytes = static_cast<size_t>(StorageBytes(backend_.activation_dtype(), values));
  if (memory_.bytes() >= bytes) return Status::Ok();
  memory_ = Buffer();  // free first: both at once might not fit
  ASSIGN_OR_RETURN(memory_, backend_.Allocate(bytes));
  return Status::Ok();
}

void ImageInputs::FindRuns(std::span<const StepPlan::ImageRow> rows, const MicroBatch& batch, int64_t columns) {
  const int64_t bytes = StorageBytes(backend_.activation_dtype(), columns);
  const auto first = std::ranges::lower_bound(rows, batch.first_row, {}, &StepPlan::ImageRow::row);
  const auto end = std::ranges::lower_bound(rows, batch.first_row + batch.rows, {}, &StepPlan::ImageRow::row);
  runs_.clear();
  for (auto row = first; row != end;) {
    const auto next = std::find_if(row, end, [&](const StepPlan::ImageRow& other) {
      const int64_t distance = other.row - row->row;
      return distance != &other - &*row || other.values != row->values + distance * bytes;
    });
    runs_.push_back({row->row - batch.first_row, next - row, row->values});
    row = next;
  }
}

Tensor ImageInputs::Inputs(const Run& run, int64_t hidden) const {
  const int64_t columns = (1 + layers_) * hidden;
  const DType dtype = backend_.activation_dtype();
  auto* memory = static_cast<std::byte*>(const_cast<void*>(memory_.data()));
  return {dtype, memory + StorageBytes(dtype, run.row * columns), run.rows, columns, columns};
}

void ImageInputs::Embed(std::span<const StepPlan::ImageRow> rows, const MicroBatch& batch, Tensor scratch,
                        Tensor embedded) {
  FindRuns(rows, batch, (1 + layers_) * embedded.cols);
  if (!runs_.empty()) CHECK(Reserve(batch.rows, embedded.cols).ok());
  for (const Run& run : runs_) {
    const Tensor inputs = layers_ > 0 ? Inputs(run, embedded.cols) : scratch.Rows(run.row, run.rows);
    backend_.CopyToDevice(inputs.data, run.values,
                          static_cast<size_t>(StorageBytes(inputs.dtype, inputs.rows * inputs.cols)));
    std::vector<int64_t> all(static_cast<size_t>(run.rows));
    std::iota(all.begin(), all.end(), 0);
    backend_.GatherRows(inputs.Columns(0, embedded.cols), all, embedded.Rows(run.row, run.rows));
  }
}

void ImageInputs::Add(int64_t layer, Tensor stream) {
  if (layer >= layers_) return;
  for (const Run& run : runs_) {
    const Tensor part = Inputs(run, stream.cols).Columns((1 + layer) * stream.cols, stream.cols);
    backend_.Add(part, stream.Rows(run.row, run.rows));
  }
}

}  // namespace ringside
