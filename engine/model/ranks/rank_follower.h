// A rank outside the first process: executes the first process's calls (engine/model/ranks/remote_rank.h) in order.
// THREAD: the rank's.
#pragma once

#include <vector>

#include "engine/model/decoder/decoder.h"
#include "engine/model/ranks/rank_connection.h"
#include "engine/model/ranks/rank_messages.h"

namespace ringside {

class RankFollower {
 public:
  /// `own`: the spec of the rank's part. REQUIRES: all outlive it.
  RankFollower(Backend& backend, Decoder& decoder, const ModelSpec& own, RankConnection& line)
      : backend_(backend), decoder_(decoder), own_(own), planner_(own), line_(line) {}

  /// Runs until the end call. ERRORS: the first process or a device is gone, or a call is malformed.
  Status Follow();

 private:
  Status Do(RankCall& call);
  Status Run(StepPlan& plan);
  void Begun(size_t choices);
  Result<uint64_t> ReserveSlabs(size_t bytes);
  Status Free(const RankCall& call);
  Status Save(const RankCall& call);
  Status Load(const RankCall& call);
  /// ERRORS: kCorruption unless all these bytes are this rank's slab memory.
  Status CheckOwnMemory(uint64_t address, int64_t bytes) const;

  Backend& backend_;
  Decoder& decoder_;
  const ModelSpec& own_;
  StepPlanner planner_;
  RankConnection& line_;
  std::vector<Buffer> slabs_;  // reservations
  // Step state: rows that were run and not sampled yet, tokens of the last sampled step, steps to finish.
  size_t wanted_ = 0, awaited_ = 0, unfinished_ = 0;
  enum class Step { kNone, kRun, kKept } step_ = Step::kNone;
};

}  // namespace ringside
