// The cache of one conversation in a slab of a KvPool: a ring of keys and values, and the recurrent state of networks
// that have one. Owned by the pool, lent to one Sequence at a time. THREAD: engine.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "cache/ring.h"
#include "cache/state_slots.h"
#include "kernels/kv_shape.h"

namespace ringside {

class KvCache {
 public:
  /// `slab`: shape.slab_bytes() of address space that outlives the cache; rows in use are backed by memory.
  KvCache(const KvShape& shape, void* slab)
      : shape_(shape),
        slab_(slab),
        ring_({0, shape.ring_rows()}, shape.ring_rows()),
        state_(shape.state.empty() ? 0 : shape.state.slots) {}

  /// Empties the cache and sets a new window. REQUIRES: pinned <= shape.pinned_capacity(), memory_len < ring rows.
  void Reset(const RingWindow& window);

  /// Claims places for the next `rows` tokens, in the ring and among the boundaries of the recurrent state, and appends
  /// the boundaries that the step stores to `state_writes`. REQUIRES: rows <= ring().max_chunk().
  struct Place {
    int64_t position;  // of the first token
    int state_slot;    // AttentionSegment::state_slot
  };
  Place Append(int64_t rows, std::vector<StateWrite>* state_writes);
  /// The largest position up to `to` whose recurrent state the cache has: `to` itself for a network without state.
  /// REQUIRES: to <= ring().next().
  int64_t Floor(int64_t to) const { return state_.Floor(to, ring_.next()); }
  /// True if the cache can be rolled back to `to` tokens without recomputation.
  bool CanRollBack(int64_t to) const { return ring_.CanRollBack(to) && Floor(to) == to; }
  /// Maximum number of rows after the next one that Append may claim in the same call and RollBack can drop again: they
  /// overwrite no row that the tokens before them see, and store no boundary. 0 for a branch.
  int64_t retractable_rows() const;
  /// Forgets every token, boundary and message start after the first `to` tokens. REQUIRES: CanRollBack(to).
  void RollBack(int64_t to);
  /// Records that the slab has a copy of the first `tokens` tokens of `from`'s, from the start to the end of
  /// HeldBytes(tokens, pinned). REQUIRES: from.CanRollBack(tokens).
  void Adopt(const KvCache& from, int64_t tokens);
  /// Ring::Restore, and the boundaries of the recurrent state with slots in their order (StateSlots::Restore). ERRORS:
  /// as Ring::Restore; the cache is then empty.
  Status Restore(int64_t next, int64_t resident, std::vector<int64_t> message_starts,
                 std::span<const int64_t> boundaries);

  /// Makes this cache a copy-on-write branch of `history` until the next Reset: it shares the first `tokens` tokens,
  /// which stay in `history`, and its slab becomes a ring that starts at position branch(). That is the first position
  /// of the tile, in the ring of `history`, that gets the next token; the caller copies the earlier rows of this tile.
  /// `history` may grow meanwhile if it overwrites no row that this cache still sees (SeesRows).
  /// REQUIRES: the same shape, without recurrent state; `history` holds all its pinned tokens; `tokens` is
  /// ring().next() or a position that it can roll back to.
  void BranchOff(const KvCache& history, int64_t tokens);
  /// branch() of a branch after `tokens` tokens.
  static int64_t BranchAt(int64_t tokens, int64_t pinned) { return tokens - (tokens - pinned) % KvShape::kTile; }
  /// True if the branch's next token sees a row of the history's ring at a position below `before`.
  bool SeesRows(int64_t before) const;
  /// Slab of the shared history; null if this is no branch.
  const void* history() const { return history_; }
  int64_t branch() const { return branch_; }

  /// Id of the snapshot that has the rows before ring().unchanged(); 0 = none. Set by Snapshot.
  uint64_t snapshot() const { return snapshot_; }
  /// `boundaries`: those of its recurrent state, ascending.
  void set_snapshot(uint64_t id, std::vector<int64_t> boundaries = {}) {
    snapshot_ = id;
    stored_boundaries_ = std::move(boundaries);
  }
  /// The last boundary up to `to` that the snapshot has, of the tokens in this cache; 0 = none.
  int64_t StoredFloor(int64_t to) const;

  /// True if that snapshot has every row of the cache.
  bool saved() const { return snapshot_ != 0 && ring_.unchanged() == ring_.next(); }

  const KvShape& shape() const { return shape_; }
  void* slab() const { return slab_; }
  /// A network with recurrent state: callers only add message starts; Append and RollBack make all other changes.
  Ring& ring() { return ring_; }
  const Ring& ring() const { return ring_; }
  const StateSlots& state() const { return state_; }
  StateMarks state_marks() const { return {turn_, ring_.window().pinned, ring_.message_starts(), shared_}; }
  // Set StateMarks::turn and ::shared until the next Reset.
  void SetTurn(int64_t position) { turn_ = position; }
  void SetShared(int64_t position) { shared_ = position; }

 private:
  friend class KvPool;

  KvShape shape_;
  void* slab_;
  int64_t pages_ = 0, reserved_pages_ = 0;  // set by the pool: backed by memory; reserved
  Ring ring_;
  StateSlots state_;
  int64_t turn_ = 0, shared_ = 0;
  uint64_t snapshot_ = 0;
  std::vector<int64_t> stored_boundaries_;
  const void* history_ = nullptr;
  int64_t branch_ = 0;
};

}  // namespace ringside
