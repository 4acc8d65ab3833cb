// Stages the segments of a step for recurrent mixers: slabs, positions and boundaries. All layers of a step share one
// copy. Owned by the backend.
// THREAD: one.
#pragma once

#include <cstdint>

#include "kernels/backend.h"
#include "kernels/cuda/memory/device_memory.h"
#include "kernels/cuda/recurrence/recurrence_plan.h"
#include "kernels/cuda/steps/step_recorder.h"

namespace ringside::cuda {

class RecurrenceStaging {
 public:
  /// `fixed_order`: results must not depend on how rows are split into steps. Memory and recorder are borrowed.
  RecurrenceStaging(bool fixed_order, DeviceMemory* memory, StepRecorder* recorder)
      : fixed_order_(fixed_order), memory_(memory), recorder_(recorder) {}

  /// The plan of a layer, without `early`. REQUIRES: CheckRecurrence.
  RecurrencePlan PlanFor(const RecurrenceArgs& args);

 private:
  void StageSegments(const RecurrenceArgs& args, bool has_runs);

  const bool fixed_order_;
  DeviceMemory* const memory_;
  StepRecorder* const recorder_;
  uint64_t step_ = 0;        // staged step; 0: none
  uint64_t epoch_ = 0;       // StepRecorder::staging_epoch
  RecurrencePlan segments_;  // fields of the step's segments
};

}  // namespace ringside::cuda
