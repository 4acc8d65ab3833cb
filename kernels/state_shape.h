// Layout of a conversation's recurrent state, at the start of its slab, before the tiles of KvShape.
//
// The state of a recurrent layer is materialized only at boundaries: positions that are multiples of C = kChunk. A slab
// has a few slots for boundaries; a boundary in a slot never changes while the slot is in use. The tail has one row per
// token and layer: the inputs of the tokens since the last boundary, position p in row p % C. Each output is a function
// of the last boundary before it and the rows after that boundary, computed in a fixed order, so no result depends on
// how tokens were split into steps, and dropping the last rows of the tail is an exact roll-back.
//
//   [slot][layer][boundary_bytes], then [layer][row][tail_row_bytes]
#pragma once

#include <cstdint>

namespace ringside {

struct StateShape {
  static constexpr int64_t kChunk = 64;  // C
  static constexpr int64_t kAlignment = 256;

  int64_t layers = 0;          // recurrent layers
  int64_t boundary_bytes = 0;  // of one layer: the state at a boundary, with the convolution's inputs before it
  int64_t tail_row_bytes = 0;  // of one layer and token
  int64_t slots = 0;           // boundaries that a slab can hold, at least 2

  bool empty() const { return layers == 0; }
  int64_t slot_bytes() const { return layers * boundary_bytes; }
  int64_t tail_bytes() const { return layers * kChunk * tail_row_bytes; }
  /// Bytes before the first tile.
  int64_t bytes() const { return (slots * slot_bytes() + tail_bytes() + kAlignment - 1) / kAlignment * kAlignment; }
  int64_t BoundaryOffset(int64_t slot, int64_t layer) const { return slot * slot_bytes() + layer * boundary_bytes; }
  int64_t TailOffset(int64_t layer, int64_t position) const {
    return slots * slot_bytes() + (layer * kChunk + position % kChunk) * tail_row_bytes;
  }
  /// True if one boundary and one row of the tail have the same bytes, whatever the number of slots.
  bool SameLayout(const StateShape& other) const {
    return layers == other.layers && boundary_bytes == other.boundary_bytes && tail_row_bytes == other.tail_row_bytes;
  }
  /// The last boundary at or before a position.
  static int64_t BoundaryBefore(int64_t position) { return position - position % kChunk; }

  friend bool operator==(const StateShape&, const StateShape&) = default;
};

/// A boundary that a step stores: the state before the token at `position`, a multiple of kChunk.
struct StateWrite {
  int64_t position = 0;
  int slot = 0;
};

}  // namespace ringside
