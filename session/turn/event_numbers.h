// Counts of a session's events by kind, from which each protocol derives its own sequence numbers: one event may be
// several messages of one protocol and none of another.
#pragma once

#include <cstdint>

namespace ringside {

/// Number of occurrences of each kind.
struct EventCounts {
  uint64_t answers = 0;           // created
  uint64_t warm_ups = 0;          // created
  uint64_t compactions = 0;       // responses that begin with one
  uint64_t reasoning_opened = 0;  // answers whose reasoning has started
  uint64_t reasoning_pieces = 0;
  uint64_t reasoning_ended = 0;
  uint64_t opened = 0;         // answers whose message has started
  uint64_t pieces = 0;         // of text
  uint64_t message_ended = 0;  // messages that ended before a tool call
  uint64_t calls = 0;          // tool calls started
  uint64_t call_pieces = 0;    // of the calls' arguments
  uint64_t calls_ended = 0;
  uint64_t ended = 0;       // responses whose message was open at the end
  uint64_t ended_bare = 0;  // other responses

  EventCounts& operator+=(const EventCounts& other) {
    answers += other.answers;
    warm_ups += other.warm_ups;
    compactions += other.compactions;
    reasoning_opened += other.reasoning_opened;
    reasoning_pieces += other.reasoning_pieces;
    reasoning_ended += other.reasoning_ended;
    opened += other.opened;
    pieces += other.pieces;
    message_ended += other.message_ended;
    calls += other.calls;
    call_pieces += other.call_pieces;
    calls_ended += other.calls_ended;
    ended += other.ended;
    ended_bare += other.ended_bare;
    return *this;
  }
  friend EventCounts operator+(EventCounts a, const EventCounts& b) { return a += b; }
};

/// Number of a protocol's messages per event.
struct EventNumbers {
  uint64_t answer = 1, warm_up = 1, opened = 1, piece = 1, message_ended = 1, call = 1, call_piece = 1, call_ended = 1,
           ended = 1, ended_bare = 1;
  uint64_t compaction = 0, reasoning_opened = 0, reasoning_piece = 0, reasoning_ended = 0;  // 0: no such event

  /// The sequence number, counted from 0, of the message after all of these.
  uint64_t Of(const EventCounts& counts) const {
    return answer * counts.answers + warm_up * counts.warm_ups + compaction * counts.compactions +
           opened * counts.opened + piece * counts.pieces + message_ended * counts.message_ended + call * counts.calls +
           call_piece * counts.call_pieces + call_ended * counts.calls_ended + ended * counts.ended +
           ended_bare * counts.ended_bare + reasoning_opened * counts.reasoning_opened +
           reasoning_piece * counts.reasoning_pieces + reasoning_ended * counts.reasoning_ended;
  }
};

}  // namespace ringside
