// The boundaries of one conversation's recurrent state (kernels/state_shape.h): which positions have their state in
// which slot of the slab. Arithmetic only, no memory. Owned by a KvCache. THREAD: engine.
//
// The last boundary at or before the next token always has a slot; position 0 needs none, its state is zeros. Together
// with the tail it continues at any position from that boundary on. Earlier boundaries are checkpoints: the only other
// positions at which the conversation can continue without recomputation.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "kernels/state_shape.h"

namespace ringside {

/// Positions before which a boundary is worth a place.
struct StateMarks {
  int64_t turn = 0;                 // the last token before an answer, which can be sampled again from there
  int64_t pinned = 0;               // end of the pinned tokens, which other conversations share
  std::span<const int64_t> starts;  // message starts, ascending
  int64_t shared = 0;               // end of the tokens shared with another conversation
};

/// Reduces ascending boundaries to `most`. Drops the one whose neighbors are closest together; those before a message
/// start after all others, those before `turn`, `pinned` and `shared` next, the last one and `read` never. REQUIRES:
/// most >= 2.
std::vector<int64_t> ThinBoundaries(std::vector<int64_t> boundaries, int64_t most, const StateMarks& marks,
                                    std::optional<int64_t> read = std::nullopt);

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
  std::vector<int64_t> positions() const;
  /// Slot of the boundary at this position; -1 if it has none.
  int SlotOf(int64_t boundary) const;
  /// The largest position up to `to` at which a conversation of `next` tokens can continue: `to` if its tail has the
  /// rows, or if there is no state; otherwise the last boundary with a slot before it; otherwise 0.
  int64_t Floor(int64_t to, int64_t next) const;

  /// Chooses the boundaries in (position, position + rows] that the next step stores, and appends them to `writes` with
  /// their slots, ascending: always the last one, and none in the slot of BoundaryBefore(position). Drops others as
  /// ThinBoundaries does if slots are lacking.
  void Append(int64_t position, int64_t rows, const StateMarks& marks, std::vector<StateWrite>* writes);
  /// Forgets the boundaries after `to`. REQUIRES: to == Floor(to, next).
  void RollBack(int64_t to);
  void Clear() { held_.clear(); }
  /// Gives each of these boundaries a slot and forgets all others. REQUIRES: ascending multiples of kChunk above 0, at
  /// most slots().
  void Restore(std::span<const int64_t> boundaries);
  /// Copies the boundaries of another slab up to `tokens`, in the same slots.
  void Adopt(const StateSlots& from, int64_t tokens);

 private:
  int64_t slots_;
  std::vector<StateWrite> held_;  // ascending positions
};

}  // namespace ringside
