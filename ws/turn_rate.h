// Recent rate of finished turns, and the Retry-After derived from it. Owned by Metrics.
// THREAD: any.
#pragma once

#include <array>
#include <cstdint>
#include <mutex>

namespace ringside {

class TurnRate {
 public:
  static constexpr int64_t kUnknownMs = 1'000;  // advice before any turn has ended
  static constexpr int64_t kLeastMs = 250, kMostMs = 60'000;

  /// Records the end of a turn at a monotonic time.
  void OnEnd(int64_t now_ns);
  /// Milliseconds until half of the `waiting` turns, plus one, should have ended at the rate of the last kRemembered
  /// ends, counting the time since the last one.
  int64_t RetryAfterMs(int64_t waiting, int64_t now_ns) const;

 private:
  static constexpr size_t kRemembered = 32;
  mutable std::mutex mutex_;
  std::array<int64_t, kRemembered> ends_ns_{};  // ring buffer
  uint64_t count_ = 0;                          // ends so far
};

}  // namespace ringside
