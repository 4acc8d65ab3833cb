// Implementation of TieredStore: the tiers, the queues between them, two threads. Included only by its source files.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/bounded_queue.h"
#include "cache/store/moving_queue.h"
#include "cache/store/owner_table.h"
#include "cache/store/tiered_store.h"

namespace ringside {

/// Moving average in bytes per second.
class TransferRate {
 public:
  void Add(int64_t bytes, double seconds) {
    if (bytes <= 0 || seconds <= 0) return;
    const double now = static_cast<double>(bytes) / seconds;
    rate_ = rate_ == 0 ? now : 0.7 * rate_ + 0.3 * now;
  }
  double get() const { return rate_; }

 private:
  double rate_ = 0;
};

enum class SnapshotSource { kHost, kDisk };
/// Reads `owner`'s object from a store. From the disk: several chunks at once, each checked against its hash. ERRORS:
/// kCorruption, also for a missing chunk.
Result<Snapshot> LoadSnapshot(Store& store, const std::string& owner, SnapshotSource source);
/// The stored form of a sealed snapshot.
StoreObject StoreObjectOf(const Snapshot& snapshot);

inline double SecondsSince(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

class TieredStore::Impl {
 public:
  Impl(std::unique_ptr<ringside::Store> host, std::unique_ptr<ringside::Store> disk, const TieredStoreOptions& options,
       const Clock& clock);
  ~Impl();

  Status Store(std::string owner, Snapshot snapshot, Done done);
  void Fetch(std::string owner, FetchDone done);
  void SetInSlot(const std::string& owner, bool in_slot);
  void Prefetch(std::string owner);
  void Erase(std::string owner, Done done);
  void Fork(std::string from, std::string to, Done done);
  void Flush(Done done);
  void SaveToDisk(std::string owner, Done done);
  Unsaved unsaved() const;
  int64_t saving_room() const;
  std::optional<Snapshot> Base(const std::string& owner);
  std::optional<Place> Find(const std::string& owner) const;
  void Sweep();
  void RunQueued();
  void Reconcile(const std::function<bool(const std::string&)>& exists);
  TieredStoreStats stats() const;
  int64_t host_room() const;
  bool WouldKeep(const std::string& owner, int64_t bytes, int64_t coming) const;

 private:
  using Work = std::function<void()>;
  static void NotifyDone(const Done& done, const Status& status) {
    if (done) done(status);
  }
  void Answer(Work work) { answering_queue_.PushUrgent(std::move(work)); }
  /// Queues work for the moving thread. With an `owner`, the work places that owner's waiting snapshot and then
  /// notifies `done`.
  void Move(Work work, const std::string& owner = "", const Done& done = nullptr) {
    moving_queue_.Push({std::move(work), owner, done});
  }
  /// Cancels the queued placement of this owner's waiting snapshot and calls its callback with `why`. False if none is
  /// queued: then the thread that runs it notices by itself. REQUIRES: mutex_ held.
  bool CancelPending(const std::string& owner, const Status& why);
  void RunAnswering();
  void RunMoving();
  /// Returns when all requests made before have been completed, on whatever thread.
  void WaitForAnswersAndMoves();

  /// Location, pending forks excluded. REQUIRES: mutex_ held.
  std::optional<Place> FindNow(const std::string& owner) const;
  bool IsForking(const std::string& owner) const;
  /// Makes the offered snapshot the owner's newest, drops the older one in memory, then drops the least recently used
  /// snapshots until all but the last offered are within the bound. REQUIRES: mutex_ held.
  void Await(const std::string& owner, Snapshot snapshot);
  void DropExcessWaiting();
  int64_t WaitingBound() const { return std::max(host_->budget_bytes(), options_.least_waiting_bytes); }
  /// The snapshot waiting for this owner: any capture, or capture `id`.
  std::optional<Snapshot> ShareWaiting(const std::string& owner, std::optional<uint64_t> id = std::nullopt) const;
  /// Why an offered snapshot no longer waits. Reported once.
  Status DropReason(const std::string& owner, uint64_t id);
  /// Offers a forked snapshot as the newest of `to`, unless the fork was superseded.
  void FinishFork(const std::string& to, uint64_t ticket, Snapshot snapshot, const Done& done);

  // THREAD: answering.
  void AcceptSnapshot(const std::string& owner, uint64_t id, const Done& done);
  Result<FetchedSnapshot> Get(const std::string& owner);
  /// nullopt if memory has no object of this owner. THREAD: any.
  std::optional<FetchedSnapshot> GetFromMemory(const std::string& owner);
  /// Puts a sealed snapshot into memory if it is still the owner's newest. Makes room only by dropping copies of
  /// objects that are elsewhere too. ERRORS: kOverloaded if that is not enough.
  Status PutInHost(const std::string& owner, const Snapshot& snapshot, bool pending);

  // THREAD: moving; no other thread writes to the disk.
  void MakeRoomAndPut(const std::string& owner, uint64_t id, const Done& done);
  /// Writes a snapshot that did not fit into memory to disk, if it still waits.
  Status PutWaitingOnDisk(const std::string& owner, uint64_t id);
  /// Copies the object in memory to disk. ENSURES: after Ok the disk has it.
  Status CopyToDisk(const std::string& owner);
  Status PutOnDisk(const std::string& owner, const Snapshot& snapshot);
  void DropFromHost(const std::string& owner, uint64_t id);
  /// Evicts the first victim from memory, to disk if possible and the object is not spare. False if there is none.
  bool EvictOneFromHost();
  void ApplyIdleTimes();
  Status EraseFromDisk(const std::string& owner);

  // THREAD: moving, and the extra writers that it waits for.
  struct Wanted {  // a write request
    std::string owner;
    Done done = nullptr;
    bool named = false;  // requested by name, not by Flush: the owner and its bytes are counted in owners_
    int64_t bytes = 0;   // in the host tier
  };
  /// Runs write requests until none is left and returns the first error among the objects of Flush.
  Status RunWriters();
  /// The next batch; blocks while other writers may add to the queue. Empty = none left.
  std::vector<Wanted> DequeueBatch();
  /// The next request alone; nullopt if none is left. REQUIRES: mutex_ held.
  std::optional<Wanted> DequeueNext();
  /// The statuses, in the order of the batch.
  std::vector<Status> WriteToDisk(const std::vector<Wanted>& batch);
  Status WriteToDisk(const std::string& owner);
  /// Reads the objects that are only in the host tier and marks them as being written.
  struct Copy {
    size_t place;  // index in `batch`
    Snapshot snapshot;
  };
  std::vector<Copy> BeginCopies(const std::vector<Wanted>& batch);
  void NoteOnDisk(const std::string& owner, const Snapshot& snapshot);  // REQUIRES: mutex_ held

  static bool StaysInMemory(const std::string& owner) { return owner.starts_with(kMemoryOnly); }
  /// True if the owner's object in memory may be dropped without loss: it is also on disk, or in a slot. REQUIRES:
  /// mutex_ held.
  bool HasOtherCopy(const std::string& owner) const;
  static uint64_t IdInHost(ringside::Store& host, const std::string& owner);

  const std::unique_ptr<ringside::Store> host_, disk_;
  const TieredStoreOptions options_;
  const Clock& clock_;

  mutable std::mutex mutex_;
  OwnerTable owners_;  // an owner with a waiting snapshot has no object in the host store
  TieredStoreStats stats_;
  TransferRate read_rate_, write_rate_;
  std::deque<Wanted> wanted_;         // requested by name, FIFO
  std::vector<std::string> flushed_;  // found by Flush; taken from the back, the most recently used first
  // Held during an eviction from disk, so that no writer starts on the victim. Locked before mutex_.
  std::mutex room_mutex_;
  int writers_at_work_ = 0;
  std::condition_variable writers_wake_;

  BoundedQueue<Work> answering_queue_{1};  // PushUrgent ignores the capacity; the waiting snapshots bound it
  MovingQueue moving_queue_;
  std::atomic<bool> prefaulting_{false};
  std::atomic<bool> closing_{false};  // skip moves between tiers: each one costs a sync
  std::thread answering_, moving_;
};

}  // namespace ringside
