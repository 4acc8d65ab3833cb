// Who hears what a session tells: those who asked for the turn that runs, and the connection that resumed the session.
// Owned by its Session, under the session's lock.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "session/event_sink.h"

namespace ringside {

class Listeners {
 public:
  /// `sink` hears the turn that runs.
  void AddToTurn(const std::shared_ptr<EventSink>& sink) { turn_.push_back(sink); }
  void EndTurn() { turn_.clear(); }
  /// `sink` hears every turn from now on, instead of whoever did: another connection is told, and fenced.
  void Attach(const std::shared_ptr<EventSink>& sink, const std::string& session);
  bool attached() const { return !attached_.expired(); }
  /// True for a connection that the session was taken from: what it still has on its way must not act.
  bool Fenced(uint64_t connection) const;
  /// The session was deleted.
  void Gone(const std::string& session);
  /// Calls `tell` for everyone who hears the running turn, each connection once. False = there is nobody.
  bool Tell(const std::function<void(EventSink&)>& tell);

 private:
  void Fence(uint64_t old_connection, uint64_t new_connection);

  std::vector<std::weak_ptr<EventSink>> turn_;
  std::weak_ptr<EventSink> attached_;
  std::deque<uint64_t> fenced_;
};

}  // namespace ringside
