// A rank of a process that is not the first: does what the first one tells it (engine/model/ranks/remote_rank.h), in
// the order in which it was told. Lives on the rank's thread.
#pragma once

#include <vector>

#include "engine/model/decoder.h"
#include "engine/model/ranks/rank_line.h"
#include "engine/model/ranks/rank_messages.h"

namespace ringside {

class RankFollower {
 public:
  /// `own`: the spec of the rank's part. All outlive it.
  RankFollower(Backend& backend, Decoder& decoder, const ModelSpec& own, RankLine& line)
      : backend_(backend), decoder_(decoder), own_(own), planner_(own), line_(line) {}

  /// Until it is told to end; otherwise why it cannot go on: the first process is gone, or a device, or what was sent
  /// makes no sense.
  Status Follow();

 private:
  Status Do(RankCall& call);
  Status Run(StepPlan& plan);
  void Begun(size_t choices);
  Result<uint64_t> ReserveSlabs(size_t bytes);
  Status Free(const RankCall& call);
  Status Save(const RankCall& call);
  Status Load(const RankCall& call);
  /// kCorruption unless all these bytes are slab memory of ours.
  Status CheckOwn(uint64_t address, int64_t bytes) const;

  Backend& backend_;
  Decoder& decoder_;
  const ModelSpec& own_;
  StepPlanner planner_;
  RankLine& line_;
  std::vector<Buffer> slabs_;  // what is reserved
  // Of steps: which has run and has no choices yet, tokens that the last chosen one brings, and steps to be finished.
  size_t wanted_ = 0, awaited_ = 0, unfinished_ = 0;
  enum class Step { kNone, kRun, kKept } step_ = Step::kNone;
};

}  // namespace ringside
