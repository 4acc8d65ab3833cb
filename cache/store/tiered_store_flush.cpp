// Flush: writes objects that are only in memory to disk before a restart, several at a time, the most recently used
// first.
#include <algorithm>

#include "cache/store/tiered_store_impl.h"

namespace ringside {
namespace {

constexpr size_t kMaxBatchObjects =
    256;  // maximum number of objects in a batch, for objects smaller than their headers

}  // namespace

void TieredStore::Impl::Flush(Done done) {
  Answer([this, done = std::move(done)] {
    Move([this, done] {
      {
        std::lock_guard lock(mutex_);
        flushed_ = host_->index().Owners();
        std::erase_if(flushed_, StaysInMemory);
      }
      const Status status = RunWriters();
      {
        std::lock_guard lock(mutex_);
        owners_.KeepNoneOnDisk();
      }
      NotifyDone(done, status);
    });
  });
}

void TieredStore::Impl::SaveToDisk(std::string owner, Done done) {
  Wanted wanted{std::move(owner), std::move(done), /*named=*/true};
  {
    std::lock_guard lock(mutex_);
    if (const auto place = FindNow(wanted.owner); place && place->tier == StorageTier::kHost)
      wanted.bytes = place->bytes;
    owners_.BeginSave(wanted.owner, wanted.bytes);
    host_->index().SetSpare(wanted.owner, false);
  }
  // Queued after everything that the answering thread accepts.
  Answer([this, wanted = std::move(wanted)] {
    {
      std::lock_guard lock(mutex_);
      wanted_.push_back(wanted);
    }
    writers_wake_.notify_one();
    Move([this] { (void)RunWriters(); });
  });
}

Status TieredStore::Impl::RunWriters() {
  {
    std::lock_guard lock(mutex_);
    if (wanted_.empty() && flushed_.empty()) return Status::Ok();
  }
  std::mutex first_mutex;
  Status first;
  const auto write = [&] {
    for (std::vector<Wanted> batch = DequeueBatch(); !batch.empty(); batch = DequeueBatch()) {
      const std::vector<Status> statuses = WriteToDisk(batch);
      {
        std::lock_guard lock(mutex_);
        --writers_at_work_;
        for (const Wanted& wanted : batch) {
          if (wanted.named) owners_.EndSave(wanted.owner, wanted.bytes);
        }
      }
      writers_wake_.notify_all();
      for (size_t i = 0; i < batch.size(); ++i) {
        NotifyDone(batch[i].done, statuses[i]);
        std::lock_guard lock(first_mutex);
        if (!batch[i].named && first.ok() && statuses[i].code() != StatusCode::kNotFound) first = statuses[i];
      }
    }
  };
  std::vector<std::thread> beside;
  for (int i = 1; options_.own_threads && i < kWriters; ++i) beside.emplace_back(write);
  write();
  for (std::thread& writer : beside) writer.join();
  return first;
}

std::vector<TieredStore::Impl::Wanted> TieredStore::Impl::DequeueBatch() {
  std::unique_lock lock(mutex_);
  writers_wake_.wait(lock, [&] { return !wanted_.empty() || !flushed_.empty() || writers_at_work_ == 0; });
  std::vector<Wanted> batch;
  for (int64_t bytes = 0; batch.empty() || (bytes < options_.batch_bytes && batch.size() < kMaxBatchObjects);) {
    std::optional<Wanted> next = DequeueNext();
    if (!next) break;
    bytes += next->bytes;
    batch.push_back(*std::move(next));
  }
  if (!batch.empty()) ++writers_at_work_;
  return batch;
}

std::optional<TieredStore::Impl::Wanted> TieredStore::Impl::DequeueNext() {
  // Skip objects that a writer is already writing.
  while (!flushed_.empty() && owners_.IsWriting(flushed_.back())) flushed_.pop_back();
  Wanted next;
  if (!wanted_.empty()) {
    next = std::move(wanted_.front());
    wanted_.pop_front();
  } else if (!flushed_.empty()) {
    next.owner = std::move(flushed_.back());
    flushed_.pop_back();
    if (const auto entry = host_->index().Find(next.owner)) next.bytes = entry->bytes;
  } else {
    return std::nullopt;
  }
  return next;
}

std::vector<Status> TieredStore::Impl::WriteToDisk(const std::vector<Wanted>& batch) {
  std::vector<std::optional<Status>> told(batch.size());
  if (batch.size() > 1 && disk_ != nullptr && !closing_) {
    std::vector<Copy> copies = BeginCopies(batch);
    std::vector<NamedObject> objects;
    int64_t bytes = 0;
    for (const Copy& copy : copies) {
      objects.push_back({batch[copy.place].owner, StoreObjectOf(copy.snapshot)});
      bytes += copy.snapshot.chunk_bytes();
    }
    const auto begin = std::chrono::steady_clock::now();
    const std::vector<Status> put = disk_->PutAll(std::move(objects));
    const double seconds = SecondsSince(begin);
    std::lock_guard lock(mutex_);
    write_rate_.Add(bytes, seconds);
    for (size_t i = 0; i < copies.size(); ++i) {
      const std::string& owner = batch[copies[i].place].owner;
      owners_.EndWrite(owner);
      if (!put[i].ok()) owners_.KeepOnDisk(owner, false);
      if (put[i].ok()) NoteOnDisk(owner, copies[i].snapshot);
      // Retried below, where room is made.
      if (put[i].code() != StatusCode::kOverloaded) told[copies[i].place] = put[i];
    }
  }
  std::vector<Status> out;
  for (size_t i = 0; i < batch.size(); ++i) {
    // Each copy costs a sync, and a caller that closes the store does not wait for more.
    if (!told[i] && closing_) told[i] = Unavailable("tiers: closed before everything was on disk");
    out.push_back(told[i] ? *told[i] : WriteToDisk(batch[i].owner));
  }
  return out;
}

std::vector<TieredStore::Impl::Copy> TieredStore::Impl::BeginCopies(const std::vector<Wanted>& batch) {
  std::vector<Copy> copies;
  std::scoped_lock lock(room_mutex_, mutex_);
  for (size_t i = 0; i < batch.size(); ++i) {
    const std::string& owner = batch[i].owner;
    const bool elsewhere = StaysInMemory(owner) || owners_.Waiting(owner) != nullptr || owners_.IsErasing(owner);
    if (elsewhere || owners_.IsWriting(owner)) continue;
    Result<Snapshot> snapshot = LoadSnapshot(*host_, owner, SnapshotSource::kHost);
    if (!snapshot.ok() || owners_.IsOnDisk(owner, snapshot->header().id)) continue;
    owners_.BeginWrite(owner);
    owners_.KeepOnDisk(owner, true);
    copies.push_back({i, std::move(*snapshot)});
  }
  return copies;
}

void TieredStore::Impl::NoteOnDisk(const std::string& owner, const Snapshot& snapshot) {
  owners_.SetOnDisk(owner, snapshot.header().id);
  host_->index().SetSpare(owner, true);
  ++stats_.demoted;
  stats_.demoted_bytes += static_cast<uint64_t>(snapshot.chunk_bytes());
}

Status TieredStore::Impl::WriteToDisk(const std::string& owner) {
  if (StaysInMemory(owner)) return Unavailable("tiers: this is never written to disk");
  const auto waiting = ShareWaiting(owner);
  const auto taken_in = [](const SnapshotChunk& chunk) { return chunk.hash.has_value(); };
  // A snapshot that arrived meanwhile and is not hashed yet: the answering thread stores it.
  if (waiting && !std::ranges::all_of(waiting->chunks(), taken_in)) return Status::Ok();
  {
    // Before the write: another writer may find the disk full just after this object arrives, and must not evict it.
    std::scoped_lock lock(room_mutex_, mutex_);
    owners_.KeepOnDisk(owner, true);
  }
  const Status status = waiting ? PutWaitingOnDisk(owner, waiting->header().id) : CopyToDisk(owner);
  std::lock_guard lock(mutex_);
  if (status.ok())
    host_->index().SetSpare(owner, true);
  else
    owners_.KeepOnDisk(owner, false);
  return status;
}

TieredStore::Unsaved TieredStore::Impl::unsaved() const {
  std::lock_guard lock(mutex_);
  Unsaved out{owners_.waiting(), owners_.waiting_bytes()};
  for (const std::string& owner : host_->index().Owners()) {
    const auto entry = host_->index().Find(owner);
    if (!entry || StaysInMemory(owner) || owners_.IsOnDisk(owner, IdInHost(*host_, owner))) continue;
    ++out.caches;
    out.bytes += entry->bytes;
  }
  return out;
}

int64_t TieredStore::Impl::saving_room() const {
  std::lock_guard lock(mutex_);
  return WaitingBound() - owners_.saving_bytes();
}

}  // namespace ringside
