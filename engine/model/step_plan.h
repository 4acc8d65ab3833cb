// A step as executed by every rank: tokens, positions, wanted rows. Built on the engine thread, the same for all ranks
// except for the slab addresses; plain data afterwards.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "engine/families/model_spec.h"
#include "engine/model/angle_table.h"
#include "engine/model/network.h"
#include "engine/model/shared_prefixes.h"
#include "kernels/backend.h"

namespace ringside {

struct StepPlan {
  KvShape shape;  // of all caches
  std::vector<TokenId> ids;
  std::vector<int64_t> positions, first_live, wanted_rows;
  std::vector<int64_t> last_seen;    // [T] AttentionSegment::last_seen; empty if every row sees up to its own
  std::vector<int64_t> hidden_rows;  // rows with hidden states
  // [segments], with a draft layer: the row of the previous plan that has the token before the segment; -1: none has
  std::vector<int64_t> rows_before;
  std::vector<int64_t> pinned_positions;  // [T] position of a row's query against pinned keys; its own position if
                                          // there are none
  // [T] rotary positions, and those against pinned keys; empty if they equal `positions` and `pinned_positions`.
  std::vector<RotaryPosition> rotary, pinned_rotary;
  std::vector<int> adapters;  // [T] StepPart::adapter of each row; empty if no row has one
  /// Rows whose input is not a token embedding but a row of an adapter's soft prompt, from its row `first` on; their
  /// ids are 0.
  struct VirtualRows {
    int64_t first_row = 0, rows = 0;
    int64_t first = 0;
    int adapter = 0;
  };
  std::vector<VirtualRows> virtual_rows;
  /// A row whose input is an image's (StepPart::image_rows); its id is 0.
  struct ImageRow {
    int64_t row = 0;
    const std::byte* values = nullptr;  // ImageRows::Row
  };
  std::vector<ImageRow> image_rows;  // ascending
  /// An encoder's input, computed before the rows of the step; it occupies the slab's pinned positions and has no rows
  /// in the step.
  struct EncoderInput {
    std::vector<TokenId> ids;
    void* slab = nullptr;
  };
  std::vector<EncoderInput> inputs;
  std::vector<AttentionSegment> segments;  // first_live, last_seen and state_writes point into this plan's;
                                           // slab: the engine's address
  std::vector<StateWrite> state_writes;    // segment after segment
  /// One rotation: [T, rotary / 2] each; empty if views of the table are used.
  struct AngleRows {
    std::vector<float> own_cos, own_sin, pinned_cos, pinned_sin;
  };
  std::vector<AngleRows> angle_rows;
  std::vector<RopeAngles> angles;  // by rotation

  /// Removes everything but the shape and the angles.
  void Clear();
  int64_t rows() const { return static_cast<int64_t>(ids.size()); }
  /// Number of tokens of the last step that this step needs: its first ones (kernels/deferred_token.h).
  size_t awaited_tokens() const;
  /// Points the segments at their parts of first_live, last_seen and state_writes, which must not change later.
  /// `state_ends`: of each segment, in state_writes.
  void PointSegments(std::span<const size_t> state_ends);
};

/// Builds plans; a plan is valid until the next is built. THREAD: one.
class StepPlanner {
 public:
  /// `spec` may be filled in after construction, before the first plan.
  explicit StepPlanner(const ModelSpec& spec) : spec_(spec) {}

  /// Appends every part to its ring and records ids, positions, segments and wanted rows, part after part. REQUIRES:
  /// every part fits the network; aborts otherwise.
  void Plan(std::span<const StepPart> parts, StepPlan* plan);
  /// Plans a pass of the draft layer, of one row each: the token `token` at the position `ahead` after the cache's next
  /// one. Nothing is appended. `rows_before` is of the last step's plan if `ahead` is 0.
  struct DraftRow {
    const DraftPart* part = nullptr;
    TokenId token = 0;
    int64_t row_before = -1;  // in the previous pass; unused if `ahead` is 0
  };
  void PlanDraft(std::span<const DraftRow> rows, int64_t ahead, StepPlan* plan);
  /// Fills in the angles of an otherwise complete plan.
  void ComputeAngles(StepPlan* plan);

 private:
  void ComputeAngles(size_t rotation, StepPlan* plan);
  /// StepPlan::rows_before of a segment that starts at `position`.
  int64_t RowBefore(const void* slab, int64_t position) const;
  /// Sets rows_before and remembers the plan's rows.
  void NoteRowsBefore(StepPlan* plan);
  void NoteVirtualRows(const StepPart& part, int64_t first_row, StepPlan* plan) const;
  void NoteRotary(const Ring& ring, std::span<const ImageGrid> grids, int64_t position, int64_t rows,
                  StepPlan* plan) const;
  void NoteLastSeen(const StepPart& part, int64_t position, StepPlan* plan) const;

  const ModelSpec& spec_;
  std::vector<AngleTable> tables_;      // by rotation
  std::vector<size_t> state_ends_;      // of each segment of the current plan in state_writes
  std::vector<const KvCache*> caches_;  // of each segment of the current plan
  SharedPrefixes shared_prefixes_;
  /// Where a sequence's tokens are among the rows of the last step.
  struct LastRows {
    int64_t position = 0, rows = 0, first_row = 0;
  };
  std::unordered_map<const void*, LastRows> last_rows_;  // by slab; with a draft layer
};

}  // namespace ringside
