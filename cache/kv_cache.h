// One conversation's keys and values: a ring over a slab lent by a KvPool. Owned by the pool, lent to one Sequence at a
// time; engine thread only.
#pragma once

#include "cache/ring.h"
#include "kernels/kv_shape.h"

namespace ringside {

class KvCache {
 public:
  /// `slab` is shape.slab_bytes() of addresses that outlive the cache, with memory where there are rows.
  KvCache(const KvShape& shape, void* slab)
      : shape_(shape), slab_(slab), ring_({0, shape.ring_rows()}, shape.ring_rows()) {}

  /// Empties the cache and gives it a new window: pinned <= shape.pinned_capacity(), memory_len < ring rows.
  void Reset(const RingWindow& window);

  /// Makes it a branch of `history`, of the same shape, which holds all its pinned tokens: the cache has that one's
  /// first `tokens` tokens (all of them, or as many as it can be rolled back to), which stay there, until the next
  /// Reset. `history` may be appended to meanwhile, as long as it overwrites no row that this one still sees
  /// (SeesRows). The slab then is a ring that begins with position branch(), the first of the tile of the history's
  /// ring in which the next token comes: what is before that token in the tile must be copied.
  void BranchOff(const KvCache& history, int64_t tokens);
  /// That position, of a branch of so many tokens.
  static int64_t BranchAt(int64_t tokens, int64_t pinned) { return tokens - (tokens - pinned) % KvShape::kTile; }
  /// Whether the next token of a branch sees a row of the history's ring at a position below `before`.
  bool SeesRows(int64_t before) const;
  /// The other's slab; null = it is no branch.
  const void* history() const { return history_; }
  int64_t branch() const { return branch_; }

  /// Which snapshot the rows before ring().unchanged() are in; 0 = none. Set by Snapshot.
  uint64_t snapshot() const { return snapshot_; }
  void set_snapshot(uint64_t id) { snapshot_ = id; }

  /// That snapshot has all that is here.
  bool saved() const { return snapshot_ != 0 && ring_.unchanged() == ring_.next(); }

  const KvShape& shape() const { return shape_; }
  void* slab() const { return slab_; }
  Ring& ring() { return ring_; }
  const Ring& ring() const { return ring_; }

 private:
  friend class KvPool;

  KvShape shape_;
  void* slab_;
  int64_t pages_ = 0, promised_pages_ = 0;  // the pool's: that have memory, that are to have it
  Ring ring_;
  uint64_t snapshot_ = 0;
  const void* history_ = nullptr;
  int64_t branch_ = 0;
};

}  // namespace ringside
