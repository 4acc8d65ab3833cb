// All conversations and chains of the server: owners, histories, running turns. Between the protocol faces (any io
// thread) and the engine (its own thread). The table's lock covers look-ups only, each session has its own, and no lock
// is held while the engine is called. Another owner's id looks like an unknown one.
// THREAD: any.
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
#include "session/chat/templates/chat_template.h"
#include "session/chat/timeline/timeline.h"
#include "session/event_sink.h"
#include "session/journal/journal.h"
#include "session/session_info.h"
#include "session/session_options.h"
#include "session/session_search.h"
#include "session/share.h"
#include "session/tokens_by_owner.h"
#include "session/turn/compaction.h"
#include "session/turn/context_edits.h"
#include "session/turn/turn_engine.h"
#include "session/turn/turn_spec.h"

namespace ringside {

class SessionTable {
 public:
  /// `tokenizer`, `chat`, `journal` and `clock` outlive the table, `engine` until its last OnEnd. Without a journal
  /// sessions exist in memory only.
  SessionTable(SessionTableOptions options, const Tokenizer& tokenizer, const ChatTemplate& chat, TurnEngine& engine,
               Journal* journal = nullptr, const Clock& clock = SystemClock::Instance());
  ~SessionTable();
  /// Loads the list of sessions from the journal.
  /// REQUIRES: called once, first.
  Status Open();
  SessionTable(const SessionTable&) = delete;
  SessionTable& operator=(const SessionTable&) = delete;

  /// In a server with several models: of the default one.
  const SessionTableOptions& options() const;
  const Tokenizer& tokenizer() const;
  /// The options of a turn's model; the parameters are TurnSpec's fields of these names. Valid until the table ends.
  /// ERRORS: as ModelSource; not for an unknown conversation or response.
  Result<const SessionTableOptions*> OptionsFor(const Caller& caller, std::string_view model,
                                                const std::string& conversation = "",
                                                const std::string& previous_response_id = "");
  /// Number of conversations, without chains that have no "conv_" id.
  int64_t conversations() const;
  /// True if a session with this key exists, whoever owns it.
  bool Knows(const std::string& key) const;
  SessionTableStats stats() const;

  // Conversations.
  // ERRORS: kNotFound (param "conversation") for an unknown id or another owner's; kBusy while a turn runs, for changes
  // of the timeline.
  Result<SessionInfo> CreateSession(const Caller& caller, Metadata metadata, const WindowOverrides& window,
                                    std::vector<NewItem> items);
  Result<SessionInfo> GetSession(const Caller& caller, const std::string& id) const;
  /// The owner's conversations, newest first, after the one called `after` ("" = from the start).
  /// REQUIRES: `limit` >= 1.
  Result<SessionPage> ListSessions(const Caller& caller, const std::string& after, int64_t limit) const;
  Result<SessionInfo> SetMetadata(const Caller& caller, const std::string& id, Metadata metadata);
  /// Deletes a conversation and its responses; cancels a running turn.
  Status DeleteSession(const Caller& caller, const std::string& id);
  Result<SharedList<Item>> GetItems(const Caller& caller, const std::string& id) const;
  /// Adds messages without an answer after the item `after` ("" = before all items; absent = at the end); returns them
  /// with their ids. The next turn recomputes everything after them.
  Result<std::vector<Item>> AddItems(const Caller& caller, const std::string& id, std::vector<NewItem> items,
                                     const std::optional<std::string>& after = std::nullopt);
  /// Keeps the first `items` items and drops the others with their responses. Returns the number kept.
  Result<int64_t> Rewind(const Caller& caller, const std::string& id, int64_t items);
  /// Deletes an item, and its response if it is an answer. The next turn recomputes everything after it.
  Status DeleteItem(const Caller& caller, const std::string& id, const std::string& item);
  /// Creates a conversation with the first `items` items (absent = all) and the same settings; metadata are copied
  /// unless given.
  Result<SessionInfo> Fork(const Caller& caller, const std::string& id, std::optional<int64_t> items,
                           std::optional<Metadata> metadata = std::nullopt);

  // Share links. A revoked or expired link, and one of a deleted conversation, looks like an unknown one.
  /// `expires_in_s`: 0 = never. ERRORS: kNotFound; kOverloaded at the limit of one conversation.
  Result<NewShare> ShareSession(const Caller& caller, const std::string& id, int64_t expires_in_s);
  Result<std::vector<Share>> ListShares(const Caller& caller, const std::string& id) const;
  Status RevokeShare(const Caller& caller, const std::string& id, const std::string& share_id);
  /// The conversation that a link opens, of any owner. ERRORS: kNotFound (share_not_found).
  Result<SharedSession> ReadShare(std::string_view token) const;

  /// Searches the texts of the caller's messages. Blocks while it reads. ERRORS: kInvalidArgument for ill-formed UTF-8;
  /// kNotFound for `after`; kOverloaded (rate_limit_exceeded); kCancelled: the client left.
  Result<SearchPage> Search(const Caller& caller, const SearchQuery& query);

  // Turns.
  /// Starts an answer. The sink (may be null) receives events from response.created on, possibly before this returns;
  /// none after an error.
  /// ERRORS: kNotFound for the conversation or previous response, kBusy (conversation_busy), kInvalidArgument
  /// (context_length_exceeded, or with `param`), kOverloaded.
  Result<TurnTicket> StartTurn(const Caller& caller, TurnSpec spec, const std::shared_ptr<EventSink>& sink);
  /// Charges the memory of a queued request until the result is destroyed.
  /// ERRORS: kOverloaded at the limit of the caller, or of all callers.
  Result<HeldBytes> Hold(const Caller& caller, int64_t bytes);
  /// Returns the tokens before StartTurn's answer; starts nothing.
  /// ERRORS: as StartTurn.
  Result<SharedList<TokenId>> InputTokens(const Caller& caller, const TurnSpec& spec);
  /// As InputTokens, only their number.
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
  /// Returns the tokens of messages after an answer of a model, including the start of the next one. `ended`: it ended
  /// with its end token.
  /// ERRORS: kInvalidArgument (unsupported_value) for a template that renders the whole conversation each time.
  Result<std::vector<TokenId>> TokensAfterAnswer(const std::string& model, const std::vector<NewItem>& messages,
                                                 bool ended) const;
  /// Milliseconds until the caller's token bucket admits a turn; 0 = now.
  int64_t TokensWaitMs(const Caller& caller) const;
  /// The caller's remaining tokens.
  TokenShare TokensOf(const Caller& caller) const;
  /// Interrupts all running turns because the server stops. Delivered text is kept; clients may continue the answers.
  void InterruptTurns();
  /// Ends a running response at the next step; ignores a finished one.
  /// ERRORS: kNotFound.
  Status Cancel(const Caller& caller, const std::string& response_id);
  /// Returns the response's current state.
  /// ERRORS: kNotFound.
  Result<std::shared_ptr<const Response>> GetResponse(const Caller& caller, const std::string& id) const;
  /// Returns the newest responses of a conversation, at most `most`, oldest first, without those visible to one
  /// connection only.
  Result<std::vector<std::shared_ptr<const Response>>> ListResponses(const Caller& caller, const std::string& id,
                                                                     size_t most) const;
  /// ERRORS: kNotFound for a response that the caller may not see.
  Status FindResponse(const Caller& caller, const std::string& id) const;
  /// Returns the response's input: the items of its timeline up to its answer.
  /// ERRORS: kNotFound.
  Result<SharedList<Item>> GetInputItems(const Caller& caller, const std::string& response_id) const;
  /// The items of the response's timeline up to its answer and that. kNotFound.
  Result<SharedList<Item>> GetItemsUpTo(const Caller& caller, const std::string& response_id) const;
  /// Sends `sink` the events of a response from sequence number `from` (as the sink counts), and later ones while it
  /// runs.
  Status Replay(const Caller& caller, const std::string& response_id, uint64_t from,
                const std::shared_ptr<EventSink>& sink);
  /// Deletes a response, but not its messages; cancels a running one first.
  /// ERRORS: kNotFound.
  Status DeleteResponse(const Caller& caller, const std::string& id);
  /// Cancels and drops everything visible only to a closed connection.
  void DropConnection(uint64_t connection);

  /// Attaches `sink` to a session: OnResumed, then the events after session-wide number `after`, then live ones,
  /// possibly after this has returned. OnResumed also reports an unknown session.
  /// ERRORS: kMismatch (history_diverged): the client's position is not in this session's history; nothing was
  /// attached.
  Status Resume(const Caller& caller, const ResumeRequest& request, const std::shared_ptr<EventSink>& sink);

  // Administration.
  /// Exports the conversation, token ids included, for ImportSession of any server, which renders the text again with
  /// another tokenizer or template, and clamps settings to its limits. ERRORS: export_too_large (kMaxPortableBytes).
  Result<std::string> ExportSession(const Caller& caller, const std::string& id);
  /// Creates a conversation of the caller from exported bytes.
  /// ERRORS: kInvalidArgument for bytes that are not an export.
  Result<SessionInfo> ImportSession(const Caller& caller, std::string_view bytes);
  /// Reads everything stored of a conversation of any owner, as a load after the next start would.
  Result<SessionVerdict> VerifySession(const std::string& id);
  /// All owners that have conversations or chains, by name.
  std::vector<OwnerTotals> Owners() const;
  /// Ids of an owner's conversations, newest first, after `after` ("" = from the start), at most `limit`; `more`:
  /// further ones follow. ERRORS: kNotFound for `after`.
  Result<std::vector<std::string>> ListIds(const std::string& owner, const std::string& after, int64_t limit,
                                           bool* more) const;
  /// As VerifySession for every conversation and chain that exists now; JournalStats counts the damaged ones. Blocks
  /// for the time of reading the disk.
  /// ERRORS: kCancelled, kIo.
  Status CheckStored(const std::stop_token& stop);

  /// Deletes expired sessions, unloads unused ones and updates summaries. To be called about once a second.
  /// THREAD: any.
  void Sweep();
  /// In a shared store: lets other servers have every conversation that is at rest, now and, until `all` is false, in
  /// each Sweep. Otherwise without effect.
  void HandOver(bool all);
  /// In a shared store: number of conversations and chains that only this server may change; otherwise 0.
  int64_t Held() const;
  /// Waits until all earlier records are durable and reported; false after `most` without that. Not from a sink.
  bool Flush(std::optional<std::chrono::milliseconds> most = std::nullopt);

  /// Runs `work` soon on the table's own thread: for follow-up work that must not run inside a sink.
  void Post(std::function<void()> work);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ringside
