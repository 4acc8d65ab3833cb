// All device memory of the backend, allocated at start: one address range with permanent allocations (Arena), and
// ranges for slabs whose pages are committed and decommitted, all from one pool of pages. Owned by the CUDA backend.
// THREAD: one.
#pragma once

#include <cuda_runtime_api.h>

#include <map>
#include <span>
#include <vector>

#include "base/status.h"
#include "kernels/cuda/memory/arena.h"
#include "kernels/cuda/memory/device_pages.h"
#include "kernels/cuda/memory/page_mapper.h"

namespace ringside::cuda {

class DeviceMemory {
 public:
  DeviceMemory() = default;
  /// REQUIRES: nothing on the device uses the memory.
  ~DeviceMemory();

  /// Allocates `bytes` of the device, rounded down to pages. ERRORS: kOverloaded if it has fewer.
  Status Start(int device, size_t bytes);
  size_t bytes() const { return pages_.count() * page_bytes(); }
  size_t page_bytes() const { return pages_.page_bytes(); }
  /// Bytes neither allocated nor committed.
  size_t free_bytes() const { return free_pages_ * page_bytes(); }

  /// As in Arena; null also if no pages are left.
  void* AllocateLow(size_t bytes) { return WithPages(arena_.AllocateLow(bytes), bytes); }
  void* AllocateHigh(size_t bytes) { return WithPages(arena_.AllocateHigh(bytes), bytes); }
  /// Frees an allocation at once, or a range of Reserve, which nothing on the device may still use.
  void Free(void* data, size_t bytes);

  bool IsRange(const void* data) const { return RangeOf(data).begin != arena_begin_; }
  /// Reserves addresses without memory; null if there are none.
  void* Reserve(size_t bytes);
  /// Starts to map memory to whole pages of a range; Await waits for it. False if none is left.
  bool Commit(void* data, size_t bytes);
  /// Starts to map the pages of `from` to these addresses as well; Await waits for it.
  void Share(void* to, const void* from, size_t bytes);
  /// Unmaps the pages once the work now on these streams is done. `frees`: they are mapped nowhere else.
  void Decommit(void* data, size_t bytes, bool frees, std::span<const cudaStream_t> after);
  void Await(const void* data, size_t bytes) { mapper_.Await(data, bytes); }
  /// Waits at most `timeout_us`; false if the memory is not mapped by then.
  bool AwaitFor(const void* data, size_t bytes, int64_t timeout_us) {
    return mapper_.AwaitFor(data, bytes, timeout_us);
  }

  /// The range that contains these addresses.
  struct Range {
    std::byte* begin = nullptr;
    size_t bytes = 0;
  };
  Range RangeOf(const void* data) const;

 private:
  void* WithPages(void* data, size_t bytes);
  size_t Pages(size_t bytes) const { return (bytes + page_bytes() - 1) / page_bytes(); }

  size_t free_pages_ = 0;
  DevicePages pages_;
  PageMapper mapper_;  // declared after pages_, which it uses
  Arena arena_;
  std::byte* arena_begin_ = nullptr;
  std::vector<bool> arena_pages_;          // whether each page has memory; pages of the arena keep it
  std::map<std::byte*, size_t> reserved_;  // begin -> bytes
};

}  // namespace ringside::cuda
