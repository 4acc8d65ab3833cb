// What lies behind SessionTable: the maps and their look-ups. The mutex guards the maps only and is never held while a
// session's lock is taken (but for a session that nobody else can reach) or the engine or the journal is called.
#pragma once

#include <array>
#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <unordered_map>

#include "base/limits.h"
#include "cache/store/tiered_store.h"
#include "session/history/history_index.h"
#include "session/session.h"
#include "session/table/deferred_work.h"
#include "session/table/request_keys.h"
#include "session/table/session_table.h"

namespace ringside {

Status NoConversation(const std::string& id);
Status NoResponse(const std::string& id);

struct SessionTable::State {
  struct Entry {
    std::string key;  // of the session
    std::weak_ptr<Session> session;
    std::shared_ptr<Response> response;
    std::string request_key;
    TurnSpec::Sending sending = TurnSpec::Sending::kNamed;
    uint64_t asked = 0;  // when, for RequestKeys
  };
  struct Found {
    std::shared_ptr<Session> session;
    std::shared_ptr<Response> response;
  };
  struct ReservedNames {  // of sessions that are being made
    std::mutex mutex;
    std::set<std::string> names;
  };
  struct Known {  // a session, in memory or in the journal only
    uint64_t ordinal = 0;
    std::string owner;
    double used_s = 0;                 // by SessionContext::uptime_s
    std::shared_ptr<Session> session;  // null = not in memory
    uint64_t last_used = 0;
    size_t responses = 0;  // of them in `responses`
  };
  using OwnersSessions = std::map<uint64_t, std::string>;  // conversations by creation, or chains by last use

  State(SessionTableOptions options, const Tokenizer& tokenizer, const ChatTemplate& chat, TurnEngine& the_engine,
        Journal* the_journal, const Clock& clock);

  const std::shared_ptr<const SessionContext> context;
  TurnEngine& engine;
  Journal* const journal;

  // Look-ups only.
  mutable std::mutex mutex;
  std::unordered_map<std::string, Known> sessions;  // by key
  std::unordered_map<std::string, OwnersSessions> owners, chains_of;
  std::unordered_map<std::string, int64_t> being_made;  // conversations by owner, on their way into the journal
  uint64_t next_ordinal = 0, uses = 0;
  std::unordered_map<std::string, Entry> responses;  // "resp_...", of sessions in memory
  std::deque<std::string> response_order;            // oldest first; ids forgotten earlier may linger
  RequestKeys request_keys;
  std::unordered_map<uint64_t, std::vector<std::string>> local_responses;  // by connection
  SessionTableStats counts;
  const std::shared_ptr<ReservedNames> reserved = std::make_shared<ReservedNames>();
  // Sessions that requests find by their history: those in memory only, and the chains.
  HistoryIndex histories{limits::kMaxHistoriesPerOwner, limits::kMaxHistoryBytes / 2};
  HistoryIndex stored_histories{limits::kMaxHistoriesPerOwner, limits::kMaxHistoryBytes / 2};
  std::array<std::mutex, 16> loading;  // one session is read by one thread only; by hash of its key

  struct Turns {
    std::mutex mutex;
    std::unordered_map<std::string, int64_t> by_owner;
    std::unordered_map<std::string, int64_t> summaries_by_owner;  // side turns of compactions
  };
  const std::shared_ptr<Turns> turns = std::make_shared<Turns>();

  double next_expiry_s = 0;  // by SessionContext::uptime_s

  struct StartedTurn {
    TurnId turn = 0;
    int64_t started_ns = 0;
    std::weak_ptr<Session> session;
  };
  std::deque<StartedTurn> started;  // in the order of their starts; ended ones linger until the next sweep

  DeferredWork work;

  // Look-ups; all of them read the session from the journal if need be.
  /// kNotFound; DamagedSession; kIo.
  Result<std::shared_ptr<Session>> Get(const std::string& key, const std::string& owner);
  /// The caller's conversation.
  Result<std::shared_ptr<Session>> Find(const Caller& caller, const std::string& id);
  /// A response that the caller may see. kNotFound, kCorruption, kIo.
  Result<Found> FindResponse(const Caller& caller, const std::string& id);
  std::optional<Found> FindLoaded(const Caller& caller, const std::string& id);
  Result<std::shared_ptr<Session>> Load(const std::string& key);
  Result<JournalTranscript> ReadTranscript(const std::string& key);
  Status Senseless(const std::string& key, const Status& why);
  /// Reads everything that is stored of a session as Load would, and keeps nothing: the number of its records, or
  /// Load's errors.
  Result<uint64_t> CheckStored(const std::string& key);
  void RegisterLoaded(const std::string& key, const std::shared_ptr<Session>& session);

  Status AddSession(const std::shared_ptr<Session>& session);
  void AddKnownLocked(const std::string& key, Known known);
  void RemoveKnownLocked(const std::string& key);
  void UseLocked(const std::string& key, Known& known);
  /// Takes a session away everywhere and waits until the journal has done so durably.
  Status Delete(const std::string& key);
  /// As Delete, without a wait. Failures are logged.
  void DeleteLater(const std::string& key);
  /// `done` is called, on the journal's thread or this one, if Ok is returned. kNotFound.
  Status Remove(const std::string& key, const JournalDone& done);
  /// Under the mutex. True if the session is a chain that nothing leads to any more.
  bool ForgetLocked(const std::string& id);
  /// Returns the chains that nothing leads to any more, for the caller to delete.
  [[nodiscard]] std::vector<std::string> ForgetAll(const std::vector<std::string>& ids);
  /// Deletes such chains, without a wait.
  void Forget(const std::vector<std::string>& ids);
  /// The response that the entry's request key stands for already, or the entry's own from now on. A `fresh` session is
  /// known from now on, too; kNotFound: another one has been deleted meanwhile.
  Result<std::string> Register(const std::shared_ptr<Session>& session, bool fresh, Entry entry);
  /// The response of the same request, sent earlier with this key; "" if there is none.
  std::string FindRequest(const Caller& caller, const TurnSpec& spec, const std::string& key);
  /// False if the response is not what a request that is sent again asks for.
  bool IsRecent(const Found& found) const;
  /// Takes sessions that the journal has out of memory, then forgets the oldest responses of those that it has not.
  /// kOverloaded if that is not enough.
  Status MakeRoom(const std::string& owner, int64_t wanted = 0);
  /// kOverloaded if the owner has more in the journal than it may.
  Status CheckDisk(const std::string& owner) const;
  /// Makes room for `bytes` and counts them for the owner.
  Result<HeldBytes> Hold(const std::string& owner, int64_t bytes);
  /// Memory that the turn will hold in addition to its session, estimated before it is rendered.
  int64_t BytesOf(const TurnSpec& spec) const;
  /// Takes sessions out of memory, of this owner's or ("") of all, until `bytes` is within the budget.
  void Unload(const std::atomic<int64_t>& bytes, int64_t budget_bytes, const std::string& owner = "");
  void ForgetOldestResponses(int64_t budget_bytes);
  /// Deletes the owner's least recently used chains that are beyond the limit, but for those in use.
  void TrimChains(const std::string& owner);
  void CloseRetired();
  void DeleteExpired();
  void EndLateTurns();

  /// Until the owner may have tokens computed again; 0 = now.
  int64_t TokensWaitMs(const std::string& owner, const OwnerLimits& limits) const;
  /// A place among the owner's turns, given back with the last reference. kOverloaded.
  Result<std::shared_ptr<void>> TakePermit(const std::string& owner);

  /// A place among the side turns that summarize, given back with the last reference. kOverloaded.
  Result<std::shared_ptr<void>> TakeSummaryPlace(const std::string& owner);

  // Where a turn runs.
  struct Target {
    std::shared_ptr<Session> session;
    bool fresh = false;                     // made for this turn, not in the maps yet
    bool in_memory = false;                 // of a stateless request that stores nothing
    std::string head;                       // the response that it must still end with
    TimelineId fork_from = 0, fork_to = 0;  // caches to copy; fork_to = 0: none
    std::shared_ptr<Session> parent;        // of `head`, to fork from if it went on
    size_t parent_items = 0;
    std::string beginning;       // of a history that is stored: its chain is named after it
    std::shared_ptr<void> name;  // keeps that name from others until the session is registered
  };
  /// Of a history that comes with the request, what the session has already is taken out of `spec`.
  Result<Target> FindTarget(const Caller& caller, TurnSpec* spec, const std::string& request_key);
  Status ForkTarget(const Caller& caller, const std::string& request_key, Target* target);
  /// Makes the target a new session that begins with `timeline` and with the parent's cache.
  void Fork(const Caller& caller, Timeline timeline, const std::string& request_key, Target* target);
  std::shared_ptr<Session> NewChain(const Caller& caller, const WindowOverrides& window, const std::string& request_key,
                                    Target* target);
  // table_histories.cpp
  Result<Target> FindHistory(const Caller& caller, TurnSpec* spec, const std::string& request_key);
  /// A name for a chain with the target's beginning, by which LoadHistories finds it; "" if there is none left.
  std::string ReserveHistoryName(const Caller& caller, Target* target);
  /// Reads from the journal the owner's chains with this beginning that the index lacks, after a restart for one.
  void LoadHistories(const Caller& caller, const std::string& beginning);
  /// Makes token ids of a prompt's text, or checks those that it has.
  Status ReadPrompt(TurnSpec* spec) const;
  HistoryIndex& HistoriesWith(std::string_view key) {
    return key.starts_with(TieredStore::kMemoryOnly) ? histories : stored_histories;
  }
  /// Lets a session be found by its history as it is now.
  void IndexHistory(const std::shared_ptr<Session>& session);
  /// The same for all that have changed.
  void IndexHistories();
  /// Deletes the sessions among `keys` that only a history leads to, unless they run; returns their number.
  size_t GiveUp(const std::vector<std::string>& keys);
  void GiveUpIdleHistories();
  /// The oldest in memory only, of one owner or of all, until `bytes` is within the budget.
  void GiveUpHistories(const std::atomic<int64_t>& bytes, int64_t budget_bytes,
                       const std::optional<std::string>& owner);

  Status CheckWindow(const WindowOverrides& window) const;
  Result<TurnTicket> Reattach(const Caller& caller, const std::string& id, const std::shared_ptr<EventSink>& sink);
  Result<Session::Prepared> Begin(const Caller& caller, const TurnSpec& spec, const std::string& request_key,
                                  Target* target, TurnId turn, const std::shared_ptr<Response>& response,
                                  const std::shared_ptr<EventSink>& sink, std::shared_ptr<void>* permit);
  /// Hands a turn that has begun to the journal and the engine.
  Status Launch(const Target& target, Session::Prepared prepared, TurnId turn, const Response& response);
  Result<SessionInfo> AddFork(const Caller& caller, const Session& from, std::optional<int64_t> items,
                              std::optional<Metadata> metadata);
  SessionInfo InfoOf(const Session& session) const;
  Result<SessionInfo> ListEntry(const std::string& key, const std::string& owner);
  /// Of the sessions that have changed.
  void WriteSummaries();
  /// Joins the content parts of each item as the chat template does.
  void JoinParts(std::vector<NewItem>* items) const;
};

}  // namespace ringside
