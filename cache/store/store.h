// A place where bytes are kept under their owner's name: what a tier is made of. An owner (a conversation) has one
// object: a manifest and the parts it names. Implementations: RamStore, RocksDbStore; both are thread-safe, and calls
// may block on the disk. Policy, which object goes where and when, is TieredStore's.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "cache/snapshot.h"
#include "cache/store/store_index.h"

namespace ringside {

/// Named by what is in it, so that a part that did not change is not written again.
struct StorePart {
  ChunkHash key;
  Blob bytes;
};

struct StoreObject {
  std::string manifest;
  std::vector<StorePart> parts;
};
struct NamedObject {
  std::string owner;
  StoreObject object;
};

class Store {
 public:
  virtual ~Store() = default;

  /// Gives `owner` exactly this object; what it had and this one lacks goes. All or nothing, also across a crash; an
  /// object that was there before stays until then. kOverloaded: over the budget or the disk is full (nothing was
  /// written; make room); kIo, kUnavailable: the store no longer takes anything.
  virtual Status Put(const std::string& owner, StoreObject object) = 0;
  /// Put for each, of different owners; the statuses in that order. A store that syncs shares the syncs between them.
  virtual std::vector<Status> PutAll(std::vector<NamedObject> objects) {
    std::vector<Status> out;
    for (NamedObject& each : objects) out.push_back(Put(each.owner, std::move(each.object)));
    return out;
  }
  /// kNotFound, kIo, kCorruption.
  virtual Result<std::string> GetManifest(const std::string& owner) = 0;
  /// `bytes` long. kNotFound, kIo, kCorruption; the bytes themselves are not checked against the key.
  virtual Result<Blob> GetPart(const std::string& owner, const ChunkHash& key, size_t bytes) = 0;
  /// Takes the object away, durably where the store is durable. Ok if there is none.
  virtual Status Erase(const std::string& owner) = 0;

  /// Who has how much here, and used it when.
  virtual StoreIndex& index() = 0;
  virtual int64_t budget_bytes() const = 0;
};

}  // namespace ringside
