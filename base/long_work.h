// Threads for long work whose cost a small request can choose: compiling a grammar, exporting a conversation. They run
// at a lower OS priority than the rest of the process. Fair queueing over owners by recent CPU time: the owner with the
// least goes first. THREAD: any.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "base/status.h"

namespace ringside {

struct LongWorkOptions {
  int threads = 1;
  size_t waiting_of_owner = 32;  // queued calls of one owner
  size_t waiting = 128;          // queued calls of all owners
};

class LongWorkLane {
 public:
  explicit LongWorkLane(const LongWorkOptions& options);
  ~LongWorkLane() { Stop(); }
  LongWorkLane(const LongWorkLane&) = delete;
  LongWorkLane& operator=(const LongWorkLane&) = delete;

  /// Runs `work` on a thread of the lane and returns when it is done; rethrows its exceptions. The caller's
  /// RequestWatch applies to it.
  /// ERRORS: kOverloaded (rate_limit_exceeded) if `owner` has too many queued calls, or if the queue is full and
  /// `owner` has the most; kUnavailable after Stop. `work` has not run then.
  Status Run(const std::string& owner, const std::function<void()>& work);
  /// Waits for running work and refuses queued calls.
  void Stop();
  /// Number of queued calls.
  size_t waiting() {
    std::lock_guard lock(mutex_);
    return waiting_;
  }

 private:
  struct Call;
  struct Owner {
    std::deque<Call*> waiting;
    int running = 0;
    double used_s = 0;  // CPU time as of `used_at`; halves every kHalfLife
    std::chrono::steady_clock::time_point used_at;
  };
  using Owners = std::unordered_map<std::string, Owner>;

  void Work();
  /// REQUIRES: mutex_, for all below. Makes room for one more call of `owner`.
  Status Admit(const Owner& owner);
  /// The owner of the next call; end() if no call is queued. Forgets owners whose CPU time has decayed.
  Owners::iterator PickOwner();
  void Finish(Call& call, Status status);

  const LongWorkOptions options_;
  std::mutex mutex_;
  std::condition_variable changed_;
  Owners owners_;
  size_t waiting_ = 0;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace ringside
