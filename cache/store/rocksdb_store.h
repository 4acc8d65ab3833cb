// The disk tier: objects in a RocksDB instance, `<path>/kv`, within a budget of bytes. A cache of what can be computed
// again: what is found damaged at start is thrown away. Thread-safe; calls block on the disk, those of different owners
// beside one another.
//
// The parts of one object, or of several small ones, are written to one sorted file, synced and ingested whole (no log,
// no memory table, no compression); then the manifests are committed in one write with a synced log, and only then are
// the objects there. Manifests are stored in
// this instance, not in the journal's: a full disk or a damaged file here must not reach the transcripts, and losing a
// manifest costs a recomputation, nothing else. The transcript stays the judge, because a manifest names the tokens
// that its rows belong to.
//
// With `key_of`, manifests and parts are encrypted (base/sealed_box.h) with their owner's key, under names that hold
// the owner and the part: neither can be moved to another place. Parts go by names that only the key explains. An owner
// without a key has no objects here. Owners' names, sizes and times of use are not hidden.
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
  std::string path;  // the data folder; made (0700) if it is not there
  int64_t budget_bytes = int64_t{16} << 30;
  int64_t min_free_bytes = int64_t{256} << 20;  // with less free space on the disk nothing is written
  /// The key of an owner's objects; any thread, may block. Empty = nothing is encrypted.
  std::function<Result<std::optional<SealKey>>(const std::string& owner)> key_of;
  /// The time by which objects age: it continues after a restart and does not jump. Empty = the clock's steady time.
  std::function<double()> uptime_s;
  rocksdb::Env* env = nullptr;  // where the files are; null = the machine's file system
};

class RocksDbStore final : public Store {
 public:
  /// Opens what is there and sweeps what a crash left half-written. Damage and foreign formats are removed, with a
  /// warning; so is what is encrypted without `key_of`, and the reverse. Sets the process's umask to 077. kBusy: in use
  /// by another process; kIo.
  static Result<std::unique_ptr<RocksDbStore>> Open(const RocksDbStoreOptions& options,
                                                    const Clock& clock = SystemClock::Instance());
  ~RocksDbStore() override;

  Status Put(const std::string& owner, StoreObject object) override;
  /// Few syncs, however many objects: the parts of all are one file, and the manifests of all are one write.
  std::vector<Status> PutAll(std::vector<NamedObject> objects) override;
  Result<std::string> GetManifest(const std::string& owner) override;
  Result<Blob> GetPart(const std::string& owner, const ChunkHash& key, size_t bytes) override;
  Status Erase(const std::string& owner) override;
  StoreIndex& index() override;
  int64_t budget_bytes() const override;

  /// Rewrites the files that still hold bytes of erased or replaced objects. Blocks, seconds to minutes.
  Status Purge();
  /// False once a write has failed: Put refuses; what is there can still be read and erased as far as the disk lets it.
  bool healthy() const;

 private:
  class Impl;
  explicit RocksDbStore(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace ringside
