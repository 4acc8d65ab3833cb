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
  /// The pair `left`, `right` (both >= 0) becomes `merge`. A pair given twice keeps the latest.
  void Add(TokenId left, TokenId right, Merge merge);
  Merge Find(TokenId left, TokenId right) const;

  /// Replaces `symbols` by what is left when no two neighbours can be merged: always the lowest rank first, the
  /// leftmost of equals. O(n log n).
  void Apply(std::vector<TokenId>* symbols) const;

 private:
  struct Slot {
    uint64_t key = kEmpty;
    Merge merge;
  };
  static constexpr uint64_t kEmpty = ~uint64_t{0};
  size_t FindSlot(uint64_t key) const;
  void Grow();

  std::vector<Slot> slots_;  // a power of two, at most half full, linear probing
  size_t used_ = 0;
};

}  // namespace ringside
