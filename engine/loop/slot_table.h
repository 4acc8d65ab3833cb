// The slots: the pool of caches, the timelines that the engine knows, those with a cache, and the running turns. Every
// running turn has a slot. Owned by EngineLoop. THREAD: engine, except HoldsOwner.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cache/kv_pool.h"
#include "cache/store/tiered_store.h"
#include "engine/engine_options.h"
#include "engine/loop/slot.h"
#include "engine/model/network.h"

namespace ringside {

/// Bytes of a branch that adds `tokens` tokens to its history.
int64_t BranchBytes(const KvPool& pool, int64_t tokens);
/// Bytes of a beam with an answer of at most `max_tokens`, and of the tile shared with the history's end.
int64_t BeamBytes(const KvPool& pool, int64_t max_tokens);

class SlotTable {
 public:
  /// `tiers`: null = none. REQUIRES: `tiers` outlives it.
  SlotTable(KvPool pool, const NetworkShape& network, const EngineOptions& options, TieredStore* tiers);

  KvPool& pool() { return pool_; }
  const KvPool& pool() const { return pool_; }

  // Timelines.
  /// Null if the engine does not know the timeline. A slot keeps its address until Forget.
  Slot* Find(TimelineId timeline);
  const Slot* Find(TimelineId timeline) const;
  /// REQUIRES: the engine knows the timeline.
  Slot& At(TimelineId timeline) { return timelines_.at(timeline); }
  const Slot& At(TimelineId timeline) const { return timelines_.at(timeline); }
  /// The timeline, added without a cache if it is new.
  Slot& FindOrAdd(TimelineId timeline);
  /// REQUIRES: it has no cache and no turns.
  void Forget(TimelineId timeline) { timelines_.erase(timeline); }

  // Caches.
  /// Timelines with a cache.
  std::span<Slot* const> cached() const { return cached_; }
  /// Gives the timeline an empty cache. REQUIRES: it has none.
  void Attach(Slot& slot, KvCache* cache);
  /// Returns its cache to the pool. REQUIRES: it has one; no running turn branches off it and no copy is in progress.
  void Release(Slot& slot);
  void SetOwner(Slot& slot, const std::string& owner);
  /// True if a cache of this owner is in a slot. THREAD: any.
  bool HoldsOwner(const std::string& owner) const;

  // Running turns.
  const std::vector<std::unique_ptr<RunningTurn>>& running() const { return running_; }
  void AddRunning(std::unique_ptr<RunningTurn> turn) { running_.push_back(std::move(turn)); }
  /// ENSURES: the turn is not among running(). REQUIRES: it was.
  std::unique_ptr<RunningTurn> RemoveRunning(const RunningTurn& turn);
  /// Removes the turns for which `ended` is true, in order.
  template <class Ended>
  std::vector<std::unique_ptr<RunningTurn>> TakeRunning(Ended ended) {
    std::vector<std::unique_ptr<RunningTurn>> taken;
    for (auto& turn : running_) {
      if (ended(std::as_const(*turn))) taken.push_back(std::move(turn));
    }
    std::erase(running_, nullptr);
    return taken;
  }
  /// Slots of all running turns, branches included.
  int64_t running_slots() const;

  // Branches.
  /// True if caches can branch off caches in other slots.
  bool has_branches() const { return has_branches_; }
  /// A running turn whose cache is a branch of this timeline's; null if there is none.
  RunningTurn* BranchOf(const Slot& slot) const;
  /// The running turn whose cache this turn's cache branches off; null if it is no branch or that timeline is idle.
  const RunningTurn* HistoryOf(const RunningTurn& turn) const;
  /// The branches that see rows which the next step overwrites in their histories: preempt them first.
  std::vector<RunningTurn*> OverwrittenBranches() const;

  // Memory.
  /// Bytes that the turn's cache needs for its tokens and `more`.
  int64_t BytesOf(const RunningTurn& turn, int64_t more = 1) const;
  /// Bytes that the turn's cache lacks for its tokens and `more`, and for its own copies of shared pages that its next
  /// steps write. REQUIRES: the turn is running.
  int64_t LackingBytes(const RunningTurn& turn, int64_t more = 1) const;
  bool HasMemory(const RunningTurn& turn) const { return LackingBytes(turn) == 0; }
  /// Reserves them. ERRORS: as KvPool::Grow.
  Status Grow(const RunningTurn& turn, int64_t more = 1, int64_t ahead = 0);
  /// Reserves memory for `rows` draft rows in addition to the next row, if it is free. REQUIRES: the turn is running.
  bool ReserveDrafts(const RunningTurn& turn, int64_t rows);
  /// True if some running turn can take part in a step.
  bool AnyHasMemory() const;
  /// Memory of caches being evicted, and their number.
  int64_t EvictingBytes() const;
  int64_t EvictingSlots() const;
  /// Bytes of a copy of all rows and the recurrent state of a cache.
  int64_t RowsBytes(const KvCache& cache) const;
  /// True if slots or memory are so scarce that idle caches should be written back.
  bool IsScarce() const;

  // Victims.
  /// True for a short cache, held in memory only, of a single request that has no continuation: a title, a probe. It is
  /// cheap to recompute and is evicted before conversations, from slots and from host memory.
  bool IsSideRequest(const Slot& slot) const;
  /// Picks the victim among idle timelines, or among those with queued turns: a side request, else the least recently
  /// used. Null if there is none.
  Slot* PickIdleVictim(const Slot* but, bool waiting) const;

 private:
  /// Most rows that the turn writes before it grows again, with `more` rows beside its prompt.
  int64_t RowsToWrite(const RunningTurn& turn, int64_t more) const;
  /// Count the owner's slots; notify the tiers when the first is taken or the last is freed.
  void AddOwner(const std::string& owner);
  void RemoveOwner(const std::string& owner);

  KvPool pool_;
  const bool has_branches_;
  const bool encodes_, whole_images_;
  const int64_t layers_, rebuild_windows_, prefill_chunk_;
  TieredStore* const tiers_;
  std::unordered_map<TimelineId, Slot> timelines_;
  std::vector<Slot*> cached_;
  std::vector<std::unique_ptr<RunningTurn>> running_;
  mutable std::mutex owners_mutex_;
  std::unordered_map<std::string, int64_t> owners_in_slots_;
};

}  // namespace ringside
