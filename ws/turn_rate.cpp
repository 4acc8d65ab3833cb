#include "ws/turn_rate.h"

#include <algorithm>

namespace ringside {

void TurnRate::OnEnd(int64_t now_ns) {
  std::lock_guard lock(mutex_);
  ends_ns_[count_++ % kRemembered] = now_ns;
}

int64_t TurnRate::RetryAfterMs(int64_t waiting, int64_t now_ns) const {
  std::lock_guard lock(mutex_);
  if (count_ < 2) return kUnknownMs;
  const uint64_t known = std::min<uint64_t>(count_, kRemembered);
  const int64_t first_ns = ends_ns_[(count_ - known) % kRemembered];
  const double each_ms = static_cast<double>(now_ns - first_ns) * 1e-6 / static_cast<double>(known - 1);
  const double turns = static_cast<double>(waiting) / 2 + 1;
  return std::clamp(static_cast<int64_t>(each_ms * turns), kLeastMs, kMostMs);
}

}  // namespace ringside
