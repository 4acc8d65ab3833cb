// The processes of one server that mpirun or srun has started together, on one machine or on several: who they are, and
// the groups that their ranks talk in. Owned by main; a process joins once.
#pragma once

#include <chrono>
#include <memory>
#include <vector>

#include "base/status.h"
#include "kernels/ranks/comm.h"

namespace ringside {

class Processes {
 public:
  /// Waits for the others; alone if this one was started alone. While it lives, one that is silent for `timeout`, or
  /// leaves before the first does, fails every group of the others. kUnavailable if there are others and this program
  /// was built without MPI, or MPI fails.
  static Result<std::unique_ptr<Processes>> Join(std::chrono::milliseconds timeout);
  /// After Leave.
  virtual ~Processes() = default;

  /// From 0; the first has the sessions.
  virtual int number() const = 0;
  virtual int count() const = 0;
  /// Among those on this machine.
  virtual int number_on_machine() const = 0;
  virtual int count_on_machine() const = 0;
  /// How long one may be silent.
  virtual std::chrono::milliseconds timeout() const = 0;

  /// This process's end of a group of all processes. Groups of other channels, below kMostChannels, hear nothing of it.
  /// Ends that wait without end, kNoTimeout, still do not wait for a process that is lost.
  virtual std::unique_ptr<Comm> MakeComm(int channel, std::chrono::milliseconds timeout) = 0;
  /// Whom this process's ranks talk to, where all have as many of the layout's, at most kMostRanksEach; the first
  /// process has the first. Takes this channel and the next.
  virtual std::vector<RankComms> MakeComms(int channel, const RankLayout& layout,
                                           std::chrono::milliseconds timeout) = 0;
  /// Waits until the first has left, or another was lost or has left before.
  virtual void AwaitFirst() = 0;
  /// Leaves when the others do, at once if one is lost. Once, at the end, after all groups. `failed`: as one that could
  /// not go on. kUnavailable unless the first has left in order, before this one or with it.
  virtual Status Leave(bool failed = false) = 0;

  static constexpr int kMostRanksEach = 8, kMostRanks = 128, kMostChannels = 150;
  static constexpr std::chrono::milliseconds kNoTimeout = std::chrono::hours(24 * 365);
};

/// Where this program was built with MPI; otherwise kUnavailable, saying so.
Result<std::unique_ptr<Processes>> JoinByMpi(std::chrono::milliseconds timeout);

}  // namespace ringside
