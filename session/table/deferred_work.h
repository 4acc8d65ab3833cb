// A thread that runs small pieces of work one after another: what an event leads to but must not be done where the
// event arrives. Owned by the SessionTable; any thread may post.
#pragma once

#include <functional>
#include <thread>

#include "base/bounded_queue.h"

namespace ringside {

class DeferredWork {
 public:
  DeferredWork();
  /// Runs what is queued, then joins.
  ~DeferredWork();
  /// Queues `work`. Callers bound their own number of outstanding pieces.
  void Post(std::function<void()> work) { queue_.PushUrgent(std::move(work)); }

 private:
  BoundedQueue<std::function<void()>> queue_{1};  // PushUrgent is not held to a capacity
  std::thread thread_;
};

}  // namespace ringside
