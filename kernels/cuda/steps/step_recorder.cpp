#include "kernels/cuda/steps/step_recorder.h"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "kernels/cuda/cuda_check.h"

namespace ringside::cuda {
namespace {

// Small steps and full chunks of a long prompt are captured as graphs; other shapes do not recur often enough.
constexpr int64_t kChunkRows = 256;
// A large step is launched in segments, so that the device starts while the host is still recording: kFirstSegment
// operations at first, then kSegmentGrowth times more each time. Segments end after a mixer, which fuses with no
// neighbour.
constexpr size_t kSegmentGrowth = 6;

}  // namespace

Status StepRecorder::Start(const Buffers& buffers) {
  for (size_t i = 0; i < std::size(submissions_); ++i) {
    if (!submissions_[i].Start(buffers.staging[i], buffers.staging_bytes, buffers.readback_bytes)) {
      return Overloaded(
          fmt::format("cannot pin {} bytes of host memory", 2 * (buffers.staging_bytes + buffers.readback_bytes)));
    }
  }
  return Status::Ok();
}

void StepRecorder::Invalidate(bool submitted) {
  ++staging_epoch_;
  if (submitted) ++submission_epoch_;
}

// ---- submissions

void StepRecorder::AwaitStream() {
  const auto waiting = Wait();
  CHECK_CUDA(cudaStreamSynchronize(stream()));
}

void StepRecorder::Synchronize() {
  Flush();
  AwaitStream();
  submissions_[1 - filling_].Empty();  // the older one first
  filling().Empty();
  Invalidate(/*submitted=*/true);
}

uint64_t StepRecorder::Submit() {
  Flush();
  filling().Send(stream(), ++last_submission_);
  filling_ = 1 - filling_;
  WaitFor(filling().number());
  Invalidate(/*submitted=*/true);
  return last_submission_;
}

void StepRecorder::WaitFor(uint64_t submission) {
  const auto waiting = Wait();
  for (Submission& one : submissions_) {
    if (one.number() == submission) one.Complete();
  }
}

// ---- operations

void StepRecorder::Record(const StepOp& op, int64_t rows) {
  if (!graphs_enabled_) {
    Flush();
    runner_.Run({&op, 1});
    return;
  }
  pending_.push_back(op);
  const bool large = rows > kMaxSmallRows;
  if (large && rows % kChunkRows != 0) may_recur_ = false;
  const bool mixes = op.kind == OpKind::kAttention || op.kind == OpKind::kRecur;
  if (large && mixes && pending_.size() >= segment_) {
    segment_ *= kSegmentGrowth;
    LaunchPending();
  }
}

void StepRecorder::Flush() {
  segment_ = kFirstSegment;
  LaunchPending();
}

void StepRecorder::LaunchPending() {
  if (exchange_->broken() || stages_->broken()) pending_.clear();
  const cudaGraphExec_t graph = may_recur_ && !pending_.empty() ? graphs_.Find(pending_, runner_) : nullptr;
  if (graph == nullptr) return Issue();
  Upload(Staging::UploadMode::kConcurrent);  // a graph launch waits for all preceding kernels
  CHECK_CUDA(cudaGraphLaunch(graph, stream()));
  pending_.clear();
}

void StepRecorder::Issue() {
  Upload(Staging::UploadMode::kInStreamOrder);
  const auto waiting = Wait();  // the runner may run timing trials
  runner_.Run(pending_);
  pending_.clear();
  may_recur_ = true;
}

// ---- staged inputs and results

void StepRecorder::Upload(Staging::UploadMode mode) {
  filling().staging().Upload(launcher(), slab_copies_->busy() ? Staging::UploadMode::kByKernel : mode);
}

Staging::Place StepRecorder::ReserveStaging(size_t bytes) {
  Staging& staging = filling().staging();
  CHECK_LE(bytes, staging.bytes());
  Staging::Place place = staging.Reserve(bytes);
  if (place.host == nullptr) {
    Flush();
    AwaitStream();
    staging.Rewind();
    Invalidate(/*submitted=*/false);
    place = staging.Reserve(bytes);
  }
  return place;
}

const int32_t* StepRecorder::StageIndices(std::span<const int64_t> values) {
  const std::vector<int32_t> narrow(values.begin(), values.end());
  return Stage<int32_t>(narrow);
}

std::byte* StepRecorder::StageReadback(void* host, size_t bytes) {
  std::byte* to = filling().StageReadback(host, bytes);
  if (to != nullptr) return to;
  Synchronize();
  to = filling().StageReadback(host, bytes);
  CHECK(to != nullptr);
  return to;
}

}  // namespace ringside::cuda
