// Every conversation and chain of the server: who owns it, what was said, which turn runs. It stands between
// the protocol faces (any io thread) and the engine (its own thread). Thread-safe; the table's lock covers look-ups
// only, each session has its own, and none is held while the engine is called. A foreign id looks exactly like an
// unknown one.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "session/bytes_by_owner.h"
#include "session/chat/chat_template.h"
#include "session/chat/timeline.h"
#include "session/event_sink.h"
#include "session/journal/journal.h"
#include "session/session_info.h"
#include "session/session_options.h"
#include "session/tokens_by_owner.h"
#include "session/turn/compaction.h"
#include "session/turn/context_edits.h"
#include "session/turn/turn_engine.h"
#include "session/turn/turn_spec.h"

namespace ringside {

class SessionTable {
 public:
  /// `tokenizer`, `chat`, `journal` and `clock` outlive the table; so does `engine`, until its
  /// last OnEnd. Without a journal sessions live in memory only.
  SessionTable(SessionTableOptions options, const Tokenizer& tokenizer, const ChatTemplate& chat, TurnEngine& engine,
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
  Result<SharedList<Item>> GetItems(const Caller& caller, const std::string& id) const;
  /// Adds messages without an answer, after the item `after` ("" = before all items; absent = at the end); returns them
  /// with their ids. The next turn recomputes everything after them.
  Result<std::vector<Item>> AddItems(const Caller& caller, const std::string& id, std::vector<NewItem> items,
                                     const std::optional<std::string>& after = std::nullopt);
  /// Keeps the first `items` items, forgets the others and their responses. Returns the number kept.
  Result<int64_t> Rewind(const Caller& caller, const std::string& id, int64_t items);
  /// Deletes an item and, if it is an answer, its response. The next turn recomputes everything after it.
  Status DeleteItem(const Caller& caller, const std::string& id, const std::string& item);
  /// A new conversation with the first `items` items (absent = all) and the same settings; its metadata are the same,
  /// too, unless others are given.
  Result<SessionInfo> Fork(const Caller& caller, const std::string& id, std::optional<int64_t> items,
                           std::optional<Metadata> metadata = std::nullopt);

  // Turns.
  /// Starts an answer. The sink, which may be null, hears of it from response.created on, possibly before this returns.
  /// Errors (the sink then hears nothing): kNotFound for the conversation or previous response, kBusy
  /// (conversation_busy), kInvalidArgument (context_length_exceeded, or with `param`), kOverloaded.
  Result<TurnTicket> StartTurn(const Caller& caller, TurnSpec spec, const std::shared_ptr<EventSink>& sink);
  /// Counts the memory of a waiting request until the result is destroyed. kOverloaded at the limit of the caller, or
  /// of all callers.
  Result<HeldBytes> Hold(const Caller& caller, int64_t bytes);
  /// The tokens that would precede StartTurn's answer; starts nothing. ERRORS: as StartTurn.
  Result<SharedList<TokenId>> InputTokens(const Caller& caller, const TurnSpec& spec);
  /// Their number.
  Result<int64_t> CountInput(const Caller& caller, const TurnSpec& spec);
  /// Makes those edits of a request's history whose trigger it exceeds, and returns them in order. A history that is
  /// too long for a turn exceeds every number of tokens. ERRORS: as InputTokens, but for that.
  Result<std::vector<AppliedEdit>> EditContext(const Caller& caller, const std::vector<ContextEdit>& edits,
                                               TurnSpec* spec);
  /// A summary of a history, written by the model in a side turn of the caller, whose settings `history` has (its input
  /// is the part that no stored chain holds). An outline of `items`, the whole history, where the model writes none.
  /// Blocks until the turn has ended: on a worker. ERRORS: as StartTurn; kOverloaded (rate_limit_exceeded); kCancelled:
  /// the client left.
  Result<Summary> Summarize(const Caller& caller, const TurnSpec& history, const std::vector<NewItem>& items,
                            const std::string& instructions);
  /// Replaces the items [begin, end) of a conversation by one, durably. Responses whose answers are replaced are
  /// forgotten, but for the last one's. ERRORS: as DeleteItem.
  Status ReplaceItems(const Caller& caller, const std::string& id, size_t begin, size_t end, NewItem item);
  /// The tokens of messages after an answer, and of the beginning of the next one. `ended`: the answer's last token
  /// ended it. kInvalidArgument (unsupported_value) for a template that renders the whole conversation each time.
  Result<std::vector<TokenId>> TokensBehindAnswer(const std::vector<NewItem>& messages, bool ended) const;
  /// Milliseconds until a turn of the caller's would not be refused for its tokens of this minute; 0 = now.
  int64_t TokensWaitMs(const Caller& caller) const;
  /// What the caller may still have computed.
  TokenShare TokensOf(const Caller& caller) const;
  /// Interrupts every running turn, because the server stops. Delivered text stays; the client may continue the answer.
  void InterruptTurns();
  /// Ends a running response at the next step; a finished one is left alone. kNotFound for an unknown one.
  Status Cancel(const Caller& caller, const std::string& response_id);
  /// The response as it is now. kNotFound.
  Result<std::shared_ptr<const Response>> GetResponse(const Caller& caller, const std::string& id) const;
  /// The newest responses of a conversation, at most `most`, oldest first, without those that only a connection sees.
  Result<std::vector<std::shared_ptr<const Response>>> ListResponses(const Caller& caller, const std::string& id,
                                                                     size_t most) const;
  /// kNotFound for a response that the caller may not see.
  Status FindResponse(const Caller& caller, const std::string& id) const;
  /// The response's input: the items of its timeline up to its answer. kNotFound.
  Result<SharedList<Item>> GetInputItems(const Caller& caller, const std::string& response_id) const;
  /// The items of the response's timeline up to its answer and that. kNotFound.
  Result<SharedList<Item>> GetItemsUpTo(const Caller& caller, const std::string& response_id) const;
  /// Gives `sink` the events of a response from its own number `from` on, as the sink counts, and the coming ones if it
  /// still runs.
  Status Replay(const Caller& caller, const std::string& response_id, uint64_t from,
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
  /// The conversation as bytes, exact (token ids included), for ImportSession of any server. One with another tokenizer
  /// or template renders the text anew; one with smaller limits clamps the conversation's own.
  Result<std::string> ExportSession(const Caller& caller, const std::string& id);
  /// A new conversation of the caller. kInvalidArgument for bytes that no export made.
  Result<SessionInfo> ImportSession(const Caller& caller, std::string_view bytes);
  /// Reads what is stored of the conversation from end to end, as the next start will when it is asked for.
  Result<SessionVerdict> VerifySession(const Caller& caller, const std::string& id);
  /// The same for every conversation and chain that is there now; JournalStats counts the damaged ones. Blocks: at the
  /// disk's speed. kCancelled, kIo.
  Status CheckStored(const std::stop_token& stop);

  /// Deletes what has expired, unloads what is not needed, keeps the journal's summaries up to date; to be called about
  /// once a second, from any thread.
  void Sweep();
  /// Waits until all earlier records are durable and reported; false after `most` without that. Not from a sink.
  bool Flush(std::optional<std::chrono::milliseconds> most = std::nullopt);

  /// Runs `work` soon, on the table's own thread: for what an event leads to but must not be done inside a sink.
  void Post(std::function<void()> work);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ringside
