// The moving thread: demotes objects from memory to disk and deletes them from disk.
#include "base/log.h"
#include "cache/store/tiered_store_impl.h"

namespace ringside {
namespace {

// Above the first fraction of its budget the host tier evicts objects until it is below the second.
constexpr double kHighWater = 0.9, kLowWater = 0.8;

int64_t BudgetPart(const Store& store, double part) {
  return static_cast<int64_t>(part * static_cast<double>(store.budget_bytes()));
}

}  // namespace

void TieredStore::Impl::MakeRoomAndPut(const std::string& owner, uint64_t id, const Done& done) {
  bool room = true;
  while (room) {
    std::optional<Snapshot> snapshot = ShareWaiting(owner, id);
    if (!snapshot) return NotifyDone(done, DropReason(owner, id));
    const Status status = PutInHost(owner, *snapshot, true);
    if (status.code() != StatusCode::kOverloaded) return NotifyDone(done, status);
    room = !closing_ && snapshot->chunk_bytes() <= host_->budget_bytes();
    snapshot.reset();
    room = room && EvictOneFromHost();
  }
  NotifyDone(done, PutWaitingOnDisk(owner, id));  // too large for memory even when all else is evicted
}

Status TieredStore::Impl::PutWaitingOnDisk(const std::string& owner, uint64_t id) {
  const std::optional<Snapshot> snapshot = ShareWaiting(owner, id);
  if (!snapshot) return DropReason(owner, id);
  Status status = Overloaded("tiers: no room in memory, and none on disk");
  if (disk_ != nullptr && !closing_ && !StaysInMemory(owner)) status = PutOnDisk(owner, *snapshot);
  {
    std::lock_guard lock(mutex_);
    if (owners_.Waiting(owner, id) != nullptr) {
      owners_.RemoveWaiting(owner);
      if (!status.ok()) ++stats_.dropped;
      return status;
    }
  }
  return DropReason(owner, id);
}

Status TieredStore::Impl::PutOnDisk(const std::string& owner, const Snapshot& snapshot) {
  // Bound the evictions: if other programs fill the disk, evicting everything would not help.
  for (int64_t given = 0;;) {
    const auto begin = std::chrono::steady_clock::now();
    const Status status = disk_->Put(owner, StoreObjectOf(snapshot));
    if (status.ok()) {
      const double seconds = SecondsSince(begin);
      std::lock_guard lock(mutex_);
      owners_.SetOnDisk(owner, snapshot.header().id);
      write_rate_.Add(snapshot.chunk_bytes(), seconds);
      return status;
    }
    if (status.code() != StatusCode::kOverloaded) return status;
    std::lock_guard making_room(room_mutex_);
    const auto oldest = disk_->index().Oldest();
    if (snapshot.chunk_bytes() > disk_->budget_bytes() || !oldest || *oldest == owner) return status;
    if (given > 2 * snapshot.chunk_bytes()) return status;
    {
      std::lock_guard lock(mutex_);
      if (owners_.IsKeptOnDisk(*oldest)) return status;
    }
    if (const auto entry = disk_->index().Find(*oldest)) given += entry->bytes;
    RETURN_IF_ERROR(EraseFromDisk(*oldest));
    std::lock_guard lock(mutex_);
    ++stats_.dropped;
  }
}

Status TieredStore::Impl::CopyToDisk(const std::string& owner) {
  if (disk_ == nullptr || StaysInMemory(owner)) return Unavailable("tiers: there is no disk tier for this");
  ASSIGN_OR_RETURN(const Snapshot snapshot, LoadSnapshot(*host_, owner, SnapshotSource::kHost));
  {
    std::lock_guard lock(mutex_);
    if (owners_.IsOnDisk(owner, snapshot.header().id)) return Status::Ok();
    if (owners_.IsErasing(owner)) return NotFound("tiers: erased");
    owners_.BeginWrite(owner);
  }
  const Status written = PutOnDisk(owner, snapshot);
  std::lock_guard lock(mutex_);
  owners_.EndWrite(owner);
  RETURN_IF_ERROR(written);
  ++stats_.demoted;
  stats_.demoted_bytes += static_cast<uint64_t>(snapshot.chunk_bytes());
  return Status::Ok();
}

void TieredStore::Impl::DropFromHost(const std::string& owner, uint64_t id) {
  std::lock_guard lock(mutex_);
  if (IdInHost(*host_, owner) == id && !host_->Erase(owner).ok()) LogWarning("tiers: {} stays in memory", owner);
}

bool TieredStore::Impl::EvictOneFromHost() {
  const auto first = host_->index().PickEvictionVictim();
  if (!first) return false;
  const uint64_t id = IdInHost(*host_, *first);
  bool spare = false;
  {
    std::lock_guard lock(mutex_);
    spare = owners_.IsSpareBase(*first);
  }
  const Status status = spare ? Status::Ok() : CopyToDisk(*first);
  DropFromHost(*first, id);
  if (!status.ok() && status.code() != StatusCode::kNotFound) {
    std::lock_guard lock(mutex_);
    ++stats_.dropped;
  }
  return true;
}

int64_t TieredStore::Impl::host_room() const {
  const int64_t high = BudgetPart(*host_, kHighWater);
  std::lock_guard lock(mutex_);
  return high - host_->index().bytes() - owners_.waiting_bytes();
}

bool TieredStore::Impl::WouldKeep(const std::string& owner, int64_t bytes, int64_t coming) const {
  std::lock_guard lock(mutex_);
  const int64_t waiting = owners_.waiting_bytes() + coming;
  if (waiting + bytes <= host_->budget_bytes()) return true;
  if (disk_ == nullptr || StaysInMemory(owner) || bytes > disk_->budget_bytes()) return false;
  return waiting == 0 || waiting + bytes <= WaitingBound();
}

void TieredStore::Impl::ApplyIdleTimes() {
  const int64_t now = clock_.MonotonicNs();
  const int64_t high = BudgetPart(*host_, kHighWater);
  const int64_t low = BudgetPart(*host_, kLowWater);
  if (host_->index().bytes() > high) {
    while (!closing_ && host_->index().bytes() > low && EvictOneFromHost()) continue;
  }
  for (const std::string& idle : host_->index().Owners()) {  // oldest first
    if (closing_) return;
    const auto entry = host_->index().Find(idle);
    if (!entry) continue;
    if (entry->used_ns >= now - options_.host_idle_ms * 1'000'000) break;
    const uint64_t id = IdInHost(*host_, idle);
    const Status status = CopyToDisk(idle);
    const bool expired = entry->used_ns < now - options_.disk_idle_ms * 1'000'000;
    if (!status.ok() && !expired) {  // keep it in memory until the room is needed
      if (StaysInMemory(idle)) continue;
      break;
    }
    if (!status.ok()) {
      std::lock_guard lock(mutex_);
      ++stats_.expired;
    }
    DropFromHost(idle, id);
  }
  if (disk_ == nullptr) return;
  int64_t expired = 0;
  for (; const auto idle = disk_->index().Oldest(now - options_.disk_idle_ms * 1'000'000); ++expired) {
    if (closing_ || !EraseFromDisk(*idle).ok()) break;
    std::lock_guard lock(mutex_);
    ++stats_.expired;
  }
  if (expired > 0) LogInfo("deleted {} caches from the disk: unused for {} s", expired, options_.disk_idle_ms / 1000);
}

Status TieredStore::Impl::EraseFromDisk(const std::string& owner) {
  const Status status = disk_->Erase(owner);
  std::lock_guard lock(mutex_);
  owners_.SetOnDisk(owner, std::nullopt);
  return status;
}

}  // namespace ringside
