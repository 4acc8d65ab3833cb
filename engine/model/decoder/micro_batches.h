// Pipeline parallelism: a step is split into micro-batches that stages process concurrently. Pure functions, with the
// same result on every rank.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/model/step_plan.h"
#include "kernels/backend.h"

namespace ringside {

/// Rows that a stage computes and sends to the next one together.
struct MicroBatch {
  int64_t first_row = 0, rows = 0;         // in the step
  std::vector<AttentionSegment> segments;  // rows relative to first_row
  std::vector<RopeAngles> angles;          // of its rows, by rotation
};

/// Number of micro-batches for a step of `rows` rows: enough to give each `saturating_rows` (Backend::saturating_rows),
/// at least one and at most 4 per stage, which keeps the pipeline bubble below a fifth; one if there is one stage.
int64_t CountMicroBatches(int64_t rows, int stages, int64_t saturating_rows);
/// Maximum rows of a micro-batch in any step of up to `rows` rows.
int64_t LargestMicroBatch(int64_t rows, int stages, int64_t saturating_rows);

/// Splits a step in row order, so that each stage sees the rows of a sequence in order. The sizes are about equal: a
/// border is between two sequences if one is near, else within a sequence. `segments`: the plan's; `pairs`: rotary
/// angles per row, by rotation; `recurrent`: each part of a sequence starts where its state is stored, so that sizes
/// may differ.
std::vector<MicroBatch> SplitIntoMicroBatches(const StepPlan& plan, std::span<const AttentionSegment> segments,
                                              std::span<const int64_t> pairs, int stages, int64_t saturating_rows,
                                              bool recurrent = false);

}  // namespace ringside
