// Wrong keys by client address: delays their refusals and logs a summary. A key that
// is right is never delayed, whatever its address: many clients may share one. Owned by the ServerContext; any thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <mutex>
#include <string>
#include <unordered_map>

#include "base/clock.h"

namespace ringside {

class FailedKeys {
 public:
  static constexpr size_t kMaxAddresses = 4096;  // the one that failed longest ago is forgotten for one more
  static constexpr int64_t kBurst = 64, kPerSecond = 50;
  static constexpr std::chrono::milliseconds kMaxDelay{1'000};
  static constexpr int64_t kLogIntervalNs = 10'000'000'000;

  /// `log` receives one line, without any part of a key, at most every kLogIntervalNs.
  explicit FailedKeys(std::function<void(const std::string&)> log, const Clock& clock = SystemClock::Instance())
      : log_(std::move(log)), clock_(clock) {}

  /// Counts a wrong key from `address`. Returns the delay of its refusal: 0 within the burst, then what keeps the
  /// address at kPerSecond, at most kMaxDelay.
  std::chrono::milliseconds Count(const std::string& address);

  size_t addresses() const;

 private:
  struct Entry {
    std::string address;
    double debt = 0;  // failures not paid off yet
    int64_t counted_ns = 0;
  };

  /// The line to log now; "" = none.
  std::string LineLocked(const std::string& address, int64_t now_ns);

  const std::function<void(const std::string&)> log_;
  const Clock& clock_;
  mutable std::mutex mutex_;
  std::list<Entry> entries_;  // the latest failure first
  std::unordered_map<std::string, std::list<Entry>::iterator> by_address_;
  int64_t logged_ns_ = 0;
  uint64_t unlogged_ = 0;  // failures since then
  bool logged_ = false;
};

}  // namespace ringside
