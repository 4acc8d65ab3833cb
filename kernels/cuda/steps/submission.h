// What a submission carries between host and device: inputs staged on their way in, results in pinned memory on their
// way out. Two take turns, so that one can be filled while the other is under way. Owned by the backend, one thread.
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

  /// `device` has room for what is staged and is borrowed; false if the host has not so much memory to pin.
  bool Start(void* device, size_t staging_bytes, size_t landing_bytes);

  Staging& staging() { return staging_; }
  /// Pinned memory, which the device can write, whose contents go to `host` on Complete; null if there is no room.
  std::byte* Land(void* host, size_t bytes);
  size_t landing_bytes() const { return landing_bytes_; }

  /// Everything of it has been issued.
  void Send(cudaStream_t stream, uint64_t number);
  /// 0: not under way.
  uint64_t number() const { return number_; }
  /// Waits until it is done if it is under way, hands results over and can be filled again.
  void Complete();
  /// As Complete, where nothing of it is left to wait for.
  void Empty();

 private:
  struct HostCopy {
    void* to;
    const std::byte* from;
    size_t bytes;
  };
  Staging staging_;
  std::byte* landing_ = nullptr;
  size_t landing_bytes_ = 0, landing_used_ = 0;
  std::vector<HostCopy> copies_;
  cudaEvent_t done_ = nullptr;
  uint64_t number_ = 0;
};

}  // namespace ringside::cuda
