#include "engine/loop/slot_table.h"

#include <algorithm>
#include <tuple>

#include "base/check.h"

namespace ringside {

int64_t BranchBytes(const KvPool& pool, int64_t tokens) {
  return pool.BytesFor({.pinned = 0, .memory_len = pool.shape().ring_rows()}, tokens);
}

int64_t BeamBytes(const KvPool& pool, int64_t max_tokens) { return BranchBytes(pool, max_tokens + KvShape::kTile); }

SlotTable::SlotTable(KvPool pool, const NetworkShape& network, const EngineOptions& options, TieredStore* tiers)
    : pool_(std::move(pool)),
      has_branches_(network.branches && network.state.empty() && pool_.slots() > 1),
      encodes_(network.encodes),
      whole_images_(network.whole_image_tokens > 0),
      layers_(network.layers),
      rebuild_windows_(options.rebuild_windows),
      prefill_chunk_(options.prefill_chunk),
      tiers_(tiers) {}

Slot* SlotTable::Find(TimelineId timeline) {
  const auto found = timelines_.find(timeline);
  return found == timelines_.end() ? nullptr : &found->second;
}

const Slot* SlotTable::Find(TimelineId timeline) const {
  const auto found = timelines_.find(timeline);
  return found == timelines_.end() ? nullptr : &found->second;
}

Slot& SlotTable::FindOrAdd(TimelineId timeline) {
  Slot& slot = timelines_[timeline];
  slot.id = timeline;
  if (slot.sequence == nullptr) {
    slot.sequence = std::make_unique<Sequence>(layers_, rebuild_windows_, encodes_, whole_images_);
  }
  return slot;
}

void SlotTable::Attach(Slot& slot, KvCache* cache) {
  slot.sequence->Attach(cache);
  cached_.push_back(&slot);
  AddOwner(slot.owner);
}

void SlotTable::Release(Slot& slot) {
  pool_.Release(slot.sequence->Detach());
  std::erase(cached_, &slot);
  RemoveOwner(slot.owner);
}

void SlotTable::SetOwner(Slot& slot, const std::string& owner) {
  if (slot.owner == owner) return;
  RemoveOwner(slot.owner);
  slot.owner = owner;
  AddOwner(owner);
}

bool SlotTable::HoldsOwner(const std::string& owner) const {
  std::lock_guard lock(owners_mutex_);
  return owners_in_slots_.contains(owner);
}

void SlotTable::AddOwner(const std::string& owner) {
  if (owner.empty()) return;
  std::lock_guard lock(owners_mutex_);
  if (++owners_in_slots_[owner] == 1 && tiers_ != nullptr) tiers_->SetInSlot(owner, true);
}

void SlotTable::RemoveOwner(const std::string& owner) {
  std::lock_guard lock(owners_mutex_);
  const auto found = owners_in_slots_.find(owner);
  if (found == owners_in_slots_.end() || --found->second > 0) return;
  owners_in_slots_.erase(found);
  if (tiers_ != nullptr) tiers_->SetInSlot(owner, false);
}

std::unique_ptr<RunningTurn> SlotTable::RemoveRunning(const RunningTurn& turn) {
  const auto found = std::ranges::find_if(running_, [&](const auto& other) { return other.get() == &turn; });
  CHECK(found != running_.end());
  std::unique_ptr<RunningTurn> removed = std::move(*found);
  running_.erase(found);
  return removed;
}

int64_t SlotTable::running_slots() const {
  int64_t slots = 0;
  for (const auto& turn : running_) slots += 1 + turn->branches();
  return slots;
}

RunningTurn* SlotTable::BranchOf(const Slot& slot) const {
  if (!has_branches_ || !slot.sequence->has_cache()) return nullptr;
  const void* slab = slot.sequence->cache()->slab();
  const auto found =
      std::ranges::find_if(running_, [&](const auto& turn) { return turn->sequence()->cache()->history() == slab; });
  return found == running_.end() ? nullptr : found->get();
}

const RunningTurn* SlotTable::HistoryOf(const RunningTurn& turn) const {
  const void* slab = turn.sequence()->cache()->history();
  if (slab == nullptr) return nullptr;
  const auto found =
      std::ranges::find_if(running_, [&](const auto& other) { return other->sequence()->cache()->slab() == slab; });
  return found == running_.end() ? nullptr : found->get();
}

std::vector<RunningTurn*> SlotTable::OverwrittenBranches() const {
  std::vector<RunningTurn*> overwritten;
  for (const auto& turn : running_) {
    const RunningTurn* history = HistoryOf(*turn);
    if (history == nullptr) continue;
    const Ring& ring = history->sequence()->cache()->ring();
    const int64_t appended = std::clamp<int64_t>(history->remaining(), 1, prefill_chunk_);
    if (turn->sequence()->cache()->SeesRows(ring.next() + appended - ring.rows())) overwritten.push_back(turn.get());
  }
  return overwritten;
}

int64_t SlotTable::BytesOf(const RunningTurn& turn, int64_t more) const {
  const KvCache* cache = turn.sequence() == nullptr ? nullptr : turn.sequence()->cache();
  if (cache != nullptr && cache->history() != nullptr) {
    return BranchBytes(pool_, turn.most_tokens() + more - cache->branch());
  }
  return pool_.BytesFor(turn.request().window, turn.most_tokens() + more);
}

int64_t SlotTable::LackingBytes(const RunningTurn& turn, int64_t more) const {
  const KvCache& cache = *turn.sequence()->cache();
  return std::max<int64_t>(0, BytesOf(turn, more) - pool_.reserved_bytes(cache)) +
         pool_.SharedBytesAt(cache, turn.sequence()->next_position(), RowsToWrite(turn, more));
}

int64_t SlotTable::RowsToWrite(const RunningTurn& turn, int64_t more) const {
  const int64_t beams = turn.branches() > 0 ? std::max<int64_t>(turn.request().max_tokens, 0) : 0;
  const int64_t rows = std::max(std::clamp<int64_t>(turn.remaining(), 1, prefill_chunk_), more) + beams;
  return std::min(rows, pool_.shape().ring_rows());
}

Status SlotTable::Grow(const RunningTurn& turn, int64_t more, int64_t ahead) {
  KvCache* cache = turn.sequence()->cache();
  RETURN_IF_ERROR(pool_.Grow(cache, BytesOf(turn, more), ahead));
  return pool_.Unshare(cache, turn.sequence()->next_position(), RowsToWrite(turn, more));
}

bool SlotTable::ReserveDrafts(const RunningTurn& turn, int64_t rows) {
  const int64_t lacking = LackingBytes(turn, 1 + rows);
  return lacking <= 0 || (lacking <= pool_.free_bytes() && Grow(turn, 1 + rows).ok());
}

bool SlotTable::AnyHasMemory() const {
  return std::ranges::any_of(running_, [&](const auto& turn) { return HasMemory(*turn); });
}

int64_t SlotTable::EvictingBytes() const {
  int64_t bytes = 0;
  for (const Slot* slot : cached_) {
    if (slot->is_evicting()) bytes += pool_.own_bytes(*slot->sequence->cache());
  }
  return bytes;
}

int64_t SlotTable::EvictingSlots() const { return std::ranges::count_if(cached_, &Slot::is_evicting); }

int64_t SlotTable::RowsBytes(const KvCache& cache) const {
  const Ring& ring = cache.ring();
  const KvShape& shape = pool_.shape();
  return shape.state.bytes() +
         std::min(ring.next(), ring.window().pinned + ring.rows()) * (shape.tile_bytes() / KvShape::kTile);
}

bool SlotTable::IsScarce() const {
  return 4 * pool_.used() >= 3 * pool_.slots() || 4 * pool_.reserved_bytes() >= 3 * pool_.memory_bytes();
}

bool SlotTable::IsSideRequest(const Slot& slot) const {
  const bool stored = !slot.owner.empty() && !slot.owner.starts_with(TieredStore::kMemoryOnly);
  return !slot.continued && !stored && slot.sequence->cache()->ring().next() <= EngineOptions::kTypicalTokens;
}

Slot* SlotTable::PickIdleVictim(const Slot* but, bool waiting) const {
  Slot* oldest = nullptr;
  // Side requests first, then caches that are already saved, because they can be dropped at once.
  const auto age = [this](const Slot& slot) {
    return std::tuple(!IsSideRequest(slot), !slot.sequence->cache()->saved(), slot.last_used);
  };
  for (Slot* slot : cached_) {
    if (slot == but || slot->turn != nullptr || (slot->waiting > 0) != waiting || slot->eviction != EvictionMode::kNo)
      continue;
    if (BranchOf(*slot) != nullptr) continue;
    if (oldest == nullptr || age(*slot) < age(*oldest)) oldest = slot;
  }
  return oldest;
}

}  // namespace ringside
