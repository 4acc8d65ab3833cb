// How fast turns end lately, and what that means for somebody who was refused: when to ask again. Owned by Metrics; any
// thread.
#pragma once

#include <array>
#include <cstdint>
#include <mutex>

namespace ringside {

class TurnRate {
 public:
  static constexpr int64_t kUnknownMs = 1'000;  // the advice where nothing has ended yet
  static constexpr int64_t kLeastMs = 250, kMostMs = 60'000;

  /// A turn has ended, at this monotonic time.
  void OnEnd(int64_t now_ns);
  /// In how many milliseconds half of the `waiting` turns, and one more, should be gone at the rate of the last
  /// kRemembered ends, the time since the last one included.
  int64_t RetryAfterMs(int64_t waiting, int64_t now_ns) const;

 private:
  static constexpr size_t kRemembered = 32;
  mutable std::mutex mutex_;
  std::array<int64_t, kRemembered> ends_ns_{};  // a ring
  uint64_t count_ = 0;                          // ends so far
};

}  // namespace ringside
