// Groups the sequences of a step by their common first rows (RowOrigins), so that attention reads those once
// (AttentionSegment::prefix). Each row gets one prefix, of one group: the partition that saves the most reads. THREAD:
// one.
#pragma once

#include <span>
#include <vector>

#include "cache/kv_cache.h"
#include "kernels/backend.h"

namespace ringside {

class SharedPrefixes {
 public:
  // Segments with more rows reuse each loaded key anyway. Prefixes shorter than this are not worth a group.
  static constexpr int64_t kMaxRows = 16, kMinTokens = 256;

  /// Sets the prefixes of the segments. `caches`: those of the segments, after their rows were appended. The slab of a
  /// prefix belongs to one of its group's caches, all of which hold the rows.
  void Find(std::span<const KvCache* const> caches, std::span<AttentionSegment> segments);

 private:
  struct Member {
    const KvCache* cache;
    AttentionSegment* segment;
    int64_t seen;    // number of first positions that every row of the segment sees
    int64_t common;  // rows in common with the next member
  };
  /// A run of members that share their first `tokens` rows.
  struct Group {
    size_t first, count;
    int64_t tokens;
  };
  /// Appends the best partition of members [first, last) to `groups_` and returns the number of rows that it saves.
  int64_t Partition(size_t first, size_t last);

  std::vector<Member> members_;
  std::vector<Group> groups_;
};

}  // namespace ringside
