// A step as every rank runs it: which tokens, where they stand, which rows are wanted. Built by the engine's thread,
// the same for all ranks but for where their slabs lie; plain data from then on.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/families/model_spec.h"
#include "engine/model/angle_table.h"
#include "engine/model/network.h"
#include "kernels/backend.h"

namespace ringside {

struct StepPlan {
  KvShape shape;  // of all caches
  std::vector<TokenId> ids;
  std::vector<int64_t> positions, first_live, wanted_rows;
  std::vector<int64_t> hidden_rows;       // whose hidden states are wanted
  std::vector<int64_t> pinned_positions;  // [T] c, where a row's query stands for pinned keys; t where there are none
  std::vector<int> adapters;              // [T] StepPart::adapter of each row; empty where none has one
  /// Rows that no token is embedded in, but those of an adapter's soft prompt from `first` on stand in; their ids are
  /// 0.
  struct VirtualRows {
    int64_t first_row = 0, rows = 0;
    int64_t first = 0;
    int adapter = 0;
  };
  std::vector<VirtualRows> virtual_rows;
  /// What an encoder reads before the rows are computed: all of an input, which takes the slab's pinned positions. No
  /// row of the step is of it.
  struct EncoderInput {
    std::vector<TokenId> ids;
    void* slab = nullptr;
  };
  std::vector<EncoderInput> inputs;
  std::vector<AttentionSegment> segments;  // whose first_live points into ours; slab: as the engine knows it
  /// Of one rotation: [T, rotary / 2] each; empty where they lie in the table.
  struct AngleRows {
    std::vector<float> own_cos, own_sin, pinned_cos, pinned_sin;
  };
  std::vector<AngleRows> angle_rows;
  std::vector<RopeAngles> angles;  // of each of the network's rotations

  int64_t rows() const { return static_cast<int64_t>(ids.size()); }
  /// How many tokens of the last step must be known for this one: the first so many (kernels/awaited_token.h).
  size_t awaited_tokens() const;
};

/// Makes plans. One thread; a plan stays good until the next is made.
class StepPlanner {
 public:
  /// `spec` may be filled in later, before the first plan.
  explicit StepPlanner(const ModelSpec& spec) : spec_(spec) {}

  /// Appends every part to its ring and notes ids, positions, segments and wanted rows, part after part. Aborts where a
  /// part does not fit the network.
  void Plan(std::span<const StepPart> parts, StepPlan* plan);
  /// Fills in the angles of a plan that has all else.
  void ComputeAngles(StepPlan* plan);

 private:
  void ComputeAngles(size_t rotation, StepPlan* plan);
  void NoteVirtualRows(const StepPart& part, int64_t first_row, StepPlan* plan) const;

  const ModelSpec& spec_;
  std::vector<AngleTable> tables_;  // of the rotations
};

}  // namespace ringside
