// RMS norms (Zhang and Sennrich 2019) of rows whose columns are divided among ranks: each rank sums the squares of its
// columns, the sums are gathered, and each rank norms its columns.
#pragma once

#include "kernels/cuda/launch.h"
#include "kernels/tensor.h"

namespace ringside::cuda {

/// sums[r] = the sum of the squares of row r of x, or 0 unless `counts`. sums [T, 1] kF32.
void LaunchRowSquares(const Launcher& on, Tensor x, bool counts, Tensor sums);
/// x = x / sqrt(sum(sums[r]) / columns + eps) * weight, in place; sums [T, ranks] kF32.
void LaunchNormBySquares(const Launcher& on, Tensor x, Tensor sums, int64_t columns, const float* weight, float eps);

}  // namespace ringside::cuda
