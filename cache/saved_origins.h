// Identities of the rows of saved caches (row_origins.h), which the tiers do not store: a restored cache shares pages
// and reads of a common prefix with the caches that have it still. Forgets the oldest of kMost captures. THREAD:
// engine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <unordered_map>

#include "cache/snapshot.h"

namespace ringside {

class SavedOrigins {
 public:
  static constexpr size_t kMost =
      1 << 14;  // up to 25 MB: usually a few runs of rows each, at most RowOrigins::kMaxRuns

  void Note(const Snapshot& snapshot);
  /// Sets the origins of a snapshot from the tiers, if its capture is known.
  void Attach(Snapshot* snapshot) const;

 private:
  std::unordered_map<uint64_t, RowOrigins> origins_;  // by SnapshotHeader::id
  std::deque<uint64_t> ids_;                          // oldest first
};

}  // namespace ringside
