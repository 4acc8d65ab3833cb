// Where a conversation's snapshot is while it is not on the device: host memory, disk, or nowhere (then it is
// recomputed). Decides placement and eviction: idle times, budgets, least recently used first. The engine thread calls
// it; it works on two threads (one answers requests, one moves objects to disk, with extra writers during a flush; a
// simulation uses none) and reports the outcome by callback, which should post to the engine's inbox. No call waits for
// storage. Owned by its creator, with both stores.
//
// A snapshot is offered by Store and kept while there is room: a loss is never an error, and Fetch reports it as
// kNotFound. Memory stays bounded however slow the disk is: snapshots that wait to be stored count against the host
// budget, and the
// oldest are dropped (cache/SNAPSHOT.md, "Memory").
// Objects on disk survive a restart; objects only in memory do not, unless Flush was called.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/limits.h"
#include "base/status.h"
#include "cache/snapshot.h"
#include "cache/store/store.h"

namespace ringside {

enum class StorageTier { kHost, kDisk };

struct TieredStoreOptions {
  int64_t host_idle_ms = 10 * 60 * 1000;                 // unused in memory for this time: move to disk
  int64_t disk_idle_ms = int64_t{7} * 24 * 3600 * 1000;  // unused on disk for this time: delete
  int64_t sweep_ms = 1000;  // interval of the idle-time checks; 0 = only when Sweep is called
  int64_t queue = 1024;     // maximum number of snapshots waiting to be stored
  // Total size of small objects that Flush writes in one Store::PutAll, because a sync costs more than such objects.
  int64_t batch_bytes = int64_t{8} << 20;
  // Minimum size of the queue to the disk, for a host tier with a smaller budget or none.
  int64_t least_waiting_bytes = limits::kMinWaitingSnapshotBytes;
  bool own_threads = true;  // false: RunQueued does all work, on the caller's thread
};

struct FetchedSnapshot {
  Snapshot snapshot;  // complete
  StorageTier tier = StorageTier::kHost;
  double ms = 0;  // from the call to the answer
};

struct TieredStoreStats {
  int64_t host_bytes = 0, host_objects = 0, disk_bytes = 0, disk_objects = 0;
  int64_t waiting_bytes = 0;              // offered, not in a tier yet
  int64_t memory_bytes = 0;               // all chunks of this process: stored, waiting, in transit to or from a slot
  uint64_t stored = 0, stored_bytes = 0;  // accepted snapshots; bytes of chunks not shared with an earlier one
  uint64_t host_hits = 0, disk_hits = 0, misses = 0, damaged = 0;
  uint64_t demoted = 0, demoted_bytes = 0;                                 // moved from memory to disk
  uint64_t dropped = 0;                                                    // no room, or the disk failed
  uint64_t expired = 0;                                                    // idle on disk for too long
  double disk_read_bytes_per_second = 0, disk_write_bytes_per_second = 0;  // recent averages; 0 = none yet
};

class TieredStore {
 public:
  static constexpr size_t kMaxOwnerBytes = 128;
  /// Objects of owners with this prefix are never written to disk.
  static constexpr std::string_view kMemoryOnly = "ram_";

  /// `disk` may be null: no disk tier. REQUIRES: `clock` outlives the store.
  TieredStore(std::unique_ptr<ringside::Store> host, std::unique_ptr<ringside::Store> disk,
              const TieredStoreOptions& options, const Clock& clock = SystemClock::Instance());
  /// Completes all requests (every callback is called), but moves nothing to disk.
  ~TieredStore();
  TieredStore(const TieredStore&) = delete;
  TieredStore& operator=(const TieredStore&) = delete;

  using Done = std::function<void(const Status&)>;
  using FetchDone = std::function<void(Result<FetchedSnapshot>)>;

  // THREAD: any, for all below. Calls return at once and take effect in order. Callbacks run on a storage thread, must
  // not block, and may be null.

  /// Offers a complete snapshot as the newest of `owner` (1 to kMaxOwnerBytes bytes). If memory is full and the disk
  /// too slow, the least recently used caches are dropped. `done`: Ok = in a tier, or superseded; kOverloaded = no
  /// room. ERRORS: kOverloaded, and `done` is never called, if too many snapshots are waiting.
  Status Store(std::string owner, Snapshot snapshot, Done done);
  /// Reads the newest snapshot of `owner`, which also stays where it is. If it is in memory, `done` is called before
  /// Fetch returns, whatever the storage threads do. `done`: kNotFound = none; kCorruption = damaged, now deleted; kIo.
  void Fetch(std::string owner, FetchDone done);
  /// Marks whether a slot holds `owner`'s cache. If so, the copy in memory is spare: it is evicted first, without a
  /// copy to disk. Takes microseconds.
  void SetInSlot(const std::string& owner, bool in_slot);
  /// Loads an object from disk into memory if there is room.
  void Prefetch(std::string owner);
  /// Deletes every copy. `done`: Ok = deleted for good, on disk too; kIo, kUnavailable: the disk failed, but no call
  /// returns the object until a restart.
  void Erase(std::string owner, Done done);
  /// Gives `to` a copy of `from`'s object, sharing the bytes in memory. Find sees it at once. `done`: kNotFound =
  /// `from` has none, or `to` was erased or replaced before the object could be read from disk.
  void Fork(std::string from, std::string to, Done done);
  // Before a restart. Objects that are also on disk are then evicted from memory first.

  /// Copies the objects that are only in memory to disk, unless they are kMemoryOnly: the most recently used first,
  /// kWriters batches of batch_bytes at a time. No object written by this call is evicted for a later one. `done`: Ok =
  /// every object is on disk.
  void Flush(Done done);
  /// As Flush, for this owner's object, ahead of the objects of a Flush.
  void SaveToDisk(std::string owner, Done done);
  static constexpr int kWriters = 4;
  /// Objects only in memory that could be on disk: lost if the process ended now.
  struct Unsaved {
    int64_t caches = 0, bytes = 0;
  };
  Unsaved unsaved() const;
  /// Bytes that can be offered and saved to disk in addition to current saves, without an eviction before they are on
  /// disk.
  int64_t saving_room() const;

  /// The owner's complete snapshot in memory, as a base for the next capture; nullopt if there is none or it is still
  /// pending. Takes microseconds.
  std::optional<Snapshot> Base(const std::string& owner);
  /// Tier of `owner`'s snapshot, and the estimated read time at recent rates (0 = unknown).
  struct Place {
    StorageTier tier = StorageTier::kHost;
    int64_t bytes = 0;
    double estimated_ms = 0;
  };
  std::optional<Place> Find(const std::string& owner) const;

  /// Applies idle times and budgets now; the moving thread does so every sweep_ms.
  void Sweep();
  /// Without own_threads: runs all requests and their consequences before it returns. REQUIRES: not called from a
  /// callback.
  void RunQueued();
  /// After a restart: erases the objects of owners that `exists` does not know. Blocks.
  void Reconcile(const std::function<bool(const std::string& owner)>& exists);

  TieredStoreStats stats() const;
  /// Bytes that memory accepts without an eviction.
  int64_t host_room() const;
  /// True if a snapshot of `bytes` would be kept when offered after others of `coming` bytes in total: memory has room
  /// for all snapshots that are not stored yet, or they may wait for the disk.
  bool WouldKeep(const std::string& owner, int64_t bytes, int64_t coming) const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ringside
