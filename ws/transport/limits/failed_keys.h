// Counts wrong keys by client address, delays their refusals and logs a summary. A valid key is never delayed, because
// many clients may share an address. Owned by the ServerContext.
// THREAD: any.
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
  static constexpr size_t kMaxAddresses = 4096;  // the address with the oldest failure is dropped for a new one
  static constexpr int64_t kBurst = 64, kPerSecond = 50;
  static constexpr std::chrono::milliseconds kMaxDelay{1'000};
  static constexpr int64_t kLogIntervalNs = 10'000'000'000;

  /// `log` receives one line at most every kLogIntervalNs, without any part of a key.
  explicit FailedKeys(std::function<void(const std::string&)> log, const Clock& clock = SystemClock::Instance())
      : log_(std::move(log)), clock_(clock) {}

  /// Counts a wrong key from `address`. Returns the delay of its refusal: 0 within the burst, then the delay that
  /// limits the address to kPerSecond, at most kMaxDelay.
  std::chrono::milliseconds Count(const std::string& address);

  size_t addresses() const;

 private:
  struct Entry {
    std::string address;
    double debt = 0;  // failures not yet paid off
    int64_t counted_ns = 0;
  };

  /// Returns the line to log now; "" = none.
  std::string LineLocked(const std::string& address, int64_t now_ns);

  const std::function<void(const std::string&)> log_;
  const Clock& clock_;
  mutable std::mutex mutex_;
  std::list<Entry> entries_;  // latest failure first
  std::unordered_map<std::string, std::list<Entry>::iterator> by_address_;
  int64_t logged_ns_ = 0;
  uint64_t unlogged_ = 0;  // failures since the last line
  bool logged_ = false;
};

}  // namespace ringside
