// The engine's thread and everything it owns: the pool, the sequences, the turns that run and wait. Others reach it
// only through its inbox. The contract is engine/ENGINE.md.
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
  /// Who runs the rounds: a thread of the loop's own, or its maker, by RunRound: then everything happens in an order
  /// that the maker decides, on one thread.
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
  /// Does what there is to do now, one step at most: takes what was sent, deals with copies that are done, admits,
  /// steps. Waits for that step only.
  void RunRound() { Round(inbox_->Drain(/*wait=*/false)); }
  /// When the next round has something to do, by the loop's clock, if nothing is sent meanwhile; nullopt = never.
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
  struct SavingAll {  // a SaveAll under way
    Engine::Done done;
    std::set<TimelineId> begun = {};  // whose caches have been given to the tiers
    int64_t writing = 0;              // of these, not on disk yet
    bool flushing = false;            // all of these are
    std::atomic<bool> told{false};
  };
  struct SaveAllMessage {
    std::shared_ptr<SavingAll> saving;
    bool written = false;  // one of them has been
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
    uint64_t ticket = 0;                                        // 0 = not asked yet
    int64_t deadline_ns = std::numeric_limits<int64_t>::max();  // after it the turn computes
    std::optional<Result<FetchedSnapshot>> answer;
    bool forked = false;  // the tiers have been asked for a copy under the turn's owner
    int64_t bytes = 0;    // of the stored cache, once it was asked for
  };
  /// What a timeline does with its slot once its cache has been saved: the first three unless it is wanted meanwhile.
  enum class Leaving { kNo, kIfSaved, kAnyway, kForced };
  struct Slot {  // a timeline the engine knows
    TimelineId id = 0;
    std::unique_ptr<Sequence> sequence;
    std::string owner, account;   // of its last turn
    RunningTurn* turn = nullptr;  // running, not waiting
    int64_t waiting = 0;          // its waiting turns
    uint64_t last_used = 0;       // step number
    int64_t steps = 0;            // of its turn since that got the slot
    int64_t prompt_steps = 0;     // of these, those whose rows are computed again if the cache is lost
    int64_t idle_since_ns = 0;
    bool continued = false;             // a turn has continued earlier tokens
    bool parked = false;                // to be saved and forgotten once it is no longer busy
    int64_t write_back_ns = 0;          // when its cache may be written back, if it is idle
    Leaving leaving = Leaving::kNo;     // while its cache is being saved
    bool unfilled = false;              // its cache is empty: the memory was on its way
    std::optional<PendingFetch> fetch;  // for the turns that wait
    /// Whether it has a cache that is as it was left.
    bool filled() const { return sequence->has_cache() && !unfilled; }
    bool busy() const { return turn != nullptr || waiting > 0; }
    /// Whether its cache is on its way out, and not wanted again.
    bool leaves() const { return leaving == Leaving::kForced || (leaving != Leaving::kNo && !busy()); }
  };

  Status Check(const TurnRequest& request) const;
  Status CheckEmbedded(const TurnRequest& request) const;
  /// Whether its beams can be had; gives its answer, which must have one, a limit.
  Status CheckBeams(TurnRequest& request) const;
  /// How many tokens its timeline may have, virtual ones not counted.
  int64_t SessionLimit(const TurnRequest& request) const;
  /// Puts the virtual tokens of its adapter before those of the timeline.
  void PutVirtualTokens(TurnRequest* request) const;

  void Run();
  void Round(std::vector<Message> messages);
  /// Ends every turn, and tells whoever asked for something.
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
  /// Waits for messages only where there is nothing to do, and not beyond the time at which there is.
  std::vector<Message> NextMessages();
  /// Starts waiting turns, each account's oldest first, while there are slots; one whose timeline has a slot passes
  /// those that wait for one, and one whose cache is on its way lets others pass.
  void AdmitWaiting();
  /// Puts those that wait in the order in which they get slots.
  void OrderWaiting();
  /// Tells who waits for a slot, if its place has changed. Whoever has been told is counted in stats() already.
  void TellPositions();
  /// Takes the turn if it can run, or end: a turn whose timeline is busy ends with kBusy. False = no slot.
  bool Admit(std::unique_ptr<RunningTurn>& turn);

  // engine_loop_memory.cpp
  /// Memory for the turn's cache, and a slot if it has none: what is free, or what the least recently used idle
  /// timelines have, which are saved first. kOverloaded: they are busy or still being copied out. Anything else: never.
  /// `history`, or null: what its cache becomes a branch of.
  Status GiveMemory(Slot& slot, RunningTurn& turn, const Slot* history);
  /// The slots and the memory of the turn's beams, which are there.
  Status GiveBranches(RunningTurn& turn);
  /// Whether so much memory, and so many slots, are free beside what those that run may want next and what turns before
  /// this one in line wait for; what is idle leaves until so much is on its way.
  bool MakeRoom(const Slot& slot, const RunningTurn& turn, int64_t bytes, int64_t wanted);
  /// Whether these slots and bytes would be free once all caches have left that are leaving.
  bool WillHave(int64_t slots, int64_t bytes) const;
  /// The running turn of an account above its fair share that gives its slot to this one, which waits; null = none.
  RunningTurn* NextToPreempt(const RunningTurn& turn) const;
  /// Preempts the turns that AdmitWaiting has chosen, when the step under way is over, and admits those that wait if
  /// slots are free at once.
  void PreemptChosen();
  /// Whether its cache is a short one of a single request, held in memory only, that nothing has continued: a title, a
  /// probe. It is cheap to compute again and gives way to conversations, in slots and in host memory.
  bool IsSideRequest(const Slot& slot) const;
  /// Picks among idle timelines, or among those whose turns wait: a side request, else the least recently used. Null if
  /// there is none.
  Slot* NextToLeave(const Slot* but, bool waiting);
  /// Evicts its cache for others, also if its turns wait: when it has been saved, or at once if no tier would keep it.
  /// False: in the next round.
  bool MakeLeave(Slot& slot);
  /// Memory of caches that are on their way out.
  int64_t LeavingBytes() const;
  /// Gives every running turn the memory of its next step and one ahead of it, the oldest first; where there is none
  /// the youngest give way. False if none can go on yet.
  bool GrowRunning();
  /// False if memory is lacking; the turn is finished if the device gives none.
  bool GrowTurn(RunningTurn& turn);
  /// Takes a cache's memory for the turn: an idle one's, that of one whose turn waits, the youngest running one's.
  /// False if enough is on its way. Of those that run none comes before what it is a branch of.
  bool TakeMemory(const RunningTurn& turn, std::vector<RunningTurn*>* running);
  /// The same for a step ahead, at nobody's cost. False if some turn lacks it.
  bool GrowAhead();
  int64_t BytesOf(const RunningTurn& turn) const;
  /// Of a branch with so many tokens of its own.
  int64_t BranchBytes(int64_t tokens) const;
  /// Of a beam whose answer has at most so many, and what shares a tile with the history's end.
  int64_t BeamBytes(int64_t max_tokens) const { return BranchBytes(max_tokens + KvShape::kTile); }
  bool HasMemory(const RunningTurn& turn) const;
  /// Preempts the turn: it waits again, first of its account, and its cache leaves. Counted in `count`.
  void Preempt(RunningTurn& turn, uint64_t* count);
  void GiveWay(RunningTurn& turn) { Preempt(turn, &counts_.turns_gave_way); }

  // engine_loop_storage.cpp
  /// Gives the tiers' copies of forked timelines their second owners, unless a save is still under way.
  void MakeForks();
  /// Asks the tiers for the cache of a turn that waits, once, if it may be there.
  void AskForCache(Slot& slot, const TurnRequest& request);
  bool AwaitsCache(const Slot& slot) const;
  /// Bytes that the tiers have for the turn.
  int64_t StoredBytes(const TurnRequest& request, bool forked) const;
  /// Drops the fetch of the last turn in line that has one; it asks again later. False if no turn after this one has.
  bool ForgetFetchAfter(const Slot& slot);
  /// Whether the timeline that it was forked off is in a slot.
  bool HasSourceInSlot(const TurnRequest& request) const;
  /// What was asked for is no longer wanted.
  void ForgetFetch(Slot& slot);
  /// Gives the timeline an empty cache.
  void GiveCache(Slot& slot, KvCache* cache);
  /// Whether the memory of the turn's cache is there; others that run are kept waiting for it only briefly.
  bool HasItsMemory(const Slot& slot, const RunningTurn& turn);
  std::optional<double> RestoreCache(Slot& slot, const TurnRequest& request);

  // engine_loop_prefix.cpp
  /// How many of the turn's first tokens may be taken over from the other's slot.
  int64_t SharedWith(const Slot& other, const Slot& slot, const RunningTurn& turn) const;
  /// How many of the turn's first tokens the tiers' answer has.
  int64_t StoredOf(const Slot& slot, const RunningTurn& turn) const;
  /// The timeline in a slot, of the same account, that begins with the most tokens of a turn; null = with too few.
  Slot* FindDonor(const Slot& slot, const RunningTurn& turn);
  /// Whether a turn that runs is about to compute many more of a turn's first tokens than any slot has.
  bool AwaitsPrefix(const Slot& slot, const RunningTurn& turn);
  /// The timeline in a slot of which the turn's cache may be a branch; null = there is none.
  Slot* FindHistory(const Slot& slot, const RunningTurn& turn);
  /// Makes the timeline's empty cache a branch of that one's.
  void BranchOff(Slot& slot, const RunningTurn& turn, const Slot& history);
  /// A running turn whose cache is a branch of this timeline's; null if there is none.
  RunningTurn* BranchOf(const Slot& slot) const;
  /// The running turn of whose cache this one's is a branch; null if it is none, or that timeline is idle.
  const RunningTurn* HistoryOf(const RunningTurn& turn) const;
  /// The branches that see rows which the next step overwrites in their histories: they must give way before it.
  std::vector<RunningTurn*> OvertakenBranches() const;
  /// Fills the timeline's empty cache: from another slot or with what the tiers answered, whichever has more of the
  /// turn's tokens. Returns how long a restore took, if there was one.
  std::optional<double> FillCache(Slot& slot, const RunningTurn& turn);
  /// Copies what the donor has of the turn's first tokens into the timeline's empty cache.
  void SharePrefix(Slot& slot, const Slot& donor, int64_t shared, bool own);
  /// Gives the cache back to the pool. Turns whose caches are branches of it give way.
  void DropCache(Slot& slot);
  void SetOwner(Slot& slot, const std::string& owner);
  /// One slot more, or less, of this owner: the tiers are told whether there is any.
  void CountIn(const std::string& owner);
  void CountOut(const std::string& owner);
  /// Saves the cache and then gives it back: at once where the tiers have it or would not keep it, or when the copy is
  /// done.
  void SaveAndDropCache(Slot& slot, Leaving leaving);
  void AfterSave(Slot& slot, SequenceStorage::Saved saved);
  /// What a SaveAll saves next: the cache that was used last; null if all have been given to the tiers.
  Slot* NextToSave(const SavingAll& saving) const;
  /// Counts what a SaveAll has not saved yet.
  void CountUnsaved(const SavingAll& saving);
  /// Bytes that a copy of all its rows takes.
  int64_t RowsBytes(const KvCache& cache) const;
  /// Deals with the copies that are done; with `wait`, with all that leave a slot.
  void FinishCopies(bool wait);
  /// After a turn of the timeline has ended or is gone from the queue: what was put off until then.
  void Settle(TimelineId timeline);
  /// Whether so few slots, or so little memory, are free that idle caches are written back.
  bool RoomIsScarce() const;
  /// The idle cache to be written back next, and when; null if there is none.
  Slot* NextToWriteBack() const;
  /// Copies it to the tiers, if its time has come. It keeps its slot until another turn wants that.
  void WriteBackIdle();
  /// Saves the cache that is idle for longest, if it is for long enough, and takes its slot. One in a step, so that
  /// those that decode are never held up by more than one copy.
  void SaveIdle();

  /// A row of logits of a step: a turn's next token is chosen from it, or one of its prompt's is scored.
  struct LogitsRow {
    RunningTurn* turn = nullptr;
    bool awaits = false;  // it follows a token that is not known yet
    size_t beam = 0;      // of the turn's
    int64_t scored = 0;   // position of the token; 0 = one is chosen
    bool chooses() const { return scored == 0; }
  };
  /// A step that the network has been given.
  struct LaunchedStep {
    std::vector<LogitsRow> logits;         // in the order of its choices
    std::vector<RunningTurn*> prefilling;  // those that choose nothing
    /// Rows of a turn whose hidden states are wanted, from this position on.
    struct HiddenRows {
      RunningTurn* turn = nullptr;
      int64_t first = 0, rows = 0;
    };
    std::vector<HiddenRows> hidden;  // in the order of the parts
    int64_t begun_ns = 0;
    int64_t decoding = 0;  // rows of turns that decode
    int64_t prompt_rows = 0;
    int64_t scored_rows = 0;  // of these, those with logits
    double prompt_work = 0;   // as StepTime counts it
    bool unchosen = false;    // launched without its sampling parameters
    bool Has(const RunningTurn* turn) const;
    /// The row from which the turn's next token is chosen; nullopt if none is.
    std::optional<size_t> RowOf(const RunningTurn* turn) const;
  };
  /// Gives the network a step and takes its tokens; or, where it runs ahead, those of the step before.
  void Step();
  /// What each running turn computes in the next step, where `under_way` comes before it.
  std::vector<int64_t> Plan(const LaunchedStep* under_way) const;
  /// Rows of prompts that a step may have beside `decoding` turns that decode.
  int64_t PromptRows(int64_t decoding) const;
  /// A row's cost at this position, in rows that attend to nothing.
  double Work(int64_t position) const;
  /// Whether a step may be launched before the tokens of `launched_` are known: not while that computes prompts for
  /// long, or whoever comes meanwhile would wait for two such steps.
  bool MayRunAhead() const;
  /// Launches the next step; nullopt if nobody has a part in it. `under_way`, or null: the step before it, whose tokens
  /// are not known yet.
  std::optional<LaunchedStep> Launch(const LaunchedStep* under_way);
  /// Gives the network the parts of a step; turns[i] has the i-th, which is its awaited token if the second is true.
  void Begin(LaunchedStep& step, std::span<const StepPart> parts, std::span<const std::pair<RunningTurn*, bool>> turns);
  /// What the network is asked of a row, which borrows from its turn until the token is taken.
  static TokenChoice ChoiceOf(const LogitsRow& row);
  /// Says how the tokens of a step are chosen that was launched ahead of what that depends on.
  void Choose(LaunchedStep* step);
  /// Waits for a step and hands its tokens out.
  void Conclude(const LaunchedStep& step);
  void TakeHiddenStates(const LaunchedStep& step);
  /// The step that is under way, if there is one: after it nothing is known to the device only.
  void ConcludeLaunched();
  /// Whatever `call` throws is the engine's failure.
  template <class Call>
  void FailIfThrows(Call call);
  /// The device has failed for good, or a step has thrown: ends every turn, and every one that comes.
  void Fail(const Status& status);
  /// Ends the turns that are finished and have no part in the step that is under way.
  void RetireFinished();
  /// Ends a turn that waits.
  void End(std::unique_ptr<RunningTurn> turn, FinishReason reason, Status error);
  void PublishStats();

  Network& network_;
  const Tokenizer& tokenizer_;
  const EngineOptions options_;
  const EngineStorage storage_;
  const Clock& clock_;
  std::shared_ptr<Inbox> inbox_;  // shared with answers of the tiers that may come after the engine's end
  KvPool pool_;
  const bool has_branches_;  // caches may be branches of what is in another slot
  std::unordered_map<TimelineId, Slot> timelines_;
  std::vector<Slot*> cached_;               // those with a cache
  int64_t wanting_ = 0;                     // turns that found no slot in this round of admissions,
  int64_t wanting_bytes_ = 0;               // and what they wait for
  bool none_idle_ = false;                  // nor is there one to be had
  int64_t memory_wait_us_ = 0;              // the rest of kMemoryWaitUs in this round
  std::vector<RunningTurn*> preempted_;     // chosen in this round of admissions, still running
  std::vector<std::string_view> expected_;  // accounts of turns for which room is on its way
  uint64_t last_ticket_ = 0;
  int64_t fetches_ = 0;                // asked for and not yet used or forgotten
  int64_t fetch_bytes_ = 0;            // of the caches asked for
  std::vector<TimelineId> unsettled_;  // parked; their copies are made in the next rounds
  std::vector<ForkMessage> forks_;     // whose sources are still being saved
  std::deque<std::unique_ptr<RunningTurn>> waiting_;
  std::vector<std::unique_ptr<RunningTurn>> running_;
  std::optional<LaunchedStep> launched_;
  int64_t concluded_ns_ = 0;  // when the last step was
  StepTime step_time_;
  ServedTokens served_;
  QueueShares queue_shares_;
  EngineStats counts_;
  SequenceStorage sequence_storage_;
  HostArena host_arena_;
  mutable std::mutex owners_mutex_;
  std::unordered_map<std::string, int64_t> owners_in_slots_;
  mutable std::mutex stats_mutex_;
  EngineStats stats_;
  Status failure_;  // set once, before healthy_ is false
  std::atomic<bool> healthy_{true};
  std::thread thread_;  // last: it uses everything above; none where the maker runs the rounds
};

}  // namespace ringside
