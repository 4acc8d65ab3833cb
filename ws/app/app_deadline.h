// Ends the process where its stop hangs: on a disk that does not answer, on a device, in a call on a worker. Nothing
// that was acknowledged is lost by that. Owned by RunServer; has a thread of its own.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

namespace ringside {

class StopDeadline {
 public:
  /// Unless the object is gone after `time`, the process ends with `exit_code`.
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
