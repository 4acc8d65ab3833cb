// What a rank does for a step: its part of the network, on a device of this process (engine/model/decoder.h) or in
// another one (engine/model/ranks/remote_rank.h). Used by the rank's thread only.
#pragma once

#include <span>
#include <vector>

#include "engine/model/step_plan.h"
#include "kernels/backend.h"

namespace ringside {

class RankDecoder {
 public:
  virtual ~RankDecoder() = default;

  /// Takes the scratch memory for steps of up to `rows` tokens. kOverloaded, naming the bytes, if the device has no
  /// room.
  virtual Status Reserve(int64_t rows) = 0;

  /// Runs a step as far as the residual stream. `segments` are the plan's, with this device's slabs of `shape`.
  virtual void Run(const StepPlan& plan, const KvShape& shape, std::span<const AttentionSegment> segments) = 0;

  // Then one of these, for the rows that the plan wants.
  /// Logits to the host, [wanted rows, vocab], unless another rank brings them.
  virtual void CopyLogits(std::span<float> logits) = 0;
  /// Tokens, which Finish brings: choices[i] chooses from the i-th row.
  virtual void Choose(std::span<const TokenChoice> choices) = 0;
  /// At most kMostUnchosenRows rows wait for ChooseKept.
  virtual void KeepLogits() = 0;
  virtual void ChooseKept(std::span<const TokenChoice> choices) = 0;

  /// Waits for the oldest step of which tokens were chosen, and gives them, one a choice; nothing where the rank is in
  /// another process: all have chosen the same.
  virtual std::vector<ChosenToken> Finish() = 0;
};

}  // namespace ringside
