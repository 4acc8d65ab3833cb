// The turns that wait for a slot, in the order in which they get one, and the accounts that decide that order: served
// tokens, queue shares and predicted waits of each tenant. Owned by EngineLoop. THREAD: engine, except shares() and
// waits().
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "base/clock.h"
#include "base/status.h"
#include "engine/overload/queue_shares.h"
#include "engine/overload/wait_control.h"
#include "engine/scheduler.h"
#include "engine/turn_request.h"
#include "engine/turns/running_turn.h"

namespace ringside {

class TurnQueue {
 public:
  /// `limit`: of one tenant alone (QueueShares). `max_wait_s`: of a turn (WaitControl). `slots`: all of the engine's.
  /// REQUIRES: `clock` outlives it.
  TurnQueue(int64_t limit, double max_wait_s, int64_t slots, const Clock& clock)
      : clock_(clock), shares_(limit, slots), waits_(max_wait_s, served_) {}

  /// Admission control of new turns. THREAD: any.
  QueueShares& shares() { return shares_; }
  WaitControl& waits() { return waits_; }
  const WaitControl& waits() const { return waits_; }
  /// Tokens served to each tenant with queued or running turns.
  VirtualTokenCounter& served() { return served_; }
  const VirtualTokenCounter& served() const { return served_; }

  /// The queue, first in line first. Who takes a turn out leaves null and calls Compact afterwards.
  std::deque<std::unique_ptr<RunningTurn>>& turns() { return waiting_; }
  const std::deque<std::unique_ptr<RunningTurn>>& turns() const { return waiting_; }
  bool empty() const { return waiting_.empty(); }
  void Compact() { std::erase(waiting_, nullptr); }

  /// Counts a turn that has arrived. Each needs one Retire in the end.
  void Arrive(const RunningTurn& turn) {
    served_.Enter(turn.request().tenant);
    waits_.forecast().Receive(turn.request().tenant, turn.request().expected_tokens);
  }
  /// Adds an arrived turn at the end.
  void Push(std::unique_ptr<RunningTurn> turn) { waiting_.push_back(std::move(turn)); }
  /// Adds a preempted turn at the head. Never refused.
  void Requeue(std::unique_ptr<RunningTurn> turn);
  /// Removes a turn; null if it is not queued.
  std::unique_ptr<RunningTurn> Remove(TurnId turn);
  /// Removes the first turn. REQUIRES: not empty.
  std::unique_ptr<RunningTurn> Pop();
  /// Sorts the queue into the order in which turns get slots. `running`: the running turns.
  void Order(std::span<const std::unique_ptr<RunningTurn>> running);

  /// Ends a turn that has no slot, and retires it.
  void End(std::unique_ptr<RunningTurn> turn, FinishReason reason, Status error);
  /// The turn has ended.
  void Retire(const RunningTurn& turn) { served_.Leave(turn.request().tenant); }
  /// Predicts waits from the turns after a round. `ns_per_token`: of prompts, at the present decode load.
  /// `free_slots`: that queued turns can take.
  void PublishWaits(std::span<const std::unique_ptr<RunningTurn>> running, double ns_per_token, int64_t free_slots);

 private:
  const Clock& clock_;
  std::deque<std::unique_ptr<RunningTurn>> waiting_;
  VirtualTokenCounter served_;
  QueueShares shares_;
  WaitControl waits_;
};

}  // namespace ringside
