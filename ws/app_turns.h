// The turns that the engine has in hand, so that stopping can wait for them and end them. Owned by the App; any thread.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <unordered_set>
#include <vector>

#include "engine/engine.h"

namespace ringside {

class TurnRegistry {
 public:
  /// Submits the turn and keeps its id until its OnEnd has returned. The registry outlives the engine.
  Status Submit(Engine& engine, TurnRequest request);
  size_t size() const;
  void CancelAll(Engine& engine) const;
  /// True if no turn is left within `time`.
  bool WaitUntilNone(std::chrono::milliseconds time);

 private:
  class Sink;
  void Remove(TurnId turn);

  mutable std::mutex mutex_;
  std::condition_variable removed_;
  std::unordered_set<TurnId> turns_;
};

}  // namespace ringside
