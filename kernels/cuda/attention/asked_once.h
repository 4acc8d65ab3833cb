// What the device is asked for once: how much of something it holds, by a number. The devices of a group, and engines
// beside one another, have a thread each and share the answers.
#pragma once

#include <map>
#include <mutex>

namespace ringside::cuda {

/// Any thread.
class AskedOnce {
 public:
  /// ask(), or what it has answered for this number before. Threads that come at one time may each ask: that happens
  /// outside the lock, since it may wait for the device, and the device for what another of these threads is to begin.
  template <class Ask>
  int Of(int number, const Ask& ask) {
    {
      const std::lock_guard lock(mutex_);
      if (const auto known = answers_.find(number); known != answers_.end()) return known->second;
    }
    const int answer = ask();
    const std::lock_guard lock(mutex_);
    return answers_.try_emplace(number, answer).first->second;
  }

 private:
  std::mutex mutex_;
  std::map<int, int> answers_;
};

}  // namespace ringside::cuda
