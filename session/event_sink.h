// How a session tells what happens to its turns. Implemented in ws/, by each protocol in its own events and numbers.
// Called under the session's lock, on the engine's thread, the journal's or the caller's: must not block, must not call
// back into the session table, and writes nothing out here, however much is replayed. Sessions hold sinks weakly: a
// socket that is gone costs nothing and stops nothing.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/token_sink.h"
#include "session/journal/journal.h"
#include "session/turn/event_numbers.h"
#include "session/turn/response.h"

namespace ringside {

/// One thing that happened to a response. A plain value, which may be kept.
struct TurnEvent {
  enum class Kind {
    kBegun,            // the response exists
    kReasoningOpened,  // its first piece follows
    kReasoning,        // a piece of reasoning
    kReasoningEnded,   // the message or a tool call follows, or the answer was cut in it
    kOpened,           // its message begins: behind the start, or with the first text where there may be calls
    kText,             // a piece of it
    kMessageEnded,     // it has ended, and a tool call follows
    kCall,             // a tool call begins
    kCallText,         // a piece of its arguments
    kCallEnded,        // its arguments are whole, or the answer was cut in them
    kEnded,
  };
  Kind kind;
  /// As it is now for kMessageEnded and kEnded, else as it began; never changes.
  std::shared_ptr<const Response> response;
  EventCounts before;  // what had happened to the response
  /// kText, kReasoning, kCallText; of a kCallEnded all of the arguments, of a kReasoningEnded all of the reasoning.
  std::string text;
  /// kText: with logprobs, if asked for. With token ids also kReasoning, and of kReasoningEnded and kOpened the markup
  /// before them.
  std::vector<OutputToken> tokens;
  // Of a call.
  size_t call = 0;  // which one, from 0
  std::string name;
  bool whole = true;  // kCallEnded, kReasoningEnded: it was not cut

  /// Its place among the items of the answer.
  size_t output_index() const {
    const bool reasoning = kind == Kind::kReasoningOpened || kind == Kind::kReasoning || kind == Kind::kReasoningEnded;
    const bool message = kind == Kind::kOpened || kind == Kind::kText || kind == Kind::kMessageEnded;
    const uint64_t first = response->compaction.empty() ? 0 : 1;
    return first + (reasoning ? 0 : before.reasoning_opened + (message ? 0 : before.opened + call));
  }
};

/// Responses of one session that follow one another, as they are now.
using ResponseCopies = std::vector<std::shared_ptr<const Response>>;

struct ResumeReply {
  std::string session;  // as asked for
  bool present = false;
  uint64_t epoch = 0;     // a client that knows another epoch knows nothing of these numbers
  uint64_t next_seq = 0;  // of the first event that was not sent yet when this was written, by the sink's numbers
  enum class Replay { kEvents, kSnapshot, kNone } replay = Replay::kNone;
  CacheSource state = CacheSource::kNew;  // where the cache was last seen; kNew = none
  std::string active_response_id;
  int64_t kv_tokens = 0;
  JournalPosition recorded;  // of the last record that was synced
};

class EventSink {
 public:
  virtual ~EventSink() = default;
  /// How this wire numbers events.
  virtual const EventNumbers& numbers() const = 0;
  virtual void OnEvent(const TurnEvent& event) = 0;
  /// What happened so far to these responses, from the event on that has the session-wide number `from`.
  virtual void OnReplay(const ResponseCopies& responses, uint64_t from) = 0;
  /// The text so far of a running response, in place of events that are no longer kept.
  virtual void OnSnapshot(const std::shared_ptr<const Response>& response) { (void)response; }
  /// The response waits for a slot, `position` in line (1 = next); told when that changes, behind kBegun.
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
