// Recurrent mixers of the CUDA backend: the recorded operation.
#include <utility>

#include "kernels/cuda/cuda_backend.h"
#include "kernels/recurrence_checks.h"

namespace ringside::cuda {
namespace {

/// Makes later operations wait for copies of the segments' states.
void OrderAfterCopies(const RecurrenceArgs& args, SlabCopies* copies, StepRecorder* recorder) {
  bool issued = false;
  for (const AttentionSegment& segment : args.segments) {
    if (!copies->Moves(segment.slab)) continue;
    // A step that waits break into several launches is not worth capturing as a graph.
    if (!std::exchange(issued, true)) recorder->Issue();
    copies->AwaitState(segment.slab, recorder->stream());
  }
}

}  // namespace

void CudaBackend::Recur(const RecurrenceArgs& args) {
  for (const Tensor& x : {args.x, args.rates, args.betas, args.out}) CHECK(!IsQuantized(x.dtype));
  CHECK(args.mixed.dtype == DType::kF32);
  CheckRecurrence(args);
  if (args.x.rows == 0) return;
  OrderAfterCopies(args, &slab_copies_, &recorder_);
  RecurrencePlan plan = recurrence_.PlanFor(args);
  if (last_recurrence_.epoch != recorder_.submission_epoch())
    last_recurrence_ = {.epoch = recorder_.submission_epoch()};
  plan.early = args.layer > last_recurrence_.layer && !slab_copies_.busy() ? 1 : 0;
  last_recurrence_.layer = args.layer;
  // Prefill mixed with other sequences' rows rarely repeats a shape.
  if (plan.segment_count > 1 && args.x.rows > plan.segment_count) recorder_.ExpectNoRecurrence();
  recorder_.Record({.kind = OpKind::kRecur, .x = args.x, .y = args.out, .recurrence = plan}, args.x.rows);
}

}  // namespace ringside::cuda
