// Return codes of CUDA and cuBLAS. A device error is sticky and nothing is known of memory afterwards, so it ends the
// process, naming call and place. Any thread.
#pragma once

#include <cublas_v2.h>
#include <cuda_runtime_api.h>

#include <string>

#include "base/check.h"

#define CHECK_CUDA(call)                                                                                       \
  do {                                                                                                         \
    if (const cudaError_t cuda_error = (call); cuda_error != cudaSuccess) [[unlikely]]                         \
      ::ringside::CheckFailed(__FILE__, __LINE__, std::string(#call) + ": " + cudaGetErrorString(cuda_error)); \
  } while (false)

#define CHECK_CUBLAS(call)                                                                                         \
  do {                                                                                                             \
    if (const cublasStatus_t blas_status = (call); blas_status != CUBLAS_STATUS_SUCCESS) [[unlikely]]              \
      ::ringside::CheckFailed(__FILE__, __LINE__, std::string(#call) + ": status " + std::to_string(blas_status)); \
  } while (false)
