// Reports in the log and to the service manager that a long step of the start is still running. Lives on the stack of
// the step; owns a thread meanwhile.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace ringside {

class ProgressReport {
 public:
  /// Logs "`what` ..." now and every five seconds after.
  explicit ProgressReport(std::string what);
  /// Logs the duration if it is at least a second.
  ~ProgressReport();
  ProgressReport(const ProgressReport&) = delete;
  ProgressReport& operator=(const ProgressReport&) = delete;

 private:
  double Seconds() const;

  const std::string what_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::mutex mutex_;
  std::condition_variable changed_;
  bool done_ = false;
  std::thread thread_;
};

}  // namespace ringside
