// What ranks' sums are measured against: NCCL's own, alone, in a CUDA graph.
#pragma once

#include <cstdint>
#include <vector>

namespace ringside {

/// Microseconds of one sum over the first `ranks` devices, bfloat16, not in place, for each size in bytes: the slowest
/// rank's, the median of `repeats` graphs of `sums` each. `symmetric`: of memory that is registered as symmetric
/// windows, which NCCL has kernels of its own for from 2.27 on. 0 where that is not to be had.
std::vector<double> TimeNcclSums(int ranks, const std::vector<int64_t>& bytes, int sums, int repeats, bool symmetric);

}  // namespace ringside
