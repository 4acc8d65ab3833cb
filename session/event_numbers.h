// What has happened in a session, counted by kind, so that every wire can number its own events: one thing that happens
// may be several events of one wire and none of another.
#pragma once

#include <cstdint>

namespace ringside {

/// How often each thing has happened.
struct EventCounts {
  uint64_t answers = 0;    // begun
  uint64_t warm_ups = 0;   // begun
  uint64_t opened = 0;     // answers whose message began
  uint64_t pieces = 0;     // of text
  uint64_t ended = 0;      // responses with a message
  uint64_t ended_bare = 0;  // responses without one

  EventCounts& operator+=(const EventCounts& other) {
    answers += other.answers;
    warm_ups += other.warm_ups;
    opened += other.opened;
    pieces += other.pieces;
    ended += other.ended;
    ended_bare += other.ended_bare;
    return *this;
  }
  friend EventCounts operator+(EventCounts a, const EventCounts& b) { return a += b; }
};

/// How many events of one wire each thing stands for.
struct EventNumbers {
  uint64_t answer = 1, warm_up = 1, opened = 1, piece = 1, ended = 1, ended_bare = 1;

  /// The number of the event that follows all of these, counted from 0.
  uint64_t Of(const EventCounts& counts) const {
    return answer * counts.answers + warm_up * counts.warm_ups + opened * counts.opened + piece * counts.pieces +
           ended * counts.ended + ended_bare * counts.ended_bare;
  }
};

}  // namespace ringside
