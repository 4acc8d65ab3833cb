// How much memory bodies of one kind may hold, those of all connections together: of requests, from their first byte
// until their answer is made, or of answers until they are written. A connection's share grows with what has come, not
// with what was announced: a client that announces much and sends nothing takes room from no one. Where keys tell
// owners apart, none holds more than half.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>

namespace ringside {

/// Owned by the ServerContext; any thread.
class BodyBudget {
 public:
  explicit BodyBudget(int64_t bytes) : bytes_(bytes) {}
  /// False, and nothing taken, if there is less left, for all or for this owner ("" = no keys tell owners apart). Who
  /// holds nothing gets any number from a budget that is not in use.
  bool Take(const std::string& owner, int64_t bytes) {
    if (bytes == 0) return true;
    std::lock_guard lock(mutex_);
    int64_t& held = held_[owner];
    const int64_t share = owner.empty() ? bytes_ : bytes_ / 2;
    const bool fits = taken_ + bytes <= bytes_ && held + bytes <= share;
    if (fits || taken_ == 0) {
      taken_ += bytes;
      held += bytes;
      return true;
    }
    if (held == 0) held_.erase(owner);
    return false;
  }
  void GiveBack(const std::string& owner, int64_t bytes) {
    if (bytes == 0) return;
    std::lock_guard lock(mutex_);
    taken_ -= bytes;
    const auto at = held_.find(owner);
    if ((at->second -= bytes) == 0) held_.erase(at);
  }

 private:
  const int64_t bytes_;
  std::mutex mutex_;
  int64_t taken_ = 0;
  std::unordered_map<std::string, int64_t> held_;  // by owners that hold any
};

/// One connection's, on its strand.
class BodyShare {
 public:
  static constexpr int64_t kFreeBytes = 64 << 10;  // not counted: what most requests have goes on beside large ones

  explicit BodyShare(BodyBudget& budget) : budget_(budget) {}
  ~BodyShare() { GiveBack(); }
  BodyShare(const BodyShare&) = delete;
  BodyShare& operator=(const BodyShare&) = delete;

  /// From now on `bytes` are held, for `owner`; false, and what was held before still is, if there is no room.
  bool Hold(const std::string& owner, size_t bytes) {
    if (owner != owner_) {
      GiveBack();
      owner_ = owner;
    }
    const int64_t counted = std::max<int64_t>(static_cast<int64_t>(bytes) - kFreeBytes, 0);
    if (counted > held_ && !budget_.Take(owner_, counted - held_)) return false;
    if (counted < held_) budget_.GiveBack(owner_, held_ - counted);
    held_ = counted;
    return true;
  }
  void GiveBack() { budget_.GiveBack(owner_, std::exchange(held_, 0)); }

 private:
  BodyBudget& budget_;
  std::string owner_;
  int64_t held_ = 0;
};

}  // namespace ringside
