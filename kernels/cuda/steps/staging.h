// The way of a step's small inputs - ids, rows, angles - to the device: written into pinned memory as operations are
// recorded, copied in one piece before they run. The n-th input of a step of the same shape lies at the same address
// every time, which is what lets a recorded step be played again. Owned by the backend, one thread.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#include "kernels/cuda/launch.h"

namespace ringside::cuda {

class Staging {
 public:
  Staging() = default;
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;
  ~Staging();

  /// `device` has room for `bytes` and is borrowed; false if the host has no pinned memory of that size.
  bool Start(void* device, size_t bytes);
  /// Room for `bytes`: where to write now, and where it will be on the device. Null host if there is none left.
  struct Place {
    void* host;
    void* device;
  };
  Place Take(size_t bytes);
  /// Copies what was written since the last call: behind all kernels before it; beside them, on a stream of its own for
  /// which that of `on` waits; or by a kernel, where the copy engines have much to do, behind which a copy would wait.
  enum class Way { kBehind, kBeside, kByKernel };
  void Upload(const Launcher& on, Way way);
  /// Starts again at the beginning; everything uploaded must have been used.
  void Rewind() { used_ = uploaded_ = 0; }
  size_t bytes() const { return bytes_; }

 private:
  std::byte* host_ = nullptr;
  std::byte* device_ = nullptr;
  size_t bytes_ = 0, used_ = 0, uploaded_ = 0;
  cudaStream_t stream_ = nullptr;
  cudaEvent_t copied_ = nullptr;
};

}  // namespace ringside::cuda
