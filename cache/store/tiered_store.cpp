#include "cache/store/tiered_store.h"

#include <atomic>
#include <chrono>
#include <future>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/log.h"
#include "base/parallel_for.h"
#include "cache/store/tiered_store_impl.h"

namespace ringside {
namespace {

/// Reads of a stored cache at once: the disk has several requests while other threads check and copy what they got.
constexpr size_t kDiskReaders = 4;

Status ReadChunk(Store& store, const std::string& owner, Snapshot& snapshot, size_t index, bool verify) {
  const SnapshotChunk& chunk = snapshot.chunks()[index];
  auto bytes = store.GetPart(owner, *chunk.hash, static_cast<size_t>(snapshot.bytes_of(chunk)));
  // The manifest names the chunk, so it should exist.
  if (bytes.status().code() == StatusCode::kNotFound) return Corruption("tiers: a chunk is missing");
  if (!bytes.ok()) return bytes.status();
  return snapshot.Attach(index, std::move(*bytes), verify);
}

Status TooSlow() { return Overloaded("tiers: the disk is too slow for the evicted caches"); }

}  // namespace

StoreObject StoreObjectOf(const Snapshot& snapshot) {
  StoreObject object;
  object.manifest = snapshot.EncodeHeader();
  for (const SnapshotChunk& chunk : snapshot.chunks()) object.parts.push_back({*chunk.hash, chunk.bytes});
  return object;
}

Result<Snapshot> LoadSnapshot(Store& store, const std::string& owner, SnapshotSource source) {
  ASSIGN_OR_RETURN(const std::string manifest, store.GetManifest(owner));
  ASSIGN_OR_RETURN(Snapshot snapshot, Snapshot::DecodeHeader(std::as_bytes(std::span(manifest))));
  const bool disk = source == SnapshotSource::kDisk;
  std::vector<Status> failed(snapshot.chunks().size());
  std::atomic<bool> stop{false};
  ParallelParts(failed.size(), disk ? kDiskReaders : 1, [&](size_t first, size_t last) {
    for (size_t i = first; i < last && !stop; ++i) {
      failed[i] = ReadChunk(store, owner, snapshot, i, disk);
      if (!failed[i].ok()) stop = true;
    }
  });
  for (const Status& status : failed) RETURN_IF_ERROR(status);
  return snapshot;
}

TieredStore::Impl::Impl(std::unique_ptr<ringside::Store> host, std::unique_ptr<ringside::Store> disk,
                        const TieredStoreOptions& options, const Clock& clock)
    : host_(std::move(host)), disk_(std::move(disk)), options_(options), clock_(clock) {
  CHECK(host_ != nullptr);
  if (!options_.own_threads) return;
  answering_ = std::thread([this] { RunAnswering(); });
  moving_ = std::thread([this] { RunMoving(); });
}

TieredStore::Impl::~Impl() {
  closing_ = true;
  if (!options_.own_threads) {
    RunQueued();
    return;
  }
  answering_queue_.Close();
  answering_.join();  // first: it posts work to the other
  moving_queue_.Close();
  moving_.join();
}

void TieredStore::Impl::RunAnswering() {
  for (;;) {
    const std::vector<Work> works = answering_queue_.Drain(true);
    if (works.empty()) return;
    for (const Work& work : works) work();
  }
}

bool TieredStore::Impl::CancelPending(const std::string& owner, const Status& why) {
  std::optional<MovingQueue::Move> canceled = moving_queue_.Cancel(owner);
  if (!canceled) return false;
  Answer([done = std::move(canceled->done), why] { NotifyDone(done, why); });
  return true;
}

void TieredStore::Impl::RunMoving() {
  while (const std::optional<MovingQueue::Move> move = moving_queue_.Pop(options_.sweep_ms)) {
    move->work ? move->work() : ApplyIdleTimes();
  }
}

void TieredStore::Impl::RunQueued() {
  CHECK(!options_.own_threads);
  for (;;) {
    const std::vector<Work> works = answering_queue_.Drain(/*wait=*/false);
    for (const Work& work : works) work();
    const std::optional<MovingQueue::Move> move = moving_queue_.TryPop();
    if (!move && works.empty()) return;
    if (move) move->work();
  }
}

bool TieredStore::Impl::HasOtherCopy(const std::string& owner) const {
  return owners_.IsSpareBase(owner) || owners_.IsOnDisk(owner, IdInHost(*host_, owner));
}

uint64_t TieredStore::Impl::IdInHost(ringside::Store& host, const std::string& owner) {
  const auto manifest = host.GetManifest(owner);
  if (!manifest.ok()) return 0;
  const auto header = Snapshot::DecodeHeader(std::as_bytes(std::span(manifest.value())));
  return header.ok() ? header->header().id : 0;
}

Status TieredStore::Impl::Store(std::string owner, Snapshot snapshot, Done done) {
  CHECK(!owner.empty() && owner.size() <= kMaxOwnerBytes);
  CHECK(snapshot.complete());
  const uint64_t id = snapshot.header().id;
  {
    std::lock_guard lock(mutex_);
    if (owners_.waiting() >= options_.queue) return Overloaded("tiers: too many snapshots are waiting");
    Await(owner, std::move(snapshot));
  }
  Answer([this, owner = std::move(owner), id, done = std::move(done)] { AcceptSnapshot(owner, id, done); });
  return Status::Ok();
}

void TieredStore::Impl::Await(const std::string& owner, Snapshot snapshot) {
  if (const Status erased = host_->Erase(owner); !erased.ok()) LogWarning("{}", erased.message());
  CancelPending(owner, Status::Ok());
  owners_.Offer(owner, std::move(snapshot));
  DropExcessWaiting();
}

void TieredStore::Impl::DropExcessWaiting() {
  const int64_t bound = WaitingBound();
  while (owners_.waiting_bytes_except_last() > bound) {
    const std::string oldest = *owners_.OldestWaitingExceptLast();
    CancelPending(oldest, TooSlow()) ? owners_.RemoveWaiting(oldest) : owners_.DropWaiting(oldest);
    ++stats_.dropped;
  }
  while (host_->index().bytes() + owners_.waiting_bytes_except_last() > bound) {
    const auto first = host_->index().PickEvictionVictim();
    if (!first) return;
    // An object being written is on disk shortly, or is counted if that write fails.
    const bool lost = !owners_.IsWriting(*first) && !HasOtherCopy(*first);
    if (!host_->Erase(*first).ok()) return;
    if (lost) ++stats_.dropped;
  }
}

std::optional<Snapshot> TieredStore::Impl::ShareWaiting(const std::string& owner, std::optional<uint64_t> id) const {
  std::lock_guard lock(mutex_);
  const Snapshot* const found = owners_.Waiting(owner, id);
  return found == nullptr ? std::nullopt : std::optional(found->Share());
}

Status TieredStore::Impl::DropReason(const std::string& owner, uint64_t id) {
  std::lock_guard lock(mutex_);
  if (owners_.ConsumeDropped(owner, id)) return TooSlow();
  return Status::Ok();  // replaced by a newer one, or the owner was erased
}

void TieredStore::Impl::AcceptSnapshot(const std::string& owner, uint64_t id, const Done& done) {
  std::optional<Snapshot> snapshot = ShareWaiting(owner, id);
  if (!snapshot) return NotifyDone(done, DropReason(owner, id));
  {
    std::lock_guard lock(mutex_);
    ++stats_.stored;
    for (const SnapshotChunk& chunk : snapshot->chunks()) {
      if (!chunk.hash) stats_.stored_bytes += chunk.bytes.size();
    }
  }
  snapshot->Seal();
  const Status status = PutInHost(owner, *snapshot, true);
  if (const auto& chunks = snapshot->chunks(); !chunks.empty()) {
    // Fault in memory for the next capture, which will be about as large, so that its copy need not wait for page
    // faults.
    const size_t bytes = chunks[chunks.size() / 2].bytes.size(), blocks = chunks.size();
    if (!prefaulting_.exchange(true)) {
      Move([this, bytes, blocks] {
        prefaulting_ = false;
        BlobReserve::Instance().Prefault(bytes, blocks);
      });
    }
  }
  if (status.code() != StatusCode::kOverloaded) return NotifyDone(done, status);
  // This loop holds no bytes: a snapshot dropped meanwhile frees its memory at once and ends the loop.
  std::unique_lock lock(mutex_);
  if (owners_.Waiting(owner, id) != nullptr) {
    owners_.ReplaceWaiting(owner, std::move(*snapshot));
    return Move([this, owner, id, done] { MakeRoomAndPut(owner, id, done); }, owner, done);
  }
  lock.unlock();
  NotifyDone(done, DropReason(owner, id));
}

Status TieredStore::Impl::PutInHost(const std::string& owner, const Snapshot& snapshot, bool pending) {
  const uint64_t id = snapshot.header().id;
  for (;;) {
    StoreObject object = StoreObjectOf(snapshot);
    std::unique_lock lock(mutex_);
    if (pending && owners_.Waiting(owner, id) == nullptr) {
      lock.unlock();
      return DropReason(owner, id);
    }
    if (!pending && (owners_.Waiting(owner) != nullptr || owners_.IsErasing(owner))) return Status::Ok();
    const Status status = host_->Put(owner, std::move(object));
    if (status.ok()) {
      host_->index().SetSpare(owner, owners_.IsSpareBase(owner));
      if (pending) owners_.RemoveWaiting(owner);
      return status;
    }
    const auto first = host_->index().PickEvictionVictim();
    if (snapshot.chunk_bytes() > host_->budget_bytes() || !first || *first == owner || !HasOtherCopy(*first)) {
      return status;
    }
    RETURN_IF_ERROR(host_->Erase(*first));
  }
}

void TieredStore::Impl::Fetch(std::string owner, FetchDone done) {
  const int64_t begin = clock_.MonotonicNs();
  // A read from memory must not queue after the hashing of other saves. A fork may still be pending, so it takes the
  // queue.
  if (!IsForking(owner)) {
    if (auto fetched = GetFromMemory(owner)) {
      fetched->ms = static_cast<double>(clock_.MonotonicNs() - begin) * 1e-6;
      if (done) done(std::move(*fetched));
      return;
    }
  }
  Answer([this, owner = std::move(owner), done = std::move(done), begin] {
    auto fetched = Get(owner);
    if (fetched.ok()) fetched->ms = static_cast<double>(clock_.MonotonicNs() - begin) * 1e-6;
    if (done) done(std::move(fetched));
  });
}

std::optional<FetchedSnapshot> TieredStore::Impl::GetFromMemory(const std::string& owner) {
  auto found = Base(owner);
  if (!found) return std::nullopt;
  const int64_t now = clock_.MonotonicNs();
  host_->index().Touch(owner, now);
  if (disk_ != nullptr) disk_->index().Touch(owner, now);
  std::lock_guard lock(mutex_);
  ++stats_.host_hits;
  return FetchedSnapshot{std::move(*found), StorageTier::kHost, 0};
}

Result<FetchedSnapshot> TieredStore::Impl::Get(const std::string& owner) {
  if (auto found = GetFromMemory(owner)) return std::move(*found);
  const auto hidden = [&] {
    std::lock_guard lock(mutex_);
    return owners_.IsErasing(owner);
  };
  const auto miss = [&] {
    std::lock_guard lock(mutex_);
    ++stats_.misses;
    return NotFound("tiers: no cache is stored for this owner");
  };
  if (disk_ == nullptr || hidden()) return miss();
  disk_->index().Touch(owner, clock_.MonotonicNs());
  const auto begin = std::chrono::steady_clock::now();
  auto loaded = LoadSnapshot(*disk_, owner, SnapshotSource::kDisk);
  if (!loaded.ok()) {
    const StatusCode code = loaded.status().code();
    if (code == StatusCode::kNotFound || hidden()) return miss();
    LogWarning("{}", loaded.status().message());
    {
      std::lock_guard lock(mutex_);
      ++stats_.damaged;
    }
    if (code != StatusCode::kIo) Erase(owner, nullptr);
    return loaded.status();
  }
  {
    std::lock_guard lock(mutex_);
    ++stats_.disk_hits;
    read_rate_.Add(loaded->chunk_bytes(), SecondsSince(begin));
    owners_.SetOnDisk(owner, loaded->header().id);
  }
  // Cache it in memory, as the base of the next save and for the next fetch, if there is room.
  if (const Status kept = PutInHost(owner, *loaded, false); !kept.ok() && kept.code() != StatusCode::kOverloaded) {
    LogWarning("{}", kept.message());
  }
  return FetchedSnapshot{std::move(*loaded), StorageTier::kDisk, 0};
}

void TieredStore::Impl::SetInSlot(const std::string& owner, bool in_slot) {
  std::lock_guard lock(mutex_);
  owners_.SetInSlot(owner, in_slot);
  host_->index().SetSpare(owner, owners_.IsSpareBase(owner));
}

void TieredStore::Impl::Prefetch(std::string owner) {
  Answer([this, owner = std::move(owner)] {
    if (host_->index().Find(owner)) {
      host_->index().Touch(owner, clock_.MonotonicNs());
    } else if (const auto fetched = Get(owner); !fetched.ok()) {
      LogDebug("{}", fetched.status().message());
    }
  });
}

void TieredStore::Impl::Erase(std::string owner, Done done) {
  Status status;
  {
    std::lock_guard lock(mutex_);
    CancelPending(owner, Status::Ok());
    owners_.Erase(owner, /*hide=*/disk_ != nullptr);
    status = host_->Erase(owner);
  }
  if (disk_ == nullptr) return Answer([status, done = std::move(done)] { NotifyDone(done, status); });
  // Queued after work that the answering thread has accepted already, so that a pending store cannot recreate the
  // object.
  Answer([this, owner = std::move(owner), done = std::move(done)] {
    Move([this, owner, done] {
      const Status erased = EraseFromDisk(owner);
      {
        std::lock_guard lock(mutex_);
        owners_.EndErase(owner);
      }
      NotifyDone(done, erased);
    });
  });
}

void TieredStore::Impl::Fork(std::string from, std::string to, Done done) {
  CHECK(!to.empty() && to.size() <= kMaxOwnerBytes);
  uint64_t ticket = 0;
  {
    std::lock_guard lock(mutex_);
    ticket = owners_.Fork(from, to);
  }
  // Share a snapshot in memory at once, so that a later erasure of `from` does not matter.
  std::optional<Snapshot> base;
  if (!IsForking(from)) base = Base(from);
  if (base) return FinishFork(to, ticket, std::move(*base), done);
  Answer([this, from = std::move(from), to = std::move(to), ticket, done = std::move(done)] {
    auto fetched = Get(from);
    if (fetched.ok()) return FinishFork(to, ticket, std::move(fetched->snapshot), done);
    {
      std::lock_guard lock(mutex_);
      if (owners_.IsForking(to, ticket)) owners_.CancelFork(to);
    }
    NotifyDone(done, fetched.status());
  });
}

bool TieredStore::Impl::IsForking(const std::string& owner) const {
  std::lock_guard lock(mutex_);
  return HasFork(owners_.arrival(owner));
}

void TieredStore::Impl::FinishFork(const std::string& to, uint64_t ticket, Snapshot snapshot, const Done& done) {
  const uint64_t id = snapshot.header().id;
  bool wanted = false;
  {
    std::lock_guard lock(mutex_);
    wanted = owners_.IsForking(to, ticket);
    if (wanted) Await(to, std::move(snapshot));
  }
  // Superseded: erased, or replaced by a newer snapshot meanwhile.
  if (!wanted) return Answer([done] { NotifyDone(done, NotFound("tiers: the fork is gone")); });
  Answer([this, to, id, done] { AcceptSnapshot(to, id, done); });
}

std::optional<Snapshot> TieredStore::Impl::Base(const std::string& owner) {
  if (auto waiting = ShareWaiting(owner)) return waiting;
  auto loaded = LoadSnapshot(*host_, owner, SnapshotSource::kHost);
  if (loaded.ok()) return std::move(*loaded);
  return ShareWaiting(owner);  // a newer snapshot replaced the one in memory between the two calls
}

std::optional<TieredStore::Place> TieredStore::Impl::Find(const std::string& owner) const {
  std::lock_guard lock(mutex_);
  return FindNow(owners_.ForkSource(owner).value_or(owner));
}

std::optional<TieredStore::Place> TieredStore::Impl::FindNow(const std::string& owner) const {
  if (const Snapshot* const waiting = owners_.Waiting(owner)) {
    return Place{StorageTier::kHost, waiting->chunk_bytes(), 0};
  }
  if (const auto entry = host_->index().Find(owner)) return Place{StorageTier::kHost, entry->bytes, 0};
  if (disk_ == nullptr || owners_.IsErasing(owner)) return std::nullopt;
  const auto entry = disk_->index().Find(owner);
  if (!entry) return std::nullopt;
  const double rate = read_rate_.get();
  return Place{StorageTier::kDisk, entry->bytes, rate > 0 ? 1e3 * static_cast<double>(entry->bytes) / rate : 0};
}

void TieredStore::Impl::Sweep() {
  Answer([this] { Move([this] { ApplyIdleTimes(); }); });
  WaitForAnswersAndMoves();
}

void TieredStore::Impl::WaitForAnswersAndMoves() {
  if (!options_.own_threads) return RunQueued();
  std::promise<void> done;
  Answer([this, &done] { Move([&done] { done.set_value(); }); });
  done.get_future().wait();
}

void TieredStore::Impl::Reconcile(const std::function<bool(const std::string&)>& exists) {
  std::vector<std::string> owners = host_->index().Owners();
  if (disk_ != nullptr) {
    for (std::string& owner : disk_->index().Owners()) owners.push_back(std::move(owner));
  }
  for (const std::string& owner : owners) {
    if (!exists(owner)) Erase(owner, nullptr);
  }
  WaitForAnswersAndMoves();
}

TieredStoreStats TieredStore::Impl::stats() const {
  std::lock_guard lock(mutex_);
  TieredStoreStats out = stats_;
  out.host_bytes = host_->index().bytes();
  out.host_objects = host_->index().owners();
  out.waiting_bytes = owners_.waiting_bytes();
  out.memory_bytes = static_cast<int64_t>(BlobReserve::Instance().taken_bytes());
  if (disk_ != nullptr) {
    out.disk_bytes = disk_->index().bytes();
    out.disk_objects = disk_->index().owners();
  }
  out.disk_read_bytes_per_second = read_rate_.get();
  out.disk_write_bytes_per_second = write_rate_.get();
  return out;
}

TieredStore::TieredStore(std::unique_ptr<ringside::Store> host, std::unique_ptr<ringside::Store> disk,
                         const TieredStoreOptions& options, const Clock& clock)
    : impl_(std::make_unique<Impl>(std::move(host), std::move(disk), options, clock)) {}
TieredStore::~TieredStore() = default;

Status TieredStore::Store(std::string owner, Snapshot snapshot, Done done) {
  return impl_->Store(std::move(owner), std::move(snapshot), std::move(done));
}
void TieredStore::Fetch(std::string owner, FetchDone done) { impl_->Fetch(std::move(owner), std::move(done)); }
void TieredStore::SetInSlot(const std::string& owner, bool in_slot) { impl_->SetInSlot(owner, in_slot); }
void TieredStore::Prefetch(std::string owner) { impl_->Prefetch(std::move(owner)); }
void TieredStore::Erase(std::string owner, Done done) { impl_->Erase(std::move(owner), std::move(done)); }
void TieredStore::Fork(std::string from, std::string to, Done done) {
  impl_->Fork(std::move(from), std::move(to), std::move(done));
}
void TieredStore::Flush(Done done) { impl_->Flush(std::move(done)); }
void TieredStore::SaveToDisk(std::string owner, Done done) { impl_->SaveToDisk(std::move(owner), std::move(done)); }
TieredStore::Unsaved TieredStore::unsaved() const { return impl_->unsaved(); }
int64_t TieredStore::saving_room() const { return impl_->saving_room(); }
std::optional<Snapshot> TieredStore::Base(const std::string& owner) { return impl_->Base(owner); }
std::optional<TieredStore::Place> TieredStore::Find(const std::string& owner) const { return impl_->Find(owner); }
void TieredStore::Sweep() { impl_->Sweep(); }
void TieredStore::RunQueued() { impl_->RunQueued(); }
void TieredStore::Reconcile(const std::function<bool(const std::string&)>& exists) { impl_->Reconcile(exists); }
int64_t TieredStore::host_room() const { return impl_->host_room(); }
bool TieredStore::WouldKeep(const std::string& owner, int64_t bytes, int64_t coming) const {
  return impl_->WouldKeep(owner, bytes, coming);
}
TieredStoreStats TieredStore::stats() const { return impl_->stats(); }

}  // namespace ringside
