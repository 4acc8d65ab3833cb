// The engine thread: receives messages from other threads and runs rounds of admission, steps and copies. Owns the
// slots, the queue, the step pipeline and the parts that connect them, and decides the order of a round. Other threads
// reach it only through its inbox. engine/ENGINE.md is the contract. THREAD: any for the public functions.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "cache/host_arena.h"
#include "cache/kv_pool.h"
#include "engine/engine.h"
#include "engine/loop/admission.h"
#include "engine/loop/cache_eviction.h"
#include "engine/loop/cache_fetches.h"
#include "engine/loop/engine_message.h"
#include "engine/loop/engine_status.h"
#include "engine/loop/full_save.h"
#include "engine/loop/prefix_sharing.h"
#include "engine/loop/running_memory.h"
#include "engine/loop/slot_table.h"
#include "engine/loop/step_pipeline.h"
#include "engine/loop/turn_limits.h"
#include "engine/loop/turn_queue.h"
#include "engine/model/network.h"
#include "engine/sequence_storage.h"

namespace ringside {

class EngineLoop {
 public:
  /// Who drives the rounds: the loop's own thread, or its creator through RunRound, on one thread in a deterministic
  /// order.
  enum class Driver { kOwnThread, kCaller };
  EngineLoop(Network& network, const Tokenizer& tokenizer, const EngineOptions& options, KvPool pool,
             const EngineStorage& storage, const Clock& clock, Driver driver = Driver::kOwnThread);
  ~EngineLoop();

  // As Engine's functions.
  Status CheckWait(const TurnRequest& request);
  bool MayAdmit(const TurnRequest& request) const;
  Status Submit(TurnRequest request);
  void Cancel(TurnId turn) { inbox_->PushUrgent(CancelMessage{turn}); }
  void Close(TimelineId timeline) { inbox_->PushUrgent(CloseMessage{timeline}); }
  void Park(TimelineId timeline) { inbox_->PushUrgent(ParkMessage{timeline}); }
  void Erase(TimelineId timeline, std::string owner, Engine::Done done);
  void Fork(TimelineId from, TimelineId to, std::string from_owner, std::string to_owner);
  void Prefetch(const std::string& owner) { fetches_.Prefetch(owner); }
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
  int64_t slot_bytes() const { return slots_.pool().shape().slab_bytes(); }
  EngineStats stats() const;
  bool healthy() const { return status_.healthy(); }
  Status status() const { return status_.failure(); }

 private:
  ExpectedPrompt Expect(const TurnRequest& request) const;
  void Run();
  void Round(std::vector<EngineMessage> messages);
  /// Ends every turn and answers every pending request.
  void EndAll();
  void Handle(EngineMessage message);
  void Handle(SubmitMessage message);
  void Handle(CancelMessage message);
  void Handle(CloseMessage message);
  void Handle(ParkMessage message);
  void Handle(EraseMessage message);
  void Handle(SaveAllMessage message) { full_save_.Continue(std::move(message)); }
  void Handle(ForkMessage message) { fetches_.Fork(std::move(message)); }
  void Handle(PingMessage message);
  void Handle(FetchedMessage message) { fetches_.Take(std::move(message)); }
  /// Blocks only if there is no work, and only until the next due time.
  std::vector<EngineMessage> NextMessages();
  /// Earliest due time of queued turns and of idle caches; nullopt = none. REQUIRES: no turn runs.
  std::optional<int64_t> NextIdleDueNs(int64_t now) const;

  /// Runs a step and collects its tokens; with run-ahead, launches it and collects those of the previous step.
  void Step();
  /// Finishes the step in flight, if there is one; afterwards all tokens are known on the host.
  void FinishLaunchedStep();
  /// Turns an exception of `call` into a failure of the engine.
  template <class Call>
  void FailIfThrows(Call call);
  /// Permanent failure of the device or an exception in a step: ends all current and future turns.
  void Fail(const Status& status);
  /// Ends the turns that are finished and have no part in the step in flight.
  void RetireFinished();
  /// Ends a finished turn. Returns its slot, and whether its rows are valid.
  std::pair<Slot*, bool> Retire(std::unique_ptr<RunningTurn> turn);
  /// Notifies queued turns whose position has changed. stats() counts a turn before it is notified.
  void NotifyPositions();
  void PublishStats();

  Network& network_;
  const EngineOptions options_;
  const EngineStorage storage_;
  const Clock& clock_;
  std::shared_ptr<EngineInbox> inbox_;  // shared with the tiers' callbacks, which may outlive the engine
  EngineStats counts_;
  EngineStatus status_;
  SlotTable slots_;
  const TurnLimits limits_;
  TurnQueue queue_;
  SequenceStorage sequences_;
  StepPipeline steps_;
  CacheFetches fetches_;
  CacheEviction eviction_;
  FullSave full_save_;
  PrefixSharing prefixes_;
  Admission admission_;
  RunningMemory memory_;
  HostArena host_arena_;
  std::thread thread_;  // last member: it uses all of the above; not started with Driver::kCaller
};

}  // namespace ringside
