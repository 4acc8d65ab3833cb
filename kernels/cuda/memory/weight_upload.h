// Pinned buffers for uploads of weights: the host fills one while the device copies the other. Owned by WeightLoader.
// THREAD: one.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace ringside::cuda {

class WeightUpload {
 public:
  /// What a piece should have: large enough for the threads that fill it to be worth starting.
  static constexpr size_t kPieceBytes = size_t{32} << 20;

  WeightUpload() = default;
  WeightUpload(const WeightUpload&) = delete;
  WeightUpload& operator=(const WeightUpload&) = delete;
  /// REQUIRES: all copies are done.
  ~WeightUpload();

  /// A buffer of `bytes` to fill; waits until the device has copied what it held.
  std::span<uint8_t> Next(size_t bytes);
  /// To be called when the copy of the last buffer is on `stream`.
  void Sent(cudaStream_t stream);

 private:
  struct Buffer {
    uint8_t* pinned = nullptr;
    std::vector<uint8_t> pageable;  // if the host cannot pin the bytes
    size_t bytes = 0;               // of `pinned`
    cudaEvent_t copied = nullptr;
  };
  void Grow(Buffer& buffer, size_t bytes);

  std::array<Buffer, 2> buffers_;
  size_t last_ = 0;
};

}  // namespace ringside::cuda
