// The one block of device memory, taken at start, and its division: weights from the bottom, in the order they come (so
// that matrices of one input lie side by side), everything else from the top. First fit. Owned by the CUDA backend, one
// thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>

namespace ringside::cuda {

class Arena {
 public:
  static constexpr size_t kAlignment = 256,
                          kHighAlignment = 4096;  // the latter: half a tile of a slab, where that matters

  /// Divides `bytes` at `base`; borrows them.
  void Reset(void* base, size_t bytes);
  /// `bytes` rounded up to kAlignment, or null if no gap is large enough; what is high begins at a multiple of
  /// kHighAlignment.
  void* TakeLow(size_t bytes);
  void* TakeHigh(size_t bytes);
  void Give(void* data, size_t bytes);
  size_t free_bytes() const { return free_bytes_; }

 private:
  void* Take(std::map<size_t, size_t>::iterator gap, size_t offset, size_t bytes);

  std::byte* base_ = nullptr;
  std::map<size_t, size_t> gaps_;  // offset -> bytes
  size_t free_bytes_ = 0;
};

}  // namespace ringside::cuda
