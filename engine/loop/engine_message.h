// What other threads ask of the engine thread: the entries of its inbox. Plain data. THREAD: any.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <variant>

#include "base/bounded_queue.h"
#include "engine/engine.h"
#include "engine/turn_request.h"

namespace ringside {

struct SubmitMessage {
  TurnRequest request;
  int64_t submitted_ns;
};
struct CancelMessage {
  TurnId turn;
};
struct CloseMessage {
  TimelineId timeline;
};
struct ParkMessage {
  TimelineId timeline;
};
struct EraseMessage {
  TimelineId timeline;
  std::string owner;
  Engine::Done done;
};
struct ForkMessage {
  TimelineId from, to;
  std::string from_owner, to_owner;
};
struct FullSaveState {  // a SaveAll in progress
  Engine::Done done;
  std::set<TimelineId> begun = {};  // timelines whose caches were given to the tiers
  int64_t writing = 0;              // number of these not on disk yet
  bool flushing = false;            // true once all of these are on disk
  std::atomic<bool> notified{false};
};
struct SaveAllMessage {
  std::shared_ptr<FullSaveState> saving;
  bool written = false;  // one of these is now on disk
};
struct PingMessage {
  std::function<void()> alive;
};
struct FetchedMessage {  // the tiers' answer
  TimelineId timeline;
  uint64_t ticket;
  Result<FetchedSnapshot> fetched;
};
using EngineMessage = std::variant<SubmitMessage, CancelMessage, CloseMessage, ParkMessage, EraseMessage, ForkMessage,
                                   SaveAllMessage, PingMessage, FetchedMessage>;
using EngineInbox = BoundedQueue<EngineMessage>;

/// Calls `done` unless it is null.
inline void NotifyDone(const Engine::Done& done, const Status& status) {
  if (done) done(status);
}

/// True for a name that the tiers accept.
inline bool IsTierOwner(const std::string& name) { return !name.empty() && name.size() <= TieredStore::kMaxOwnerBytes; }

}  // namespace ringside
