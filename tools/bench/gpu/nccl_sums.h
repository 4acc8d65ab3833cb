// The reference for the ranks' all-reduce: NCCL's own, alone, in a CUDA graph.
#pragma once

#include <cstdint>
#include <vector>

namespace ringside {

/// Microseconds of one all-reduce over the first `ranks` devices, bfloat16, out of place, for each size in bytes: the
/// slowest rank's median over `repeats` graphs of `sums` operations each. `symmetric`: on memory registered as
/// symmetric windows, for which NCCL has special kernels from 2.27 on. 0 if unavailable.
std::vector<double> TimeNcclSums(int ranks, const std::vector<int64_t>& bytes, int sums, int repeats, bool symmetric);

}  // namespace ringside
