// The sinks of a session: those of the running turn's requests, and the connection that resumed the session; and the
// number of events sent to them. Owned by its Session, used under the session's lock.
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
  static constexpr size_t kMaxWatchers = 32;

  /// `sink` receives the events of the running turn.
  void AddToTurn(const std::shared_ptr<EventSink>& sink) { turn_.push_back(sink); }
  void EndTurn() { turn_.clear(); }
  /// `sink` receives all turns from now on and replaces the previous one, whose connection is notified and fenced.
  void Attach(const std::shared_ptr<EventSink>& sink, const std::string& session);
  /// `sink` receives all turns and changes from now on; others keep the session. False at kMaxWatchers.
  bool Watch(const std::shared_ptr<EventSink>& sink);
  /// Notifies the watchers of a change without a turn.
  void Changed(const std::string& session);
  /// True if a connection has resumed or watches the session.
  bool attached() const;
  /// True for a connection that lost the session to another: its messages still in flight must have no effect.
  bool Fenced(uint64_t connection) const;
  /// Notifies the listeners that the session was deleted, or is another server's. They receive nothing more.
  void Leave(const std::string& session, void (EventSink::*notify)(const std::string&));
  /// Sends an event of the running turn. `sent`: the session's event counts with this event. False = no listener.
  /// ENSURES: sent() is `sent`.
  bool Send(const TurnEvent& event, const EventCounts& sent);
  /// Calls `notify` for each listener of the running turn, once per connection. False = no listener.
  bool Notify(const std::function<void(EventSink&)>& notify);
  /// Counts of the session's events.
  const EventCounts& sent() const { return sent_; }

 private:
  void Fence(uint64_t old_connection, uint64_t new_connection);

  std::vector<std::weak_ptr<EventSink>> turn_;
  std::weak_ptr<EventSink> attached_;
  std::vector<std::weak_ptr<EventSink>> watchers_;
  std::deque<uint64_t> fenced_;
  EventCounts sent_;
};

}  // namespace ringside
