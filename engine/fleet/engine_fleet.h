// Several engines (data parallelism) for one set of sessions, each with its own device and copy of the model, all with
// the same tiers. A conversation stays with the engine whose slot has its cache. A new conversation, or one whose cache
// has left its slot, goes to the least loaded engine; if loads diverge, idle conversations of the busier engine are
// evicted to the tiers and resume elsewhere. An engine that fails is removed for good: its turns end with its error,
// and its conversations continue on the others. With one engine, calls go straight to it. THREAD: any; no call blocks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "engine/fleet/placement.h"

namespace ringside {

/// kDraining: gets no conversation, and still has some in slots. kDrained: has none. kFailed: permanent.
enum class EngineState { kServing, kDraining, kDrained, kFailed };
/// "serving", "draining", "drained", "failed".
const char* EngineStateName(EngineState state);

/// Adds counts and gauges.
void AddStats(EngineStats& sum, const EngineStats& one);

struct FleetEngine {
  EngineState state = EngineState::kServing;
  EngineStats stats;
};

/// Sums over all engines; slots and memory of serving engines only.
EngineStats SumStats(std::vector<FleetEngine> engines);

/// A callback for `count` > 0 calls: the last one calls `done`, which may be null, with the first error.
Engine::Done AfterAll(size_t count, Engine::Done done);

class EngineFleet {
 public:
  /// REQUIRES: at least one; all with the same model and tiers, so that each can restore caches saved by another.
  explicit EngineFleet(std::vector<std::unique_ptr<Engine>> engines);
  ~EngineFleet();

  // As Engine's, for a timeline on any engine.
  /// Asks the engine that would run the turn.
  Status CheckWait(const TurnRequest& request);
  Status Submit(TurnRequest request);
  void Cancel(TurnId turn);
  void Close(TimelineId timeline);
  void Park(TimelineId timeline);
  void Erase(TimelineId timeline, const std::string& owner, Engine::Done done);
  void Fork(TimelineId from, TimelineId to, const std::string& from_owner, const std::string& to_owner);
  void Prefetch(const std::string& owner) { engines_.front()->Prefetch(owner); }
  void SaveAll(Engine::Done done);
  std::optional<CacheSource> Where(const std::string& owner) const;
  const EngineOptions& options() const { return engines_.front()->options(); }
  /// True while at least one engine has not failed.
  bool healthy() const;
  /// Call about once a second: polls the devices, because idle engines do not notice a failure, and removes failed
  /// engines, as every Submit does. If no engine serves, draining ones resume.
  void Tick();

  size_t size() const { return engines_.size(); }
  Engine& engine(size_t i) { return *engines_[i]; }
  /// SumStats of `each`.
  EngineStats stats() const;
  std::vector<FleetEngine> each() const;

  /// Stops new conversations on the engine and moves its current ones: at once if idle, else after their turns, with
  /// their caches through the tiers. A conversation without an owner stays until it is closed, because its cache cannot
  /// move. Ok also if it drains already. ERRORS: kNotFound: no such engine. kMismatch: no other engine serves, or it
  /// has failed.
  Status Drain(size_t engine);
  /// Accepts conversations again. ERRORS: kNotFound: no such engine. kMismatch: it has failed.
  Status Resume(size_t engine);
  /// Conversations assigned to it, running or idle.
  size_t timelines(size_t engine) const;

 private:
  class PinnedSink;

  bool InSlot(size_t engine, const std::string& owner) const;
  Status CheckNumber(size_t engine) const;
  // REQUIRES: mutex_ held, for all below.
  Status CheckServes(size_t engine) const;
  size_t Choose(const TurnRequest& request) const;
  /// The engine with this timeline, or with its owner's cache in a slot.
  std::optional<size_t> EngineOf(TimelineId timeline, const std::string& owner) const;
  /// The engine with the timeline that the request's was forked from; nullopt if it is no fork or no engine has it.
  std::optional<size_t> SourceOf(const TurnRequest& request) const;
  /// Evicts the longest-idle conversations from an engine that should shed some.
  void MoveIdle(size_t engine);
  void RemoveFailed();
  void Ended(TimelineId timeline, size_t engine);
  void Forget(TimelineId timeline);

  mutable std::mutex mutex_;
  Placement placement_;
  std::vector<std::unique_ptr<Engine>> engines_;  // last member: they end their turns first
};

}  // namespace ringside
