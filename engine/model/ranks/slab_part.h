// A rank's part of a slab: its shape, and the runs of its slab that belong to a run of the whole slab, whose layout is
// that of a single device. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/families/model_spec.h"
#include "engine/model/weights/recurrent_share.h"
#include "engine/model/weights/shard.h"
#include "kernels/kv_shape.h"
#include "kernels/slab_run.h"

namespace ringside {

/// Bytes of a rank's slab for `all` bytes of the whole slab: at most `own`.
struct SlabRatio {
  int64_t own = 1, all = 1;
};

class SlabPart {
 public:
  SlabPart(const Shard& shard, const ModelSpec& spec);

  /// The rank's slab, given the whole one.
  KvShape ShapeOf(const KvShape& whole) const;
  /// Suffices for every beginning of a slab. The denominator is at most 128.
  SlabRatio ratio() const { return ratio_; }
  /// The rank's part of whole tiles, or of bytes of the recurrent state; with `saved`, only values that no earlier rank
  /// has.
  std::vector<SlabRun> RunsOf(const KvShape& whole, const SlabRun& run, bool saved) const;
  /// Clears the host's bytes of the run that no rank has.
  void ClearPadding(const KvShape& whole, const SlabRun& run) const;

 private:
  /// Consecutive floats of a boundary, or of a row of the tail.
  struct Piece {
    int64_t whole = 0, own = 0, floats = 0;
    bool saves = true;
  };
  /// Boundaries of one layer, or rows of the tail of one layer.
  struct StateUnits {
    std::span<const Piece> pieces;
    int64_t whole_begin = 0, whole_bytes = 0;  // of the first unit in the slab; of a unit
    int64_t own_begin = 0, own_bytes = 0;
    int64_t per_layer = 1;  // units of a layer
  };

  void PlanPieces(const RecurrenceShape& whole);
  void AddPieces(const RecurrenceShape& whole, std::span<const RecurrentPart> parts, int64_t whole_at, int64_t own_at,
                 std::vector<Piece>* pieces) const;
  SlabRatio RatioOf(const KvShape& whole) const;
  void AddTiles(const KvShape& whole, const SlabRun& run, bool saved, std::vector<SlabRun>* runs) const;
  void AddState(const StateUnits& units, const SlabRun& run, bool saved, std::vector<SlabRun>* runs) const;

  ModelSpec own_;
  int64_t first_layer_ = 0, first_state_layer_ = 0;  // its first layers with keys and values, and with a state
  int64_t state_layers_ = 0;                         // of the whole network
  std::vector<HeadShare> heads_;                     // by own layer with keys and values
  RecurrentShare share_;
  bool whole_state_ = false;                      // all values of its layers
  int64_t boundary_floats_ = 0, row_floats_ = 0;  // of the whole network, without padding
  std::vector<Piece> boundary_, tail_row_;
  SlabRatio ratio_;
};

}  // namespace ringside
