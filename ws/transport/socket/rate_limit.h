// Token bucket for events of one WebSocket.
// THREAD: the connection's strand.
#pragma once

#include <algorithm>
#include <chrono>

namespace ringside {

/// Permits `burst` events at once and `per_second` on average.
class RateLimit {
 public:
  RateLimit(double per_second, double burst) : per_second_(per_second), burst_(burst), level_(burst) {}

  /// Counts an event; returns false if it exceeds the limit.
  bool Allow() {
    const auto now = std::chrono::steady_clock::now();
    const double passed = std::chrono::duration<double>(now - last_).count();
    last_ = now;
    level_ = std::min(burst_, level_ + passed * per_second_);
    if (level_ < 1) return false;
    level_ -= 1;
    return true;
  }
  void Refill() { level_ = burst_; }

 private:
  double per_second_, burst_, level_;
  std::chrono::steady_clock::time_point last_ = std::chrono::steady_clock::now();
};

}  // namespace ringside
