// What a TieredStore is made of: the tiers, what is on its way between them, two threads. Shared by the source files
// that implement it; nobody else includes this.
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
#include <set>
#include <string>
#include <thread>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/bounded_queue.h"
#include "cache/store/tiered_store.h"
#include "cache/store/waiting_snapshots.h"

namespace ringside {

/// Bytes per second, of recent moves.
class MoveRate {
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

/// Reads `owner`'s object from one store, every chunk checked against its hash where `verify`. kCorruption also where a
/// chunk that the manifest names is missing.
Result<Snapshot> LoadSnapshot(Store& store, const std::string& owner, bool verify);
/// The object that stores a sealed snapshot.
StoreObject StoreObjectOf(const Snapshot& snapshot);

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
  struct Moving {
    Work work;
    std::string owner;
    Done done;
  };

  void Answer(Work work) { answering_queue_.PushUrgent(std::move(work)); }
  /// Queues work for the moving thread. With an `owner`: it is to place what waits of this one, and `done` to be told.
  void Move(Work work, const std::string& owner = "", const Done& done = nullptr);
  /// Takes back what was queued to place what waited of this owner, and tells its callback `why`. False if nothing is
  /// queued: then whoever is at it will find out. mutex_ held.
  bool CallOff(const std::string& owner, const Status& why);
  void RunAnswering();
  void RunMoving();
  /// Takes the oldest move that is queued; moving_mutex_ held.
  Moving TakeMove();
  /// Returns when everything asked before has been done, by whoever does it.
  void WaitForAnswersAndMoves();

  /// Where it is, forks that are still to be made not counted; mutex_ held.
  std::optional<Place> FindNow(const std::string& owner) const;
  bool IsForking(const std::string& owner) const;
  /// What is offered becomes the owner's newest; mutex_ held. Whatever memory has of this owner is older and goes, and
  /// with it what was used least recently, until all but the last to come is within the bound.
  void Await(const std::string& owner, Snapshot snapshot);
  void DropWhatIsOverTheBound();
  int64_t WaitingBound() const { return std::max(host_->budget_bytes(), options_.least_waiting_bytes); }
  /// What waits for this owner, of any capture or of this one.
  std::optional<Snapshot> ShareWaiting(const std::string& owner, std::optional<uint64_t> id = std::nullopt) const;
  /// Why a snapshot that was offered no longer waits. Told once.
  Status WhyGone(const std::string& owner, uint64_t id);
  /// Offers what was forked as the newest of `to`, unless the fork has been overtaken.
  void FinishFork(const std::string& to, uint64_t ticket, Snapshot snapshot, const Done& done);

  // The answering thread.
  void TakeIn(const std::string& owner, uint64_t id, const Done& done);
  Result<FetchedSnapshot> Get(const std::string& owner);
  /// nullopt if memory has nothing of this owner. Any thread.
  std::optional<FetchedSnapshot> GetFromMemory(const std::string& owner);
  /// Puts a sealed snapshot into memory if it is still the owner's newest; makes room only by dropping copies of what
  /// is elsewhere too. kOverloaded if that is not enough.
  Status PutInHost(const std::string& owner, const Snapshot& snapshot, bool pending);

  // The moving thread; nothing else writes to the disk.
  void MakeRoomAndPut(const std::string& owner, uint64_t id, const Done& done);
  /// What did not fit into memory goes to disk, if it still waits.
  Status PutWaitingOnDisk(const std::string& owner, uint64_t id);
  /// Copies the host's object to disk. After Ok the disk has it.
  Status CopyToDisk(const std::string& owner);
  Status PutOnDisk(const std::string& owner, const Snapshot& snapshot);
  void DropFromHost(const std::string& owner, uint64_t id);
  /// Takes the first to go out of memory, to disk if that is possible and it is not spare. False if there is none.
  bool MakeOneLeaveHost();
  void ApplyIdleTimes();
  Status EraseFromDisk(const std::string& owner);

  // The moving thread and, while it waits for them, some beside it.
  struct Wanted {  // to be written
    std::string owner;
    Done done = nullptr;
    bool named = false;  // in place of what Flush found: it and its bytes are counted in saving_
    int64_t bytes = 0;   // in the host tier
  };
  /// Writes what is wanted until nothing is, and returns the first error of what Flush found.
  Status RunWriters();
  /// What is to be written next; waits while others write, for they may lead to more. Empty = nothing is left.
  std::vector<Wanted> TakeWanted();
  /// The next one alone, nullopt if nothing is left; mutex_ held.
  std::optional<Wanted> TakeNext();
  /// The statuses, in that order.
  std::vector<Status> WriteToDisk(const std::vector<Wanted>& batch);
  Status WriteToDisk(const std::string& owner);
  /// Reads the objects that are in the host tier only, and notes them as being written.
  struct Copy {
    size_t place;  // in `batch`
    Snapshot snapshot;
  };
  std::vector<Copy> BeginCopies(const std::vector<Wanted>& batch);
  void NoteOnDisk(const std::string& owner, const Snapshot& snapshot);  // mutex_ held

  static bool StaysInMemory(const std::string& owner) { return owner.starts_with(kMemoryOnly); }
  bool IsOnDisk(const std::string& owner, uint64_t id) const;  // mutex_ held
  /// Whether what memory has of this owner may go without loss: it is on disk too, or in a slot. mutex_ held.
  bool IsElsewhere(const std::string& owner) const;
  /// Whether a slot has this owner's cache, and it is not just being brought to disk. mutex_ held.
  bool IsOnlyABase(const std::string& owner) const { return in_slots_.contains(owner) && !saving_.contains(owner); }
  static uint64_t IdInHost(ringside::Store& host, const std::string& owner);

  const std::unique_ptr<ringside::Store> host_, disk_;
  const TieredStoreOptions options_;
  const Clock& clock_;

  mutable std::mutex mutex_;
  WaitingSnapshots waiting_;                              // their owners have nothing in the host store
  std::set<std::pair<std::string, uint64_t>> overflown_;  // dropped while they waited; whoever looks for one says so
  std::unordered_set<std::string> in_slots_;              // owners, whatever else there is of them
  std::unordered_set<std::string> writing_;               // whose objects are being copied to disk
  struct QueuedFork {
    std::string from;
    uint64_t ticket = 0;
  };
  std::unordered_map<std::string, QueuedFork> forks_;  // by the new owner: asked for, not yet made
  uint64_t last_fork_ = 0;
  std::unordered_set<std::string> erasing_;             // on disk perhaps, but no longer to be found there
  std::unordered_map<std::string, uint64_t> disk_ids_;  // what is known to be on disk
  TieredStoreStats stats_;
  MoveRate read_rate_, write_rate_;
  std::deque<Wanted> wanted_;                // by name, the first to be asked for first
  std::vector<std::string> flushed_;         // what Flush found, what was used last at the end: from there it is taken
  std::unordered_set<std::string> written_;  // or being written, until Flush has ended; they do not go for others
  // Held while one goes from the disk for another, so that no writer begins with it. Taken before mutex_.
  std::mutex room_mutex_;
  // What was asked for by name and is not on disk yet: owners, and bytes of all.
  std::unordered_multiset<std::string> saving_;
  int64_t saving_bytes_ = 0;
  int writers_at_work_ = 0;
  std::condition_variable writers_wake_;

  BoundedQueue<Work> answering_queue_{1};  // PushUrgent is not held to it; waiting_ is
  std::mutex moving_mutex_;
  std::condition_variable moving_wake_;
  std::deque<Moving> moving_queue_;  // however long one move takes, no more of these than snapshots wait, and erasures
  bool stopping_ = false;
  std::atomic<bool> laying_in_{false};
  std::atomic<bool> closing_{false};  // what is only moved about is given up: each move is a sync
  std::thread answering_, moving_;
};

}  // namespace ringside
