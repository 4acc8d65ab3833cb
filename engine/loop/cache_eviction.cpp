#include "engine/loop/cache_eviction.h"

#include <algorithm>
#include <optional>

namespace ringside {

void CacheEviction::Drop(Slot& slot) {
  slot.unfilled = false;
  if (slots_.BranchOf(slot) != nullptr) finish_step_();  // the cache may have a part in it
  while (RunningTurn* branch = slots_.BranchOf(slot)) PreemptForMemory(*branch);
  sequences_.Forget("", slot.sequence->cache());
  slots_.Release(slot);
}

void CacheEviction::SaveAndDrop(Slot& slot, EvictionMode eviction) {
  slot.eviction = std::max(slot.eviction, eviction);
  if (sequences_.Saves(slot.sequence->cache())) return;
  // A side request must not evict anything from host memory.
  const bool refused =
      storage_.tiers != nullptr && slots_.IsSideRequest(slot) && !sequences_.HasSpareRoomFor(*slot.sequence->cache());
  AfterSave(slot, refused ? SequenceStorage::Saved::kRefused : sequences_.Save(slot.owner, *slot.sequence));
}

void CacheEviction::AfterSave(Slot& slot, SequenceStorage::Saved saved) {
  if (saved == SequenceStorage::Saved::kCopying) return;
  const EvictionMode eviction = std::exchange(slot.eviction, EvictionMode::kNo);
  if (eviction == EvictionMode::kNo || (slot.busy() && eviction != EvictionMode::kForced))
    return;  // wanted again meanwhile
  if (eviction == EvictionMode::kIfSaved && saved == SequenceStorage::Saved::kRefused) {
    slot.idle_since_ns = clock_.MonotonicNs();
    return;
  }
  if (saved == SequenceStorage::Saved::kRefused) ++counts_.caches_dropped;
  Drop(slot);
}

bool CacheEviction::Evict(Slot& slot, bool insists) {
  if (!slot.sequence->cache()->saved() && !sequences_.MayCopyMore()) return false;
  ++counts_.slots_taken;
  const bool forced = slot.busy() || (insists && sequences_.Keeps(slot.owner, *slot.sequence->cache()));
  SaveAndDrop(slot, forced ? EvictionMode::kForced : EvictionMode::kAnyway);
  return true;
}

void CacheEviction::Preempt(RunningTurn& turn, uint64_t* count) {
  ++*count;
  Slot& slot = slots_.At(turn.timeline_id());
  for (KvCache* branch : turn.DetachBranches(/*keep=*/false)) slots_.pool().Release(branch);
  queue_.Requeue(slots_.RemoveRunning(turn));
  slot.turn = nullptr;
  ++slot.waiting;
  SaveAndDrop(slot, EvictionMode::kForced);
}

void CacheEviction::Settle(TimelineId timeline) {
  Slot* slot = slots_.Find(timeline);
  if (slot == nullptr) return;
  if (slot->waiting == 0) fetches_.Cancel(*slot);
  if (!slot->parked || slot->busy()) return;
  const bool copies = slot->sequence->has_cache() && !slot->sequence->cache()->saved();
  if (copies && !sequences_.MayCopyMore()) return unsettled_.push_back(timeline);
  if (slot->sequence->has_cache()) SaveAndDrop(*slot, EvictionMode::kAnyway);
  if (!slot->sequence->has_cache()) slots_.Forget(timeline);
}

void CacheEviction::SettleDeferred() {
  for (const TimelineId timeline : std::exchange(unsettled_, {})) Settle(timeline);
}

void CacheEviction::FinishCopies(bool wait) {
  for (const SequenceStorage::Outcome& outcome : sequences_.CollectSaved(wait)) {
    const auto cached = slots_.cached();
    const auto found =
        std::ranges::find_if(cached, [&](const Slot* slot) { return slot->sequence->cache() == outcome.cache; });
    if (found == cached.end()) continue;
    Slot& slot = **found;
    const TimelineId timeline = slot.id;
    if (outcome.current || !slot.is_evicting()) {
      AfterSave(slot, outcome.saved);
    } else {  // it changed since the copy, and is evicted all the same
      SaveAndDrop(slot, slot.eviction);
    }
    Settle(timeline);
  }
  fetches_.MakeForks();
  for (const SequenceStorage::Loaded& loaded : sequences_.CollectLoaded()) {
    for (const auto& turn : slots_.running()) {
      if (turn->sequence()->cache() == loaded.cache) turn->NoteRestored(loaded.ms);
    }
  }
}

Slot* CacheEviction::NextToWriteBack() const {
  if (storage_.tiers == nullptr || storage_.write_back_ms == 0 || !slots_.IsScarce()) return nullptr;
  const KvShape& shape = slots_.pool().shape();
  const int64_t row_bytes = shape.tile_bytes() / KvShape::kTile, room = storage_.tiers->host_room();
  Slot* next = nullptr;
  for (Slot* slot : slots_.cached()) {
    const KvCache* cache = slot->sequence->cache();
    // One at a time: decoding shares the device's memory bandwidth with the copy.
    if (sequences_.Saves(cache)) return nullptr;
    if (slot->owner.empty() || slot->busy() || cache->saved()) continue;
    // Write back only if it fits without an eviction: otherwise it would itself be evicted soon.
    const Ring& ring = cache->ring();
    const int64_t rows = ring.next() - (cache->snapshot() == 0 ? 0 : ring.unchanged());
    if (shape.state.bytes() + std::min(rows, ring.window().pinned + ring.rows()) * row_bytes > room) continue;
    if (next == nullptr || slot->write_back_ns < next->write_back_ns) next = slot;
  }
  return next;
}

void CacheEviction::WriteBackIdle() {
  Slot* slot = NextToWriteBack();
  const int64_t now = clock_.MonotonicNs();
  if (slot == nullptr || slot->write_back_ns > now) return;
  slot->write_back_ns = now + 1'000'000'000;  // retry later if the tiers refuse it now
  const SequenceStorage::Saved saved = sequences_.Save(slot->owner, *slot->sequence);
  if (saved != SequenceStorage::Saved::kRefused) ++counts_.written_back;
}

void CacheEviction::SaveIdle() {
  if (storage_.tiers == nullptr) return;
  Slot* idle = nullptr;
  for (Slot* slot : slots_.cached()) {
    if (slot->owner.empty() || slot->busy() || slots_.BranchOf(*slot) != nullptr) continue;
    if (slot->eviction != EvictionMode::kNo) return;  // one at a time
    if (idle == nullptr || slot->idle_since_ns < idle->idle_since_ns) idle = slot;
  }
  const int64_t now = clock_.MonotonicNs();
  if (idle == nullptr || now - idle->idle_since_ns < storage_.idle_ms * 1'000'000) return;
  // The slot is not needed yet: if the tiers are busy, try again later.
  SaveAndDrop(*idle, EvictionMode::kIfSaved);
}

}  // namespace ringside
