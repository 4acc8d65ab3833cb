// A rank's part of each matrix and vector. Pure.
#pragma once

#include <vector>

#include "engine/families/network_plan.h"
#include "engine/model/weights/shard.h"

namespace ringside {

/// The outputs and inputs of a matrix or vector that a rank has, in their order.
struct TensorCut {
  std::vector<IndexRange> outputs, inputs;

  int64_t rows() const;
  int64_t cols() const;
};

/// The part of a tensor [rows, cols] of the network `spec`, in network order.
TensorCut CutOf(const Shard& shard, const ModelSpec& spec, const PlannedTensor& planned, int64_t rows, int64_t cols);

}  // namespace ringside
