// Takes caches out of their slots: saves them to the tiers first, in the background where possible, writes idle ones
// back, and preempts the turns of caches that must go. Owned by EngineLoop. THREAD: engine.
#pragma once

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "engine/engine.h"
#include "engine/loop/cache_fetches.h"
#include "engine/loop/slot_table.h"
#include "engine/loop/turn_queue.h"
#include "engine/sequence_storage.h"

namespace ringside {

class CacheEviction {
 public:
  /// `finish_step`: finishes the step in flight, if there is one, and retires the turns that end with it. Counts in
  /// `counts`. REQUIRES: all references outlive it.
  CacheEviction(const EngineStorage& storage, const Clock& clock, SlotTable& slots, TurnQueue& queue,
                CacheFetches& fetches, SequenceStorage& sequences, EngineStats* counts,
                std::function<void()> finish_step)
      : storage_(storage),
        clock_(clock),
        slots_(slots),
        queue_(queue),
        fetches_(fetches),
        sequences_(sequences),
        counts_(*counts),
        finish_step_(std::move(finish_step)) {}

  /// Returns the cache to the pool. Preempts turns whose caches branch off it. REQUIRES: the timeline has a cache and
  /// no running turn.
  void Drop(Slot& slot);
  /// Saves the cache, then returns it: at once if the tiers have it or would not keep it, otherwise when the copy is
  /// done. REQUIRES: as Drop.
  void SaveAndDrop(Slot& slot, EvictionMode eviction);
  /// Evicts the cache, even if its turns are queued: after a save, or at once if no tier would keep it. With `insists`
  /// also if a turn arrives during the save, unless no tier would keep it. False: retry in the next round.
  bool Evict(Slot& slot, bool insists);
  /// Preempts the turn: evicts its KV cache and requeues it at the head of its tenant's queue. Increments `count`.
  /// REQUIRES: the turn is running and has no part in the step in flight.
  void Preempt(RunningTurn& turn, uint64_t* count);
  void PreemptForMemory(RunningTurn& turn) { Preempt(turn, &counts_.turns_preempted_for_memory); }

  /// Runs deferred work after a turn of the timeline has ended or left the queue: saves and forgets a parked one.
  void Settle(TimelineId timeline);
  /// Settles the timelines whose copies had to wait for another round.
  void SettleDeferred();
  bool has_deferred() const { return !unsettled_.empty(); }
  /// Collects finished copies; with `wait`, waits for all copies out of slots.
  void FinishCopies(bool wait);

  /// The next idle cache to write back, with its due time; null if there is none.
  Slot* NextToWriteBack() const;
  /// Copies it to the tiers when due. It keeps its slot until another turn needs it.
  void WriteBackIdle();
  /// Evicts the cache that is idle for longest, if for long enough. One per step, so that decoding turns never wait for
  /// more than one copy.
  void SaveIdle();

 private:
  void AfterSave(Slot& slot, SequenceStorage::Saved saved);

  const EngineStorage& storage_;
  const Clock& clock_;
  SlotTable& slots_;
  TurnQueue& queue_;
  CacheFetches& fetches_;
  SequenceStorage& sequences_;
  EngineStats& counts_;
  const std::function<void()> finish_step_;
  std::vector<TimelineId> unsettled_;  // parked; copied in the next rounds
};

}  // namespace ringside
