// Finds recorded sums of rows that one launch computes: the streams of a network with several of them are mixed by up
// to sixteen. Pure, without CUDA. THREAD: any.
#pragma once

#include <span>

#include "kernels/cuda/rows/row_sums.h"
#include "kernels/cuda/steps/step_op.h"

namespace ringside::cuda {

/// The number of operations from the first on that LaunchRowSums replaces, in `sums`; 0 if the first is no such sum. No
/// operation reads a result of another; terms keep the order of the operations.
size_t CollectSums(std::span<const StepOp> ops, RowSums* sums);

}  // namespace ringside::cuda
