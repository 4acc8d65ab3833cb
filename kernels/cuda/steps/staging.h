// Uploads a step's small inputs (ids, rows, angles): they are written to pinned memory while operations are recorded
// and copied in one piece before these run. The n-th input of a step of a given shape always has the same address, so a
// captured graph can be replayed. Owned by the backend.
// THREAD: one.
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

  /// `device` has room for `bytes` and is borrowed. False if the host cannot pin this number of bytes.
  bool Start(void* device, size_t bytes);
  /// A reserved piece: where to write on the host, and its later device address. `host` is null if the buffer is full.
  struct Place {
    void* host;
    void* device;
  };
  Place Reserve(size_t bytes);
  /// Copies everything written since the last call. kInStreamOrder: on the stream, after all preceding kernels.
  /// kConcurrent: on a separate stream that the stream of `on` waits for, concurrently with preceding kernels.
  /// kByKernel: by a kernel, if the copy engines are busy and a copy would queue after theirs.
  enum class UploadMode { kInStreamOrder, kConcurrent, kByKernel };
  void Upload(const Launcher& on, UploadMode mode);
  /// Restarts at the beginning. REQUIRES: everything uploaded has been consumed.
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
