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

#include "session/bound_context.h"
#include "session/conversation.h"
#include "session/records.h"
#include "session/session_context.h"
#include "session/session_info.h"
#include "session/session_journal.h"
#include "session/turn/turn_progress.h"
#include "session/turn/turn_renderer.h"

namespace ringside {

class Session : public std::enable_shared_from_this<Session> {
 public:
  /// `key` names the session in the journal and in the cache tiers: "conv_..."; "chain_..." for a chain; "ram_..." for
  /// a stateless request's session, which is never written to disk.
  Session(std::shared_ptr<const SessionContext> context, std::string key, std::string owner, Metadata metadata,
          WindowOverrides window);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  enum class Purpose {
    kServe,  // a turn that was cut ends as interrupted, which is recorded
    kCheck,  // notifies no listener and records nothing
    kView    // as kCheck, and a turn without an end is still running, on another server
  };
  /// Restores a session from its journal. The error of a check describes why a load would fail.
  static Result<std::shared_ptr<Session>> Load(std::shared_ptr<const SessionContext> context, const std::string& key,
                                               const JournalTranscript& transcript, Purpose purpose = Purpose::kServe);

  const std::string& key() const { return key_; }
  /// Id of the conversation; empty for a chain.
  const std::string& id() const { return id_; }
  const std::string& owner() const { return owner_; }
  bool durable() const;
  /// Name in the cache tiers; "" if the cache must not be saved, because the journal does not know the session and the
  /// disk might.
  std::string cache_owner() const;
  enum class Left { kDeleted, kForAnotherServer };
  /// Notifies the attached listeners.
  void Leave(Left why);
  /// True if no turn runs, no change is pending and, unless it `may_be_attached`, no connection is attached: a durable
  /// session can then be unloaded.
  bool idle(bool may_be_attached = false) const;

  SessionInfo Info() const;
  /// Marks the summary in the journal as outdated.
  void Changed();
  /// Writes an outdated summary to the journal without waiting. Does nothing while a turn runs, whose end marks it
  /// again; while a turn starts, or if the journal's queue is full, it stays marked. `last`: even if it is full,
  /// because the session leaves memory.
  void WriteSummary(bool last = false);
  SharedList<Item> Items() const;
  /// The tool definitions in the timeline.
  SharedText Tools() const;

  // Changes. Each blocks until it is durable (DiskWait).
  // THREAD: not from a sink, not the journal's.
  // ERRORS: kBusy while a turn runs or another change is pending, and (superseded) for a connection that lost the
  // session to another. kUnavailable (storage_full, or the disk does not keep up) and kIo: nothing has changed.
  /// Makes a new session durable if there is a journal.
  Status Create();
  /// Changes a part of the conversation other than its timeline. `record` checks it and encodes the change; `apply`
  /// makes it once it is durable. Both run under the lock.
  Status Edit(const std::function<Result<JournalRecord>(const Conversation&)>& record,
              const std::function<void(Conversation*)>& apply);
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

  /// Uses the settings of the session's model from now on: before its first turn, or once a missing model has returned.
  /// Without effect while a turn runs or a change is pending.
  void UseModel(std::shared_ptr<const SessionContext> context);
  /// Copies the timeline's first `items` items (absent = all) for a fork.
  Result<Timeline> CopyTimeline(std::optional<int64_t> items) const;
  /// The session's window settings with its current adapter.
  WindowOverrides window() const;
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

  struct Prepared {
    TurnRequest request;
    std::vector<ItemImage> images;       // of request.images, which have no pictures yet
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
  /// The turn was refused: undoes Begin.
  void Abandon(TurnId turn);
  /// Runs `use` on the running turn under the lock.
  template <class Use>
  auto WithTurns(const Use& use) {
    std::lock_guard lock(mutex_);
    return use(turns_);
  }
  /// Returns the running turn if it belongs to `response` (empty: any); 0 = none.
  TurnId Running(const std::string& response) const;
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

 private:
  Status CheckFree(uint64_t connection) const;
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
  /// Name in the tiers; `stores`: the session will be durable.
  std::string CacheOwner(bool stores) const;
  /// The running turn's journal entry, including the session's creation if necessary; nullopt if the turn is not
  /// stored.
  std::optional<JournalEntry> TurnEntry(bool store, std::vector<JournalRecord> turn) const;
  std::vector<JournalRecord> CreationRecords() const;
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
  void AttachLocked(const ResumeRequest& request, CacheSource cache, const std::shared_ptr<EventSink>& sink);

  /// Appends to the journal without waiting.
  void Note(std::vector<JournalRecord> records);
  /// Updates the context's byte counts.
  void CountBytes();

  // Loading.
  /// Applies the records; `news` receives records still to be written. Errors are short descriptions.
  static Result<std::shared_ptr<Session>> FromRecords(std::shared_ptr<const SessionContext> context,
                                                      const std::string& key, const JournalTranscript& transcript,
                                                      Purpose purpose, std::vector<JournalRecord>* news);
  const BoundContext context_;
  const std::string key_, id_, owner_;

  mutable std::mutex mutex_;
  bool changing_ = false;  // a turn is being rendered, or a change waits for the journal
  bool found_by_history_ = false;
  std::string timeline_key_;  // as in HistoryLabel
  bool embeds_ = false;       // the last turn embedded a text: it cannot be continued
  const TurnRenderer renderer_;
  Conversation conversation_;
  SessionJournal journal_;
  TurnProgress turns_;
  TimelineId engine_timeline_ = 0;
  RingWindow engine_window_;
  int64_t bytes_ = 0;  // last counted
  const std::shared_ptr<std::atomic<int64_t>> owners_bytes_;
};

/// Name of the model that a stored session began with; "" = none.
std::string ModelOf(const JournalTranscript& transcript);
/// The error of a turn that names another model than the session's `own`.
Status OtherModel(const std::string& own);

/// Builds the session's public description from its summary, without its id and the table's own fields.
SessionInfo Describe(const SessionSummary& summary, const SessionTableOptions& options);

/// Returns a process-wide unique number for turns and timelines, never 0.
uint64_t NextEngineId();

}  // namespace ringside
