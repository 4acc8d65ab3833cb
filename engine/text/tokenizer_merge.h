// Byte-pair merging over token ids: a table of which two adjacent symbols become which token, and the merge itself.
// Owned by a tokenizer; immutable once filled, any thread.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/text/tokenizer.h"

namespace ringside {

class MergeTable {
 public:
  struct Merge {
    uint32_t rank = 0;    // the lowest goes first
    TokenId merged = -1;  // -1: no merge
  };

  /// Makes room for `count` pairs.
  explicit MergeTable(size_t count);
  /// The pair `left`, `right` (both >= 0) becomes `merge`. A pair given twice keeps the latest. `last` and `first` are
  /// the characters that meet: the last one of `left` and the first one of `right`.
  void Add(TokenId left, TokenId right, Merge merge, uint32_t last, uint32_t first);
  Merge Find(TokenId left, TokenId right) const;
  /// False only where no merge joins two neighbours that meet in these characters: a text can be cut there before it is
  /// merged.
  bool MayJoin(uint32_t last, uint32_t first) const { return meetings_[MeetingSlot(last, first)]; }

  /// Replaces `symbols` by what is left when no two neighbours can be merged: always the lowest rank first, the
  /// leftmost of equals. O(n log n).
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
  std::vector<bool> meetings_;  // by hash; where two fall together, both may join
};

}  // namespace ringside
