// A one-time request to stop waiting, which poll() can wait for. Used by every wait for the database.
// THREAD: any.
#pragma once

#include <chrono>

namespace ringside {

class StopSignal {
 public:
  StopSignal();
  ~StopSignal();
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  void Request();
  bool requested() const;
  /// Readable once a stop is requested.
  int fd() const { return fd_; }
  /// Returns after `time`, or as soon as a stop is requested. False: requested.
  bool Sleep(std::chrono::milliseconds time) const;

 private:
  const int fd_;
};

}  // namespace ringside
