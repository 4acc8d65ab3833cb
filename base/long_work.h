// Threads for work that may take long and whose length a request chooses without being large: compiling a grammar,
// exporting a conversation. They run at a lower OS priority than the rest of the process. Owners share them by recent
// use: the owner that has used the least time goes first. THREAD: any.
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
  size_t waiting_of_owner = 32;  // calls
  size_t waiting = 128;          // calls of all owners
};

class LongWorkLane {
 public:
  explicit LongWorkLane(const LongWorkOptions& options);
  ~LongWorkLane() { Stop(); }
  LongWorkLane(const LongWorkLane&) = delete;
  LongWorkLane& operator=(const LongWorkLane&) = delete;

  /// Runs `work` on a thread of the lane and returns when it has ended; rethrows its exceptions. The caller's
  /// RequestWatch applies to it.
  /// ERRORS: kOverloaded (rate_limit_exceeded) if too many calls of `owner` wait, or too many of all and `owner` has
  /// the most; kUnavailable after Stop. The work has not run then.
  Status Run(const std::string& owner, const std::function<void()>& work);
  /// Waits for running work, refuses waiting calls.
  void Stop();
  /// Calls that wait now.
  size_t waiting() {
    std::lock_guard lock(mutex_);
    return waiting_;
  }

 private:
  struct Call;
  struct Owner {
    std::deque<Call*> waiting;
    int running = 0;
    double used_s = 0;  // processor time as of `used_at`; halves with every kHalfLife
    std::chrono::steady_clock::time_point used_at;
  };
  using Owners = std::unordered_map<std::string, Owner>;

  void Work();
  /// REQUIRES: mutex_, for all below.
  /// Makes room for one more call of `owner`.
  Status Admit(const Owner& owner);
  /// The owner whose call is next, end() if none waits. Forgets owners whose use has faded.
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
