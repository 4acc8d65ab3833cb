// The engine thread and everything it owns: the pool, the sequences, running and queued turns. Other threads reach it
// only through its inbox. engine/ENGINE.md is the contract.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <unordered_map>
#include <variant>
#include <vector>

#include "base/bounded_queue.h"
#include "cache/host_arena.h"
#include "cache/kv_pool.h"
#include "engine/engine.h"
#include "engine/model/network.h"
#include "engine/queue_shares.h"
#include "engine/running_turn.h"
#include "engine/scheduler.h"
#include "engine/sequence_storage.h"
#include "engine/step_time.h"

namespace ringside {

class EngineLoop {
 public:
  /// Who drives the rounds: the loop's own thread, or its creator through RunRound, on one thread in a deterministic
  /// order.
  enum class Driver { kOwnThread, kCaller };
  EngineLoop(Network& network, const Tokenizer& tokenizer, const EngineOptions& options, KvPool pool,
             const EngineStorage& storage, const Clock& clock, Driver driver = Driver::kOwnThread);
  ~EngineLoop();

  Status Submit(TurnRequest request);
  void Cancel(TurnId turn) { inbox_->PushUrgent(CancelMessage{turn}); }
  void Close(TimelineId timeline) { inbox_->PushUrgent(CloseMessage{timeline}); }
  void Park(TimelineId timeline) { inbox_->PushUrgent(ParkMessage{timeline}); }
  void Erase(TimelineId timeline, std::string owner, Engine::Done done);
  void Fork(TimelineId from, TimelineId to, std::string from_owner, std::string to_owner);
  void Prefetch(const std::string& owner);
  void SaveAll(Engine::Done done);
  void Ping(std::function<void()> alive) { inbox_->PushUrgent(PingMessage{std::move(alive)}); }
  std::optional<CacheSource> Where(const std::string& owner) const;

  // For Driver::kCaller.
  /// Runs one round: handles messages, collects finished copies, admits turns, runs at most one step. Blocks for that
  /// step only.
  void RunRound() { Round(inbox_->Drain(/*wait=*/false)); }
  /// Time of the next round with work, on the loop's clock, unless a message arrives earlier; nullopt = never.
  std::optional<int64_t> NextDueNs() const;

  const EngineOptions& options() const { return options_; }
  int64_t slot_bytes() const { return pool_.shape().slab_bytes(); }
  EngineStats stats() const;
  bool healthy() const { return healthy_; }
  Status status() const;

 private:
  struct SubmitMessage {
    TurnRequest request;
    int64_t submitted_ns;
  };
  struct CancelMessage {
    TurnId turn;
  };
  struct CloseMessage {
    TimelineId timeline;
  };
  struct ParkMessage {
    TimelineId timeline;
  };
  struct EraseMessage {
    TimelineId timeline;
    std::string owner;
    Engine::Done done;
  };
  struct ForkMessage {
    TimelineId from, to;
    std::string from_owner, to_owner;
  };
  struct SaveAllState {  // a SaveAll in progress
    Engine::Done done;
    std::set<TimelineId> begun = {};  // timelines whose caches were given to the tiers
    int64_t writing = 0;              // number of these not on disk yet
    bool flushing = false;            // true once all of these are on disk
    std::atomic<bool> told{false};
  };
  struct SaveAllMessage {
    std::shared_ptr<SaveAllState> saving;
    bool written = false;  // one of these is now on disk
  };
  struct PingMessage {
    std::function<void()> alive;
  };
  struct FetchedMessage {  // the tiers' answer
    TimelineId timeline;
    uint64_t ticket;
    Result<FetchedSnapshot> fetched;
  };
  using Message = std::variant<SubmitMessage, CancelMessage, CloseMessage, ParkMessage, EraseMessage, ForkMessage,
                               SaveAllMessage, PingMessage, FetchedMessage>;
  using Inbox = BoundedQueue<Message>;

  struct PendingFetch {
    uint64_t ticket = 0;                                        // 0 = not requested yet
    int64_t deadline_ns = std::numeric_limits<int64_t>::max();  // after it the turn recomputes
    std::optional<Result<FetchedSnapshot>> answer;
    bool forked = false;  // a copy under the turn's owner was requested
    int64_t bytes = 0;    // size of the stored cache, once requested
  };
  /// What becomes of a slot once its cache has been saved. The first three are cancelled if the timeline is wanted
  /// meanwhile.
  enum class EvictionMode { kNo, kIfSaved, kAnyway, kForced };
  struct Slot {  // a timeline known to the engine
    TimelineId id = 0;
    std::unique_ptr<Sequence> sequence;
    std::string owner, tenant;    // of its last turn
    RunningTurn* turn = nullptr;  // its running turn
    int64_t waiting = 0;          // number of its queued turns
    uint64_t last_used = 0;       // step number
    int64_t steps = 0;            // steps of its turn since it got the slot
    int64_t prompt_steps = 0;     // steps whose rows are recomputed if the cache is lost
    int64_t idle_since_ns = 0;
    bool continued = false;                     // a turn has continued earlier tokens
    bool parked = false;                        // to be saved and dropped when idle
    int64_t write_back_ns = 0;                  // earliest time of a write-back, if idle
    EvictionMode eviction = EvictionMode::kNo;  // while its cache is being saved
    bool unfilled = false;                      // the cache is empty: its memory was in transit
    std::optional<PendingFetch> fetch;          // for the queued turns
    /// True if it has a cache in its last valid state.
    bool filled() const { return sequence->has_cache() && !unfilled; }
    bool busy() const { return turn != nullptr || waiting > 0; }
    /// True if its cache is being evicted and not wanted again.
    bool is_evicting() const { return eviction == EvictionMode::kForced || (eviction != EvictionMode::kNo && !busy()); }
  };

  Status Check(const TurnRequest& request) const;
  Status CheckEmbedded(const TurnRequest& request) const;
  /// Checks that beam search is possible; sets an answer limit if the turn has none.
  Status CheckBeams(TurnRequest& request) const;
  /// Limit of the timeline's length in tokens, virtual ones excluded.
  int64_t SessionLimit(const TurnRequest& request) const;
  /// Prepends the adapter's virtual tokens to the timeline.
  void PrependVirtualTokens(TurnRequest* request) const;

  void Run();
  void Round(std::vector<Message> messages);
  /// Ends every turn and answers every pending request.
  void EndAll();
  void Handle(Message message);
  void Handle(SubmitMessage message);
  void Handle(CancelMessage message);
  void Handle(CloseMessage message);
  void Handle(ParkMessage message);
  void Handle(EraseMessage message);
  void Handle(SaveAllMessage message);
  void Handle(ForkMessage message);
  void Handle(PingMessage message);
  void Handle(FetchedMessage message);
  /// Blocks only if there is no work, and only until the next due time.
  std::vector<Message> NextMessages();
  /// Admits queued turns, each tenant's oldest first, while there are slots. A turn whose timeline has a slot overtakes
  /// those that wait for one; a turn whose cache is being fetched lets others pass.
  void AdmitWaiting();
  /// Sorts the queue into the order in which turns get slots.
  void OrderWaiting();
  /// Notifies queued turns whose position has changed. stats() counts a turn before it is notified.
  void NotifyPositions();
  /// Takes the turn if it can run or end (kBusy if its timeline is busy). False = no slot.
  bool Admit(std::unique_ptr<RunningTurn>& turn);

  // engine_loop_memory.cpp
  /// Gives the turn memory for its cache, and a slot if it has none: from free slots, or by evicting the least recently
  /// used idle timelines, which are saved first. `history`: the timeline whose cache it branches off, or null. ERRORS:
  /// kOverloaded: the victims are busy or still being copied out, try again; anything else is permanent.
  Status AllocateMemory(Slot& slot, RunningTurn& turn, const Slot* history);
  /// Lends the slots and the memory of the turn's beams, which are available.
  Status AttachBranches(RunningTurn& turn);
  /// True if `bytes` and `wanted` slots are free, beyond the next needs of running turns and of turns ahead in the
  /// queue. Otherwise evicts idle caches until enough is in transit.
  bool MakeRoom(const Slot& slot, const RunningTurn& turn, int64_t bytes, int64_t wanted);
  /// True if these slots and bytes will be free once all evictions in progress are done.
  bool WillBeFree(int64_t slots, int64_t bytes) const;
  /// A running turn chosen to be preempted for a turn of `tenant`, which is charged `charge` tokens.
  struct Preemption {
    RunningTurn* turn;
    std::string tenant;
    int64_t charge;
  };
  /// Picks the next victim for this queued turn (PickVictim); nullopt = none.
  std::optional<Preemption> PickRunningVictim(const RunningTurn& turn) const;
  /// Preempts the turns that AdmitWaiting has chosen when the current step is done, and admits queued turns if slots
  /// are free at once.
  void PreemptChosen();
  /// True for a short cache, held in memory only, of a single request that has no continuation: a title, a probe. It is
  /// cheap to recompute and is evicted before conversations, from slots and from host memory.
  bool IsSideRequest(const Slot& slot) const;
  /// Picks the victim among idle timelines, or among those with queued turns: a side request, else the least recently
  /// used. Null if there is none.
  Slot* PickIdleVictim(const Slot* but, bool waiting);
  /// Evicts the cache, even if its turns are queued: after a save, or at once if no tier would keep it. False: retry in
  /// the next round.
  bool EvictCache(Slot& slot);
  /// Memory of caches being evicted.
  int64_t EvictingBytes() const;
  /// Gives each running turn memory for its next step and for one step ahead, oldest first; without memory, preempts
  /// the youngest. False if no turn can continue yet.
  bool GrowRunning();
  /// False if memory is lacking; finishes the turn if the device has none.
  bool GrowTurn(RunningTurn& turn);
  /// Frees memory for the turn: evicts an idle cache, that of a queued turn, or preempts the youngest running turn;
  /// branches go before their history. False if enough is already in transit.
  bool ReclaimMemory(const RunningTurn& turn, std::vector<RunningTurn*>* running);
  /// As GrowTurn for a step ahead, without taking memory from other turns. False if some turn lacks it.
  bool GrowAhead();
  int64_t BytesOf(const RunningTurn& turn) const;
  /// For a branch that adds `tokens` tokens.
  int64_t BranchBytes(int64_t tokens) const;
  /// For a beam with an answer of at most `max_tokens`, plus the tile shared with the history's end.
  int64_t BeamBytes(int64_t max_tokens) const { return BranchBytes(max_tokens + KvShape::kTile); }
  bool HasMemory(const RunningTurn& turn) const;
  /// Preempts the turn: evicts its KV cache and requeues it at the head of its tenant's queue. Increments `count`.
  void Preempt(RunningTurn& turn, uint64_t* count);
  void PreemptForMemory(RunningTurn& turn) { Preempt(turn, &counts_.turns_preempted_for_memory); }

  // engine_loop_storage.cpp
  /// Makes the tiers' copies for forked timelines, except while a save of the source is in progress.
  void MakeForks();
  /// Requests the cache of a queued turn from the tiers, once, if it may be there.
  void RequestCache(Slot& slot, const TurnRequest& request);
  bool IsFetching(const Slot& slot) const;
  /// Bytes of the turn's stored cache.
  int64_t StoredBytes(const TurnRequest& request, bool forked) const;
  /// Cancels the fetch of the last queued turn that has one, which asks again later. False if no turn after this one
  /// has one.
  bool CancelLastFetchAfter(const Slot& slot);
  /// True if the timeline that it was forked from is in a slot.
  bool HasSourceInSlot(const TurnRequest& request) const;
  /// Cancels the pending fetch.
  void CancelFetch(Slot& slot);
  /// Gives the timeline an empty cache.
  void AttachCache(Slot& slot, KvCache* cache);
  /// True if the memory of the turn's cache is backed. Makes running turns wait for it only briefly.
  bool IsMemoryCommitted(const Slot& slot, const RunningTurn& turn);
  std::optional<double> RestoreCache(Slot& slot, const TurnRequest& request);

  // engine_loop_prefix.cpp
  /// Number of the turn's first tokens that can be copied from the other slot.
  int64_t SharedTokensWith(const Slot& other, const Slot& slot, const RunningTurn& turn) const;
  /// Number of the turn's first tokens in the tiers' answer.
  int64_t StoredPrefixTokens(const Slot& slot, const RunningTurn& turn) const;
  /// The timeline of the same tenant whose slot has the longest prefix of the turn; null = too short.
  Slot* FindDonor(const Slot& slot, const RunningTurn& turn);
  /// True if another slot has a much longer prefix of the turn than the timeline's own cache.
  bool HasMuchLongerDonor(const Slot& slot, const RunningTurn& turn);
  /// True if a running turn is about to compute a much longer prefix of the turn than any slot has.
  bool ShouldAwaitPrefix(const Slot& slot, const RunningTurn& turn);
  /// The timeline in a slot that the turn's cache can branch off; null = none.
  Slot* FindHistory(const Slot& slot, const RunningTurn& turn);
  /// Makes the timeline's empty cache a branch of `history`'s.
  void BranchOff(Slot& slot, const RunningTurn& turn, const Slot& history);
  /// A running turn whose cache is a branch of this timeline's; null if there is none.
  RunningTurn* BranchOf(const Slot& slot) const;
  /// The running turn whose cache this turn's cache branches off; null if it is no branch or that timeline is idle.
  const RunningTurn* HistoryOf(const RunningTurn& turn) const;
  /// The branches that see rows which the next step overwrites in their histories: preempt them first.
  std::vector<RunningTurn*> OverwrittenBranches() const;
  /// Fills the timeline's empty cache from another slot or from the tiers' answer, whichever has the longer prefix.
  /// Returns the restore time, if it restored.
  std::optional<double> FillCache(Slot& slot, const RunningTurn& turn);
  /// Copies the donor's rows of the turn's first tokens into the timeline's empty cache.
  void SharePrefix(Slot& slot, const Slot& donor, int64_t shared, bool own);
  /// Returns the cache to the pool. Preempts turns whose caches branch off it.
  void DropCache(Slot& slot);
  void SetOwner(Slot& slot, const std::string& owner);
  /// Counts the owner's slots and notifies the tiers when the first is taken or the last is freed.
  void AddOwnerSlot(const std::string& owner);
  void RemoveOwnerSlot(const std::string& owner);
  /// Saves the cache, then returns it: at once if the tiers have it or would not keep it, otherwise when the copy is
  /// done.
  void SaveAndDropCache(Slot& slot, EvictionMode eviction);
  void AfterSave(Slot& slot, SequenceStorage::Saved saved);
  /// The next cache for a SaveAll: the most recently used; null if all were given to the tiers.
  Slot* NextToSave(const SaveAllState& saving) const;
  /// Counts the caches that a SaveAll has not saved yet.
  void CountUnsaved(const SaveAllState& saving);
  /// Bytes of a copy of all its rows.
  int64_t RowsBytes(const KvCache& cache) const;
  /// Collects finished copies; with `wait`, waits for all copies out of slots.
  void FinishCopies(bool wait);
  /// Runs deferred work after a turn of the timeline has ended or left the queue.
  void Settle(TimelineId timeline);
  /// True if slots or memory are so scarce that idle caches should be written back.
  bool RoomIsScarce() const;
  /// The next idle cache to write back, with its due time; null if there is none.
  Slot* NextToWriteBack() const;
  /// Copies it to the tiers when due. It keeps its slot until another turn needs it.
  void WriteBackIdle();
  /// Evicts the cache that is idle for longest, if for long enough. One per step, so that decoding turns never wait for
  /// more than one copy.
  void SaveIdle();

  /// A row of a step's logits: samples a turn's next token, or scores a prompt token.
  struct LogitsRow {
    RunningTurn* turn = nullptr;
    bool awaits = false;  // its input token is not known on the host yet
    size_t beam = 0;      // index of the beam
    int64_t scored = 0;   // position of the scored token; 0 = samples
    bool chooses() const { return scored == 0; }
  };
  /// A step given to the network.
  struct LaunchedStep {
    std::vector<LogitsRow> logits;         // in the order of its choices
    std::vector<RunningTurn*> prefilling;  // turns that sample nothing
    /// Rows of a turn whose hidden states are wanted, from position `first` on.
    struct HiddenRows {
      RunningTurn* turn = nullptr;
      int64_t first = 0, rows = 0;
    };
    std::vector<HiddenRows> hidden;  // in the order of the parts
    int64_t begun_ns = 0;
    int64_t decoding = 0;  // rows of decoding turns
    int64_t prompt_rows = 0;
    int64_t scored_rows = 0;         // prompt rows with logits
    double prompt_work = 0;          // in units of StepTime
    bool deferred_sampling = false;  // launched without its sampling parameters
    bool Has(const RunningTurn* turn) const;
    /// The row that samples the turn's next token; nullopt if none does.
    std::optional<size_t> RowOf(const RunningTurn* turn) const;
  };
  /// Runs a step and collects its tokens; with run-ahead, launches it and collects those of the previous step.
  void Step();
  /// Tokens of each running turn in the next step, assuming that `under_way` finishes first.
  std::vector<int64_t> Plan(const LaunchedStep* under_way) const;
  /// Prompt rows that a step of `limit_ns` may have in addition to `decoding` decode rows.
  int64_t PromptRows(int64_t decoding, double limit_ns) const;
  /// Cost of a row at this position, in units of a row without attention.
  double Work(int64_t position) const;
  /// True if a step may be launched before the tokens of `launched_` are known. False while that step computes long
  /// prompts: a new turn would wait for two such steps.
  bool MayRunAhead() const;
  /// Launches the next step; nullopt if no turn takes part. `under_way`: the previous step, whose tokens are not known
  /// yet, or null.
  std::optional<LaunchedStep> Launch(const LaunchedStep* under_way);
  /// Gives the network the parts of a step. turns[i] has the i-th part; `second` is true if its input token is not
  /// known yet.
  void Begin(LaunchedStep& step, std::span<const StepPart> parts, std::span<const std::pair<RunningTurn*, bool>> turns);
  /// The sampling parameters of a row, which borrow from its turn until the token is collected.
  static RowSamplingParams ChoiceOf(const LogitsRow& row);
  /// Deferred sampling: sets the sampling parameters of a step that was launched without them.
  void Choose(LaunchedStep* step);
  /// Waits for a step and distributes its tokens.
  void FinishStep(const LaunchedStep& step);
  void CollectHiddenStates(const LaunchedStep& step);
  /// Finishes the step in flight, if there is one; afterwards all tokens are known on the host.
  void FinishLaunchedStep();
  /// Turns an exception of `call` into a failure of the engine.
  template <class Call>
  void FailIfThrows(Call call);
  /// Permanent failure of the device or an exception in a step: ends all current and future turns.
  void Fail(const Status& status);
  /// Ends the turns that are finished and have no part in the step in flight.
  void RetireFinished();
  /// Ends a queued turn.
  void End(std::unique_ptr<RunningTurn> turn, FinishReason reason, Status error);
  void PublishStats();

  Network& network_;
  const Tokenizer& tokenizer_;
  const EngineOptions options_;
  const EngineStorage storage_;
  const Clock& clock_;
  std::shared_ptr<Inbox> inbox_;  // shared with the tiers' callbacks, which may outlive the engine
  KvPool pool_;
  const bool has_branches_;  // caches may branch off caches in other slots
  std::unordered_map<TimelineId, Slot> timelines_;
  std::vector<Slot*> cached_;               // timelines with a cache
  int64_t unplaced_turns_ = 0;              // turns that found no slot in this round of admissions
  int64_t unplaced_bytes_ = 0;              // and the bytes they wait for
  bool no_victim_ = false;                  // no victim is available either
  int64_t memory_wait_us_ = 0;              // rest of kMemoryWaitUs in this round
  std::vector<Preemption> preempted_;       // chosen in this round of admissions, still running
  std::vector<std::string_view> expected_;  // tenants of turns whose room is in transit
  uint64_t last_ticket_ = 0;
  int64_t fetches_ = 0;                // requested and neither used nor cancelled
  int64_t fetch_bytes_ = 0;            // bytes of these caches
  std::vector<TimelineId> unsettled_;  // parked; copied in the next rounds
  std::vector<ForkMessage> forks_;     // their sources are still being saved
  std::deque<std::unique_ptr<RunningTurn>> waiting_;
  std::vector<std::unique_ptr<RunningTurn>> running_;
  std::optional<LaunchedStep> launched_;
  int64_t step_finished_ns_ = 0;  // end of the last step
  StepTime step_time_;
  VirtualTokenCounter served_;
  QueueShares queue_shares_;
  EngineStats counts_;
  SequenceStorage sequence_storage_;
  HostArena host_arena_;
  mutable std::mutex owners_mutex_;
  std::unordered_map<std::string, int64_t> owners_in_slots_;
  mutable std::mutex stats_mutex_;
  EngineStats stats_;
  Status failure_;  // set once, before healthy_ becomes false
  std::atomic<bool> healthy_{true};
  std::thread thread_;  // last member: it uses all of the above; not started with Driver::kCaller
};

}  // namespace ringside
