// Checks of CUDA and cuBLAS return codes. A device error is sticky and leaves device memory undefined. The first error
// is recorded for good with its call and source location; later calls fail harmlessly until the caller checks
// Backend::status and stops.
// THREAD: any.
#pragma once

#include <cublas_v2.h>
#include <cuda_runtime_api.h>

#include <string>

#include "base/status.h"

namespace ringside::cuda {

/// Records and logs the first device failure of the process.
void RecordDeviceError(const char* file, int line, const std::string& what);
/// kUnavailable naming the first device failure, or Ok if there was none.
Status DeviceStatus();

}  // namespace ringside::cuda

#define CHECK_CUDA(call)                                                                               \
  do {                                                                                                 \
    if (const cudaError_t cuda_error = (call); cuda_error != cudaSuccess) [[unlikely]]                 \
      ::ringside::cuda::RecordDeviceError(__FILE__, __LINE__,                                          \
                                          std::string(#call) + ": " + cudaGetErrorString(cuda_error)); \
  } while (false)

#define CHECK_CUBLAS(call)                                                                                 \
  do {                                                                                                     \
    if (const cublasStatus_t blas_status = (call); blas_status != CUBLAS_STATUS_SUCCESS) [[unlikely]]      \
      ::ringside::cuda::RecordDeviceError(__FILE__, __LINE__,                                              \
                                          std::string(#call) + ": status " + std::to_string(blas_status)); \
  } while (false)
