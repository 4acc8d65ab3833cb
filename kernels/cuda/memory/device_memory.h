// All memory of the device that the backend has, taken at start: one address range that is divided for good (Arena),
// and ranges for slabs whose pages come and go, from one stock of pages. Owned by the CUDA backend, one thread.
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
  /// Nothing on the device may use any of it.
  ~DeviceMemory();

  /// Takes `bytes` of the device, rounded down to pages. kOverloaded if it has fewer.
  Status Start(int device, size_t bytes);
  size_t bytes() const { return pages_.count() * page_bytes(); }
  size_t page_bytes() const { return pages_.page_bytes(); }
  /// What is neither divided nor committed.
  size_t free_bytes() const { return free_pages_ * page_bytes(); }

  /// As Arena's; null also if pages are lacking.
  void* TakeLow(size_t bytes) { return WithPages(arena_.TakeLow(bytes), bytes); }
  void* TakeHigh(size_t bytes) { return WithPages(arena_.TakeHigh(bytes), bytes); }
  /// Gives back what they gave, at once; or what Reserve gave, which nothing on the device may use any more.
  void Give(void* data, size_t bytes);

  bool IsRange(const void* data) const { return RangeOf(data).begin != arena_begin_; }
  /// Addresses without memory; null if there are none.
  void* Reserve(size_t bytes);
  /// Begins to put memory behind whole pages of them: Await tells when it is there. False if there is none left.
  bool Commit(void* data, size_t bytes);
  /// Takes it away when what is on these streams now has been done.
  void Decommit(void* data, size_t bytes, std::span<const cudaStream_t> after);
  void Await(const void* data, size_t bytes) { mapper_.Await(data, bytes); }
  /// Waits `most_us` at most; false if it is not there then.
  bool AwaitFor(const void* data, size_t bytes, int64_t most_us) { return mapper_.AwaitFor(data, bytes, most_us); }

  /// The range in which these addresses lie.
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
  PageMapper mapper_;  // behind what it uses
  Arena arena_;
  std::byte* arena_begin_ = nullptr;
  std::vector<bool> arena_pages_;          // that have memory; they keep it
  std::map<std::byte*, size_t> reserved_;  // begin -> bytes
};

}  // namespace ringside::cuda
