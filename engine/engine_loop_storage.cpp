// The engine loop's use of the tiers: fetching, saving, parking, forking and erasing caches.
#include <algorithm>
#include <ranges>
#include <set>

#include "engine/engine_loop.h"
#include "kernels/slab_memory.h"

namespace ringside {

namespace {

bool IsOwner(const std::string& name) { return !name.empty() && name.size() <= TieredStore::kMaxOwnerBytes; }

void NotifyDone(const Engine::Done& done, const Status& status) {
  if (done) done(status);
}

}  // namespace

void EngineLoop::Erase(TimelineId timeline, std::string owner, Engine::Done done) {
  const auto stopped = done;
  if (!inbox_->PushUrgent(EraseMessage{timeline, std::move(owner), std::move(done)})) {
    NotifyDone(stopped, Unavailable("the engine has stopped"));
  }
}

void EngineLoop::Fork(TimelineId from, TimelineId to, std::string from_owner, std::string to_owner) {
  inbox_->PushUrgent(ForkMessage{from, to, std::move(from_owner), std::move(to_owner)});
}

void EngineLoop::Prefetch(const std::string& owner) {
  if (storage_.tiers != nullptr && IsOwner(owner)) storage_.tiers->Prefetch(owner);
}

void EngineLoop::SaveAll(Engine::Done done) {
  const auto saving = std::make_shared<SaveAllState>();
  saving->done = std::move(done);
  if (!inbox_->PushUrgent(SaveAllMessage{saving})) NotifyDone(saving->done, Unavailable("the engine has stopped"));
}

std::optional<CacheSource> EngineLoop::Where(const std::string& owner) const {
  if (healthy_) {
    std::lock_guard lock(owners_mutex_);
    if (owners_in_slots_.contains(owner)) return CacheSource::kSlot;
  }
  if (storage_.tiers == nullptr) return std::nullopt;
  const auto place = storage_.tiers->Find(owner);
  if (!place) return std::nullopt;
  return place->tier == StorageTier::kHost ? CacheSource::kHost : CacheSource::kDisk;
}

void EngineLoop::Handle(ParkMessage message) {
  const auto found = timelines_.find(message.timeline);
  if (found == timelines_.end()) return;
  found->second.parked = true;
  Settle(message.timeline);
}

void EngineLoop::Settle(TimelineId timeline) {
  const auto found = timelines_.find(timeline);
  if (found == timelines_.end()) return;
  Slot& slot = found->second;
  if (slot.waiting == 0) CancelFetch(slot);
  if (!slot.parked || slot.busy()) return;
  const bool copies = slot.sequence->has_cache() && !slot.sequence->cache()->saved();
  if (copies && !sequence_storage_.MayCopyMore()) return unsettled_.push_back(timeline);
  if (slot.sequence->has_cache()) SaveAndDropCache(slot, EvictionMode::kAnyway);
  if (!slot.sequence->has_cache()) timelines_.erase(found);
}

void EngineLoop::Handle(EraseMessage message) {
  // A conversation that was parked and resumed has a new timeline id.
  std::set<TimelineId> timelines{message.timeline};
  for (const Slot* slot : cached_) {
    if (slot->owner == message.owner) timelines.insert(slot->id);
  }
  for (const auto& turn : waiting_) {
    if (turn->request().owner == message.owner) timelines.insert(turn->timeline_id());
  }
  if (message.owner.empty()) timelines = {message.timeline};
  for (const TimelineId timeline : timelines) Handle(CloseMessage{timeline});
  if (!message.owner.empty()) sequence_storage_.Forget(message.owner, nullptr);
  std::erase_if(forks_, [&](const ForkMessage& fork) { return fork.to_owner == message.owner; });
  if (storage_.tiers == nullptr || !IsOwner(message.owner)) return NotifyDone(message.done, Status::Ok());
  storage_.tiers->Erase(std::move(message.owner), std::move(message.done));
}

bool EngineLoop::IsSideRequest(const Slot& slot) const {
  const bool stored = !slot.owner.empty() && !slot.owner.starts_with(TieredStore::kMemoryOnly);
  return !slot.continued && !stored && slot.sequence->cache()->ring().next() <= EngineOptions::kTypicalTokens;
}

int64_t EngineLoop::RowsBytes(const KvCache& cache) const {
  const Ring& ring = cache.ring();
  return std::min(ring.next(), ring.window().pinned + ring.rows()) * (pool_.shape().tile_bytes() / KvShape::kTile);
}

EngineLoop::Slot* EngineLoop::NextToSave(const SaveAllState& saving) const {
  Slot* next = nullptr;
  const auto used = [](const Slot* slot) { return std::pair(slot->turn != nullptr, slot->idle_since_ns); };
  for (Slot* slot : cached_) {
    if (slot->owner.empty() || saving.begun.contains(slot->id)) continue;
    if (next == nullptr || used(slot) > used(next)) next = slot;
  }
  return next;
}

void EngineLoop::CountUnsaved(const SaveAllState& saving) {
  counts_.unsaved = counts_.unsaved_bytes = 0;
  for (const Slot* slot : cached_) {
    if (slot->owner.empty() || saving.begun.contains(slot->id)) continue;
    ++counts_.unsaved;
    counts_.unsaved_bytes += RowsBytes(*slot->sequence->cache());
  }
}

void EngineLoop::Handle(SaveAllMessage message) {
  constexpr int64_t kMaxConcurrentWrites = 2 * TieredStore::kWriters;  // keeps every writer busy
  const std::shared_ptr<SaveAllState> saving = std::move(message.saving);
  if (storage_.tiers == nullptr) return NotifyDone(saving->done, Status::Ok());
  FinishCopies(/*wait=*/true);
  if (message.written) --saving->writing;
  const auto tell = [inbox = inbox_, saving](SaveAllMessage next) {
    if (inbox->PushUrgent(std::move(next)) || saving->told.exchange(true)) return;
    NotifyDone(saving->done, Unavailable("the engine has stopped"));
  };
  Slot* const next = NextToSave(*saving);
  CountUnsaved(*saving);
  if (next == nullptr) {
    if (saving->writing > 0 || std::exchange(saving->flushing, true)) return;
    // Flush the remaining objects in memory last.
    storage_.tiers->Flush([saving](const Status& status) {
      if (!saving->told.exchange(true)) NotifyDone(saving->done, status);
    });
  } else if (saving->writing == 0 || (saving->writing < kMaxConcurrentWrites &&
                                      storage_.tiers->saving_room() >= RowsBytes(*next->sequence->cache()))) {
    sequence_storage_.Save(next->owner, *next->sequence, SequenceStorage::Effort::kAlways);
    sequence_storage_.CollectSaved(/*wait=*/true);
    saving->begun.insert(next->id);
    ++saving->writing;
    storage_.tiers->SaveToDisk(next->owner, [saving, tell](const Status&) { tell({saving, /*written=*/true}); });
    tell({saving});  // the next one after a step
  }
}

void EngineLoop::Handle(ForkMessage message) {
  if (storage_.tiers == nullptr || !IsOwner(message.to_owner) || message.to_owner == message.from_owner) return;
  const auto from = timelines_.find(message.from);
  Sequence* const source =
      from != timelines_.end() && from->second.sequence->has_cache() ? from->second.sequence.get() : nullptr;
  if (!IsOwner(message.from_owner)) {
    if (source != nullptr) sequence_storage_.SaveCopy(message.to_owner, *source);
    return;
  }
  if (source != nullptr) sequence_storage_.Save(message.from_owner, *source);
  forks_.push_back(std::move(message));
  MakeForks();
}

void EngineLoop::MakeForks() {
  std::erase_if(forks_, [this](const ForkMessage& fork) {
    if (sequence_storage_.Saves(fork.from_owner)) return false;
    storage_.tiers->Fork(fork.from_owner, fork.to_owner, nullptr);
    return true;
  });
}

void EngineLoop::Handle(FetchedMessage message) {
  const auto found = timelines_.find(message.timeline);
  if (found == timelines_.end()) return;
  std::optional<PendingFetch>& fetch = found->second.fetch;
  if (fetch && fetch->ticket == message.ticket) fetch->answer.emplace(std::move(message.fetched));
}

void EngineLoop::RequestCache(Slot& slot, const TurnRequest& request) {
  if (slot.turn != nullptr || slot.filled()) return;
  if (slot.fetch && (slot.fetch->ticket != 0 || slot.fetch->answer)) return;
  const bool forked = request.forked_from != 0 && IsOwner(request.forked_owner) && IsOwner(request.owner);
  if (HasSourceInSlot(request)) return;  // copied from that slot instead
  const bool first = !slot.fetch;
  if (first) slot.fetch = PendingFetch{};
  // Wait: the save or the fork completes shortly.
  const auto comes = [&](const ForkMessage& fork) { return fork.to_owner == request.owner; };
  if (sequence_storage_.Saves(request.owner) || std::ranges::any_of(forks_, comes)) return;
  if (forked && sequence_storage_.Saves(request.forked_owner)) return;
  // Fetched caches of queued turns use memory outside every budget, so fetch no more than the slots hold.
  const int64_t bytes = StoredBytes(request, forked);
  const int64_t windows = pool_.memory_bytes() / pool_.shape().slab_bytes();
  const bool fits = fetches_ < windows || fetch_bytes_ + bytes <= pool_.memory_bytes();
  if (fetches_ >= pool_.slots() || !fits) {
    if (first && !forked && !storage_.tiers->Find(request.owner)) {
      slot.fetch->answer.emplace(NotFound("nothing is stored"));
      return;
    }
    if (first) Prefetch(request.owner);
    if (!CancelLastFetchAfter(slot)) return;
  }
  if (forked && !std::exchange(slot.fetch->forked, true) && storage_.tiers != nullptr) {
    storage_.tiers->Fork(request.forked_owner, request.owner, nullptr);
  }
  const auto length = static_cast<int64_t>(request.tokens.size());
  const int64_t reach = network_.shape().layers * (request.window.memory_len - 1);
  const auto plan = sequence_storage_.PlanFetch(request.owner, std::min(length, request.window.pinned + reach + 1));
  if (plan.stored) slot.sequence->MarkKnown();  // it was computed once
  if (!plan.ask) {
    slot.fetch->answer.emplace(NotFound("not asked for"));
    return;
  }
  slot.fetch->ticket = ++last_ticket_;
  slot.fetch->deadline_ns = plan.deadline_ns;
  ++fetches_;
  fetch_bytes_ += slot.fetch->bytes = bytes;
  storage_.tiers->Fetch(request.owner, [inbox = inbox_, timeline = slot.id, ticket = last_ticket_](auto fetched) {
    inbox->PushUrgent(FetchedMessage{timeline, ticket, std::move(fetched)});
  });
}

int64_t EngineLoop::StoredBytes(const TurnRequest& request, bool forked) const {
  if (storage_.tiers == nullptr) return 0;
  auto place = storage_.tiers->Find(request.owner);
  if (!place && forked) place = storage_.tiers->Find(request.forked_owner);
  return place ? place->bytes : 0;
}

bool EngineLoop::CancelLastFetchAfter(const Slot& slot) {
  for (const auto& turn : waiting_ | std::views::reverse) {
    if (turn == nullptr) continue;  // already admitted
    Slot& other = timelines_.at(turn->timeline_id());
    if (&other == &slot) return false;
    if (!other.fetch || other.fetch->ticket == 0) continue;
    const bool forked = other.fetch->forked;
    CancelFetch(other);
    other.fetch = PendingFetch{.forked = forked};
    return true;
  }
  return false;
}

bool EngineLoop::HasSourceInSlot(const TurnRequest& request) const {
  if (request.forked_from == 0) return false;
  const auto source = timelines_.find(request.forked_from);
  return source != timelines_.end() && source->second.sequence->has_cache();
}

bool EngineLoop::IsFetching(const Slot& slot) const {
  return slot.fetch && !slot.fetch->answer && clock_.MonotonicNs() < slot.fetch->deadline_ns;
}

void EngineLoop::CancelFetch(Slot& slot) {
  if (slot.fetch && slot.fetch->ticket != 0) {
    --fetches_;
    fetch_bytes_ -= slot.fetch->bytes;
    if (!slot.fetch->answer) ++counts_.fetches_late;
  }
  slot.fetch.reset();
}

std::optional<double> EngineLoop::RestoreCache(Slot& slot, const TurnRequest& request) {
  if (!slot.fetch || slot.fetch->ticket == 0 || !slot.fetch->answer) return std::nullopt;
  return sequence_storage_.Restore(*slot.fetch->answer, request.window, request.adapter, *slot.sequence);
}

void EngineLoop::AttachCache(Slot& slot, KvCache* cache) {
  slot.sequence->Attach(cache);
  cached_.push_back(&slot);
  AddOwnerSlot(slot.owner);
}

bool EngineLoop::IsMemoryCommitted(const Slot& slot, const RunningTurn& turn) {
  if (running_.empty() || turn.branches() > 0) return true;  // the first use waits for it
  const KvCache& cache = *slot.sequence->cache();
  const auto bytes = static_cast<size_t>(pool_.reserved_bytes(cache));
  const bool there = network_.memory().Committed(cache.slab(), bytes, memory_wait_us_);
  if (!there) memory_wait_us_ = 0;
  return there;
}

void EngineLoop::DropCache(Slot& slot) {
  slot.unfilled = false;
  if (launched_ && BranchOf(slot) != nullptr) {
    FinishLaunchedStep();  // the cache may have a part in it
    RetireFinished();
  }
  while (RunningTurn* branch = BranchOf(slot)) PreemptForMemory(*branch);
  sequence_storage_.Forget("", slot.sequence->cache());
  pool_.Release(slot.sequence->Detach());
  std::erase(cached_, &slot);
  RemoveOwnerSlot(slot.owner);
}

void EngineLoop::AddOwnerSlot(const std::string& owner) {
  if (owner.empty()) return;
  std::lock_guard lock(owners_mutex_);
  if (++owners_in_slots_[owner] == 1 && storage_.tiers != nullptr) storage_.tiers->SetInSlot(owner, true);
}

void EngineLoop::RemoveOwnerSlot(const std::string& owner) {
  std::lock_guard lock(owners_mutex_);
  const auto found = owners_in_slots_.find(owner);
  if (found == owners_in_slots_.end() || --found->second > 0) return;
  owners_in_slots_.erase(found);
  if (storage_.tiers != nullptr) storage_.tiers->SetInSlot(owner, false);
}

void EngineLoop::SetOwner(Slot& slot, const std::string& owner) {
  if (slot.owner == owner) return;
  RemoveOwnerSlot(slot.owner);
  slot.owner = owner;
  AddOwnerSlot(owner);
}

void EngineLoop::SaveAndDropCache(Slot& slot, EvictionMode eviction) {
  slot.eviction = std::max(slot.eviction, eviction);
  if (sequence_storage_.Saves(slot.sequence->cache())) return;
  // A side request must not evict anything from host memory.
  const bool refused =
      storage_.tiers != nullptr && IsSideRequest(slot) && !sequence_storage_.HasSpareRoomFor(*slot.sequence->cache());
  AfterSave(slot, refused ? SequenceStorage::Saved::kRefused : sequence_storage_.Save(slot.owner, *slot.sequence));
}

void EngineLoop::AfterSave(Slot& slot, SequenceStorage::Saved saved) {
  if (saved == SequenceStorage::Saved::kCopying) return;
  const EvictionMode eviction = std::exchange(slot.eviction, EvictionMode::kNo);
  if (eviction == EvictionMode::kNo || (slot.busy() && eviction != EvictionMode::kForced))
    return;  // wanted again meanwhile
  if (eviction == EvictionMode::kIfSaved && saved == SequenceStorage::Saved::kRefused) {
    slot.idle_since_ns = clock_.MonotonicNs();
    return;
  }
  if (saved == SequenceStorage::Saved::kRefused) ++counts_.caches_dropped;
  DropCache(slot);
}

void EngineLoop::FinishCopies(bool wait) {
  for (const SequenceStorage::Outcome& outcome : sequence_storage_.CollectSaved(wait)) {
    const auto found = std::find_if(cached_.begin(), cached_.end(),
                                    [&](const Slot* slot) { return slot->sequence->cache() == outcome.cache; });
    if (found == cached_.end()) continue;
    Slot& slot = **found;
    if (outcome.current || !slot.is_evicting()) {
      AfterSave(slot, outcome.saved);
    } else {  // it changed since the copy, and is evicted all the same
      SaveAndDropCache(slot, slot.eviction);
    }
    Settle(slot.id);
  }
  MakeForks();
  for (const SequenceStorage::Loaded& loaded : sequence_storage_.CollectLoaded()) {
    for (const auto& turn : running_) {
      if (turn->sequence()->cache() == loaded.cache) turn->NoteRestored(loaded.ms);
    }
  }
}

bool EngineLoop::RoomIsScarce() const {
  return 4 * pool_.used() >= 3 * pool_.slots() || 4 * pool_.reserved_bytes() >= 3 * pool_.memory_bytes();
}

EngineLoop::Slot* EngineLoop::NextToWriteBack() const {
  if (storage_.tiers == nullptr || storage_.write_back_ms == 0 || !RoomIsScarce()) return nullptr;
  const int64_t row_bytes = pool_.shape().tile_bytes() / KvShape::kTile, room = storage_.tiers->host_room();
  Slot* next = nullptr;
  for (Slot* slot : cached_) {
    const KvCache* cache = slot->sequence->cache();
    // One at a time: decoding shares the device's memory bandwidth with the copy.
    if (sequence_storage_.Saves(cache)) return nullptr;
    if (slot->owner.empty() || slot->busy() || cache->saved()) continue;
    // Write back only if it fits without an eviction: otherwise it would itself be evicted soon.
    const Ring& ring = cache->ring();
    const int64_t rows = ring.next() - (cache->snapshot() == 0 ? 0 : ring.unchanged());
    if (std::min(rows, ring.window().pinned + ring.rows()) * row_bytes > room) continue;
    if (next == nullptr || slot->write_back_ns < next->write_back_ns) next = slot;
  }
  return next;
}

void EngineLoop::WriteBackIdle() {
  Slot* slot = NextToWriteBack();
  const int64_t now = clock_.MonotonicNs();
  if (slot == nullptr || slot->write_back_ns > now) return;
  slot->write_back_ns = now + 1'000'000'000;  // retry later if the tiers refuse it now
  const SequenceStorage::Saved saved = sequence_storage_.Save(slot->owner, *slot->sequence);
  if (saved != SequenceStorage::Saved::kRefused) ++counts_.written_back;
}

void EngineLoop::SaveIdle() {
  if (storage_.tiers == nullptr) return;
  Slot* idle = nullptr;
  for (Slot* slot : cached_) {
    if (slot->owner.empty() || slot->busy() || BranchOf(*slot) != nullptr) continue;
    if (slot->eviction != EvictionMode::kNo) return;  // one at a time
    if (idle == nullptr || slot->idle_since_ns < idle->idle_since_ns) idle = slot;
  }
  const int64_t now = clock_.MonotonicNs();
  if (idle == nullptr || now - idle->idle_since_ns < storage_.idle_ms * 1'000'000) return;
  // The slot is not needed yet: if the tiers are busy, try again later.
  SaveAndDropCache(*idle, EvictionMode::kIfSaved);
}

}  // namespace ringside
