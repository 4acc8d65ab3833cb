// Which part of a network's matrices and vectors a rank has. Pure.
#pragma once

#include <vector>

#include "engine/families/network_plan.h"
#include "engine/model/weights/shard.h"

namespace ringside {

/// What a rank has of a matrix or vector: outputs, in the order in which they come, and inputs.
struct TensorCut {
  std::vector<IndexRange> outputs;
  IndexRange inputs;

  int64_t rows() const;
};

/// Of a tensor [rows, cols] of the network `spec`, in the order of the network.
TensorCut CutOf(const Shard& shard, const ModelSpec& spec, TensorRole role, int64_t rows, int64_t cols);

}  // namespace ringside
