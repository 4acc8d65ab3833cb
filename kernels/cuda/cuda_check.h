// Return codes of CUDA and cuBLAS. A device error is sticky and nothing is known of memory afterwards: the first one is
// kept for good, naming call and place, and calls go on to fail without harm until whoever looks at Backend::status
// stops making them. Any thread.
#pragma once

#include <cublas_v2.h>
#include <cuda_runtime_api.h>

#include <string>

#include "base/status.h"

namespace ringside::cuda {

/// Keeps and logs the first failure of the process.
void NoteDeviceError(const char* file, int line, const std::string& what);
/// kUnavailable, naming the first failure, if there was one.
Status DeviceStatus();

}  // namespace ringside::cuda

#define CHECK_CUDA(call)                                                                             \
  do {                                                                                               \
    if (const cudaError_t cuda_error = (call); cuda_error != cudaSuccess) [[unlikely]]               \
      ::ringside::cuda::NoteDeviceError(__FILE__, __LINE__,                                          \
                                        std::string(#call) + ": " + cudaGetErrorString(cuda_error)); \
  } while (false)

#define CHECK_CUBLAS(call)                                                                               \
  do {                                                                                                   \
    if (const cublasStatus_t blas_status = (call); blas_status != CUBLAS_STATUS_SUCCESS) [[unlikely]]    \
      ::ringside::cuda::NoteDeviceError(__FILE__, __LINE__,                                              \
                                        std::string(#call) + ": status " + std::to_string(blas_status)); \
  } while (false)
