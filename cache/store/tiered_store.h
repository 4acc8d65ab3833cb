// Where a conversation's snapshot is when it is not on the device: host memory, disk, or nowhere (then it is computed
// again). Decides what stays, moves and goes: idle times, budgets, least recently used first. Asked from the engine's
// thread, works on two threads of its own (one answers, one moves objects down, with others beside it where much is to
// be written; a simulation does it all itself), tells the outcome by callback, which should post to the engine's inbox.
// No call waits for storage. Owned by whoever made it, with both stores.
//
// A snapshot is offered by Store and kept as long as there is room: losing one is never an error, and Fetch says so.
// Memory is bounded however slow the disk is: what waits to be stored counts against the host's budget, and what is
// oldest goes (cache/SNAPSHOT.md, "Memory").
// What is stored on disk survives a restart; what is only in memory does not, unless Flush was called.
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
  int64_t host_idle_ms = 10 * 60 * 1000;                 // unused for so long in memory: to the disk
  int64_t disk_idle_ms = int64_t{7} * 24 * 3600 * 1000;  // unused for so long on disk: gone
  int64_t sweep_ms = 1000;  // how often idle times are looked at; 0 = only when Sweep is called
  int64_t queue = 1024;     // most snapshots waiting to be stored
  // Bytes of small objects that Flush writes in one Store::PutAll: a sync costs more than they do.
  int64_t batch_bytes = int64_t{8} << 20;
  // A host tier with a smaller budget, or none, lets so much wait for the disk.
  int64_t least_waiting_bytes = limits::kLeastWaitingSnapshotBytes;
  bool own_threads = true;  // false: what is asked is done where RunQueued is called, all on one thread
};

struct FetchedSnapshot {
  Snapshot snapshot;  // complete
  StorageTier tier = StorageTier::kHost;
  double ms = 0;  // from the call to the answer
};

struct TieredStoreStats {
  int64_t host_bytes = 0, host_objects = 0, disk_bytes = 0, disk_objects = 0;
  int64_t waiting_bytes = 0;  // offered, in neither tier yet
  int64_t memory_bytes = 0;   // of all chunks of this process: stored, waiting, on their way to or from a slot
  uint64_t stored = 0, stored_bytes = 0;  // snapshots taken in; bytes of chunks not shared with what was there
  uint64_t host_hits = 0, disk_hits = 0, misses = 0, damaged = 0;
  uint64_t demoted = 0, demoted_bytes = 0;  // moved from memory to disk
  uint64_t dropped = 0;                     // for want of room, or because the disk failed
  uint64_t expired = 0;                     // idle for too long on disk
  double disk_read_bytes_per_second = 0, disk_write_bytes_per_second = 0;  // of recent moves; 0 = none yet
};

class TieredStore {
 public:
  static constexpr size_t kMaxOwnerBytes = 128;
  /// What belongs to an owner whose name begins like this is never written to disk.
  static constexpr std::string_view kMemoryOnly = "ram_";

  /// `disk` may be null: there is no such tier then. `clock` outlives it.
  TieredStore(std::unique_ptr<ringside::Store> host, std::unique_ptr<ringside::Store> disk,
              const TieredStoreOptions& options, const Clock& clock = SystemClock::Instance());
  /// Finishes what was asked (every callback is called), moves nothing.
  ~TieredStore();
  TieredStore(const TieredStore&) = delete;
  TieredStore& operator=(const TieredStore&) = delete;

  using Done = std::function<void(const Status&)>;
  using FetchDone = std::function<void(Result<FetchedSnapshot>)>;

  // All of these come from any thread, return at once, and take effect in the order of the calls. Callbacks run on a
  // storage thread, must not block, and may be null.

  /// Offers a complete snapshot as the newest of `owner` (1 to kMaxOwnerBytes bytes). Returns kOverloaded, and `done`
  /// is never called, if too many are waiting. `done`: Ok = in one of the tiers, or no longer the owner's newest;
  /// kOverloaded = there was no room. Where memory is full and the disk too slow, the caches used least recently go.
  Status Store(std::string owner, Snapshot snapshot, Done done);
  /// The newest snapshot of `owner`; it stays where it was. If that is in memory, `done` is called before Fetch
  /// returns, whatever the storage threads are at. kNotFound = there is none; kCorruption = it was damaged and is gone;
  /// kIo.
  void Fetch(std::string owner, FetchDone done);
  /// Whether a slot has `owner`'s cache from now on: what memory has of it is spare then, and goes before all others,
  /// without a copy on disk. Takes microseconds.
  void SetInSlot(const std::string& owner, bool in_slot);
  /// Brings what is on disk into memory, as far as there is room.
  void Prefetch(std::string owner);
  /// Takes every trace away. `done`: Ok = gone for good, on disk too; kIo, kUnavailable: the disk would not, but
  /// nothing returns it until a restart.
  void Erase(std::string owner, Done done);
  /// Gives `to` what `from` has, sharing the bytes in memory. Find knows of it at once. `done`: kNotFound = there was
  /// nothing, or `to` was erased or given a newer one before it could be read from disk.
  void Fork(std::string from, std::string to, Done done);
  // Before a restart. What is on disk then goes first where memory is needed.

  /// Copies objects that are in memory only to disk, unless they are kMemoryOnly: the most recently used first, kWriters
  /// batches of batch_bytes at a time. No object written by this call is evicted for a later one. `done`: Ok = every
  /// object is on disk.
  void Flush(Done done);
  /// The same for what memory has of this owner, before anything that is there because of Flush.
  void SaveToDisk(std::string owner, Done done);
  static constexpr int kWriters = 4;
  /// What is in memory only and may be on disk: lost if the process ended now.
  struct Unsaved {
    int64_t caches = 0, bytes = 0;
  };
  Unsaved unsaved() const;
  /// Bytes that may be offered and saved to disk beside what is being saved, so that memory does not have to give away
  /// any of it before it is on disk.
  int64_t saving_room() const;

  /// What `owner` has in memory, complete, as a base for the next capture; nullopt if there is nothing or it is still
  /// on its way. Takes microseconds.
  std::optional<Snapshot> Base(const std::string& owner);
  /// Where `owner`'s snapshot is, and how long reading it should take at the rates seen lately (0 = not known).
  struct Place {
    StorageTier tier = StorageTier::kHost;
    int64_t bytes = 0;
    double estimated_ms = 0;
  };
  std::optional<Place> Find(const std::string& owner) const;

  /// Applies idle times and budgets now; the moving thread does so by itself every sweep_ms.
  void Sweep();
  /// Without own_threads: does what was asked, and what comes of it, before it returns. Not from a callback.
  void RunQueued();
  /// Erases what belongs to owners that `exists` does not know: after a restart. Blocks.
  void Reconcile(const std::function<bool(const std::string& owner)>& exists);

  TieredStoreStats stats() const;
  /// Bytes that memory takes without giving anything away for them.
  int64_t host_room() const;
  /// Whether a snapshot of `bytes` would be kept if it were offered after others of `coming` bytes: memory has room for
  /// all snapshots that are not stored yet, or they may wait for the disk.
  bool WouldKeep(const std::string& owner, int64_t bytes, int64_t coming) const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ringside
