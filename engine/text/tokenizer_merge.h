// Byte-pair merging over token ids: a table from adjacent symbols to the merged token, and the merge itself. Owned by a
// tokenizer; immutable once filled. THREAD: any.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/text/tokenizer.h"

namespace ringside {

class MergeTable {
 public:
  struct Merge {
    uint32_t rank = 0;    // lowest first
    TokenId merged = -1;  // -1: no merge
  };

  /// Reserves room for `count` pairs.
  explicit MergeTable(size_t count);
  /// Adds a merge of `left`, `right` (both >= 0); the latest of equal pairs wins. `last` and `first`: the adjacent
  /// characters, the last one of `left` and the first one of `right`.
  void Add(TokenId left, TokenId right, Merge merge, uint32_t last, uint32_t first);
  Merge Find(TokenId left, TokenId right) const;
  /// False only if no merge joins symbols across these two characters: a text can be split there before merging.
  bool MayJoin(uint32_t last, uint32_t first) const { return meetings_[MeetingSlot(last, first)]; }

  /// Merges `symbols` until no adjacent pair has a merge: always the lowest rank first, the leftmost of equals. O(n log
  /// n).
  void Apply(std::vector<TokenId>* symbols) const;

 private:
  struct Slot {
    uint64_t key = kEmpty;
    Merge merge;
  };
  static constexpr uint64_t kEmpty = ~uint64_t{0};
  static constexpr size_t kMeetingSlots = size_t{1} << 20;
  size_t FindSlot(uint64_t key) const;
  static size_t MeetingSlot(uint32_t last, uint32_t first);
  void Grow();
  template <class Queue>
  void MergeAll(std::vector<TokenId>* symbols) const;

  std::vector<Slot> slots_;  // a power of two, at most half full, linear probing
  size_t used_ = 0;
  std::vector<bool> meetings_;  // a hashed bit set; a collision only means a false "may join"
};

}  // namespace ringside
