// Which engine of several gets a conversation, how long it stays there, and who leaves where engines drift apart. Knows
// counts and numbers only and asks nobody, so that what it decides is the same every time. A value; not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "engine/turn_request.h"

namespace ringside {

class Placement {
 public:
  struct Pin {
    size_t engine = 0;
    int64_t turns = 0;  // under way
    uint64_t idle = 0;  // its place among the idle ones of its engine; 0 = it has none
    std::string owner;
  };

  explicit Placement(size_t engines) : engines_(engines) {}

  /// Null if the conversation belongs to no engine.
  const Pin* Find(TimelineId timeline) const;
  /// The engine for a conversation whose cache is nowhere or in the tiers: one that serves before one that drains, then
  /// the one with the fewest turns, then that of which the smallest share of memory is `used`. One that has failed only
  /// where all have.
  size_t Lightest(const std::vector<double>& used) const;
  /// A turn of the conversation begins at this engine, to which it belongs from now on.
  void Begin(TimelineId timeline, size_t engine, const std::string& owner);
  /// A turn that began at this engine is over. The conversation may have gone elsewhere meanwhile.
  void End(TimelineId timeline, size_t engine);
  /// The conversation belongs to no engine.
  void Forget(TimelineId timeline);
  /// How many idle conversations should leave the engine now: all where it drains; one, at each turn that comes, where
  /// it has so many more turns than the mean as chance hardly explains.
  size_t Leaving(size_t engine) const;
  /// Forgets the conversation of the engine that is idle for longest, which can leave; nullopt if there is none.
  std::optional<TimelineId> TakeIdle(size_t engine);

  /// Whether it gets conversations, in place of giving away those it has.
  void SetDrains(size_t engine, bool drains) { engines_[engine].drains = drains; }
  bool drains(size_t engine) const { return engines_[engine].drains; }
  /// It never gets any again.
  void SetFailed(size_t engine) { engines_[engine].failed = engines_[engine].drains = true; }
  bool failed(size_t engine) const { return engines_[engine].failed; }
  /// Whether an engine but this one gets conversations.
  bool OthersServe(size_t engine) const;
  int64_t turns(size_t engine) const { return engines_[engine].turns; }
  size_t conversations(size_t engine) const;

 private:
  struct Engine {
    int64_t turns = 0;
    bool drains = false, failed = false;
    std::map<uint64_t, TimelineId> idle;  // that can leave, the longest idle first
  };

  void SetIdle(TimelineId timeline, Pin& pin, bool idle);

  std::vector<Engine> engines_;
  std::unordered_map<TimelineId, Pin> pins_;
  uint64_t last_idle_ = 0;
};

}  // namespace ringside
