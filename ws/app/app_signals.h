// SIGTERM, SIGINT and SIGHUP as values. Made in main before any other thread, so that every thread inherits the blocked
// mask; owns one thread that waits for them.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

namespace ringside {

class SignalWatcher {
 public:
  /// Blocks the signals for this thread and all made after it; SIGPIPE and SIGXFSZ (a file beyond the
  /// process's limit) are ignored for the process: the call that meets them fails instead.
  SignalWatcher();
  ~SignalWatcher();
  SignalWatcher(const SignalWatcher&) = delete;
  SignalWatcher& operator=(const SignalWatcher&) = delete;

  /// Until this call a signal ends the process at once with status 0: there is nothing to wind up. From then on the
  /// first is remembered, and a second ends the process at once with 128 + its number.
  void Defer();
  /// True if a signal to stop came; waits at most `time` for one.
  bool Wait(std::chrono::milliseconds time);
  /// True if SIGHUP, which asks to read files again, has come since the last call.
  bool TakeHangup() { return hangup_.exchange(false); }

 private:
  void Watch();

  std::mutex mutex_;
  std::condition_variable changed_;
  bool deferred_ = false, received_ = false;
  std::atomic<bool> ending_{false}, hangup_{false};
  std::thread thread_;
};

}  // namespace ringside
