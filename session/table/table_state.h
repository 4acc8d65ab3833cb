// Implementation of SessionTable: its maps and their look-ups. The mutex guards the maps only. It is never held while a
// session's lock is taken (except for a session that no other thread can reach) or while the engine or the journal is
// called.
#pragma once

#include <array>
#include <atomic>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <unordered_map>

#include "base/limits.h"
#include "cache/store/tiered_store.h"
#include "session/history/history_index.h"
#include "session/journal/shared_log.h"
#include "session/session.h"
#include "session/table/deferred_work.h"
#include "session/table/open_models.h"
#include "session/table/recent_totals.h"
#include "session/table/request_keys.h"
#include "session/table/session_table.h"

namespace ringside {

/// SessionTable::State::Hold for an owner.
using HoldBytes = std::function<Result<HeldBytes>(int64_t bytes)>;

Status NoConversation(const std::string& id);
Status NoResponse(const std::string& id);

/// Tokenizes a prompt's text, or checks its token ids.
Status ReadPrompt(const SessionContext& model, TurnSpec* spec);
/// Estimates the memory of the turn, beyond its session, before it is rendered.
int64_t BytesOf(const SessionTableOptions& options, const TurnSpec& spec);
Status CheckWindow(const SessionTableOptions& options, const WindowOverrides& window);
/// Reads the images of a request's items: their size and digest, with the picture in the cache of `owner`.
/// ERRORS: kInvalidArgument with the image's param; NewImage::refusal; as `hold` and PictureReader::Read.
Status ReadImages(const SessionContext& model, const std::string& owner, const HoldBytes& hold,
                  std::vector<NewItem>* items);
/// Gives a turn the pictures of its images, charged until the last reference.
/// ERRORS: as ReadImages; kInvalidArgument above limits::kMaxTurnPictureBytes.
Status LoadPictures(const SessionContext& model, const std::string& owner, const HoldBytes& hold,
                    const std::vector<ItemImage>& images, TurnRequest* request);
/// Joins each item's content parts as the model's chat template does.
void JoinParts(const SessionContext& model, std::vector<NewItem>* items);

struct SessionTable::State {
  struct Entry {
    std::string key;  // of the session
    std::weak_ptr<Session> session;
    std::shared_ptr<Response> response;
    std::string request_key;
    TurnSpec::Sending sending = TurnSpec::Sending::kNamed;
    uint64_t asked = 0;  // arrival, for RequestKeys
  };
  struct Found {
    std::shared_ptr<Session> session;
    std::shared_ptr<Response> response;
  };
  struct ReservedNames {  // of sessions being created or removed
    std::mutex mutex;
    std::multiset<std::string> names;
  };
  struct Known {  // a session, loaded or in the journal only
    uint64_t ordinal = 0;
    std::string owner;
    double used_s = 0;                 // by SessionContext::uptime_s
    std::shared_ptr<Session> session;  // null = not loaded
    uint64_t last_used = 0;
    size_t responses = 0;  // its number of entries in `responses`
  };
  enum class Use {
    kChange,  // claims the session if another server might have it
    kRead     // the session may be a view of another server's, as stored: it is in no map
  };
  /// The sessions of a store that several servers share. The maps have those that this server has claimed; others are
  /// read without a claim. False without such a store. Blocks on the database. table_shared.cpp.
  class Shared {
   public:
    Shared(State& table, SharedLog* log, const Clock& clock) : table_(table), log_(log), totals_(log, clock) {}
    explicit operator bool() const { return log_ != nullptr; }
    /// Gives sessions back when other servers ask for them, until Close.
    void Open();
    void Close() const { log_->OnAskedFor(nullptr); }

    /// ERRORS: kUnavailable: another server may have this server's sessions, so sessions in memory may be stale.
    Status CheckLease() const;
    /// Waits until a session of the maps is as the store shows it to other servers.
    /// ERRORS: kUnavailable: the store does not answer.
    Status AwaitWrites(const std::string& key) const;
    /// False if the store has no such session; true also if it does not answer.
    bool MayKnow(const std::string& key) const;
    bool Has(const std::string& key, const std::string& owner) const { return log_->Find(key, owner).ok(); }
    /// Those that exist, as far as the store answers.
    std::vector<std::string> Existing(const std::string& owner, const std::vector<std::string>& keys) const;
    /// The owner of any session. ERRORS: kNotFound.
    Result<std::string> OwnerOf(const std::string& key) const;
    /// As State::Get, for a session that is not in the maps.
    Result<std::shared_ptr<Session>> Get(const std::string& key, const std::string& owner, Use use);
    /// Finds a response: to read one that has ended, to change one that runs.
    Result<Found> FindRunning(const Caller& caller, const std::string& id);
    /// Adds a stored session to the maps. Asks the server that has it, for some seconds.
    /// ERRORS: kNotFound; kBusy (conversation_locked); kUnavailable; kIo.
    Status Claim(const std::string& key, const std::string& owner);
    /// Claims a session with an outdated summary and marks it, unless another live server has it. Does not block.
    void Refresh(const std::string& key, const std::string& owner);
    /// Gives back sessions that were not used for minutes, or all.
    void Sweep();
    void HandOver(bool all);

    Result<std::vector<ListedSession>> List(const std::string& owner, const std::string& after, int64_t limit,
                                            bool* more) const;
    Result<SessionPage> ListPage(const std::string& owner, const std::string& after, int64_t limit) const;
    std::vector<OwnerTotals> Owners() const;
    /// ERRORS: kUnavailable.
    Result<SharedTotals> TotalsOf(const std::string& owner) const { return totals_.Of(owner); }
    void CountNew(const std::string& owner, bool conversation) { totals_.CountNew(owner, conversation); }
    /// Under which a caller's chains are named.
    std::string ChainOwner(const std::string& owner) const { return owner + '\n' + log_->server(); }
    /// Deletes the owner's least recently used chains above the limit.
    void TrimChains(const std::string& owner, int64_t limit);
    /// Deletes sessions that were last used before this uptime.
    void DeleteUnused(double used_before_s);

   private:
    /// ERRORS: kNotFound; kUnavailable.
    Result<SessionPlace> PlaceOf(const std::string& key, const std::string& owner) const;
    /// The session as stored, in no map.
    Result<std::shared_ptr<Session>> View(const std::string& key, const std::string& owner);
    /// The session if it is in memory, or null.
    std::shared_ptr<Session> Loaded(const std::string& key) const;
    /// REQUIRES: the session is the owner's.
    Status ClaimNow(const std::string& key, const std::string& owner);
    /// Removes a session from the maps and lets other servers have it, unless it is in use.
    void GiveBack(const std::string& key);
    /// Deletes a session unless it is in use, here or at another server. False if it was.
    bool DeleteIdle(const std::string& key, const std::string& owner);

    State& table_;
    SharedLog* const log_;  // null: every session is this server's
    mutable RecentTotals totals_;
    std::atomic<bool> hands_over_{false};
    std::atomic<int> refreshing_{0};
  };
  using OwnersSessions = std::map<uint64_t, std::string>;  // conversations by creation, chains by last use

  State(SessionTableOptions options, const Tokenizer& tokenizer, const ChatTemplate& chat, TurnEngine& the_engine,
        Journal* the_journal, const Clock& clock);

  const std::shared_ptr<const SessionContext> context;  // with several models: of the default one
  OpenModels models;
  TurnEngine& engine;
  Journal* const journal;
  Shared shared;

  // Look-ups only.
  mutable std::mutex mutex;
  std::unordered_map<std::string, Known> sessions;  // by key
  std::unordered_map<std::string, OwnersSessions> owners, chains_of;
  std::unordered_map<std::string, int64_t> being_made;  // conversations by owner that wait for the journal
  struct {
    uint64_t next = 0, uses = 0;  // ordinal of the next session; number of uses
  } order;
  std::unordered_map<std::string, Entry> responses;  // "resp_...", of loaded sessions
  std::deque<std::string> response_order;            // oldest first; may contain ids dropped earlier
  RequestKeys request_keys;
  std::unordered_map<uint64_t, std::vector<std::string>> local_responses;  // by connection
  SessionTableStats counts;
  const std::shared_ptr<ReservedNames> reserved = std::make_shared<ReservedNames>();
  // Sessions that requests find by their history: chains, and sessions in memory only.
  struct {
    HistoryIndex in_memory{limits::kMaxHistoriesPerOwner, limits::kMaxHistoryBytes / 2};
    HistoryIndex stored{limits::kMaxHistoriesPerOwner, limits::kMaxHistoryBytes / 2};
  } histories;
  /// Mutexes by key: one thread at a time reads a session, or gives it back.
  class KeyMutexes {
   public:
    std::mutex& Of(const std::string& key) { return mutexes_[std::hash<std::string>()(key) % mutexes_.size()]; }

   private:
    std::array<std::mutex, 16> mutexes_;
  } loading;

  struct Turns {
    std::mutex mutex;
    std::unordered_map<std::string, int64_t> by_owner;
    std::unordered_map<std::string, int64_t> summaries_by_owner;  // side turns of compactions
    std::unordered_map<std::string, int64_t> searches_by_owner;
  };
  const std::shared_ptr<Turns> turns = std::make_shared<Turns>();

  double next_expiry_s = 0;  // by SessionContext::uptime_s

  struct StartedTurn {
    TurnId turn = 0;
    int64_t started_ns = 0;
    std::weak_ptr<Session> session;
  };
  std::deque<StartedTurn> started;  // by start; ended ones stay until the next sweep

  DeferredWork work;

  /// The context for a turn: of the session's model if it has begun, or of the one that the request names. Sets
  /// `spec->model`.
  /// ERRORS: as OpenModels::Choose.
  Result<std::shared_ptr<const SessionContext>> ChooseModel(const Caller& caller, TurnSpec* spec);
  /// Null if neither exists.
  std::shared_ptr<Session> SessionOf(const Caller& caller, const std::string& conversation,
                                     const std::string& previous_response_id);

  // Look-ups. Each reads the session from the journal if necessary.
  /// ERRORS: kNotFound; DamagedSession; kIo; kBusy (conversation_locked): another server is using it.
  Result<std::shared_ptr<Session>> Get(const std::string& key, const std::string& owner, Use use = Use::kChange);
  /// Finds the caller's conversation.
  Result<std::shared_ptr<Session>> Find(const Caller& caller, const std::string& id, Use use = Use::kChange);
  /// Finds a response that the caller may see.
  /// ERRORS: as Get.
  Result<Found> FindResponse(const Caller& caller, const std::string& id, Use use = Use::kChange);
  std::optional<Found> FindLoaded(const Caller& caller, const std::string& id);
  Result<std::shared_ptr<Session>> Load(const std::string& key);

  Result<JournalTranscript> ReadTranscript(const std::string& key);
  Status MarkInconsistent(const std::string& key, const Status& why);
  /// Reads everything stored of a session as Load would, without keeping it. Returns the number of its records.
  /// ERRORS: as Load.
  Result<uint64_t> CheckStored(const std::string& key);
  void RegisterLoaded(const std::string& key, const std::shared_ptr<Session>& session);

  Status AddSession(const std::shared_ptr<Session>& session);
  void AddKnownLocked(const std::string& key, Known known);
  void RemoveKnownLocked(const std::string& key);
  /// Drops the look-ups of a session that leaves memory.
  void DropResponsesLocked(const Session& session);
  void UseLocked(const std::string& key, Known& known);
  /// Deletes a session everywhere and waits until that is durable.
  Status Delete(const std::string& key);
  /// As Delete, without waiting. Failures are logged.
  void DeleteLater(const std::string& key);
  /// If this returns Ok, `done` is called on the journal's thread or this one.
  /// ERRORS: kNotFound.
  Status Remove(const std::string& key, const JournalDone& done);
  /// True if the session is a chain without references.
  /// REQUIRES: the mutex is held.
  bool ForgetLocked(const std::string& id);
  /// Drops responses; returns the chains left without references, which the caller deletes.
  [[nodiscard]] std::vector<std::string> ForgetAll(const std::vector<std::string>& ids);
  /// Drops responses and deletes such chains, without waiting.
  void Forget(const std::vector<std::string>& ids);
  /// Returns the response already registered for the entry's request key, or registers and returns the entry's own. A
  /// `fresh` session is registered as well.
  /// ERRORS: kNotFound: another session was deleted meanwhile.
  Result<std::string> Register(const std::shared_ptr<Session>& session, bool fresh, Entry entry);
  /// Returns the response of an earlier transmission of this request; "" if there is none.
  /// ERRORS: kBusy (conversation_locked): another server might have it.
  Result<std::string> FindRequest(const Caller& caller, const TurnSpec& spec, const std::string& key);
  /// False if a retry cannot mean this response.
  bool IsRecent(const Found& found) const;
  /// Unloads sessions that the journal has, then drops the oldest responses of the others.
  /// ERRORS: kOverloaded if that is not enough.
  Status MakeRoom(const std::string& owner, int64_t wanted = 0);
  /// ERRORS: kOverloaded if the owner exceeds its limit in the journal.
  Status CheckDisk(const std::string& owner) const;
  /// Makes room for `bytes` and charges them to the owner.
  Result<HeldBytes> Hold(const std::string& owner, int64_t bytes);
  /// Unloads sessions, of this owner or ("") of all, until `bytes` is within the budget.
  void Unload(const std::atomic<int64_t>& bytes, int64_t budget_bytes, const std::string& owner = "");
  void ForgetOldestResponses(int64_t budget_bytes);
  /// Deletes the owner's least recently used chains above the limit, except those in use.
  void TrimChains(const std::string& owner);
  void CloseRetired();
  void DeleteExpired();
  void EndLateTurns();

  /// Milliseconds until the owner's token bucket admits a turn; 0 = now.
  int64_t TokensWaitMs(const std::string& owner, const OwnerLimits& limits) const;
  /// Takes a place among the owner's turns, released with the last reference.
  /// ERRORS: kOverloaded.
  Result<std::shared_ptr<void>> TakePermit(const std::string& owner);

  /// A place among the side turns that summarize, given back with the last reference. kOverloaded.
  Result<std::shared_ptr<void>> TakeSummaryPlace(const std::string& owner);

  // The session in which a turn runs.
  struct Target {
    std::shared_ptr<Session> session;
    bool fresh = false;                     // created for this turn, not in the maps yet
    bool in_memory = false;                 // for a stateless request that stores nothing
    std::string head;                       // response at which it must still end
    TimelineId fork_from = 0, fork_to = 0;  // caches to copy; fork_to = 0: none
    std::shared_ptr<Session> parent;        // session of `head`, to fork from if it has continued
    size_t parent_items = 0;
    std::string beginning;       // of a stored history: its chain's name derives from it
    std::shared_ptr<void> name;  // reserves that name until the session is registered
  };
  /// Finds the target of a turn. For a history that comes with the request, removes from `spec` the part that the
  /// session already has.
  Result<Target> FindTarget(const Caller& caller, TurnSpec* spec, const std::string& request_key);
  Status ForkTarget(const Caller& caller, const std::string& request_key, Target* target);
  /// Makes the target a new session that starts with `timeline` and the parent's cache.
  void Fork(const Caller& caller, Timeline timeline, const std::string& request_key, Target* target);
  std::shared_ptr<Session> NewChain(const Caller& caller, const WindowOverrides& window, const std::string& request_key,
                                    Target* target);
  // Defined in table_histories.cpp.
  Result<Target> FindHistory(const Caller& caller, TurnSpec* spec, const std::string& request_key);
  /// Reserves a name for a chain with the target's beginning, by which LoadHistories finds it; "" if none is free.
  std::string ReserveHistoryName(const Caller& caller, Target* target);
  /// Keeps new sessions from taking the name until the result is released. REQUIRES: reserved->mutex is held.
  std::shared_ptr<void> ReserveLocked(const std::string& name);
  /// Loads the owner's chains with this beginning that the index lacks, for instance after a restart.
  void LoadHistories(const Caller& caller, const std::string& beginning);
  HistoryIndex& HistoriesWith(std::string_view key) {
    return key.starts_with(TieredStore::kMemoryOnly) ? histories.in_memory : histories.stored;
  }
  /// Indexes a session by its current history.
  void IndexHistory(const std::shared_ptr<Session>& session);
  /// Indexes all sessions whose history has changed.
  void IndexHistories();
  /// Deletes those sessions among `keys` that only a history leads to, unless they run; returns their number.
  size_t GiveUp(const std::vector<std::string>& keys);
  void EvictIdleHistories();
  /// Deletes the oldest sessions in memory only, of one owner or of all, until `bytes` is within the budget.
  void EvictHistories(const std::atomic<int64_t>& bytes, int64_t budget_bytes, const std::optional<std::string>& owner);

  Result<TurnTicket> Reattach(const Caller& caller, const std::string& id, const std::shared_ptr<EventSink>& sink);
  Result<Session::Prepared> Begin(const Caller& caller, const TurnSpec& spec, const std::string& request_key,
                                  Target* target, TurnId turn, const std::shared_ptr<Response>& response,
                                  const std::shared_ptr<EventSink>& sink, std::shared_ptr<void>* permit);
  /// Passes a started turn to the journal and the engine.
  Status Launch(const Target& target, Session::Prepared prepared, TurnId turn, const Response& response);
  Result<SessionInfo> AddFork(const Caller& caller, const Session& from, std::optional<int64_t> items,
                              std::optional<Metadata> metadata);
  SessionInfo InfoOf(const Session& session) const;
  Result<SessionInfo> ListEntry(const std::string& key, const std::string& owner);
  /// Describes a session that is not loaded by its summary, or by reading it if that is outdated.
  Result<SessionInfo> DescribeStored(const std::string& key, const std::string& owner,
                                     const Result<JournalSummary>& stored);
  /// Writes the summaries of changed sessions.
  void WriteSummaries(bool last = false);
};

}  // namespace ringside
