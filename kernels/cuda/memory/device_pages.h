// The device's memory as pages of one size, all made at start, and addresses behind which they are put and from which
// they are taken away again, by the driver's virtual memory calls. Thread-safe; the calls on one address range must not
// overlap in time.
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
  /// Everything has been unmapped.
  ~DevicePages();

  /// Takes `bytes` of the device's memory, rounded down to pages. kOverloaded if it has less.
  Status Start(int device, size_t bytes);
  /// The size of a page: the largest that leaves kLeastPages. Mapping a page takes about 35 us, whatever its size.
  size_t page_bytes() const { return page_bytes_; }
  /// Pages in all.
  size_t count() const { return count_; }
  /// Addresses with nothing behind them, whole pages; null if there are none.
  std::byte* Reserve(size_t bytes);
  /// Unmaps what is mapped and gives the addresses back; returns how many pages that were.
  size_t Release(std::byte* at, size_t bytes);
  /// Puts free pages behind these addresses, behind which there are none. False if there are not so many, or the driver
  /// fails: then the device has failed.
  bool Map(std::byte* at, size_t pages);
  /// Nothing on the device may use them any more.
  void Unmap(std::byte* at, size_t pages);

 private:
  using Handle = CUmemGenericAllocationHandle;
  static constexpr size_t kSmallest = size_t{2} << 20;  // that devices have
  static constexpr size_t kLargest = size_t{16} << 20;
  static constexpr size_t kLeastPages = 8192;

  size_t page_bytes_ = kSmallest, count_ = 0;
  CUmemAllocationProp properties_ = {};
  std::mutex mutex_;
  std::vector<Handle> free_;
  std::map<std::byte*, Handle> mapped_;
};

}  // namespace ringside::cuda
