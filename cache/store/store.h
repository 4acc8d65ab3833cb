// Key-value storage under one tier. An owner (a conversation) has one object: a manifest and the parts it names.
// Implementations: RamStore, RocksDbStore. TieredStore decides placement and eviction. THREAD: any; calls may block on
// the disk.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "cache/snapshot.h"
#include "cache/store/store_index.h"

namespace ringside {

/// Content-addressed, so that an unchanged part is not written again.
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

  /// Replaces the object of `owner`. Atomic, also across a crash: the old object remains until the new one is complete;
  /// parts that only the old one named are deleted. ERRORS: kOverloaded: over the budget or the disk is full (nothing
  /// was written; make room); kIo, kUnavailable: the store refuses all writes.
  virtual Status Put(const std::string& owner, StoreObject object) = 0;
  /// Put for each object; the statuses are in the same order. A durable store shares the syncs. REQUIRES: different
  /// owners.
  virtual std::vector<Status> PutAll(std::vector<NamedObject> objects) {
    std::vector<Status> out;
    for (NamedObject& each : objects) out.push_back(Put(each.owner, std::move(each.object)));
    return out;
  }
  /// ERRORS: kNotFound, kIo, kCorruption.
  virtual Result<std::string> GetManifest(const std::string& owner) = 0;
  /// Reads a part of `bytes` bytes, without a check of the content against the key. ERRORS: kNotFound, kIo,
  /// kCorruption.
  virtual Result<Blob> GetPart(const std::string& owner, const ChunkHash& key, size_t bytes) = 0;
  /// Deletes the object, durably if the store is durable. Ok if there is none.
  virtual Status Erase(const std::string& owner) = 0;

  /// Size and last use of each owner's object.
  virtual StoreIndex& index() = 0;
  virtual int64_t budget_bytes() const = 0;
};

}  // namespace ringside
