// A thread that runs small tasks in order: follow-up work that must not run where its event arrives. Owned by the
// SessionTable.
// THREAD: any may post.
#pragma once

#include <functional>
#include <thread>

#include "base/bounded_queue.h"

namespace ringside {

class DeferredWork {
 public:
  DeferredWork();
  /// Runs the queued tasks, then joins.
  ~DeferredWork();
  /// Queues `work`. Callers bound the number of their outstanding tasks.
  void Post(std::function<void()> work) { queue_.PushUrgent(std::move(work)); }

 private:
  BoundedQueue<std::function<void()>> queue_{1};  // PushUrgent ignores the capacity
  std::thread thread_;
};

}  // namespace ringside
