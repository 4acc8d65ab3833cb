// The disk tier: objects in a RocksDB instance, `<path>/kv`, within a budget of bytes. It holds only data that can be
// recomputed, so anything damaged at start is discarded. THREAD: any; calls block on the disk, those of different
// owners
// concurrently.
//
// The parts of an object, or of several small ones, are written to one sorted file, synced and ingested whole (no WAL,
// no
// memtable, no compression). Then the manifests are committed in one write with a synced WAL; only then do the objects
// exist. Manifests are stored in this instance and not in the journal's, so that a full disk or a damaged file here
// cannot reach the transcripts; a lost manifest only costs a recomputation. The transcript stays authoritative: a
// manifest names the tokens that its rows belong to.
//
// With `key_of`, manifests and parts are encrypted (base/sealed_box.h) with their owner's key. The owner and the part
// are
// bound as associated data, so neither can be moved to another place. Part names are hashed with the key. An owner
// without
// a key has no objects here. Owner names, sizes and times of use are not hidden.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/sealed_box.h"
#include "cache/store/store.h"

namespace rocksdb {
class Env;
}

namespace ringside {

struct RocksDbStoreOptions {
  std::string path;  // the data folder; created with mode 0700
  int64_t budget_bytes = int64_t{16} << 30;
  int64_t min_free_bytes = int64_t{256} << 20;  // minimum free disk space; below it, writes are refused
  /// The encryption key of an owner. THREAD: any; may block. Empty = no encryption.
  std::function<Result<std::optional<SealKey>>(const std::string& owner)> key_of;
  /// The clock by which objects age: continues across restarts and does not jump. Empty = the clock's monotonic time.
  std::function<double()> uptime_s;
  rocksdb::Env* env = nullptr;  // null = the machine's file system
};

class RocksDbStore final : public Store {
 public:
  /// Opens the store and deletes partial writes of a crash. Discards, with a warning, damaged data, foreign formats,
  /// and encrypted data without `key_of` or the reverse. Sets the process's umask to 077. ERRORS: kBusy: in use by
  /// another process; kIo.
  static Result<std::unique_ptr<RocksDbStore>> Open(const RocksDbStoreOptions& options,
                                                    const Clock& clock = SystemClock::Instance());
  ~RocksDbStore() override;

  Status Put(const std::string& owner, StoreObject object) override;
  /// Few syncs for any number of objects: all parts share one file, and all manifests one write.
  std::vector<Status> PutAll(std::vector<NamedObject> objects) override;
  Result<std::string> GetManifest(const std::string& owner) override;
  Result<Blob> GetPart(const std::string& owner, const ChunkHash& key, size_t bytes) override;
  Status Erase(const std::string& owner) override;
  StoreIndex& index() override;
  int64_t budget_bytes() const override;

  /// Compacts files that still hold bytes of erased or replaced objects. Blocks for seconds to minutes.
  Status Purge();
  /// False once a write has failed: Put then refuses, while reads and erasures continue as the disk allows.
  bool healthy() const;

 private:
  class Impl;
  explicit RocksDbStore(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace ringside
