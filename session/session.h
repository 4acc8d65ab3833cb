// One conversation or chain: its timeline, its running turn, its responses and its listeners. Shared by the table and
// running turns. Every member function takes the session's lock; sinks are called under it. Never calls the engine or
// the table.
// THREAD: any.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "session/bytes_by_owner.h"
#include "session/gathered.h"
#include "session/listeners.h"
#include "session/records.h"
#include "session/response_list.h"
#include "session/session_info.h"
#include "session/session_options.h"
#include "session/tokens_by_owner.h"
#include "session/turn/active_turn.h"
#include "session/turn/turn_engine.h"

namespace ringside {

class GrammarCache;
class Session;
struct SettledReasoning;

/// An engine timeline without references.
struct RetiredTimeline {
  TimelineId timeline = 0;
  bool keep = false;  // its cache is worth saving
};

/// State shared by all sessions of a table.
struct SessionContext {
  SessionTableOptions options;
  Codec codec;
  std::string codec_name;  // of the sessions' token ids; see SameCodec
  const Clock& clock;
  Journal* journal;  // null = memory only
  TurnEngine& engine;
  std::shared_ptr<GrammarCache> grammars;  // compiled answer formats
  uint64_t epoch;                          // initial epoch of sessions: below 2^52, exact in JSON
  /// Clock for the age of sessions and answers: Journal::UptimeSeconds, or the steady clock without a journal.
  double uptime_s() const {
    return journal != nullptr ? journal->UptimeSeconds() : static_cast<double>(clock.MonotonicNs()) * 1e-9;
  }
  // Filled by sessions on any thread, drained by the table.
  std::shared_ptr<Gathered<RetiredTimeline>> retired = std::make_shared<Gathered<RetiredTimeline>>();
  std::shared_ptr<Gathered<std::weak_ptr<Session>>> changed = std::make_shared<Gathered<std::weak_ptr<Session>>>();
  // Sessions indexed by history whose history has changed.
  std::shared_ptr<Gathered<std::weak_ptr<Session>>> histories = std::make_shared<Gathered<std::weak_ptr<Session>>>();
  std::shared_ptr<std::atomic<int64_t>> bytes = std::make_shared<std::atomic<int64_t>>(0);  // held by all sessions
  std::shared_ptr<BytesByOwner> bytes_by_owner = std::make_shared<BytesByOwner>();          // held per owner
  std::shared_ptr<BytesByOwner> stored_by_owner = std::make_shared<BytesByOwner>();         // journal bytes per owner
  std::shared_ptr<TokensByOwner> tokens_by_owner = std::make_shared<TokensByOwner>();
  std::shared_ptr<std::atomic<uint64_t>> interrupted = std::make_shared<std::atomic<uint64_t>>(0);
};

class Session : public std::enable_shared_from_this<Session> {
 public:
  /// `key` names the session in the journal and in the cache tiers: "conv_..."; "chain_..." for a chain; "ram_..." for
  /// a stateless request's session, which is never written to disk.
  Session(std::shared_ptr<const SessionContext> context, std::string key, std::string owner, Metadata metadata,
          WindowOverrides window);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  /// Restores a session from its journal. A turn that was cut ends as interrupted, which is recorded.
  static Result<std::shared_ptr<Session>> Load(std::shared_ptr<const SessionContext> context, const std::string& key,
                                               const JournalTranscript& transcript);
  /// Checks whether Load would succeed; the error describes why not. No listener is notified.
  static Status CheckLoads(std::shared_ptr<const SessionContext> context, const std::string& key,
                           const JournalTranscript& transcript);

  const std::string& key() const { return key_; }
  /// Id of the conversation; empty for a chain.
  const std::string& id() const { return id_; }
  const std::string& owner() const { return owner_; }
  bool durable() const;
  /// Name in the cache tiers; "" if the cache must not be saved, because the journal does not know the session and the
  /// disk might.
  std::string cache_owner() const;
  /// Notifies the attached listeners that the session was deleted.
  void Gone();
  /// True if no turn runs and no connection is attached: a durable session can then be unloaded.
  bool idle() const;

  SessionInfo Info() const;
  /// Marks the summary in the journal as outdated.
  void Changed();
  /// Writes an outdated summary to the journal without waiting. Does nothing while a turn runs, whose end marks it
  /// again; while a turn starts, it stays marked.
  void WriteSummary();
  SharedList<Item> Items() const;
  /// The tool definitions in the timeline.
  SharedText Tools() const;
  /// Encode(AnswerForm) of the last answer if that was cut.
  SharedText FormOfCut() const;

  // Changes. Each blocks until it is durable (DiskWait).
  // THREAD: not from a sink, not the journal's.
  // ERRORS: kBusy while a turn runs or another change is pending, and (superseded) for a connection that lost the
  // session to another. kUnavailable (storage_full, or the disk does not keep up) and kIo: nothing has changed.
  /// Makes a new session durable if there is a journal.
  Status Create();
  Status SetMetadata(Metadata metadata);
  /// Inserts after the item `after`; "" = before all items, absent = at the end.
  /// ERRORS: kNotFound.
  Result<std::vector<Item>> AddItems(uint64_t connection, std::vector<NewItem> items,
                                     const std::optional<std::string>& after = std::nullopt);
  /// Keeps the first `items` items. Returns the ids of removed responses.
  /// ERRORS: kInvalidArgument if there are fewer items.
  Result<std::vector<std::string>> Rewind(uint64_t connection, int64_t items);
  /// Deletes an item; the next turn recomputes everything after it. Returns the ids of removed responses.
  /// ERRORS: kNotFound.
  Result<std::vector<std::string>> DeleteItem(uint64_t connection, const std::string& item);
  /// Replaces the items [begin, end) by one. Returns the ids of responses undone by it. kMismatch if there are fewer.
  Result<std::vector<std::string>> ReplaceItems(uint64_t connection, size_t begin, size_t end, NewItem item);
  /// Drops a response from the session's list; `durably` records that in the journal.
  Status Forget(const std::string& response, bool durably);

  /// Copies the timeline's first `items` items (absent = all) for a fork.
  Result<Timeline> CopyTimeline(std::optional<int64_t> items) const;
  /// The session's window settings with its current adapter.
  WindowOverrides window() const;
  Metadata metadata() const;
  TimelineId engine_timeline() const;
  /// The window of its cache, where set.
  RingWindow cache_window() const;
  /// Initializes a new session as a fork with the engine timeline's id and its cache's window.
  void Adopt(Timeline timeline, TimelineId engine_timeline, const RingWindow& window);

  // Stateless requests; session_history.cpp.
  /// Adds the session to SessionContext::histories at the end of every turn from now on, as turns that carry their
  /// history do.
  void FindByHistory();
  /// The history as HistoryText encodes it, with the running turn's input.
  std::string History() const;
  struct HistoryLabel {
    std::string key;         // TurnSpec::timeline_key of the last request that had one
    bool continued = false;  // items follow an answer
  };
  HistoryLabel LabelOfHistory() const;
  struct HistoryMatch {
    size_t items = 0;        // number of leading items of the request that the session has
    bool continues = false;  // the request extends this session, and no turn runs
    std::string head;        // the response at the end of the timeline
    Timeline timeline;       // the matching items
  };
  /// Compares the session's messages with a request's. nullopt: adapter or window differ, so that the cache cannot be
  /// shared.
  std::optional<HistoryMatch> MatchHistory(const TurnSpec& spec) const;
  double updated_at() const;

  struct Prepared {
    TurnRequest request;
    std::vector<std::string> forgotten;  // responses above the session's limit
  };
  /// Checks and renders a turn and makes it the running one; the session is busy meanwhile. With `head`, requires that
  /// no turn runs and that the timeline ends with that response. On success the turn owns `permit` and releases it
  /// before its end is reported; on an error nothing has changed.
  /// ERRORS: kMismatch for `head`, kBusy, kInvalidArgument (context_length_exceeded and others).
  Result<Prepared> Begin(const TurnSpec& spec, const Caller& caller, std::shared_ptr<Response> response, TurnId turn,
                         const std::shared_ptr<EventSink>& sink, const std::string& head,
                         std::shared_ptr<void>* permit);
  /// Returns the tokens before the turn's answer. Without `head` a running turn is ignored.
  /// ERRORS: as Begin.
  Result<SharedList<TokenId>> InputTokens(const TurnSpec& spec, const std::string& head) const;
  /// Appends the turn's record to the journal. After an error the caller must Abandon the turn.
  Status Record(TurnId turn);
  /// The engine accepted the turn: announces it, unless the engine already did.
  void Announce(TurnId turn);
  /// The turn was refused: undoes Begin.
  void Abandon(TurnId turn);
  /// Returns the running turn if it belongs to `response` (empty: any); 0 = none.
  TurnId Running(const std::string& response) const;
  /// Ends a running turn as incomplete for this reason.
  void EndTurn(TurnId turn, const std::string& reason);

  /// From TurnSink: the turn is queued at `position`.
  void OnQueued(TurnId turn, int64_t position);
  /// From TurnSink: log probabilities of the turn's prompt. Such turns are never in the journal.
  void OnScored(TurnId turn, std::vector<OutputToken> tokens);
  void OnEmbedded(TurnId turn, std::vector<float> mean);
  // From TurnSink: durable progress. `recorded` is the journal's position ({} = nothing was written).
  void OnStart(TurnId turn, const CacheReport& report, const JournalPosition& recorded);
  void OnTokens(TurnId turn, const TokenDelta& delta, const JournalPosition& recorded);
  void OnEnd(TurnId turn, const TurnEnd& end, double completed_at, const JournalPosition& recorded);
  /// The server cannot finish the answer (InterruptionOf): the turn ends with the delivered text.
  void OnInterrupted(TurnId turn, const Status& cause, const JournalPosition& recorded);
  /// A write failed: the turn ends with its durable text.
  void OnLost(TurnId turn, const Status& status);

  /// Runs `read` under the lock.
  template <class Read>
  auto Locked(const Read& read) const {
    std::lock_guard lock(mutex_);
    return read();
  }
  /// Items of a response's input, up to its answer.
  SharedList<Item> InputItems(const Response& response) const;
  /// Copies the response's current state.
  std::shared_ptr<const Response> Snapshot(const std::shared_ptr<Response>& response) const;
  /// Sends `sink` the events of `response` from sequence number `from` (as the sink counts), then later ones.
  void Replay(const std::shared_ptr<Response>& response, uint64_t from, const std::shared_ptr<EventSink>& sink);
  /// Attaches the sink and replies immediately, or when the new epoch is durable. `cache` is the cache's place.
  void Resume(const ResumeRequest& request, CacheSource cache, const std::shared_ptr<EventSink>& sink);
  std::vector<std::string> ResponseIds() const;
  std::vector<std::shared_ptr<Response>> Responses() const;
  /// Reason why the running turn is about to be cut; "" if none.
  /// REQUIRES: called within Locked.
  std::string IncompleteReason(TurnId turn) const { return Runs(turn) ? running_->response->incomplete_reason : ""; }

 private:
  WindowOverrides WindowLocked() const;
  Item MakeItem(NewItem item) const;
  RingWindow Window(int64_t pinned) const;
  int64_t SessionLen() const;
  ClampedLimits Clamped(int64_t pinned) const;
  Status CheckFree(uint64_t connection) const;
  Status CheckItems(size_t added, const char* param) const;
  /// A rendered turn that is not the running one yet.
  struct Begun {
    ActiveTurn turn;
    TurnRequest request;
    JournalRecord record;  // of the turn
  };
  /// Releases the lock during its lifetime. The session stays busy, so that the timeline does not change.
  struct BusyUnlocked {
    BusyUnlocked(Session& the_session, std::unique_lock<std::mutex>& the_lock) : session(the_session), lock(the_lock) {
      session.changing_ = true;
      lock.unlock();
    }
    ~BusyUnlocked() {
      lock.lock();
      session.changing_ = false;
    }
    Session& session;
    std::unique_lock<std::mutex>& lock;
  };
  /// REQUIRES: the lock is not held, because rendering takes long.
  Result<Begun> Render(const TurnSpec& spec, TurnId turn, std::shared_ptr<Response> response,
                       const Timeline& base) const;
  Result<SamplingParams> Sampling(const TurnSpec& spec) const;
  /// Name in the tiers; `stores`: the session will be durable.
  std::string CacheOwner(bool stores) const;
  /// The running turn's journal entry, including the session's creation if necessary; nullopt if the turn is not
  /// stored.
  std::optional<JournalEntry> TurnEntry(bool store, JournalRecord turn) const;
  std::vector<JournalRecord> CreationRecords() const;
  /// The journal's ids belong to another codec: a kRetokenised record must precede ours.
  bool Foreign() const { return !SameCodec(recorded_codec_, context_->codec_name); }
  int64_t RecordedVocabulary() const { return Foreign() ? kAnyVocabulary : context_->codec.tokenizer.vocab_size(); }
  /// Discards all token ids; the text is kept.
  void ForgetIds();
  SessionSummary Summary(uint64_t seq) const;
  void ChangedLocked();
  /// Appends an entry to the journal and waits; `apply` runs under the lock once it is durable, or immediately without
  /// a journal.
  Status Commit(std::unique_lock<std::mutex>& lock, std::vector<JournalRecord> records, bool create,
                const std::function<void()>& apply);
  /// Rewind.
  /// REQUIRES: the lock is held.
  Result<std::vector<std::string>> KeepItems(std::unique_lock<std::mutex>& lock, size_t items);
  /// Timeline::Splice; releases the lock while it tokenizes.
  Status Splice(std::unique_lock<std::mutex>& lock, uint64_t connection, size_t at, size_t removed,
                std::vector<Item> added, std::vector<std::string>* undone);
  Status ChangeTimeline(std::unique_lock<std::mutex>& lock, Timeline next, bool truncates,
                        std::vector<std::string>* undone);
  void OnRecorded(TurnId turn, const Status& status, const JournalPosition& last);
  /// Notes the journal's end.
  void SetRecorded(const JournalPosition& last);
  void AttachLocked(const ResumeRequest& request, CacheSource cache, const std::shared_ptr<EventSink>& sink);

  bool Runs(TurnId turn) const { return running_ && running_->id == turn; }
  /// Acts on the running turn's new stage.
  void Advance(TurnRecorder::Next next);
  void AnnounceLocked();
  void StartLocked(const CacheReport& report);
  Result<SettledReasoning> SettleReasoning(const TurnSpec& spec) const;
  /// The result refers to `reasoning`.
  Codec CodecFor(const SettledReasoning& reasoning) const;
  void SetReasoning(SettledReasoning reasoning, ActiveTurn* turn, TurnRequest* request) const;
  void SetChannels(std::shared_ptr<const ChannelFormat> channels, ActiveTurn* turn) const;
  void Finish(const TurnEnd& end, double completed_at);
  /// Ends the running turn where its journal record ends: with all text of its ids, or (Interrupt) with the delivered
  /// text. `cause`: ok if unknown.
  void CutTurn(Status cause = {});
  void Interrupt(Status cause = {});
  void FailTurn(const Status& status);
  void LogCut(const Status& cause) const;
  void DropTurn();
  /// Appends to the journal without waiting.
  void Note(std::vector<JournalRecord> records);
  /// Updates the context's byte counts.
  void CountBytes();

  // Loading.
  /// Applies the records; `news` receives records still to be written. Errors are short descriptions.
  static Result<std::shared_ptr<Session>> FromRecords(std::shared_ptr<const SessionContext> context,
                                                      const std::string& key, const JournalTranscript& transcript,
                                                      std::vector<JournalRecord>* news);
  Status ApplyRecord(const JournalRecord& record);
  Status ApplyInterrupted(std::string_view payload);
  Status ApplyRetokenised(std::string_view payload);
  Status ApplyTurn(std::string_view payload);
  Status ApplyTokens(std::string_view payload);
  Status CheckRecorded(TokenId id) const;
  Status ApplyEnd(std::string_view payload);
  Status ApplyTimeline(std::string_view payload);

  const std::shared_ptr<const SessionContext> context_;
  const std::string key_, id_, owner_;

  mutable std::mutex mutex_;
  double created_at_, updated_at_;
  double used_s_;  // by uptime: creation, or start of the last turn
  bool durable_ = false;
  bool changing_ = false;  // a turn is being rendered, or a change waits for the journal
  bool changed_ = false;   // the summary is outdated
  bool found_by_history_ = false;
  std::string timeline_key_;  // as in HistoryLabel
  bool embeds_ = false;       // the last turn embedded a text: it cannot be continued
  Metadata metadata_;
  const WindowOverrides window_;
  std::string adapter_;  // default adapter of its next turn
  Timeline timeline_;
  std::string head_;  // response at the end of the timeline; "" = none
  ResponseList responses_;
  std::optional<ActiveTurn> running_;
  Listeners listeners_;
  uint64_t epoch_, first_epoch_;  // the current one; the oldest one with valid sequence numbers
  JournalPosition recorded_;
  std::string recorded_codec_;  // codec of the journal's token ids, as far as read or written
  TimelineId engine_timeline_ = 0;
  RingWindow engine_window_;
  CacheReport last_report_;
  int64_t bytes_ = 0;  // last counted
  bool deleted_ = false;
  const std::shared_ptr<std::atomic<int64_t>> owners_bytes_, owners_stored_;
};

/// Builds the session's public description from its summary, without its id and the table's own fields.
SessionInfo Describe(const SessionSummary& summary, const SessionTableOptions& options);

/// Returns a process-wide unique number for turns and timelines, never 0.
uint64_t NextEngineId();

}  // namespace ringside
