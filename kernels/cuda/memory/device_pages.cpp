#include "kernels/cuda/memory/device_pages.h"

#include <cudaTypedefs.h>
#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <iterator>

#include "base/check.h"
#include "kernels/cuda/cuda_check.h"

namespace ringside::cuda {
namespace {

// Looks up driver functions through the runtime, so that the program links and starts without a driver.
template <class Function>
Function Find(const char* name) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result = cudaDriverEntryPointSymbolNotFound;
  CHECK_CUDA(cudaGetDriverEntryPointByVersion(name, &found, 10020, cudaEnableDefault, &result));
  CHECK(result == cudaDriverEntryPointSuccess && found != nullptr);
  return reinterpret_cast<Function>(found);
}

struct Driver {
  PFN_cuMemAddressReserve_v10020 reserve = Find<PFN_cuMemAddressReserve_v10020>("cuMemAddressReserve");
  PFN_cuMemAddressFree_v10020 free = Find<PFN_cuMemAddressFree_v10020>("cuMemAddressFree");
  PFN_cuMemCreate_v10020 create = Find<PFN_cuMemCreate_v10020>("cuMemCreate");
  PFN_cuMemRelease_v10020 release = Find<PFN_cuMemRelease_v10020>("cuMemRelease");
  PFN_cuMemMap_v10020 map = Find<PFN_cuMemMap_v10020>("cuMemMap");
  PFN_cuMemUnmap_v10020 unmap = Find<PFN_cuMemUnmap_v10020>("cuMemUnmap");
  PFN_cuMemSetAccess_v10020 set_access = Find<PFN_cuMemSetAccess_v10020>("cuMemSetAccess");
};
const Driver& DriverApi() {
  static const Driver driver;
  return driver;
}

CUdeviceptr Address(const std::byte* at) { return reinterpret_cast<CUdeviceptr>(at); }

bool Succeeds(CUresult result, const char* call) {
  if (result == CUDA_SUCCESS) return true;
  RecordDeviceError(__FILE__, __LINE__, fmt::format("{}: error {}", call, static_cast<int>(result)));
  return false;
}

}  // namespace

DevicePages::~DevicePages() {
  CHECK(mapped_.empty());
  for (const Handle handle : free_) Succeeds(DriverApi().release(handle), "cuMemRelease");
}

Status DevicePages::Start(int device, size_t bytes) {
  page_bytes_ = std::clamp(std::bit_floor(bytes / kMinPages), kSmallest, kLargest);
  count_ = bytes / page_bytes_;
  properties_.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties_.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties_.location.id = device;
  free_.reserve(count_);
  while (free_.size() < count_) {
    Handle handle = 0;
    const CUresult result = DriverApi().create(&handle, page_bytes_, &properties_, 0);
    if (result != CUDA_SUCCESS) {
      return Overloaded(fmt::format("only {} of {} pages of {} bytes were allocated: CUDA error {}", free_.size(),
                                    count_, page_bytes_, static_cast<int>(result)));
    }
    free_.push_back(handle);
  }
  return Status::Ok();
}

std::byte* DevicePages::Reserve(size_t bytes) {
  CUdeviceptr at = 0;
  if (DriverApi().reserve(&at, bytes, page_bytes_, 0, 0) != CUDA_SUCCESS) return nullptr;
  return reinterpret_cast<std::byte*>(at);
}

size_t DevicePages::Release(std::byte* at, size_t bytes) {
  const auto mapped = [&](size_t offset) {
    const std::lock_guard lock(mutex_);
    return offset < bytes && mapped_.contains(at + offset);
  };
  size_t pages = 0;
  for (size_t begin = 0, end = 0; begin < bytes; begin = end + page_bytes_) {
    for (end = begin; mapped(end);) end += page_bytes_;
    if (end > begin) Unmap(at + begin, (end - begin) / page_bytes_);
    pages += (end - begin) / page_bytes_;
  }
  Succeeds(DriverApi().free(Address(at), bytes), "cuMemAddressFree");
  return pages;
}

bool DevicePages::Map(std::byte* at, size_t pages) {
  std::vector<Handle> handles;
  {
    const std::lock_guard lock(mutex_);
    if (pages > free_.size()) return false;
    handles.assign(free_.end() - static_cast<std::ptrdiff_t>(pages), free_.end());
    free_.resize(free_.size() - pages);
  }
  return MapHandles(at, handles);
}

bool DevicePages::Share(std::byte* at, const std::byte* from, size_t pages) {
  std::vector<Handle> handles;
  {
    const std::lock_guard lock(mutex_);
    for (size_t i = 0; i < pages; ++i) {
      handles.push_back(mapped_.at(const_cast<std::byte*>(from) + i * page_bytes_));
    }
  }
  return MapHandles(at, handles);
}

bool DevicePages::MapHandles(std::byte* at, const std::vector<Handle>& handles) {
  const size_t pages = handles.size();
  {
    const std::lock_guard lock(mutex_);
    for (size_t i = 0; i < pages; ++i) mapped_.emplace(at + i * page_bytes_, handles[i]);
  }
  size_t done = 0;
  bool fine = true;
  for (; fine && done < pages; ++done) {
    fine = Succeeds(DriverApi().map(Address(at + done * page_bytes_), page_bytes_, 0, handles[done], 0), "cuMemMap");
  }
  const CUmemAccessDesc access{.location = properties_.location, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  fine = fine && Succeeds(DriverApi().set_access(Address(at), pages * page_bytes_, &access, 1), "cuMemSetAccess");
  return fine;
}

void DevicePages::Unmap(std::byte* at, size_t pages, bool frees) {
  Succeeds(DriverApi().unmap(Address(at), pages * page_bytes_), "cuMemUnmap");
  const std::lock_guard lock(mutex_);
  for (size_t i = 0; i < pages; ++i) {
    const auto found = mapped_.find(at + i * page_bytes_);
    CHECK(found != mapped_.end());
    if (frees) free_.push_back(found->second);
    mapped_.erase(found);
  }
}

}  // namespace ringside::cuda
