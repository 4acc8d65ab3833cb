// Bounds the memory that bodies of one kind hold over all connections: of requests from their first byte until they are
// answered, of responses until they are written. A connection is charged for received bytes, not for the announced
// length: a client that announces much and sends nothing takes no room from others. Where keys identify owners, no
// owner holds more than half.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>

namespace ringside {

/// Owned by the ServerContext.
/// THREAD: any.
class BodyBudget {
 public:
  explicit BodyBudget(int64_t bytes) : bytes_(bytes) {}
  /// Reserves `bytes`; returns false and reserves nothing if too little is left, overall or for `owner` ("" = owners
  /// are not identified). An owner that holds nothing gets any amount from an unused budget.
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
  std::unordered_map<std::string, int64_t> held_;  // by owners with a nonzero share
};

/// Share of one connection.
/// THREAD: the connection's strand.
class BodyShare {
 public:
  static constexpr int64_t kFreeBytes = 64 << 10;  // not counted, so that ordinary requests continue next to large ones

  explicit BodyShare(BodyBudget& budget) : budget_(budget) {}
  ~BodyShare() { GiveBack(); }
  BodyShare(const BodyShare&) = delete;
  BodyShare& operator=(const BodyShare&) = delete;

  /// Changes the held amount to `bytes`, charged to `owner`. Returns false and keeps the previous amount if there is no
  /// room.
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
