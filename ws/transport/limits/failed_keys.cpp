#include "ws/transport/limits/failed_keys.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace ringside {

std::chrono::milliseconds FailedKeys::Count(const std::string& address) {
  const int64_t now_ns = clock_.MonotonicNs();
  std::string line;
  double over = 0;
  {
    std::lock_guard lock(mutex_);
    const auto known = by_address_.find(address);
    if (known != by_address_.end()) {
      entries_.splice(entries_.begin(), entries_, known->second);
    } else {
      if (entries_.size() == kMaxAddresses) {
        by_address_.erase(entries_.back().address);
        entries_.pop_back();
      }
      entries_.push_front({address, 0, now_ns});
      by_address_[address] = entries_.begin();
    }
    Entry& entry = entries_.front();
    const double seconds = static_cast<double>(std::max<int64_t>(now_ns - entry.counted_ns, 0)) * 1e-9;
    entry.debt = std::max(0.0, entry.debt - seconds * static_cast<double>(kPerSecond)) + 1;
    entry.counted_ns = now_ns;
    over = entry.debt - static_cast<double>(kBurst);
    line = LineLocked(address, now_ns);
  }
  if (!line.empty()) log_(line);
  if (over <= 0) return std::chrono::milliseconds(0);
  const auto delay = std::chrono::milliseconds(static_cast<int64_t>(over * 1000 / static_cast<double>(kPerSecond)));
  return std::min(delay, kMaxDelay);
}

std::string FailedKeys::LineLocked(const std::string& address, int64_t now_ns) {
  ++unlogged_;
  if (logged_ && now_ns - logged_ns_ < kLogIntervalNs) return "";
  const uint64_t others = std::exchange(unlogged_, 0) - 1;
  const int64_t seconds = (now_ns - std::exchange(logged_ns_, now_ns)) / 1'000'000'000;
  const bool first = !std::exchange(logged_, true);
  std::string line = fmt::format("keys: refused a wrong, expired or revoked key from {}", address);
  if (!first && others > 0) line += fmt::format("; {} more from all addresses in the last {} s", others, seconds);
  return line;
}

size_t FailedKeys::addresses() const {
  std::lock_guard lock(mutex_);
  return entries_.size();
}

}  // namespace ringside
