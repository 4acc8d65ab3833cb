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
  static constexpr size_t kBytes = size_t{2} << 20;  // the smallest piece that devices have

  DevicePages() = default;
  DevicePages(const DevicePages&) = delete;
  DevicePages& operator=(const DevicePages&) = delete;
  /// Everything has been unmapped.
  ~DevicePages();

  /// Takes so many pages of the device. kOverloaded if it has fewer.
  Status Start(int device, size_t pages);
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

  CUmemAllocationProp properties_ = {};
  std::mutex mutex_;
  std::vector<Handle> free_;
  std::map<std::byte*, Handle> mapped_;
};

}  // namespace ringside::cuda
