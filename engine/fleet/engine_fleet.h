// Several engines behind one set of sessions, each with a device and a copy of the model of its own, all with the same
// tiers. A conversation stays with the engine whose slot has its cache. One that is new, or whose cache has left its
// slot, goes where there is least to do; where engines drift apart, idle conversations of the busier one leave their
// slots for the tiers, and so go elsewhere when they return. An engine that fails is out of service for good: its turns
// end with its error, its conversations go on on the others. Thread-safe; nothing blocks. With one engine everything
// goes straight to it.
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

/// kDraining: it gets no conversation, and some are in its slots still. kDrained: none is. kFailed: for good.
enum class EngineState { kServing, kDraining, kDrained, kFailed };
/// "serving", "draining", "drained", "failed".
const char* EngineStateName(EngineState state);

struct FleetEngine {
  EngineState state = EngineState::kServing;
  EngineStats stats;
};

class EngineFleet {
 public:
  /// At least one; all of the same model and with the same tiers, so that each can take what another has saved.
  explicit EngineFleet(std::vector<std::unique_ptr<Engine>> engines);
  ~EngineFleet();

  // As Engine's, wherever the timeline is.
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
  /// True while one engine at least has not failed.
  bool healthy() const;
  /// To be called about once a second: asks engines whether their devices are sound, which those that have nothing to
  /// do do not ask, and takes out of service what has failed, as every Submit does. Where no other serves, those that
  /// drain do again.
  void Tend();

  size_t size() const { return engines_.size(); }
  Engine& engine(size_t i) { return *engines_[i]; }
  /// Of all engines together; slots and memory of those only that get conversations.
  EngineStats stats() const;
  std::vector<FleetEngine> each() const;

  /// From now on the engine gets no new conversation, and those it has leave it: at once where they are idle, else
  /// after their turns, their caches by way of the tiers. A conversation without an owner stays until it is closed: it
  /// has nowhere else to be. Ok, too, where it drains already. kNotFound: there is no such engine. kMismatch: no other
  /// gets conversations, or it has failed.
  Status Drain(size_t engine);
  /// It gets conversations again. kNotFound: there is no such engine. kMismatch: it has failed.
  Status Resume(size_t engine);
  /// Conversations that belong to it, answering or not, whose caches are in its slots perhaps.
  size_t timelines(size_t engine) const;

 private:
  class PinnedSink;

  bool InSlot(size_t engine, const std::string& owner) const;
  Status CheckNumber(size_t engine) const;
  // mutex_ is held for these.
  Status CheckServes(size_t engine) const;
  size_t Choose(const TurnRequest& request) const;
  /// The engine that has this timeline, or its owner's cache in a slot.
  std::optional<size_t> EngineOf(TimelineId timeline, const std::string& owner) const;
  /// The engine that has what the request's timeline was forked off; nullopt if it is no fork or no engine has it.
  std::optional<size_t> SourceOf(const TurnRequest& request) const;
  /// Lets the longest idle conversations leave an engine, if some should.
  void MoveIdle(size_t engine);
  void TakeOutFailed();
  void Ended(TimelineId timeline, size_t engine);
  void Forget(TimelineId timeline);
  /// For a call to every engine: is called by each, tells `done` the first error when the last one has called.
  Engine::Done WhenAll(Engine::Done done) const;

  mutable std::mutex mutex_;
  Placement placement_;
  std::vector<std::unique_ptr<Engine>> engines_;  // last: they end their turns first
};

}  // namespace ringside
