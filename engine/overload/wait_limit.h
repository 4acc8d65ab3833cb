// Admission control by predicted wait: refuses a turn early, with the time after which a retry should succeed, instead
// of letting the queue grow until every turn is late. A pure policy without a clock, of the engine (WaitControl) and of
// the cluster simulation. One per engine. THREAD: none; callers serialize.
#pragma once

#include <algorithm>
#include <optional>

namespace ringside {

/// A turn is admitted if its first row is computed within the limit. Half of the limit is reserved for cheap turns
/// (those whose cache is resident): an expensive one is admitted only while the wait is below limit / 2, so under
/// overload the cached conversations continue, and the others share the remaining time. A prompt of any length is
/// admitted by an idle engine. No admitted turn waits for longer than the limit, as far as predictions are right.
class WaitLimit {
 public:
  static constexpr double kLeastRetryS = 1, kMostRetryS = 60;

  /// REQUIRES: limit_s > 0.
  explicit WaitLimit(double limit_s) : limit_s_(limit_s) {}

  /// True if a turn is admitted. `wait_s`: the predicted time until its first row is computed. `own_s`: the predicted
  /// time of its prompt and of loading or recomputing its cache.
  bool Admits(double wait_s, double own_s) const {
    return wait_s + std::min(own_s, limit_s_ / 2) <= limit_s_ || wait_s <= 0;
  }

  /// Decides about a turn that arrives at `now_s`, a monotonic time. Returns nullopt if it is admitted, else
  /// Retry-After in seconds: refused turns get successive places in the time that their work takes, so that their
  /// retries arrive at the rate at which they can be served.
  std::optional<double> Refuse(double now_s, double wait_s, double own_s) {
    if (Admits(wait_s, own_s)) return std::nullopt;
    deferred_until_s_ = std::min(std::max(deferred_until_s_, now_s + wait_s) + own_s, now_s + kMostRetryS);
    return std::clamp(deferred_until_s_ - now_s, kLeastRetryS, kMostRetryS);
  }

 private:
  const double limit_s_;
  double deferred_until_s_ = 0;  // when the queue and the refused turns' work could be done
};

}  // namespace ringside
