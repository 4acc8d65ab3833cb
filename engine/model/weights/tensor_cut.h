// A rank's part of each matrix and vector. Pure.
#pragma once

#include <vector>

#include "engine/families/network_plan.h"
#include "engine/model/weights/shard.h"

namespace ringside {

/// The outputs, in their order, and inputs of a matrix or vector that a rank has.
struct TensorCut {
  std::vector<IndexRange> outputs;
  IndexRange inputs;

  int64_t rows() const;
};

/// The part of a tensor [rows, cols] of the network `spec`, in network order.
TensorCut CutOf(const Shard& shard, const ModelSpec& spec, TensorRole role, int64_t rows, int64_t cols);

}  // namespace ringside
