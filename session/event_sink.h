// Receives the events of a session's turns. Implemented in ws/ by each protocol with its own events and sequence
// numbers. Called under the session's lock, on the engine's thread, the journal's or the caller's: it must not block,
// must not call the session table, and must not serialize here, however much is replayed. Sessions hold sinks weakly: a
// lost socket costs nothing and stops nothing.
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

/// One event of a response. A plain value that may be kept.
struct TurnEvent {
  enum class Kind {
    kBegun,            // the response was created
    kReasoningOpened,  // pieces of reasoning follow
    kReasoning,        // a piece of reasoning
    kReasoningEnded,   // the message or a tool call follows, or the answer was cut inside its reasoning
    kOpened,           // its message starts: after kBegun, or with the first text if tool calls are possible
    kText,             // a piece of the message
    kMessageEnded,     // the message ended and a tool call follows
    kCall,             // a tool call starts
    kCallText,         // a piece of the call's arguments
    kCallEnded,        // the arguments are complete, or were cut
    kEnded,
  };
  Kind kind;
  /// Current state for kMessageEnded and kEnded, otherwise the state at creation. Immutable.
  std::shared_ptr<const Response> response;
  EventCounts before;  // counts of the response's earlier events
  /// The piece of kText, kReasoning, kCallText; all arguments for kCallEnded, all reasoning for kReasoningEnded.
  std::string text;
  /// kText: with logprobs, if requested. With token ids requested also for kReasoning; kReasoningEnded and kOpened
  /// carry the markup before them.
  std::vector<OutputToken> tokens;
  // Of a call.
  size_t call = 0;  // index of the tool call, from 0
  std::string name;
  bool whole = true;  // kCallEnded, kReasoningEnded: not cut

  /// Index among the answer's output items.
  size_t output_index() const {
    const bool reasoning = kind == Kind::kReasoningOpened || kind == Kind::kReasoning || kind == Kind::kReasoningEnded;
    const bool message = kind == Kind::kOpened || kind == Kind::kText || kind == Kind::kMessageEnded;
    const uint64_t first = response->compaction.empty() ? 0 : 1;
    return first + (reasoning ? 0 : before.reasoning_opened + (message ? 0 : before.opened + call));
  }
};

/// Consecutive responses of one session in their current state.
using ResponseCopies = std::vector<std::shared_ptr<const Response>>;

struct ResumeReply {
  std::string session;  // as requested
  bool present = false;
  uint64_t epoch = 0;     // changes when sequence numbers start over
  uint64_t next_seq = 0;  // sequence number, as the sink counts, of the first event not yet sent
  enum class Replay { kEvents, kSnapshot, kNone } replay = Replay::kNone;
  CacheSource state = CacheSource::kNew;  // last known place of the cache; kNew = none
  std::string active_response_id;
  int64_t kv_tokens = 0;
  JournalPosition recorded;  // of the last synced record
};

class EventSink {
 public:
  virtual ~EventSink() = default;
  /// The sequence numbering of this protocol.
  virtual const EventNumbers& numbers() const = 0;
  virtual void OnEvent(const TurnEvent& event) = 0;
  /// Replays the events of these responses from the session-wide number `from` on.
  virtual void OnReplay(const ResponseCopies& responses, uint64_t from) = 0;
  /// Current text of a running response, in place of events that are no longer kept.
  virtual void OnSnapshot(const std::shared_ptr<const Response>& response) { (void)response; }
  /// The response is queued for a slot at `position` (1 = next); called after kBegun and whenever that changes.
  virtual void OnQueued(const Response& response, int64_t position) {
    (void)response;
    (void)position;
  }
  /// Called before the replayed events.
  virtual void OnResumed(const ResumeReply&) {}
  /// Another connection resumed the session that this sink had resumed; no event follows.
  virtual void OnTakenOver(const std::string& session) { (void)session; }
  /// The messages or the metadata of a session that this sink watches were changed without a turn.
  virtual void OnChanged(const std::string& session) { (void)session; }
  /// The session that this sink had resumed was deleted; no event follows.
  virtual void OnGone(const std::string& session) { (void)session; }
  /// The sink's connection, which receives each event once. Not 0.
  virtual uint64_t connection() const = 0;
};

}  // namespace ringside
