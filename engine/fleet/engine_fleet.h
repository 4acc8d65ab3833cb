// Several engines behind one set of sessions, each with a device and a copy of the model of its own, all with the same
// tiers. A conversation stays with the engine whose slot has its cache. One that is new, or whose cache has left its
// slot, goes where there is least to do; where engines drift apart, idle conversations of the busier one leave their
// slots for the tiers, and so go elsewhere when they return. Thread-safe; nothing blocks. With one engine everything
// goes straight to it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "engine/engine.h"

namespace ringside {

/// kDraining: it gets no conversation, and some are in its slots still. kDrained: none is.
enum class EngineState { kServing, kDraining, kDrained };
/// "serving", "draining", "drained".
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
  void Fork(TimelineId from, TimelineId to, const std::string& from_owner, const std::string& to_owner, bool to_branch);
  void Prefetch(const std::string& owner) { engines_.front()->Prefetch(owner); }
  void SaveAll(Engine::Done done);
  std::optional<CacheSource> Where(const std::string& owner) const;
  const EngineOptions& options() const { return engines_.front()->options(); }
  /// False from the first failure of any device on.
  bool healthy() const;

  size_t size() const { return engines_.size(); }
  Engine& engine(size_t i) { return *engines_[i]; }
  /// Of all engines together; slots and memory of those only that get conversations.
  EngineStats stats() const;
  std::vector<FleetEngine> each() const;

  /// From now on the engine gets no new conversation, and those it has leave it: at once where they are idle, else
  /// after their turns, their caches by way of the tiers. A conversation without an owner stays until it is closed: it
  /// has nowhere else to be. Ok, too, where it drains already. kNotFound: there is no such engine. kMismatch: no other
  /// gets conversations.
  Status Drain(size_t engine);
  /// It gets conversations again. kNotFound: there is no such engine.
  Status Resume(size_t engine);
  /// Conversations that belong to it, answering or not, whose caches are in its slots perhaps.
  size_t timelines(size_t engine) const;

 private:
  class PinnedSink;
  struct Pin {
    size_t engine = 0;
    int64_t turns = 0;  // under way
    uint64_t idle = 0;  // its place among the idle ones of its engine; 0 = it has none
    std::string owner;
  };
  struct State {  // of an engine
    int64_t turns = 0;
    bool drains = false;
    std::map<uint64_t, TimelineId> idle;  // that can leave, the longest idle first
  };

  bool InSlot(size_t engine, const std::string& owner) const;
  Status CheckNumber(size_t engine) const;
  // mutex_ is held for these.
  size_t Choose(const TurnRequest& request) const;
  size_t Lightest() const;
  void SetIdle(TimelineId timeline, Pin& pin, bool idle);
  void Unpin(TimelineId timeline);
  /// Lets the longest idle conversations leave an engine, `most` of them.
  void MoveIdle(size_t engine, size_t most);
  void Ended(TimelineId timeline, size_t engine);
  /// The engine of a timeline that has one.
  std::optional<size_t> PinOf(TimelineId timeline) const;
  /// For a call to every engine: is called by each, tells `done` the first error when the last one has called.
  Engine::Done WhenAll(Engine::Done done) const;

  mutable std::mutex mutex_;
  std::unordered_map<TimelineId, Pin> pins_;
  std::vector<State> states_;
  uint64_t last_idle_ = 0;
  std::vector<std::unique_ptr<Engine>> engines_;  // last: they end their turns first
};

}  // namespace ringside
