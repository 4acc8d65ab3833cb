// Engine::SaveAll: saves every cache in a slot, a few at a time with a step in between, then flushes the tiers to disk.
// Owned by EngineLoop. THREAD: engine.
#pragma once

#include <memory>

#include "engine/engine.h"
#include "engine/loop/cache_eviction.h"
#include "engine/loop/engine_message.h"
#include "engine/loop/slot_table.h"
#include "engine/sequence_storage.h"

namespace ringside {

class FullSave {
 public:
  /// The next messages go to `inbox`, which the tiers' callbacks share and which may outlive the engine. Counts in
  /// `counts`. REQUIRES: the other references outlive it.
  FullSave(const EngineStorage& storage, SlotTable& slots, CacheEviction& eviction, SequenceStorage& sequences,
           EngineStats* counts, std::shared_ptr<EngineInbox> inbox)
      : storage_(storage),
        slots_(slots),
        eviction_(eviction),
        sequences_(sequences),
        counts_(*counts),
        inbox_(std::move(inbox)) {}

  /// Saves the next cache, or flushes once all are saved. Called for every message of a SaveAll, the first included.
  /// ENSURES: its `done` is called exactly once, at the end or when the engine has stopped.
  void Continue(SaveAllMessage message);

 private:
  /// The next cache: the most recently used; null if all were given to the tiers.
  Slot* NextToSave(const FullSaveState& saving) const;
  /// Counts the caches that are not saved yet.
  void CountUnsaved(const FullSaveState& saving);

  const EngineStorage& storage_;
  SlotTable& slots_;
  CacheEviction& eviction_;
  SequenceStorage& sequences_;
  EngineStats& counts_;
  const std::shared_ptr<EngineInbox> inbox_;
};

}  // namespace ringside
