// A step in pieces that stages work on at the same time: while one computes a piece, the next computes the one before
// it. Pure functions, the same on every rank.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/model/step_plan.h"
#include "kernels/backend.h"

namespace ringside {

/// Rows of a step that a stage computes, and hands to the next, together.
struct MicroBatch {
  int64_t first_row = 0, rows = 0;         // in the step
  std::vector<AttentionSegment> segments;  // whose rows are counted from first_row
  std::vector<RopeAngles> angles;          // of its rows, for each of the network's rotations
};

/// How many a step of so many rows is cut into: as many as have `busy_rows` (Backend::busy_rows) each, one at least,
/// and at most 4 a stage, with which stages wait for less than a fifth of the time; one where there is one stage.
int64_t CountMicroBatches(int64_t rows, int stages, int64_t busy_rows);
/// No micro-batch of a step of up to so many rows has more.
int64_t LargestMicroBatch(int64_t rows, int stages, int64_t busy_rows);

/// In the order of the rows, so that each stage gets those of one sequence in theirs. They are about equal: a border
/// lies between two sequences where one is near, else within a sequence. `segments` are the plan's; `pairs`: angles of
/// a row.
std::vector<MicroBatch> CutStep(const StepPlan& plan, std::span<const AttentionSegment> segments, int64_t pairs,
                                int stages, int64_t busy_rows);

}  // namespace ringside
