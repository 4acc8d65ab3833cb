// Transfers of one submission between host and device: staged inputs, and results in pinned memory. There are two, so
// that one can be filled while the other is in flight. Owned by the backend.
// THREAD: one.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <vector>

#include "kernels/cuda/steps/staging.h"

namespace ringside::cuda {

class Submission {
 public:
  Submission() = default;
  Submission(const Submission&) = delete;
  Submission& operator=(const Submission&) = delete;
  ~Submission();

  /// `device` has room for the staged bytes and is borrowed. False if the host cannot pin enough memory.
  bool Start(void* device, size_t staging_bytes, size_t readback_bytes);

  Staging& staging() { return staging_; }
  /// Pinned, device-writable memory whose contents are copied to `host` on Complete; null if the buffer is full.
  std::byte* StageReadback(void* host, size_t bytes);
  size_t readback_bytes() const { return readback_bytes_; }

  /// Marks the end of the submission on the stream; all its work has been issued.
  void Send(cudaStream_t stream, uint64_t number);
  /// 0: not in flight.
  uint64_t number() const { return number_; }
  /// Waits if it is in flight, delivers its results and makes it available again.
  void Complete();
  /// As Complete. REQUIRES: its work is done.
  void Empty();

 private:
  struct HostCopy {
    void* to;
    const std::byte* from;
    size_t bytes;
  };
  Staging staging_;
  std::byte* readback_ = nullptr;
  size_t readback_bytes_ = 0, readback_used_ = 0;
  std::vector<HostCopy> copies_;
  cudaEvent_t done_ = nullptr;
  uint64_t number_ = 0;
};

}  // namespace ringside::cuda
