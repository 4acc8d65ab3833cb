// Decides which engine gets a conversation, how long it stays, and which conversations leave an overloaded engine. A
// deterministic function of counts. A value. THREAD: one at a time.
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
    int64_t turns = 0;  // running
    uint64_t idle = 0;  // position among its engine's idle conversations; 0 = not idle
    std::string owner;
  };

  /// An engine as a new turn finds it.
  struct Load {
    bool refuses = false;  // its predicted wait is too long
    double used = 0;       // share of its memory
  };

  explicit Placement(size_t engines) : engines_(engines) {}

  /// Null if the conversation has no engine.
  const Pin* Find(TimelineId timeline) const;
  /// The engine for a conversation whose cache is nowhere or in the tiers: serving before draining, then one that does
  /// not refuse the turn, then the one with the fewest turns, then the one with the smallest share of memory used. A
  /// failed engine only if all have failed. `loads`: one per engine.
  size_t LeastLoaded(const std::vector<Load>& loads) const;
  /// A turn starts at this engine, which becomes the conversation's.
  void Begin(TimelineId timeline, size_t engine, const std::string& owner);
  /// A turn that started at this engine is over. The conversation may have moved meanwhile.
  void End(TimelineId timeline, size_t engine);
  /// Unassigns the conversation.
  void Forget(TimelineId timeline);
  /// Number of idle conversations that should leave the engine now: all if it drains; one, at each new turn, if its
  /// load exceeds the mean by more than chance explains.
  size_t CountToShed(size_t engine) const;
  /// Unassigns and returns the engine's longest-idle conversation that can leave; nullopt if there is none.
  std::optional<TimelineId> PopIdle(size_t engine);

  /// If true, it gets no conversations and sheds those it has.
  void SetDrains(size_t engine, bool drains) { engines_[engine].drains = drains; }
  bool drains(size_t engine) const { return engines_[engine].drains; }
  /// Permanent: it gets no conversations.
  void SetFailed(size_t engine) { engines_[engine].failed = engines_[engine].drains = true; }
  bool failed(size_t engine) const { return engines_[engine].failed; }
  /// True if an engine other than this one serves.
  bool OthersServe(size_t engine) const;
  int64_t turns(size_t engine) const { return engines_[engine].turns; }
  size_t conversations(size_t engine) const;

 private:
  struct Engine {
    int64_t turns = 0;
    bool drains = false, failed = false;
    std::map<uint64_t, TimelineId> idle;  // those that can leave, the longest idle first
  };

  void SetIdle(TimelineId timeline, Pin& pin, bool idle);

  std::vector<Engine> engines_;
  std::unordered_map<TimelineId, Pin> pins_;
  uint64_t last_idle_ = 0;
};

}  // namespace ringside
