// SIGTERM, SIGINT and SIGHUP as values. Created in main before any other thread, so that every thread inherits the
// blocked mask; owns one thread that waits for signals.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

namespace ringside {

class SignalWatcher {
 public:
  /// Blocks the signals for this thread and all later ones. Ignores SIGPIPE and SIGXFSZ for the process: the system
  /// call fails instead.
  SignalWatcher();
  ~SignalWatcher();
  SignalWatcher(const SignalWatcher&) = delete;
  SignalWatcher& operator=(const SignalWatcher&) = delete;

  /// Before this call a stop signal ends the process at once with status 0, because there is nothing to shut down.
  /// Afterwards the first signal is recorded, and a second one ends the process at once with 128 + its number.
  void Defer();
  /// Waits at most `time`; returns true if a stop signal arrived.
  bool Wait(std::chrono::milliseconds time);
  /// True if SIGHUP, a request to reload files, arrived since the last call.
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
