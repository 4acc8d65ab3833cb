// A rank's part of a step: on a device of this process (engine/model/decoder/decoder.h) or in another process
// (engine/model/ranks/remote_rank.h). THREAD: the rank's.
#pragma once

#include <span>
#include <vector>

#include "engine/model/step_plan.h"
#include "kernels/backend.h"

namespace ringside {

class RankDecoder {
 public:
  virtual ~RankDecoder() = default;

  /// Reserves the workspace for steps of up to `rows` tokens. ERRORS: kOverloaded, with the bytes, if the device has no
  /// memory.
  virtual Status Reserve(int64_t rows) = 0;

  /// Runs a step up to the residual stream. `segments`: the plan's, with this device's slabs of `shape`.
  virtual void Run(const StepPlan& plan, const KvShape& shape, std::span<const AttentionSegment> segments) = 0;

  // Then one of these, for the plan's wanted rows.
  /// Copies logits to the host, [wanted rows, vocab], unless another rank does.
  virtual void CopyLogits(std::span<float> logits) = 0;
  /// Samples tokens for Finish: choices[i] applies to the i-th row.
  virtual void Choose(std::span<const RowSamplingParams> choices) = 0;
  /// Deferred sampling: at most kMaxDeferredRows rows wait for ChooseKept.
  virtual void KeepLogits() = 0;
  /// choices[i] applies to row rows[i], which ascend, or without `rows` to row i of all. Only a single rank may sample
  /// its rows in several calls, each followed by Finish; otherwise there are no `rows`.
  virtual void ChooseKept(std::span<const RowSamplingParams> choices, std::span<const size_t> rows) = 0;

  /// Waits for the oldest step with sampled tokens and returns them, one per choice; empty if the rank is in another
  /// process, because all ranks sample the same tokens.
  virtual std::vector<SampledToken> Finish() = 0;
};

}  // namespace ringside
