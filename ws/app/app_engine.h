// The engines as the sessions use them: measures and counts turns, refuses new ones during shutdown, waits for running
// ones and ends them. Owned by the App.
// THREAD: any.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <unordered_set>

#include "session/turn/turn_engine.h"

namespace ringside {

class Metrics;

class AppEngine final : public TurnEngine {
 public:
  /// REQUIRES: `engines` and `metrics` outlive this object; this object outlives the engines' last turn.
  AppEngine(TurnEngine& engines, Metrics& metrics);

  Status CheckWait(const TurnRequest& request) override { return engines_.CheckWait(request); }
  /// As Engine::Submit; kUnavailable after RefuseTurns.
  Status Submit(TurnRequest request) override;
  void Cancel(TurnId turn) override;
  void Close(TimelineId timeline) override;
  void Park(TimelineId timeline) override;
  void Fork(TimelineId from, TimelineId to, const std::string& from_owner, const std::string& to_owner) override;
  void Erase(TimelineId timeline, const std::string& owner) override;
  void Prefetch(const std::string& owner) override;
  std::optional<CacheSource> Where(const std::string& owner) const override;

  /// Refuses new turns from now on, or accepts them again: the server is stopping, or hands its conversations over.
  void RefuseTurns(bool refuse = true) { refusing_ = refuse; }
  /// Number of turns whose OnEnd has not returned.
  size_t turns() const;
  /// Waits at most `time`; returns true if no turn is left.
  bool WaitUntilNone(std::chrono::milliseconds time);

 private:
  void Remove(TurnId turn);

  TurnEngine& engines_;
  Metrics& metrics_;
  std::atomic<bool> refusing_{false};
  mutable std::mutex mutex_;
  std::condition_variable removed_;
  std::unordered_set<TurnId> turns_;
};

}  // namespace ringside
