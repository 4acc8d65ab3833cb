// Events of the cluster simulation in time order. THREAD: one.
#pragma once

#include <cstdint>
#include <functional>
#include <queue>
#include <tuple>
#include <vector>

namespace ringside {

struct Event {
  enum Kind : uint8_t {
    kTurn,  // of a conversation
    kEnd,
    kPhase,  // before events at the same time
    kFail,   // of servers
    kUpgrade,
    kStopped,
    kNoticed,
    kUp,
    kZone,
    kAdd,
    kDatabase,
    kBurst
  };
  double at_s;
  uint32_t who;
  Kind kind;
  bool operator>(const Event& other) const {
    return std::tie(at_s, who, kind) > std::tie(other.at_s, other.who, other.kind);
  }
};

/// Millions of events in time order: bucketed by second, and sorted only when a second begins.
class EventQueue {
 public:
  void Push(const Event& event) {
    const auto second = static_cast<size_t>(event.at_s);
    if (second <= second_) return now_.push(event);
    if (second >= later_.size()) later_.resize(second + 1);
    later_[second].push_back(event);
  }
  /// REQUIRES: not empty.
  Event Pop() {
    while (now_.empty()) {
      for (const Event& event : later_[++second_]) now_.push(event);
      std::vector<Event>().swap(later_[second_]);
    }
    const Event event = now_.top();
    now_.pop();
    return event;
  }

 private:
  size_t second_ = 0;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> now_;
  std::vector<std::vector<Event>> later_;
};

}  // namespace ringside
