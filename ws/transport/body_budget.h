// How much memory the bodies of HTTP requests may hold, those of all connections together, from their first byte until
// their answer is made. A connection holds a share of it that grows with what has come, not with what was announced:
// who announces much and sends nothing takes room from nobody.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace ringside {

/// Owned by the ServerContext; any thread.
class BodyBudget {
 public:
  explicit BodyBudget(int64_t bytes) : left_(bytes) {}
  /// False, and nothing taken, if there is less left.
  bool Take(int64_t bytes) {
    if (left_.fetch_sub(bytes) >= bytes) return true;
    left_ += bytes;
    return false;
  }
  void GiveBack(int64_t bytes) { left_ += bytes; }

 private:
  std::atomic<int64_t> left_;
};

/// One body's, owned by its connection, on its strand.
class BodyShare {
 public:
  static constexpr int64_t kFreeBytes = 64 << 10;  // not counted: what most requests have goes on beside large ones

  explicit BodyShare(BodyBudget& budget) : budget_(budget) {}
  ~BodyShare() { GiveBack(); }
  BodyShare(const BodyShare&) = delete;
  BodyShare& operator=(const BodyShare&) = delete;

  /// False if there is no room for a body of now so many bytes.
  bool Grow(size_t body_bytes) {
    const int64_t more = std::max<int64_t>(static_cast<int64_t>(body_bytes) - kFreeBytes - held_, 0);
    if (!budget_.Take(more)) return false;
    held_ += more;
    return true;
  }
  void GiveBack() { budget_.GiveBack(std::exchange(held_, 0)); }

 private:
  BodyBudget& budget_;
  int64_t held_ = 0;
};

}  // namespace ringside
