// The boundaries of one conversation's recurrent state (kernels/state_shape.h): which positions have their state in
// which slot of the slab. Arithmetic only, no memory. Owned by a KvCache. THREAD: engine.
//
// The last boundary at or before the next token always has a slot; position 0 needs none, its state is zeros. Together
// with the tail it continues at any position from that boundary on. Earlier boundaries are checkpoints: the only other
// positions at which the conversation can continue without recomputation.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "kernels/state_shape.h"

namespace ringside {

class StateSlots {
 public:
  static constexpr int64_t kChunk = StateShape::kChunk;

  /// `slots`: at least 2, or 0 for a cache without recurrent state.
  explicit StateSlots(int64_t slots);

  /// False for a cache without recurrent state; the other functions then change nothing.
  bool used() const { return slots_ > 0; }
  int64_t slots() const { return slots_; }
  /// Boundaries with a slot, in ascending order.
  std::span<const StateWrite> held() const { return held_; }
  /// Slot of the boundary at this position; -1 if it has none.
  int SlotOf(int64_t boundary) const;
  /// The largest position up to `to` at which a conversation of `next` tokens can continue: `to` if its tail has the
  /// rows, or if there is no state; otherwise the last boundary with a slot before it; otherwise 0.
  int64_t Floor(int64_t to, int64_t next) const;

  /// Chooses the boundaries in (position, position + rows] that the next step stores, and appends them to `writes` with
  /// their slots, ascending: always the last one, and none in the slot of BoundaryBefore(position). If slots are
  /// lacking, drops the boundary whose neighbors are closest together; those before a message start (`starts`,
  /// ascending) after all others, those before SetTurn's position and the end of `pinned` tokens last.
  void Append(int64_t position, int64_t rows, std::span<const int64_t> starts, int64_t pinned,
              std::vector<StateWrite>* writes);
  /// Forgets the boundaries after `to`. REQUIRES: to == Floor(to, next).
  void RollBack(int64_t to);
  void Clear() { held_.clear(), turn_ = 0; }
  /// Sets the position of the last token before an answer: the answer can be sampled again from its boundary.
  void SetTurn(int64_t position) { turn_ = position; }
  /// Restores a set of boundaries, at most slots(), ascending: each gets a slot. REQUIRES: multiples of kChunk above 0.
  void Restore(std::span<const int64_t> boundaries);
  /// Copies the boundaries of another slab up to `tokens`, in the same slots.
  void Adopt(const StateSlots& from, int64_t tokens);

 private:
  struct Candidate {
    int64_t position = 0;
    int slot = -1;    // -1: not stored yet
    int keep = 0;     // drop those with the smallest value first
    int64_t gap = 0;  // between its neighbors
  };
  /// Reduces the candidates to slots().
  void Thin(std::vector<Candidate>* candidates) const;

  int64_t slots_;
  std::vector<StateWrite> held_;  // ascending positions
  int64_t turn_ = 0;
};

}  // namespace ringside
