// One record per owner that TieredStore knows something about: its states (cache/store/owner_states.h), the snapshot
// that waits for a tier, its pending fork, the object on disk and requests to save it. The stores themselves index
// their objects. Owned by TieredStore. REQUIRES: its lock held.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "cache/snapshot.h"
#include "cache/store/owner_states.h"

namespace ringside {

class OwnerTable {
 public:
  Arrival arrival(const std::string& owner) const;
  DiskWork disk_work(const std::string& owner) const;
  /// Removes the waiting snapshot and the pending fork. `hide`: the disk may have the object, so it is hidden until
  /// EndErase.
  void Erase(const std::string& owner, bool hide);
  void EndErase(const std::string& owner) { Advance(owner, DiskEvent::kEndErase); }

  // Snapshots offered to the tiers and in neither yet: at most one per owner, FIFO.
  /// Appends the snapshot. Supersedes the one that waits for this owner, and its pending fork.
  void Offer(const std::string& owner, Snapshot snapshot);
  /// Replaces the owner's chunks by others with the same content and keeps its place in the queue. REQUIRES: a snapshot
  /// of this owner is waiting.
  void ReplaceWaiting(const std::string& owner, Snapshot snapshot);
  /// The snapshot waiting for this owner: any capture, or capture `id`. Null if there is none.
  const Snapshot* Waiting(const std::string& owner, std::optional<uint64_t> id = std::nullopt) const;
  /// REQUIRES: a snapshot of this owner is waiting.
  void RemoveWaiting(const std::string& owner) { Advance(owner, ArrivalEvent::kRemove); }
  /// RemoveWaiting, to be reported by ConsumeDropped.
  void DropWaiting(const std::string& owner);
  /// True once for each capture dropped by DropWaiting.
  bool ConsumeDropped(const std::string& owner, uint64_t id);
  int64_t waiting() const { return static_cast<int64_t>(waiting_.size()); }
  int64_t waiting_bytes() const { return waiting_bytes_; }
  /// Bytes of all but the last offered.
  int64_t waiting_bytes_except_last() const;
  /// The oldest owner, the last offered excluded.
  std::optional<std::string> OldestWaitingExceptLast() const;

  // Forks: pending until their snapshot is offered.
  /// Returns the fork's ticket.
  uint64_t Fork(const std::string& from, const std::string& to);
  /// True if this fork is pending and not superseded.
  bool IsForking(const std::string& to, uint64_t ticket) const;
  /// REQUIRES: IsForking(to, ticket).
  void CancelFork(const std::string& to) { Advance(to, ArrivalEvent::kCancelFork); }
  /// The owner whose snapshot a pending fork will share; nullopt if no fork is pending.
  std::optional<std::string> ForkSource(const std::string& to) const;

  // Objects on disk.
  void BeginWrite(const std::string& owner) { Advance(owner, DiskEvent::kBeginWrite); }
  void EndWrite(const std::string& owner) { Advance(owner, DiskEvent::kEndWrite); }
  bool IsWriting(const std::string& owner) const { return ringside::IsWriting(disk_work(owner)); }
  bool IsErasing(const std::string& owner) const { return ringside::IsErasing(disk_work(owner)); }
  /// Records the capture that the disk has; nullopt = none.
  void SetOnDisk(const std::string& owner, std::optional<uint64_t> id);
  /// True if the disk is known to have capture `id`, and it is not hidden.
  bool IsOnDisk(const std::string& owner, uint64_t id) const;
  /// Marks an object that is written, or being written, and must not be evicted from disk before KeepNoneOnDisk.
  void KeepOnDisk(const std::string& owner, bool keep);
  bool IsKeptOnDisk(const std::string& owner) const;
  void KeepNoneOnDisk();

  // Slots and saves.
  /// Marks whether a slot holds the owner's cache.
  void SetInSlot(const std::string& owner, bool in_slot);
  /// Counts a request to save the owner's object of `bytes` bytes to disk; and its end.
  void BeginSave(const std::string& owner, int64_t bytes);
  void EndSave(const std::string& owner, int64_t bytes);
  /// Bytes of all saves in progress.
  int64_t saving_bytes() const { return saving_bytes_; }
  /// True if a slot holds this owner's cache and no save to disk is in progress for it.
  bool IsSpareBase(const std::string& owner) const;

  /// Number of owners with a record.
  size_t size() const { return records_.size(); }

 private:
  using Queue = std::list<std::string>;
  struct WaitingSnapshot {
    Snapshot snapshot;
    int64_t bytes = 0;
    Queue::iterator place;
  };
  struct PendingFork {
    std::string from;
    uint64_t ticket = 0;
  };
  struct Record {
    Arrival arrival = Arrival::kNone;
    DiskWork disk_work = DiskWork::kNone;
    bool in_slot = false;
    bool keep_on_disk = false;
    int32_t saves = 0;                         // in progress
    std::optional<uint64_t> disk_id;           // capture on disk, if known
    std::unique_ptr<WaitingSnapshot> waiting;  // if HasWaiting(arrival)
    std::unique_ptr<PendingFork> fork;         // if HasFork(arrival)
    std::vector<uint64_t> dropped;             // captures dropped while waiting and not reported yet

    bool IsBlank() const;
  };

  const Record* Find(const std::string& owner) const;
  /// Applies `change` to the owner's record, which exists before and afterwards only if it holds something.
  template <class Change>
  void Edit(const std::string& owner, const Change& change);
  void Advance(const std::string& owner, ArrivalEvent event);
  void Advance(const std::string& owner, DiskEvent event);
  /// Applies an event and frees the data that the new state lacks. REQUIRES: a legal event.
  void Advance(Record& record, ArrivalEvent event);
  void FreeWaiting(Record& record);

  std::unordered_map<std::string, Record> records_;
  Queue waiting_;  // owners, oldest first
  int64_t waiting_bytes_ = 0;
  int64_t saving_bytes_ = 0;
  uint64_t last_fork_ = 0;
};

}  // namespace ringside
