// One block per row; sums are in float32, in a fixed order.
#include "kernels/cuda/device.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/ranks/rank_norms.h"

namespace ringside::cuda {
namespace {

__global__ void __launch_bounds__(kBlockThreads) RowSquaresKernel(Tensor x, bool counts, Tensor sums) {
  __shared__ float shared[kBlockThreads / 32];
  BeginDependentKernel();
  float sum = 0;
  for (int64_t c = threadIdx.x; counts && c < x.cols; c += kBlockThreads) {
    const float value = LoadElement(x.data, x.dtype, blockIdx.x * x.stride + c);
    sum += value * value;
  }
  sum = BlockSum(sum, shared);
  if (threadIdx.x == 0) static_cast<float*>(sums.data)[blockIdx.x * sums.stride] = sum;
}

__global__ void __launch_bounds__(kBlockThreads)
    NormBySquaresKernel(Tensor x, Tensor sums, float columns, const float* weight, float eps) {
  BeginDependentKernel();
  const float* own = static_cast<const float*>(sums.data) + blockIdx.x * sums.stride;
  float sum = 0;
  for (int64_t r = 0; r < sums.cols; ++r) sum += own[r];
  const float factor = 1.0f / sqrtf(sum / columns + eps);
  for (int64_t c = threadIdx.x; c < x.cols; c += kBlockThreads) {
    const int64_t at = blockIdx.x * x.stride + c;
    StoreElement(x.data, x.dtype, at, LoadElement(x.data, x.dtype, at) * factor * weight[c]);
  }
}

}  // namespace

void LaunchRowSquares(const Launcher& on, Tensor x, bool counts, Tensor sums) {
  Launch(on, RowSquaresKernel, Grid(x.rows), kBlockThreads, 0, x, counts, sums);
}

void LaunchNormBySquares(const Launcher& on, Tensor x, Tensor sums, int64_t columns, const float* weight, float eps) {
  Launch(on, NormBySquaresKernel, Grid(x.rows), kBlockThreads, 0, x, sums, static_cast<float>(columns), weight, eps);
}

}  // namespace ringside::cuda
