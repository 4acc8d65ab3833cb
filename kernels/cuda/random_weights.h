// Random weights, generated on the device (kernels/random_weights.h).
#pragma once

#include "kernels/cuda/launch.h"
#include "kernels/random_weights.h"

namespace ringside::cuda {

/// y = columns [matrix.first_col, + y.cols) of rows [first_row, + y.rows) of the whole matrix, rounded to y's type.
void LaunchRandomWeights(const Launcher& on, const RandomMatrix& matrix, int64_t first_row, Tensor y);

}  // namespace ringside::cuda
