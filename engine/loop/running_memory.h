// Memory of running turns: each gets memory for its next step, the oldest first. Without memory it evicts idle caches,
// then preempts the youngest turns. Without state. Owned by EngineLoop. THREAD: engine.
#pragma once

#include <vector>

#include "base/status.h"
#include "engine/loop/cache_eviction.h"
#include "engine/loop/slot_table.h"
#include "engine/turns/running_turn.h"

namespace ringside {

/// Makes a failed commit permanent: the pool counted the memory as free, so a device that refuses it now will refuse it
/// later, too.
inline Status AsPermanent(const Status& grown) { return grown.ok() ? grown : Unavailable(grown.message()); }

class RunningMemory {
 public:
  /// REQUIRES: all references outlive it.
  RunningMemory(SlotTable& slots, CacheEviction& eviction) : slots_(slots), eviction_(eviction) {}

  /// Gives each running turn memory for its next step and for one step ahead, oldest first; without memory, preempts
  /// the youngest. Finishes turns that the device refuses memory. REQUIRES: no step is in flight.
  void Grow();
  /// As Grow for a step ahead, without taking memory from other turns. False if some turn lacks it.
  bool GrowAhead();

 private:
  /// False if memory is lacking; finishes the turn if the device has none.
  bool GrowTurn(RunningTurn& turn);
  /// Frees memory for the turn: evicts an idle cache, that of a queued turn, or preempts the youngest running turn;
  /// branches go before their history. False if enough is already in transit.
  bool Reclaim(const RunningTurn& turn, std::vector<RunningTurn*>* running);

  SlotTable& slots_;
  CacheEviction& eviction_;
};

}  // namespace ringside
