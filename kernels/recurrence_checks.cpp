#include "kernels/recurrence_checks.h"

#include <algorithm>

#include "base/check.h"

namespace ringside {
namespace {

void CheckMatrix(const Tensor& x, int64_t rows, int64_t cols) {
  CHECK(rows == 0 || x.data != nullptr);
  CHECK_EQ(x.rows, rows);
  CHECK_EQ(x.cols, cols);
}

void CheckMatrices(const RecurrenceArgs& args) {
  const RecurrenceShape& sizes = args.sizes;
  const int64_t rows = args.x.rows;
  CheckMatrix(args.x, rows, sizes.channels());
  if (sizes.mixer == Mixer::kConvolution) return CheckMatrix(args.out, rows, sizes.channels());
  CheckMatrix(args.rates, rows, sizes.decays());
  if (sizes.corrects()) CheckMatrix(args.betas, rows, sizes.value_heads);
  CheckMatrix(args.mixed, rows, sizes.mixed_columns());
  CheckMatrix(args.out, rows, sizes.values());
}

void CheckSizes(const RecurrenceArgs& args) {
  const RecurrenceShape& sizes = args.sizes;
  CHECK(IsRecurrent(sizes.mixer) && sizes.channels() > 0);
  CHECK(sizes.kernel >= 1 && sizes.kernel <= RecurrenceShape::kMaxKernel);
  CHECK_EQ(args.shape.state.boundary_bytes, sizes.StateOf(1).boundary_bytes);
  CHECK_EQ(args.shape.state.tail_row_bytes, sizes.StateOf(1).tail_row_bytes);
  CHECK(args.layer >= 0 && args.layer < args.shape.state.layers);
  if (sizes.mixer == Mixer::kConvolution) return;
  CHECK(sizes.key_heads > 0 && sizes.value_heads % sizes.key_heads == 0 && sizes.value_size % 16 == 0);
  CHECK(sizes.key_size > 0 && std::max(sizes.key_size, sizes.value_size) <= RecurrenceShape::kMaxSize);
  CHECK(sizes.mixer != Mixer::kKda || sizes.key_heads == sizes.value_heads);
}

void CheckSegment(const AttentionSegment& segment, const StateShape& state) {
  CHECK(segment.slab != nullptr && segment.history == nullptr);
  CHECK(segment.state_slot >= -1 && segment.state_slot < state.slots);
  CHECK(segment.state_slot >= 0 || segment.position < StateShape::kChunk);
  int64_t last = StateShape::BoundaryBefore(segment.position);
  for (const StateWrite& write : segment.state_writes) {
    CHECK(write.position > last && write.position % StateShape::kChunk == 0 &&
          write.position <= segment.position + segment.rows);
    CHECK(write.slot >= 0 && write.slot < state.slots && write.slot != segment.state_slot);
    last = write.position;
  }
  CHECK_EQ(last, StateShape::BoundaryBefore(segment.position + segment.rows));
}

}  // namespace

void CheckRecurrence(const RecurrenceArgs& args) {
  CheckSizes(args);
  CheckMatrices(args);
  int64_t covered = 0;
  for (const AttentionSegment& segment : args.segments) {
    CheckSegment(segment, args.shape.state);
    CHECK(segment.first_row >= 0 && segment.rows >= 0 && segment.first_row + segment.rows <= args.x.rows);
    covered += segment.rows;
  }
  CHECK_EQ(covered, args.x.rows);
}

}  // namespace ringside
