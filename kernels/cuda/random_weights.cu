#include "kernels/cuda/device.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/random_weights.h"

namespace ringside::cuda {
namespace {

constexpr int kThreads = 256;

/// `number`: element number of the first element of row 0.
__global__ void __launch_bounds__(kThreads)
    RandomWeightsKernel(uint64_t seed, uint64_t number, int64_t whole_cols, Tensor y) {
  BeginDependentKernel();
  const int64_t count = y.rows * y.cols, all = int64_t{gridDim.x} * kThreads;
  for (int64_t i = blockIdx.x * int64_t{kThreads} + threadIdx.x; i < count; i += all) {
    const int64_t row = i / y.cols, col = i % y.cols;
    StoreElement(y.data, y.dtype, row * y.stride + col,
                 RandomWeight(seed, number + static_cast<uint64_t>(row * whole_cols + col)));
  }
}

}  // namespace

void LaunchRandomWeights(const Launcher& on, const RandomMatrix& matrix, int64_t first_row, Tensor y) {
  Launch(on, RandomWeightsKernel, Grid(16 * on.multiprocessors), kThreads, 0, matrix.seed,
         static_cast<uint64_t>(first_row * matrix.whole_cols + matrix.first_col), matrix.whole_cols, y);
}

}  // namespace ringside::cuda
