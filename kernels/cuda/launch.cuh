// All kernels here are launched by Launch, by default with programmatic dependent launch: a kernel may start while its
// predecessor drains (device.cuh: BeginDependentKernel). Included by .cu files only.
#pragma once

#include "kernels/cuda/cuda_check.h"
#include "kernels/cuda/launch.h"

namespace ringside::cuda {

template <class... Parameters, class... Arguments>
void Launch(const Launcher& on, void (*kernel)(Parameters...), dim3 grid, int threads, size_t shared_bytes,
            Arguments... arguments) {
  cudaLaunchConfig_t config = {};
  config.gridDim = grid;
  config.blockDim = dim3(static_cast<unsigned>(threads));
  config.dynamicSmemBytes = shared_bytes;
  config.stream = on.stream;
  cudaLaunchAttribute attributes[2] = {};
  config.attrs = attributes;
  if (on.overlap) {
    cudaLaunchAttribute& overlap = attributes[config.numAttrs++];
    overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    overlap.val.programmaticStreamSerializationAllowed = 1;
  }
  if (on.cluster > 1) {
    cudaLaunchAttribute& cluster = attributes[config.numAttrs++];
    cluster.id = cudaLaunchAttributeClusterDimension;
    cluster.val.clusterDim = {static_cast<unsigned>(on.cluster), 1, 1};
    if (on.cluster > 8) CHECK_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1));
  }
  if (shared_bytes > 48 * 1024) {
    CHECK_CUDA(
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared_bytes)));
  }
  CHECK_CUDA(cudaLaunchKernelEx(&config, kernel, arguments...));
}

/// Number of resident clusters of `blocks` > 1 blocks.
template <class Kernel>
int MaxActiveClusters(Kernel kernel, int blocks, int threads, size_t shared_bytes) {
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(static_cast<unsigned>(blocks));
  config.blockDim = dim3(static_cast<unsigned>(threads));
  config.dynamicSmemBytes = shared_bytes;
  cudaLaunchAttribute cluster = {};
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim = {static_cast<unsigned>(blocks), 1, 1};
  config.attrs = &cluster, config.numAttrs = 1;
  CHECK_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared_bytes)));
  if (blocks > 8) CHECK_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1));
  int count = 0;
  CHECK_CUDA(cudaOccupancyMaxActiveClusters(&count, kernel, &config));
  return count;
}

/// Number of resident blocks on the device.
template <class Kernel>
int MaxActiveBlocks(const Launcher& on, Kernel kernel, int threads, size_t shared_bytes) {
  CHECK_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared_bytes)));
  int blocks = 0;
  CHECK_CUDA(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, threads, shared_bytes));
  return blocks * on.multiprocessors;
}

/// Whether the address allows 16-byte accesses.
inline bool Aligned(const void* p) { return reinterpret_cast<uintptr_t>(p) % 16 == 0; }
/// Whether rows can be accessed four elements at a time.
inline bool AllowsFloat4(const Tensor& x) { return x.cols % 4 == 0 && x.stride % 4 == 0 && Aligned(x.data); }

/// Blocks for one thread per element; a block's threads take columns of one row.
inline dim3 ElementGrid(int64_t rows, int64_t cols) {
  return dim3(static_cast<unsigned>((cols + kBlockThreads - 1) / kBlockThreads), static_cast<unsigned>(rows));
}
inline dim3 Grid(int64_t x, int64_t y = 1, int64_t z = 1) {
  return dim3(static_cast<unsigned>(x), static_cast<unsigned>(y), static_cast<unsigned>(z));
}

}  // namespace ringside::cuda
