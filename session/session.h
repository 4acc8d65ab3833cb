// One conversation or chain: its timeline, the turn that runs on it, the responses it has given, who listens. Shared by
// the table and by running turns; every member function takes the session's own lock, sinks are called under it.
// Nothing here calls the engine or the table.
#pragma once

#include <atomic>
#include <deque>
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
#include "session/session_info.h"
#include "session/session_options.h"
#include "session/tokens_by_owner.h"
#include "session/turn/active_turn.h"
#include "session/turn/turn_engine.h"

namespace ringside {

class GrammarCache;
class Session;
struct SettledReasoning;

/// A timeline of the engine that nothing refers to any more.
struct RetiredTimeline {
  TimelineId timeline = 0;
  bool keep = false;  // its cache is worth saving
};

/// What is the same for all sessions of a table.
struct SessionContext {
  SessionTableOptions options;
  Codec codec;
  std::string codec_name;  // whose token ids sessions have; see SameCodec
  const Clock& clock;
  Journal* journal;  // null = memory only
  TurnEngine& engine;
  std::shared_ptr<GrammarCache> grammars;  // of answers' formats
  uint64_t epoch;                          // what sessions begin with: below 2^52, exact in JSON
  /// The time by which sessions and answers age: Journal::UptimeSeconds, or the steady clock where nothing is stored.
  double uptime_s() const {
    return journal != nullptr ? journal->UptimeSeconds() : static_cast<double>(clock.MonotonicNs()) * 1e-9;
  }
  // Added to by sessions, on any thread; taken by the table.
  std::shared_ptr<Gathered<RetiredTimeline>> retired = std::make_shared<Gathered<RetiredTimeline>>();
  std::shared_ptr<Gathered<std::weak_ptr<Session>>> changed = std::make_shared<Gathered<std::weak_ptr<Session>>>();
  // Those that are found by their history, which has become another.
  std::shared_ptr<Gathered<std::weak_ptr<Session>>> histories = std::make_shared<Gathered<std::weak_ptr<Session>>>();
  std::shared_ptr<std::atomic<int64_t>> bytes = std::make_shared<std::atomic<int64_t>>(0);  // held by all sessions
  std::shared_ptr<BytesByOwner> bytes_by_owner = std::make_shared<BytesByOwner>();          // of them, by each owner's
  std::shared_ptr<BytesByOwner> stored_by_owner = std::make_shared<BytesByOwner>();         // in the journal
  std::shared_ptr<TokensByOwner> tokens_by_owner = std::make_shared<TokensByOwner>();
  std::shared_ptr<std::atomic<uint64_t>> interrupted = std::make_shared<std::atomic<uint64_t>>(0);
};

class Session : public std::enable_shared_from_this<Session> {
 public:
  /// `key` is its name in the journal and in the cache's tiers: "conv_..." or, for a chain, "chain_..."; "ram_..." for
  /// one that a stateless request leaves, of which nothing is written to disk.
  Session(std::shared_ptr<const SessionContext> context, std::string key, std::string owner, Metadata metadata,
          WindowOverrides window);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  /// A session as its journal tells it. A turn that was cut ends as interrupted, and the journal is told.
  static Result<std::shared_ptr<Session>> Load(std::shared_ptr<const SessionContext> context, const std::string& key,
                                               const JournalTranscript& transcript);
  /// Whether Load would succeed, and why not, in a few words; nobody is told of anything.
  static Status CheckLoads(std::shared_ptr<const SessionContext> context, const std::string& key,
                           const JournalTranscript& transcript);

  const std::string& key() const { return key_; }
  /// The conversation's id; empty for a chain.
  const std::string& id() const { return id_; }
  const std::string& owner() const { return owner_; }
  bool durable() const;
  /// Its name in the cache's tiers; "" if its cache must not be saved: the journal does not know it, and the disk
  /// might.
  std::string cache_owner() const;
  /// It was deleted: who is attached is told.
  void Gone();
  /// True if nothing runs and nobody is attached: it can be taken out of memory if it is durable.
  bool idle() const;

  SessionInfo Info() const;
  /// Its summary in the journal is not up to date: it is among the changed ones from now on.
  void Changed();
  /// Gives the journal the summary of a changed session, without waiting. Nothing happens while a turn runs: it will be
  /// changed again when that ends; while one begins it stays changed.
  void WriteSummary();
  SharedList<Item> Items() const;
  /// What its timeline tells of tools.
  SharedText Tools() const;
  /// Of its last answer, if that was cut: what Encode(AnswerForm) makes of how it was asked for.
  SharedText FormOfCut() const;

  // Changes. Each waits until it is durable (DiskWait); not from a sink, not from the journal's thread. kBusy while a
  // turn runs or another change is on its way, and (superseded) for a connection that another one has taken the session
  // from. kUnavailable (storage_full, or the disk does not keep up), kIo: nothing has changed.
  /// Makes a new session durable, if there is a journal.
  Status Create();
  Status SetMetadata(Metadata metadata);
  /// After the item `after`; "" = before all items, absent = at the end. kNotFound.
  Result<std::vector<Item>> AddItems(uint64_t connection, std::vector<NewItem> items,
                                     const std::optional<std::string>& after = std::nullopt);
  /// kInvalidArgument if there are fewer items. Returns the ids of responses undone by it.
  Result<std::vector<std::string>> Rewind(uint64_t connection, int64_t items);
  /// The next turn recomputes everything after the item. Returns the ids of responses undone by it. kNotFound.
  Result<std::vector<std::string>> DeleteItem(uint64_t connection, const std::string& item);
  /// Replaces the items [begin, end) by one. Returns the ids of responses undone by it. kMismatch if there are fewer.
  Result<std::vector<std::string>> ReplaceItems(uint64_t connection, size_t begin, size_t end, NewItem item);
  /// Drops a response from the session's list; with `durably` the journal is told.
  Status Forget(const std::string& response, bool durably);

  /// The timeline's first `items` items (absent = all), for a fork.
  Result<Timeline> CopyTimeline(std::optional<int64_t> items) const;
  /// Its own settings, with the adapter that it has now.
  WindowOverrides window() const;
  Metadata metadata() const;
  TimelineId engine_timeline() const;
  /// The window of its cache, as far as it has one.
  RingWindow cache_window() const;
  /// For a new session: what a fork begins with. `engine_timeline` is the id it shall have, `window` that of the cache
  /// that it gets.
  void Adopt(Timeline timeline, TimelineId engine_timeline, const RingWindow& window);

  // Stateless requests; session_history.cpp.
  /// From now on every turn adds the session to SessionContext::histories at its end, as a turn that carries its
  /// history does.
  void FindByHistory();
  /// What was said, with the input of the turn that runs, as HistoryText writes it.
  std::string History() const;
  struct HistoryLabel {
    std::string key;         // TurnSpec::timeline_key of the last request that had one
    bool continued = false;  // items follow an answer
  };
  HistoryLabel LabelOfHistory() const;
  struct HistoryMatch {
    size_t items = 0;        // of the request that it begins with
    bool continues = false;  // the request goes on where this session ends, and nothing runs
    std::string head;        // the response that it ends with
    Timeline timeline;       // those items
  };
  /// Compares the session's messages with those of a request. nullopt: their adapters or windows differ, so that the
  /// cache cannot be shared.
  std::optional<HistoryMatch> MatchHistory(const TurnSpec& spec) const;
  double updated_at() const;

  struct Prepared {
    TurnRequest request;
    std::vector<std::string> forgotten;  // responses beyond the session's limit
  };
  /// Checks and renders a turn and makes it the running one; others find the session busy meanwhile. With `head`, only
  /// if no turn runs and that response is what the timeline ends with: kMismatch otherwise. Further errors: kBusy,
  /// kInvalidArgument (context_length_exceeded and others). After an error nothing has changed; otherwise the turn has
  /// taken `permit` and gives it back before its end is told.
  Result<Prepared> Begin(const TurnSpec& spec, const Caller& caller, std::shared_ptr<Response> response, TurnId turn,
                         const std::shared_ptr<EventSink>& sink, const std::string& head,
                         std::shared_ptr<void>* permit);
  /// The tokens that would precede the turn's answer. Without `head` a running turn is ignored. ERRORS: as Begin.
  Result<SharedList<TokenId>> InputTokens(const TurnSpec& spec, const std::string& head) const;
  /// Gives the turn's record to the journal. An error: it did not take it; Abandon the turn.
  Status Record(TurnId turn);
  /// The engine took the turn: it may be announced (unless the engine was faster).
  void Announce(TurnId turn);
  /// The turn was refused: as if it had never been.
  void Abandon(TurnId turn);
  /// The running turn if it belongs to `response` (empty: any); 0 = none.
  TurnId Running(const std::string& response) const;
  /// Ends the turn, if it runs still, as incomplete for this reason.
  void EndTurn(TurnId turn, const std::string& reason);

  /// From TurnSink: the turn waits for a slot, `position` in line.
  void OnQueued(TurnId turn, int64_t position);
  /// From TurnSink: the log probabilities of the turn's prompt. Never durable: a journal has no such turns.
  void OnScored(TurnId turn, std::vector<OutputToken> tokens);
  void OnEmbedded(TurnId turn, std::vector<float> mean);
  // From TurnSink: what is durable now. `recorded` is where the journal stands ({} = nothing was written).
  void OnStart(TurnId turn, const CacheReport& report, const JournalPosition& recorded);
  void OnTokens(TurnId turn, const TokenDelta& delta, const JournalPosition& recorded);
  void OnEnd(TurnId turn, const TurnEnd& end, double completed_at, const JournalPosition& recorded);
  /// The server cannot finish the answer (InterruptionOf): the turn ends with the text that was delivered.
  void OnInterrupted(TurnId turn, const Status& cause, const JournalPosition& recorded);
  /// What came next could not be made durable: the turn ends with what is.
  void OnLost(TurnId turn, const Status& status);

  /// Runs `read` under the lock.
  template <class Read>
  auto Locked(const Read& read) const {
    std::lock_guard lock(mutex_);
    return read();
  }
  /// Items of the input of a response, up to its answer.
  SharedList<Item> InputItems(const Response& response) const;
  /// The response as it is now.
  std::shared_ptr<const Response> Snapshot(const std::shared_ptr<Response>& response) const;
  /// Gives `sink` the events of `response` from its own number `from` on, as the sink counts, and the coming ones.
  void Replay(const std::shared_ptr<Response>& response, uint64_t from, const std::shared_ptr<EventSink>& sink);
  /// Attaches the sink and answers it, at once or when the new epoch is durable. `cache` is where the cache is.
  void Resume(const ResumeRequest& request, CacheSource cache, const std::shared_ptr<EventSink>& sink);
  std::vector<std::string> ResponseIds() const;
  std::vector<std::shared_ptr<Response>> Responses() const;
  /// Why the running turn is about to be cut, "" if it is not. Under the lock (Locked).
  std::string IncompleteReason(TurnId turn) const { return Runs(turn) ? running_->response->incomplete_reason : ""; }

 private:
  WindowOverrides WindowLocked() const;
  Item MakeItem(NewItem item) const;
  RingWindow Window(int64_t pinned) const;
  int64_t SessionLen() const;
  ClampedLimits Clamped(int64_t pinned) const;
  Status CheckFree(uint64_t connection) const;
  Status CheckItems(size_t added, const char* param) const;
  /// A turn that is rendered and not the running one yet.
  struct Begun {
    ActiveTurn turn;
    TurnRequest request;
    JournalRecord record;  // of the turn
  };
  /// Releases the lock during its lifetime. Other callers find the session busy, so the timeline does not change.
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
  /// Without the lock, which is what it is for.
  Result<Begun> Render(const TurnSpec& spec, TurnId turn, std::shared_ptr<Response> response,
                       const Timeline& base) const;
  Result<SamplingParams> Sampling(const TurnSpec& spec) const;
  /// Its name in the tiers; `stores` if it will be durable.
  std::string CacheOwner(bool stores) const;
  /// The running turn's, with what makes the session durable if it is not; nothing if it is not to be.
  std::optional<JournalEntry> TurnEntry(bool store, JournalRecord turn) const;
  std::vector<JournalRecord> CreationRecords() const;
  /// The ids that the journal has are another codec's: kRetokenised must stand before any of ours.
  bool Foreign() const { return !SameCodec(recorded_codec_, context_->codec_name); }
  int64_t RecordedVocabulary() const { return Foreign() ? kAnyVocabulary : context_->codec.tokenizer.vocab_size(); }
  /// Makes all text new text: no id is known any more.
  void ForgetIds();
  SessionSummary Summary(uint64_t seq) const;
  void ChangedLocked();
  /// Gives the journal an entry and waits; `apply` runs under the lock once it is durable, or at once where there is no
  /// journal for it.
  Status Commit(std::unique_lock<std::mutex>& lock, std::vector<JournalRecord> records, bool create,
                const std::function<void()>& apply);
  /// Rewind, under the lock.
  Result<std::vector<std::string>> KeepItems(std::unique_lock<std::mutex>& lock, size_t items);
  /// Timeline::Splice, with the lock released while ids are made.
  Status Splice(std::unique_lock<std::mutex>& lock, uint64_t connection, size_t at, size_t removed,
                std::vector<Item> added, std::vector<std::string>* undone);
  Status ChangeTimeline(std::unique_lock<std::mutex>& lock, Timeline next, bool truncates,
                        std::vector<std::string>* undone);
  static std::shared_ptr<const Response> SnapshotLocked(const std::shared_ptr<Response>& response);
  void OnRecorded(TurnId turn, const Status& status, const JournalPosition& last);
  /// The journal now ends here.
  void SetRecorded(const JournalPosition& last);
  void AttachLocked(const ResumeRequest& request, CacheSource cache, const std::shared_ptr<EventSink>& sink);
  /// The listed responses that hold every event from `next` on, by the sink's numbers, without a gap: the first one's
  /// place. Nothing if some are no longer kept.
  std::optional<size_t> FirstToReplay(const EventNumbers& numbers, uint64_t next) const;

  bool Runs(TurnId turn) const { return running_ && running_->id() == turn; }
  /// Does what the running turn's new stage asks for.
  void Advance(ActiveTurn::Next next);
  void AnnounceLocked();
  void TellQueued();
  void StartLocked(const CacheReport& report);
  void TokensLocked(const TokenDelta& delta);
  /// Tells the listeners, and counts.
  void Emit(TurnEvent event);
  void OpenMessage();
  void TellBegun(const Item& reopened);
  int64_t CallsAt() const;
  Result<SettledReasoning> SettleReasoning(const TurnSpec& spec) const;
  /// It borrows from `reasoning`.
  Codec CodecFor(const SettledReasoning& reasoning) const;
  void SetReasoning(SettledReasoning reasoning, ActiveTurn* turn, TurnRequest* request) const;
  void SetChannels(std::shared_ptr<const ChannelFormat> channels, ActiveTurn* turn) const;
  void EmitReasoning(std::string_view text);
  void EndReasoning(bool whole);
  void EmitHeldBack();
  void EmitText(std::string_view text);
  void EmitPart(const CallPart& part);
  /// Bytes [begin, end) of the answer's text, and the tokens that are held.
  void EmitPiece(size_t begin, size_t end);
  void EmitCallPart(const CallPart& part);
  void EmitStep(const CallStep& step);
  SharedText TextOfAnswer(bool cut, bool empty);
  /// Tells what was kept back of the answer's text.
  void EndText();
  void Finish(const TurnEnd& end, double completed_at);
  /// Ends the running turn where the journal's record of it ends: with all text of its ids, or (Interrupt) with the
  /// delivered text. `cause`: ok where it is unknown.
  void CutTurn(Status cause = {});
  void Interrupt(Status cause = {});
  void FailTurn(const Status& status);
  void LogCut(const Status& cause) const;
  void DropTurn();
  /// Tells the journal without waiting.
  void Note(std::vector<JournalRecord> records);
  std::vector<std::string> DropResponsesBehind(size_t items);
  /// After a change in the middle of the items: responses keep their places, but for those whose answer went.
  std::vector<std::string> MoveResponses(const SharedList<Item>& before, const SharedList<Item>& after);
  std::vector<std::string> TrimResponses();
  /// Brings the context's count of bytes up to date.
  void CountBytes();

  // Loading.
  /// What the records make, and in `news` what the journal has yet to be told. Errors in a few words.
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
  double used_s_;  // by uptime, when it was made or its last turn began
  bool durable_ = false;
  bool changing_ = false;  // a turn is being rendered, or a change of the timeline waits for the journal
  bool changed_ = false;   // since its summary was written
  bool found_by_history_ = false;
  std::string timeline_key_;  // as HistoryLabel has it
  bool embeds_ = false;       // text was embedded: it is not continued
  Metadata metadata_;
  const WindowOverrides window_;
  std::string adapter_;  // of its next turn, unless that names another
  Timeline timeline_;
  std::string head_;                                 // the response that the timeline ends with; "" = none
  std::deque<std::shared_ptr<Response>> responses_;  // oldest first
  std::optional<ActiveTurn> running_;
  Listeners listeners_;
  uint64_t epoch_, first_epoch_;  // now; the oldest one whose event numbers are still right
  EventCounts told_;              // in this session so far
  JournalPosition recorded_;
  std::string recorded_codec_;  // of the ids in the journal, as far as it is read or written
  TimelineId engine_timeline_ = 0;
  RingWindow engine_window_;
  CacheReport last_report_;
  int64_t bytes_ = 0;  // as counted last
  bool deleted_ = false;
  const std::shared_ptr<std::atomic<int64_t>> owners_bytes_, owners_stored_;
};

/// What is told of a session, by its summary. Without its id, and what only its table knows.
SessionInfo Describe(const SessionSummary& summary, const SessionTableOptions& options);

/// A process-wide number for turns and timelines, never 0.
uint64_t NextEngineId();

}  // namespace ringside
