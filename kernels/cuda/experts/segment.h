// Adjacent weight tiles of one expert and the rows routed to it: the work of a block (tiled_experts.cu). Plain data.
#pragma once

#include <cstdint>

#include "kernels/cuda/experts/experts_plan.h"

namespace ringside::cuda {

/// Step from one of a warp's parts to its next.
struct PartStep {
  int32_t tiles, parts;
};

struct alignas(16) Segment {
  PackedExpert expert;
  ExpertRows rows;
  int32_t row_at[kFewExpertRows], target[kFewExpertRows];  // index in x, or in `mid`; destination of results
  const unsigned char* weights[2];                         // matrices of a tile's first eight rows, and of its second
  int32_t first_row[2];                                    // row of the first tile in these matrices
  int32_t first_output, tiles, before, outputs;  // before: preceding tiles of the block's run; outputs: the expert's
  int32_t inputs, across, k_tiles, parts;        // tiles across, K tiles, and split-K parts of every parts-th K tile
  PartStep step;
};

}  // namespace ringside::cuda
