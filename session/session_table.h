// Every conversation and chain of the server: who owns it, what was said, which turn runs. The door between the
// protocol faces (any io thread) and the engine (its own thread). Thread-safe; the table's lock covers look-ups only,
// each session has its own, and none is held while the engine is called. A foreign id looks exactly like an unknown
// one.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/limits.h"
#include "base/status.h"
#include "cache/ring.h"
#include "engine/engine.h"
#include "session/chat/chat_template.h"
#include "session/chat/timeline.h"
#include "session/event_sink.h"
#include "session/journal/journal.h"

namespace ringside {

/// The engine as sessions see it. Each function is thread-safe and never blocks; see Engine for what they do.
struct EngineDoor {
  std::function<Status(TurnRequest)> submit;
  std::function<void(TurnId)> cancel;
  std::function<void(TimelineId)> close;
  std::function<void(TimelineId)> park;
  /// `from` and `to` are 0 where there is no timeline; the owners are the sessions' keys, "" where there is none.
  std::function<void(TimelineId from, TimelineId to, const std::string& from_owner, const std::string& to_owner)> fork;
  std::function<void(TimelineId, const std::string& owner)> erase;
  std::function<void(const std::string& owner)> prefetch;
  std::function<std::optional<CacheSource>(const std::string& owner)> where;
};

/// What a turn's tokens wait for.
enum class Durability {
  kToken,  // every delta is sent after its record is synced
  kTurn,   // deltas are sent at once; the answer's end is sent after everything is synced
};

struct SessionTableOptions {
  std::string model_name;
  int64_t session_len = 1 << 20;  // tokens of a session, counted exactly
  int64_t memory_len = 2048;      // tokens of the window; sessions may ask for less
  int64_t pinned_max = 256;       // most pinned tokens
  Eviction eviction = Eviction::kTurn;
  double temperature = 1.0;          // where a request says nothing
  double top_p = 1.0;                // likewise
  int64_t max_output_tokens = -1;    // likewise; -1 = until session_len
  std::vector<TokenId> end_of_turn;  // ids that end an answer
  /// Memory for what was said. Above it the oldest responses are forgotten, and chains with their last one; if the
  /// conversations alone need as much, whatever would add to them is refused (kOverloaded).
  int64_t transcript_bytes = limits::kMaxTranscriptBytes;
  Durability durability = Durability::kToken;
  int64_t session_ttl_s = 0;           // a session unused for so long is deleted; 0 = never
  int64_t max_turns_per_owner = 0;     // running and waiting; 0 = no limit
  int64_t max_sessions_per_owner = 0;  // conversations; 0 = no limit
  int64_t max_detached_tokens = 0;     // an answer that nobody hears ends after so many tokens; 0 = no limit
};

/// Who asks: the authenticated principal and, for what is visible to one socket only, the connection (0 = none).
struct Caller {
  std::string principal;
  uint64_t connection = 0;
};

using Metadata = std::vector<std::pair<std::string, std::string>>;

/// What a session may set for itself; absent = the server's.
struct WindowOverrides {
  std::optional<int64_t> memory_len, session_len;
  std::optional<Eviction> eviction;
};

struct NewItem {
  ChatRole role = ChatRole::kUser;
  std::string text;  // UTF-8
};

struct SessionInfo {
  std::string id;
  double created_at = 0;
  Metadata metadata;
  int64_t items = 0, tokens = 0, position = 0, pinned = 0, tokens_evicted = 0;
  int64_t memory_len = 0, session_len = 0;
  Eviction eviction = Eviction::kTurn;
  std::string active_response_id;
  double updated_at = 0;                  // when the last turn began
  uint64_t epoch = 0;                     // raised at each resume
  bool durable = false;                   // it is in the journal
  JournalPosition recorded;               // of the last record that was synced
  CacheSource cache = CacheSource::kNew;  // where its cache is; kNew = nowhere
};

/// What a client asks when it comes back.
struct ResumeRequest {
  std::string session;                   // "conv_..." or the "resp_..." of a chain
  std::optional<uint64_t> epoch, after;  // as known from the last OnResumed and the last event's number
  std::optional<JournalPosition> known;  // the last record that it was told of
};

struct SessionVerdict {
  bool ok = false;
  uint64_t records = 0;
  std::string message;  // what is wrong
};

struct SessionTableStats {
  int64_t conversations = 0, chains = 0, loaded = 0;
  uint64_t loads = 0, unloads = 0, expired = 0, interrupted = 0;  // interrupted: turns that a crash had cut
};

struct SessionPage {
  std::vector<SessionInfo> sessions;
  bool has_more = false;
};

/// A checked request for an answer.
struct TurnSpec {
  std::string conversation;          // "" = none; not together with previous_response_id
  std::string previous_response_id;  // "" = none
  std::vector<NewItem> input;        // may be empty: answer what stands there
  std::optional<std::string> instructions;
  WindowOverrides window;  // for a new chain only
  SamplingParams sampling;
  std::vector<std::string> stop_strings;
  std::vector<std::string> bad_words;  // as text; SamplingParams::bad_words has those given as ids
  std::vector<TokenId> stop_ids;
  bool ignore_end_of_turn = false;
  std::optional<int64_t> max_output_tokens;
  bool warm_up = false;
  bool store = true;
  std::string request_key;  // not "": a repeated request re-attaches to the first one's response
  std::string echo;         // kept in the Response
};

struct TurnTicket {
  std::string response_id;
  bool reattached = false;  // the sink was given the events of a response that existed already
};

class SessionTable {
 public:
  /// `tokenizer`, `chat`, `journal` and `clock` outlive the table; so does the engine behind `door`, until its last
  /// OnEnd. Without a journal sessions live in memory only.
  SessionTable(SessionTableOptions options, const Tokenizer& tokenizer, const ChatTemplate& chat, EngineDoor door,
               Journal* journal = nullptr, const Clock& clock = SystemClock::Instance());
  ~SessionTable();
  /// Learns of the sessions in the journal. Before anything else, once.
  Status Open();
  SessionTable(const SessionTable&) = delete;
  SessionTable& operator=(const SessionTable&) = delete;

  const SessionTableOptions& options() const;
  const Tokenizer& tokenizer() const;
  /// Conversations held, chains without a "conv_" id not counted.
  int64_t conversations() const;
  /// True if there is a session of this key, whoever owns it.
  bool Knows(const std::string& key) const;
  SessionTableStats stats() const;

  // Conversations. kNotFound (param "conversation") for an id that is unknown or another's; kBusy while a turn runs
  // where the timeline would change under it.
  Result<SessionInfo> CreateSession(const Caller& caller, Metadata metadata, const WindowOverrides& window,
                                    std::vector<NewItem> items);
  Result<SessionInfo> GetSession(const Caller& caller, const std::string& id) const;
  /// The owner's conversations, newest first, behind the one called `after` ("" = from the start). `limit` >= 1.
  Result<SessionPage> ListSessions(const Caller& caller, const std::string& after, int64_t limit) const;
  Result<SessionInfo> SetMetadata(const Caller& caller, const std::string& id, Metadata metadata);
  /// A running turn is cancelled; the conversation's responses go with it.
  Status DeleteSession(const Caller& caller, const std::string& id);
  Result<std::vector<Item>> GetItems(const Caller& caller, const std::string& id) const;
  /// Adds messages without an answer; returns them with their ids.
  Result<std::vector<Item>> AddItems(const Caller& caller, const std::string& id, std::vector<NewItem> items);
  /// Keeps the first `items` items, forgets the others and their responses. Returns the number kept.
  Result<int64_t> Rewind(const Caller& caller, const std::string& id, int64_t items);
  /// Deletes the last item, as Rewind would; another item is refused (item_not_last).
  Status DeleteItem(const Caller& caller, const std::string& id, const std::string& item);
  /// A new conversation with the first `items` items (absent = all) and the same settings.
  Result<SessionInfo> Fork(const Caller& caller, const std::string& id, std::optional<int64_t> items);

  // Turns.
  /// Starts an answer. The sink hears of it from response.created on, possibly before this returns. Errors (the sink
  /// then hears nothing): kNotFound for the conversation or previous response, kBusy (conversation_busy),
  /// kInvalidArgument (context_length_exceeded, or with `param`), kOverloaded.
  Result<TurnTicket> StartTurn(const Caller& caller, TurnSpec spec, const std::shared_ptr<EventSink>& sink);
  /// Ends a running response at the next step; a finished one is left alone. kNotFound for an unknown one.
  Status Cancel(const Caller& caller, const std::string& response_id);
  /// Calls `read` with the response, under its session's lock. kNotFound.
  Status ReadResponse(const Caller& caller, const std::string& id,
                      const std::function<void(const Response&)>& read) const;
  /// The response's input: the items of its timeline up to its answer. kNotFound.
  Result<std::vector<Item>> GetInputItems(const Caller& caller, const std::string& response_id) const;
  /// Gives `sink` every event of a response from wire number `after` + 1 on, and the coming ones if it still runs.
  Status Replay(const Caller& caller, const std::string& response_id, int64_t after,
                const std::shared_ptr<EventSink>& sink);
  /// Forgets a response (not the messages it led to); a running one is cancelled first. kNotFound.
  Status DeleteResponse(const Caller& caller, const std::string& id);
  /// A connection is gone: what only it could see is cancelled and forgotten.
  void DropConnection(uint64_t connection);

  /// Attaches `sink` to a session: OnResumed, then the events after session-wide number `after`, then what comes,
  /// possibly after this has returned. An unknown session is told by OnResumed. kMismatch (history_diverged): what the
  /// client knows is no part of this session's history; nothing was attached.
  Status Resume(const Caller& caller, const ResumeRequest& request, const std::shared_ptr<EventSink>& sink);

  // Administration.
  /// The conversation as bytes, exact (token ids included), for ImportSession of any server with the same tokenizer.
  Result<std::string> ExportSession(const Caller& caller, const std::string& id);
  /// A new conversation of the caller. kInvalidArgument for bytes that no export made.
  Result<SessionInfo> ImportSession(const Caller& caller, std::string_view bytes);
  /// Reads the conversation's journal from end to end.
  Result<SessionVerdict> VerifySession(const Caller& caller, const std::string& id);

  /// Deletes what has expired and unloads what is not needed; to be called about once a second, from any thread.
  void Sweep();
  /// Waits until everything recorded so far is durable and told. Not from a sink.
  void Flush();

  /// Runs `work` soon, on the table's own thread: for what an event leads to but must not be done inside a sink.
  void Post(std::function<void()> work);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ringside
