// Connections that have yet to say who they are and what they want: TLS has not been agreed on, or no request has been
// let in. Whoever opens many and says nothing would take the places of those who speak; so where there is no place
// left, the one that has been silent for longest gives way. Owned by the ServerContext; any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <utility>

namespace ringside {

class SilentPeers {
 public:
  /// `cut` is called at most once, by CutOldest, on any thread, without the lock; it must not block. Returns the number
  /// to Remove with, never 0.
  uint64_t Add(std::function<void()> cut) {
    std::lock_guard lock(mutex_);
    peers_.emplace_hint(peers_.end(), ++last_, std::move(cut));
    return last_;
  }
  void Remove(uint64_t number) {
    std::unique_lock lock(mutex_);
    const auto removed = peers_.extract(number);
    lock.unlock();  // what is let go of may call anything
  }
  /// False if nobody is silent.
  bool CutOldest() {
    std::unique_lock lock(mutex_);
    if (peers_.empty()) return false;
    const auto oldest = peers_.extract(peers_.begin());
    lock.unlock();
    oldest.mapped()();
    return true;
  }
  int64_t size() const {
    std::lock_guard lock(mutex_);
    return static_cast<int64_t>(peers_.size());
  }

 private:
  mutable std::mutex mutex_;
  std::map<uint64_t, std::function<void()>> peers_;  // by when they came
  uint64_t last_ = 0;
};

/// One of them, as its connection holds it: on that connection's strand.
class SilentPeer {
 public:
  explicit SilentPeer(SilentPeers& peers) : peers_(peers) {}
  ~SilentPeer() { Speak(); }
  SilentPeer(const SilentPeer&) = delete;
  SilentPeer& operator=(const SilentPeer&) = delete;

  void BeSilent(std::function<void()> cut) {
    Speak();
    number_ = peers_.Add(std::move(cut));
  }
  void Speak() {
    if (number_ != 0) peers_.Remove(std::exchange(number_, 0));
  }
  bool silent() const { return number_ != 0; }

 private:
  SilentPeers& peers_;
  uint64_t number_ = 0;
};

}  // namespace ringside
