// Snapshots that were offered to the tiers and are in neither of them yet: one an owner, in the order in which they
// came, their bytes counted. Owned by TieredStore, whose lock guards it.
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
  /// As the last to come, in place of what waited for this owner.
  void Add(const std::string& owner, Snapshot snapshot);
  /// Gives what waits for this owner other chunks of the same content, in its old place; it waits.
  void Replace(const std::string& owner, Snapshot snapshot);
  /// Null if nothing waits for this owner.
  const Snapshot* Find(const std::string& owner) const;
  /// Null if nothing does, or another capture.
  const Snapshot* Find(const std::string& owner, uint64_t id) const;
  void Erase(const std::string& owner);

  int64_t size() const { return static_cast<int64_t>(places_.size()); }
  int64_t bytes() const { return bytes_; }
  /// Bytes of all but the last to come.
  int64_t bytes_but_last() const;
  /// Who came first; the last to come is not looked at.
  std::optional<std::string> OldestButLast() const;

 private:
  struct Waiting {
    std::string owner;
    Snapshot snapshot;
    int64_t bytes = 0;
  };
  std::map<uint64_t, Waiting> waiting_;  // by place
  std::unordered_map<std::string, uint64_t> places_;
  uint64_t last_place_ = 0;
  int64_t bytes_ = 0;
};

}  // namespace ringside
