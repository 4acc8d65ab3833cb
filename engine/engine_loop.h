// The engine's thread and everything it owns: the pool, the sequences, the turns that run and wait. Others reach it
// only through its inbox. The contract is engine/ENGINE.md.
#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <variant>
#include <vector>

#include "base/bounded_queue.h"
#include "cache/kv_pool.h"
#include "engine/engine.h"
#include "engine/model.h"
#include "engine/running_turn.h"
#include "engine/scheduler.h"

namespace ringside {

class EngineLoop {
 public:
  EngineLoop(ForwardPass network, const Tokenizer& tokenizer, const EngineOptions& options, KvPool pool,
             const Clock& clock);
  ~EngineLoop();

  Status Submit(TurnRequest request);
  void Cancel(TurnId turn) { inbox_.PushUrgent(CancelMessage{turn}); }
  void Close(TimelineId timeline) { inbox_.PushUrgent(CloseMessage{timeline}); }
  void Fork(TimelineId from, TimelineId to) { inbox_.PushUrgent(ForkMessage{from, to}); }

  const EngineOptions& options() const { return options_; }
  EngineStats stats() const;
  bool healthy() const { return healthy_; }

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
  struct ForkMessage {
    TimelineId from, to;
  };
  using Message = std::variant<SubmitMessage, CancelMessage, CloseMessage, ForkMessage>;

  struct Slot {  // a timeline the engine knows
    std::unique_ptr<Sequence> sequence;
    RunningTurn* turn = nullptr;  // running, not waiting
    uint64_t last_used = 0;       // step number
  };

  Status Check(const TurnRequest& request) const;
  int64_t SessionLimit(const TurnRequest& request) const;

  void Run();
  void Handle(Message message);
  void Handle(SubmitMessage message);
  void Handle(CancelMessage message);
  void Handle(CloseMessage message);
  void Handle(ForkMessage message);
  /// Starts waiting turns, oldest first, while there are slots; one whose timeline has a slot passes those that wait
  /// for one.
  void AdmitWaiting();
  /// Takes the turn if it can run, or end: a turn whose timeline is busy ends with kBusy. False = no slot.
  bool Admit(std::unique_ptr<RunningTurn>& turn);
  /// An empty cache: a free slot, or the one of the least recently used idle timeline but `spared`; null if all are
  /// busy.
  KvCache* AcquireCache(const RingWindow& window, const Slot* spared = nullptr);
  void Step();
  void RetireFinished();
  void End(std::unique_ptr<RunningTurn> turn, FinishReason reason, Status error);
  void PublishStats();

  const ForwardPass network_;
  const Tokenizer& tokenizer_;
  const EngineOptions options_;
  const Clock& clock_;
  BoundedQueue<Message> inbox_;
  KvPool pool_;
  std::unordered_map<TimelineId, Slot> timelines_;
  std::deque<std::unique_ptr<RunningTurn>> waiting_;
  std::vector<std::unique_ptr<RunningTurn>> running_;
  std::vector<float> logits_;
  size_t first_ = 0;  // whose prefill comes first
  EngineStats counts_;
  mutable std::mutex stats_mutex_;
  EngineStats stats_;
  std::atomic<bool> healthy_{true};
  std::thread thread_;  // last: it uses everything above
};

}  // namespace ringside
