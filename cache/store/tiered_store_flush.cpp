// Before a restart: what is in memory only goes to disk, several objects at a time, the most useful first.
#include <algorithm>

#include "cache/store/tiered_store_impl.h"

namespace ringside {

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
        written_.clear();
      }
      if (done) done(status);
    });
  });
}

void TieredStore::Impl::SaveToDisk(std::string owner, Done done) {
  Wanted wanted{std::move(owner), std::move(done), /*named=*/true};
  {
    std::lock_guard lock(mutex_);
    if (const auto place = FindNow(wanted.owner); place && place->tier == StorageTier::kHost)
      wanted.bytes = place->bytes;
    saving_bytes_ += wanted.bytes;
    saving_.insert(wanted.owner);
    host_->index().SetSpare(wanted.owner, false);
  }
  // Behind what the answering thread takes in.
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
    while (const std::optional<Wanted> wanted = TakeWanted()) {
      // Every copy is a sync; whoever ends the store has waited for them as long as it would.
      const Status status =
          closing_ ? Unavailable("tiers: closed before everything was on disk") : WriteToDisk(wanted->owner);
      {
        std::lock_guard lock(mutex_);
        --writers_at_work_;
        saving_bytes_ -= wanted->bytes;
        if (wanted->named) saving_.erase(saving_.find(wanted->owner));
      }
      writers_wake_.notify_all();
      if (wanted->done) wanted->done(status);
      std::lock_guard lock(first_mutex);
      if (!wanted->named && first.ok() && status.code() != StatusCode::kNotFound) first = status;
    }
  };
  std::vector<std::thread> beside;
  for (int i = 1; options_.own_threads && i < kWriters; ++i) beside.emplace_back(write);
  write();
  for (std::thread& writer : beside) writer.join();
  return first;
}

std::optional<TieredStore::Impl::Wanted> TieredStore::Impl::TakeWanted() {
  std::unique_lock lock(mutex_);
  writers_wake_.wait(lock, [&] { return !wanted_.empty() || !flushed_.empty() || writers_at_work_ == 0; });
  // Not what somebody is at already.
  while (!flushed_.empty() && writing_.contains(flushed_.back())) flushed_.pop_back();
  Wanted next;
  if (!wanted_.empty()) {
    next = std::move(wanted_.front());
    wanted_.pop_front();
  } else if (!flushed_.empty()) {
    next.owner = std::move(flushed_.back());
    flushed_.pop_back();
  } else {
    return std::nullopt;
  }
  ++writers_at_work_;
  return next;
}

Status TieredStore::Impl::WriteToDisk(const std::string& owner) {
  if (StaysInMemory(owner)) return Unavailable("tiers: this is never written to disk");
  const auto waiting = ShareWaiting(owner);
  const auto taken_in = [](const SnapshotChunk& chunk) { return chunk.hash.has_value(); };
  // One that has come meanwhile and is still to be taken in: somebody else's.
  if (waiting && !std::ranges::all_of(waiting->chunks(), taken_in)) return Status::Ok();
  {
    // Before it is there: another writer may find the disk full in the moment when this one's has come.
    std::scoped_lock lock(room_mutex_, mutex_);
    written_.insert(owner);
  }
  const Status status = waiting ? PutWaitingOnDisk(owner, waiting->header().id) : CopyToDisk(owner);
  std::lock_guard lock(mutex_);
  if (status.ok())
    host_->index().SetSpare(owner, true);
  else
    written_.erase(owner);
  return status;
}

TieredStore::Unsaved TieredStore::Impl::unsaved() const {
  std::lock_guard lock(mutex_);
  Unsaved out{waiting_.size(), waiting_.bytes()};
  for (const std::string& owner : host_->index().Owners()) {
    const auto entry = host_->index().Find(owner);
    if (!entry || StaysInMemory(owner) || IsOnDisk(owner, IdInHost(*host_, owner))) continue;
    ++out.caches;
    out.bytes += entry->bytes;
  }
  return out;
}

int64_t TieredStore::Impl::saving_room() const {
  std::lock_guard lock(mutex_);
  return WaitingBound() - saving_bytes_;
}

}  // namespace ringside
