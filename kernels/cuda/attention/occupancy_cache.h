// Caches an occupancy query per number (cluster size). The devices of a group, and engines in one process, each have a
// thread; all share the answers.
#pragma once

#include <map>
#include <mutex>

namespace ringside::cuda {

/// THREAD: any.
class OccupancyCache {
 public:
  /// Returns ask(), or its cached answer for this number. Concurrent callers may each ask. The call is made outside the
  /// lock, because it may wait for the device, which may in turn wait for work that another caller has yet to launch.
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
