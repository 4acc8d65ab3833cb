// The state of an engine that other threads may read: its counters as of the last round, and its failure. Owned by
// EngineLoop. THREAD: any; Publish and Fail on the engine's.
#pragma once

#include <atomic>
#include <mutex>

#include "base/status.h"
#include "engine/engine_options.h"

namespace ringside {

class EngineStatus {
 public:
  void Publish(const EngineStats& stats) {
    std::lock_guard lock(mutex_);
    stats_ = stats;
  }
  EngineStats stats() const {
    std::lock_guard lock(mutex_);
    return stats_;
  }
  /// Records the first failure; it is permanent. ENSURES: failure() is set before healthy() is false.
  void Fail(const Status& failure) {
    {
      std::lock_guard lock(mutex_);
      failure_ = failure;
    }
    healthy_ = false;
  }
  bool healthy() const { return healthy_; }
  /// Ok, or the failure.
  Status failure() const {
    std::lock_guard lock(mutex_);
    return failure_;
  }

 private:
  mutable std::mutex mutex_;
  EngineStats stats_;
  Status failure_;
  std::atomic<bool> healthy_{true};
};

}  // namespace ringside
