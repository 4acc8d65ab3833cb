#include <algorithm>

#include "kernels/cuda/device.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/ranks/rank_messages.h"

namespace ringside::cuda {
namespace {

constexpr int kThreads = 256;

/// Calls each(i) for every i of [0, count), over all threads of the grid.
template <class Each>
__device__ __forceinline__ void ForAll(int64_t count, const Each& each) {
  BeginDependentKernel();
  const int64_t all = int64_t{gridDim.x} * kThreads;
  for (int64_t i = blockIdx.x * int64_t{kThreads} + threadIdx.x; i < count; i += all) each(i);
}

__device__ __forceinline__ float* ElementOf(const Tensor& x, int64_t i) {
  return static_cast<float*>(x.data) + i / x.cols * x.stride + i % x.cols;
}

__global__ void __launch_bounds__(kThreads)
    SumMessagesKernel(const void* messages, DType dtype, int messages_count, Tensor y, bool accumulate) {
  const int64_t count = y.rows * y.cols;
  ForAll(count / 4, [&](int64_t four) {
    float4 sum = {0, 0, 0, 0};
    for (int m = 0; m < messages_count; ++m) {
      const int64_t i = m * count + 4 * four;
      sum.x += LoadElement(messages, dtype, i), sum.y += LoadElement(messages, dtype, i + 1);
      sum.z += LoadElement(messages, dtype, i + 2), sum.w += LoadElement(messages, dtype, i + 3);
    }
    auto* to = reinterpret_cast<float4*>(ElementOf(y, 4 * four));
    const float4 before = accumulate ? *to : float4{0, 0, 0, 0};
    *to = {before.x + sum.x, before.y + sum.y, before.z + sum.z, before.w + sum.w};
  });
}

__global__ void __launch_bounds__(kThreads) PackColumnsKernel(Tensor columns, float* message) {
  ForAll(columns.rows * columns.cols, [&](int64_t i) { message[i] = *ElementOf(columns, i); });
}

__global__ void __launch_bounds__(kThreads) UnpackColumnsKernel(const float* message, Tensor columns) {
  ForAll(columns.rows * columns.cols, [&](int64_t i) { *ElementOf(columns, i) = message[i]; });
}

dim3 GridFor(const Launcher& on, int64_t items) {
  return Grid(std::clamp<int64_t>((items + kThreads - 1) / kThreads, 1, 4 * on.multiprocessors));
}

}  // namespace

void LaunchSumMessages(const Launcher& on, const void* messages, DType dtype, int count, Tensor y, bool accumulate) {
  Launch(on, SumMessagesKernel, GridFor(on, y.rows * y.cols / 4), kThreads, 0, messages, dtype, count, y, accumulate);
}

void LaunchPackColumns(const Launcher& on, Tensor columns, float* message) {
  Launch(on, PackColumnsKernel, GridFor(on, columns.rows * columns.cols), kThreads, 0, columns, message);
}

void LaunchUnpackColumns(const Launcher& on, const float* message, Tensor columns) {
  Launch(on, UnpackColumnsKernel, GridFor(on, columns.rows * columns.cols), kThreads, 0, message, columns);
}

}  // namespace ringside::cuda
