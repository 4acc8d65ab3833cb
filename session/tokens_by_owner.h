// How many tokens each owner may still have computed: a bucket that its turns draw from, also below nothing, and that
// fills up over a minute. Whoever has drawn too much waits until it holds something again. Shared by a table and its
// turns; any thread.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

namespace ringside {

/// What an owner may still have computed in this minute; a limit of 0 = any number.
struct TokenShare {
  int64_t limit = 0, left = 0;
  int64_t full_in_ms = 0;  // when `left` would be `limit` again
};

class TokenBucket {
 public:
  /// `tokens` have been computed; less than none gives them back.
  void Draw(int64_t tokens, int64_t now_ns) {
    std::lock_guard lock(mutex_);
    if (per_minute_ <= 0) return;
    FillLocked(now_ns);
    drawn_ = std::max(0.0, drawn_ + static_cast<double>(tokens));
  }
  /// Milliseconds until the owner, who may have `per_minute` tokens a minute (0 = any number; both calls set it from
  /// now on), may draw again; 0 = now.
  int64_t WaitMs(int64_t per_minute, int64_t now_ns) {
    std::lock_guard lock(mutex_);
    AllowLocked(per_minute, now_ns);
    if (per_minute <= 0) return 0;
    const double missing = drawn_ - static_cast<double>(per_minute);
    return missing < 0 ? 0 : static_cast<int64_t>((missing + 1) * kMinuteMs / static_cast<double>(per_minute)) + 1;
  }
  TokenShare Share(int64_t per_minute, int64_t now_ns) {
    std::lock_guard lock(mutex_);
    AllowLocked(per_minute, now_ns);
    if (per_minute <= 0) return {};
    return {per_minute, std::max<int64_t>(per_minute - static_cast<int64_t>(std::ceil(drawn_)), 0),
            static_cast<int64_t>(std::ceil(drawn_ * kMinuteMs / static_cast<double>(per_minute)))};
  }

 private:
  static constexpr double kMinuteMs = 60'000;

  /// What holds from now on.
  void AllowLocked(int64_t per_minute, int64_t now_ns) {
    FillLocked(now_ns);
    per_minute_ = per_minute;
    if (per_minute <= 0) drawn_ = 0;
  }
  void FillLocked(int64_t now_ns) {
    const double minutes = static_cast<double>(std::max<int64_t>(now_ns - filled_ns_, 0)) / (kMinuteMs * 1e6);
    drawn_ = std::max(0.0, drawn_ - minutes * static_cast<double>(per_minute_));
    filled_ns_ = std::max(now_ns, filled_ns_);
  }

  std::mutex mutex_;
  int64_t per_minute_ = 0, filled_ns_ = 0;
  double drawn_ = 0;  // and not filled up yet
};

class TokensByOwner {
 public:
  /// The owner's bucket, which lives on with whoever holds it. Owners are those that have a key: they are never many.
  std::shared_ptr<TokenBucket> Of(const std::string& owner) {
    std::lock_guard lock(mutex_);
    std::shared_ptr<TokenBucket>& bucket = buckets_[owner];
    if (bucket == nullptr) bucket = std::make_shared<TokenBucket>();
    return bucket;
  }

 private:
  std::mutex mutex_;
  std::unordered_map<std::string, std::shared_ptr<TokenBucket>> buckets_;
};

}  // namespace ringside
