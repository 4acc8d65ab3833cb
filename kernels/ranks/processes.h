// The processes of one server that mpirun or srun started together, on one machine or several: their numbers, and the
// groups of their ranks. Owned by main; a process joins once.
#pragma once

#include <chrono>
#include <memory>
#include <vector>

#include "base/status.h"
#include "kernels/ranks/comm.h"

namespace ringside {

class Processes {
 public:
  /// Waits for the other processes; returns at once if this one was started alone. Later, a process that is silent for
  /// `timeout`, or leaves before the first one does, fails every group of the others.
  /// ERRORS: kUnavailable if there are other processes, and MPI is not installed or fails, or this program was built
  /// without it.
  static Result<std::unique_ptr<Processes>> Join(std::chrono::milliseconds timeout);
  /// REQUIRES: Leave has been called.
  virtual ~Processes() = default;

  /// From 0; the first process has the sessions.
  virtual int number() const = 0;
  virtual int count() const = 0;
  /// Among the processes of this machine.
  virtual int number_on_machine() const = 0;
  virtual int count_on_machine() const = 0;
  /// Longest silence of a live process.
  virtual std::chrono::milliseconds timeout() const = 0;

  /// This process's end of a group of all processes. Groups of different channels, below kMaxChannels, are
  /// independent. Even with kNoTimeout, calls do not wait for a lost process.
  virtual std::unique_ptr<Comm> MakeComm(int channel, std::chrono::milliseconds timeout) = 0;
  /// The groups of this process's ranks. Every process has the same number of the layout's ranks, at most
  /// kMaxRanksPerProcess; the first process has the first ones. Uses this channel and the next.
  virtual std::vector<RankComms> MakeComms(int channel, const RankLayout& layout,
                                           std::chrono::milliseconds timeout) = 0;
  /// Blocks until the first process has left, or another one is lost or has left early.
  virtual void AwaitFirst() = 0;
  /// Leaves together with the other processes, or at once if one is lost. `failed`: this process cannot continue.
  /// REQUIRES: called once, at the end, after all groups are destroyed.
  /// ERRORS: kUnavailable unless the first process has left in order, before this one or with it.
  virtual Status Leave(bool failed = false) = 0;

  static constexpr int kMaxRanksPerProcess = 8, kMaxServerRanks = 128, kMaxChannels = 150;
  static constexpr std::chrono::milliseconds kNoTimeout = std::chrono::hours(24 * 365);
};

/// ERRORS: kUnavailable if this program was built without MPI, or MPI is not installed or fails.
Result<std::unique_ptr<Processes>> JoinByMpi(std::chrono::milliseconds timeout);

}  // namespace ringside
