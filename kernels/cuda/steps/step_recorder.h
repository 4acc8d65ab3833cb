// Records the operations of a step, stages their inputs, and runs them when a result is needed. From the second step of
// a given shape on they run as one CUDA graph. Prefill steps with an unusual row count are launched eagerly: a captured
// graph would rarely be replayed. Owned by the backend.
// THREAD: one.
#pragma once

#include <cuda_runtime_api.h>

#include <cstring>
#include <span>

#include "kernels/cuda/ranks/rank_exchange.h"
#include "kernels/cuda/ranks/stage_exchange.h"
#include "kernels/cuda/slab_copies.h"
#include "kernels/cuda/steps/graph_cache.h"
#include "kernels/cuda/steps/step_runner.h"
#include "kernels/cuda/steps/submission.h"

namespace ringside::cuda {

class StepRecorder {
 public:
  static constexpr int64_t kMaxSmallRows = 64;  // steps of up to this number of rows are always captured as graphs

  /// All are borrowed.
  StepRecorder(RankExchange* exchange, StageExchange* stages, SlabCopies* slab_copies)
      : exchange_(exchange), stages_(stages), slab_copies_(slab_copies) {}

  /// Sizes of a submission's buffers, and the device memory of both submissions' staged inputs.
  struct Buffers {
    void* staging[2] = {};
    size_t staging_bytes = 0, readback_bytes = 0;
  };
  /// ERRORS: kOverloaded if the host cannot pin enough memory.
  Status Start(const Buffers& buffers);
  /// Runs every step eagerly.
  void DisableGraphs() { graphs_enabled_ = false; }
  StepRunner& runner() { return runner_; }
  const StepRunner& runner() const { return runner_; }
  const Launcher& launcher() const { return runner_.launcher(); }
  cudaStream_t stream() const { return launcher().stream; }
  void ClearGraphs() { graphs_.Clear(); }

  /// Records an operation on `rows` rows.
  void Record(const StepOp& op, int64_t rows);
  /// Runs the recorded operations, as a graph if a step of this shape is likely to recur.
  void Flush();
  /// Runs the recorded operations without caching a graph.
  void Issue();
  /// The operations recorded now rarely recur, so no graph pays off.
  void ExpectNoRecurrence() { may_recur_ = false; }
  /// Blocks until the device is idle; results are delivered.
  void Synchronize();
  /// Blocks until the device is idle.
  void AwaitStream();
  uint64_t Submit();
  void WaitFor(uint64_t submission);

  /// While an instance lives, this thread waits for its stream, and through it perhaps for other ranks.
  struct Waiting {
    DeviceMessages::Waiting layer, stages;
  };
  [[nodiscard]] Waiting Wait() const { return {exchange_->Wait(), stages_->Wait()}; }

  /// Reserves staging space, which is uploaded before the next operations run; first runs the recorded operations if
  /// the buffer is full.
  Staging::Place ReserveStaging(size_t bytes);
  template <class T>
  T* Stage(std::span<const T> values) {
    const Staging::Place place = ReserveStaging(values.size_bytes());
    if (!values.empty()) std::memcpy(place.host, values.data(), values.size_bytes());
    return static_cast<T*>(place.device);
  }
  const int32_t* StageIndices(std::span<const int64_t> values);
  /// Changes whenever staged inputs become invalid.
  uint64_t staging_epoch() const { return staging_epoch_; }
  /// Changes with every Submit and Synchronize.
  uint64_t submission_epoch() const { return submission_epoch_; }
  /// Pinned memory whose contents are copied to `host` once the operations issued so far have been waited for.
  std::byte* StageReadback(void* host, size_t bytes);
  size_t readback_bytes() { return filling().readback_bytes(); }

 private:
  static constexpr size_t kFirstSegment = 4;  // operations

  Submission& filling() { return submissions_[filling_]; }
  void LaunchPending();
  void Upload(Staging::UploadMode mode);
  /// Ends the validity of staged inputs, and with `submitted` of what operations of the submission refer to.
  void Invalidate(bool submitted);

  RankExchange* const exchange_;
  StageExchange* const stages_;
  SlabCopies* const slab_copies_;
  Submission submissions_[2];
  int filling_ = 0;  // index into submissions_
  uint64_t last_submission_ = 0;
  StepRunner runner_;
  GraphCache graphs_;
  bool graphs_enabled_ = true;
  StepOps pending_;
  bool may_recur_ = true;           // a step of this shape may recur, so a graph may pay off
  size_t segment_ = kFirstSegment;  // number of operations of a large step to record before they are launched
  uint64_t staging_epoch_ = 1, submission_epoch_ = 1;
};

}  // namespace ringside::cuda
