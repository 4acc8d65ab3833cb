// The device's memory as pages of one size, all created at start, and address ranges to which they are mapped, by the
// driver's virtual memory API.
// THREAD: any; calls on one address range must not run concurrently.
#pragma once

#include <cuda.h>

#include <cstddef>
#include <map>
#include <mutex>
#include <vector>

#include "base/status.h"

namespace ringside::cuda {

class DevicePages {
 public:
  DevicePages() = default;
  DevicePages(const DevicePages&) = delete;
  DevicePages& operator=(const DevicePages&) = delete;
  /// REQUIRES: everything has been unmapped.
  ~DevicePages();

  /// Allocates `bytes` of the device's memory, rounded down to pages. ERRORS: kOverloaded if it has less.
  Status Start(int device, size_t bytes);
  /// The page size: the largest that leaves kMinPages pages. Mapping a page takes about 35 us whatever its size.
  size_t page_bytes() const { return page_bytes_; }
  /// Total number of pages.
  size_t count() const { return count_; }
  /// Reserves an address range of whole pages without memory; null if there is none.
  std::byte* Reserve(size_t bytes);
  /// Unmaps all mapped pages and releases the addresses; returns the number of unmapped pages.
  size_t Release(std::byte* at, size_t bytes);
  /// Maps free pages to these addresses, which have none. False if too few are free or the driver fails, which counts
  /// as a device failure.
  bool Map(std::byte* at, size_t pages);
  /// Maps the pages of `from` to these addresses, which have none, as well. False as Map.
  bool Share(std::byte* at, const std::byte* from, size_t pages);
  /// REQUIRES: nothing on the device uses them any more. `frees`: they are mapped nowhere else.
  void Unmap(std::byte* at, size_t pages, bool frees = true);

 private:
  using Handle = CUmemGenericAllocationHandle;
  /// Maps these pages, and records them.
  bool MapHandles(std::byte* at, const std::vector<Handle>& handles);

  static constexpr size_t kSmallest = size_t{2} << 20;  // smallest page size of devices
  static constexpr size_t kLargest = size_t{16} << 20;
  static constexpr size_t kMinPages = 8192;

  size_t page_bytes_ = kSmallest, count_ = 0;
  CUmemAllocationProp properties_ = {};
  std::mutex mutex_;
  std::vector<Handle> free_;
  std::map<std::byte*, Handle> mapped_;
};

}  // namespace ringside::cuda
