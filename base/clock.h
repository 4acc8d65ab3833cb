// Time as an interface, so that tests of timeouts need not wait. THREAD: any.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace ringside {

class Clock {
 public:
  virtual ~Clock() = default;
  /// Nanoseconds on a clock that never goes back.
  virtual int64_t MonotonicNs() const = 0;
  /// Seconds since 1970, for logs and the wire.
  virtual double WallSeconds() const = 0;
};

class SystemClock final : public Clock {
 public:
  int64_t MonotonicNs() const override {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
  }
  double WallSeconds() const override {
    return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  }
  /// The instance that the server uses.
  static const SystemClock& Instance() {
    static const SystemClock clock;
    return clock;
  }
};

/// A clock for tests: advances only on request.
class ManualClock final : public Clock {
 public:
  int64_t MonotonicNs() const override { return now_ns_.load(); }
  double WallSeconds() const override { return static_cast<double>(now_ns_.load()) * 1e-9; }
  void AdvanceMs(int64_t ms) { now_ns_ += ms * 1'000'000; }
  void AdvanceNs(int64_t ns) { now_ns_ += ns; }

 private:
  std::atomic<int64_t> now_ns_{0};
};

}  // namespace ringside
