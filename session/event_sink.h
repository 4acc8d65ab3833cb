// How a session tells what happens to its turns. Implemented in ws/. Called under the session's lock, on the engine's
// thread or on the caller's: must not block and must not call back into the session table. Sessions hold sinks weakly:
// a socket that is gone costs nothing and stops nothing.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "engine/token_sink.h"
#include "session/journal/journal.h"
#include "session/response.h"

namespace ringside {

struct TurnEvent {
  enum class Kind {
    kCreated,     // 1 wire event: response.created
    kInProgress,  // 1: response.in_progress
    kOpened,      // 2: output_item.added, content_part.added
    kDelta,       // 1: output_text.delta
    kEnd,         // 4 if an item was opened, else 1; the last is the terminal event
    kSnapshot,    // 1, without a number of its own: the text so far, in place of events no longer kept
  };
  Kind kind;
  const Response& response;             // valid during the call
  int64_t sequence = 0;                 // wire number of the first event; kSnapshot: of the first event behind it
  std::string_view text;                // kDelta: new text; kSnapshot: all text so far
  std::span<const OutputToken> tokens;  // kDelta: with logprobs, if asked for
  int64_t from = 0;                     // in a replay: wire events below this number are known to the receiver
};

/// How many wire events a TurnEvent stands for.
int64_t WireEvents(const TurnEvent& event);

struct ResumeReply {
  std::string session;  // as asked for
  bool present = false;
  uint64_t epoch = 0;     // a client that knows another epoch knows nothing of these numbers
  uint64_t next_seq = 0;  // of the first event that was not sent yet when this was written
  enum class Replay { kEvents, kSnapshot, kNone } replay = Replay::kNone;
  CacheSource state = CacheSource::kNew;  // where the cache was last seen; kNew = none
  std::string active_response_id;
  int64_t kv_tokens = 0;
  JournalPosition recorded;  // of the last record that was synced
};

class EventSink {
 public:
  virtual ~EventSink() = default;
  virtual void OnEvent(const TurnEvent& event) = 0;
  /// The response waits for a slot, `position` in line (1 = next); told when that changes, behind kInProgress.
  virtual void OnQueued(const Response& response, int64_t position) {
    (void)response;
    (void)position;
  }
  /// Comes before the replayed events.
  virtual void OnResumed(const ResumeReply&) {}
  /// Another connection resumed the session that this sink had resumed; no event follows.
  virtual void OnTakenOver(const std::string& session) { (void)session; }
  /// The session that this sink had resumed was deleted; no event follows.
  virtual void OnGone(const std::string& session) { (void)session; }
  /// Whose sink this is: one connection never hears an event twice. Not 0.
  virtual uint64_t connection() const = 0;
};

}  // namespace ringside
