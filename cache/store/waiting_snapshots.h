// Snapshots offered to the tiers and in neither yet: at most one per owner, FIFO, with their bytes. Owned by
// TieredStore. REQUIRES: its lock held.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>

#include "cache/snapshot.h"

namespace ringside {

class WaitingSnapshots {
 public:
  /// Appends the snapshot and removes the one that waited for this owner.
  void Add(const std::string& owner, Snapshot snapshot);
  /// Replaces the owner's chunks by others with the same content and keeps its place in the queue. REQUIRES: a snapshot
  /// of this owner is waiting.
  void Replace(const std::string& owner, Snapshot snapshot);
  /// Null if none waits for this owner.
  const Snapshot* Find(const std::string& owner) const;
  /// Null if none waits, or another capture does.
  const Snapshot* Find(const std::string& owner, uint64_t id) const;
  void Erase(const std::string& owner);

  int64_t size() const { return static_cast<int64_t>(places_.size()); }
  int64_t bytes() const { return bytes_; }
  /// Bytes of all but the last added.
  int64_t bytes_except_last() const;
  /// The oldest owner, the last added excluded.
  std::optional<std::string> OldestExceptLast() const;

 private:
  struct Waiting {
    std::string owner;
    Snapshot snapshot;
    int64_t bytes = 0;
  };
  std::map<uint64_t, Waiting> waiting_;  // by place in the queue
  std::unordered_map<std::string, uint64_t> places_;
  uint64_t last_place_ = 0;
  int64_t bytes_ = 0;
};

}  // namespace ringside
