// The engines as sessions get them from the server: turns are measured, counted, and refused while the server is
// stopping; stopping can wait for those that run, and end them. Owned by the App; any thread.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <unordered_set>

#include "session/turn/turn_engine.h"

namespace ringside {

class Engine;
class EngineFleet;
class Metrics;

class AppEngine final : public TurnEngine {
 public:
  /// `engines` and `metrics` outlive it; it outlives the engines' last turn.
  AppEngine(EngineFleet& engines, Metrics& metrics);

  /// As Engine's; kUnavailable once new turns are refused.
  Status Submit(TurnRequest request) override;
  void Cancel(TurnId turn) override;
  void Close(TimelineId timeline) override;
  void Park(TimelineId timeline) override;
  void Fork(TimelineId from, TimelineId to, const std::string& from_owner, const std::string& to_owner) override;
  void Erase(TimelineId timeline, const std::string& owner) override;
  void Prefetch(const std::string& owner) override;
  std::optional<CacheSource> Where(const std::string& owner) const override;

  /// The server is stopping: from now on new turns are refused.
  void RefuseTurns() { refusing_ = true; }
  /// Turns whose OnEnd has not returned.
  size_t turns() const;
  /// True if no turn is left within `time`.
  bool WaitUntilNone(std::chrono::milliseconds time);

 private:
  void Remove(TurnId turn);

  EngineFleet& engines_;
  Metrics& metrics_;
  std::atomic<bool> refusing_{false};
  mutable std::mutex mutex_;
  std::condition_variable removed_;
  std::unordered_set<TurnId> turns_;
};

/// One real turn through an engine: ready means that the next one works, too.
Status WarmUp(Engine& engine, const TokenizerData& data);

}  // namespace ringside
