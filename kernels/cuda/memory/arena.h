// An allocator over one block of device memory. Weights are allocated from the bottom in load order, so that matrices
// of one input are adjacent; everything else from the top. First fit. Owned by the CUDA backend.
// THREAD: one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>

namespace ringside::cuda {

class Arena {
 public:
  static constexpr size_t kAlignment = 256,
                          kHighAlignment = 4096;  // the latter keeps slabs aligned to half a tile, where that matters

  /// Manages `bytes` at `base`, which are borrowed.
  void Reset(void* base, size_t bytes);
  /// `bytes` rounded up to kAlignment, or null if no gap is large enough. AllocateHigh aligns to kHighAlignment.
  void* AllocateLow(size_t bytes);
  void* AllocateHigh(size_t bytes);
  void Free(void* data, size_t bytes);
  size_t free_bytes() const { return free_bytes_; }

 private:
  void* AllocateFrom(std::map<size_t, size_t>::iterator gap, size_t offset, size_t bytes);

  std::byte* base_ = nullptr;
  std::map<size_t, size_t> gaps_;  // offset -> bytes
  size_t free_bytes_ = 0;
};

}  // namespace ringside::cuda
