// Ends the process if its shutdown hangs, in disk I/O, in a device or in a worker's call. Nothing acknowledged is lost.
// Owned by RunServer; has its own thread.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

namespace ringside {

class StopDeadline {
 public:
  /// Ends the process with `exit_code` unless the object is destroyed within `time`.
  StopDeadline(std::chrono::milliseconds time, int exit_code);
  ~StopDeadline();
  StopDeadline(const StopDeadline&) = delete;
  StopDeadline& operator=(const StopDeadline&) = delete;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stopped_ = false;
  std::thread thread_;
};

}  // namespace ringside
