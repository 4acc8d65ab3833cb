#include "kernels/cuda/memory/device_memory.h"

#include <algorithm>
#include <iterator>

#include "base/check.h"
#include "kernels/cuda/cuda_check.h"

namespace ringside::cuda {

DeviceMemory::~DeviceMemory() {
  if (arena_begin_ == nullptr) return;
  mapper_.Drain();
  for (const auto& [begin, bytes] : reserved_) pages_.Release(begin, bytes);
  pages_.Release(arena_begin_, bytes());
}

Status DeviceMemory::Start(int device, size_t bytes) {
  RETURN_IF_ERROR(pages_.Start(device, bytes));
  free_pages_ = pages_.count();
  arena_begin_ = pages_.Reserve(this->bytes());
  if (arena_begin_ == nullptr) return Overloaded("no device addresses are left");
  arena_pages_.resize(pages_.count());
  arena_.Reset(arena_begin_, this->bytes());
  mapper_.Start(device, &pages_);
  return Status::Ok();
}

void* DeviceMemory::WithPages(void* data, size_t bytes) {
  if (data == nullptr) return nullptr;
  const auto offset = static_cast<size_t>(static_cast<std::byte*>(data) - arena_begin_);
  const size_t first = offset / page_bytes(), end = Pages(offset + bytes);
  const auto lacking = static_cast<size_t>(std::count(arena_pages_.begin() + static_cast<std::ptrdiff_t>(first),
                                                      arena_pages_.begin() + static_cast<std::ptrdiff_t>(end), false));
  if (lacking > free_pages_) {
    arena_.Free(data, bytes);
    return nullptr;
  }
  if (lacking == 0) return data;
  mapper_.Drain();  // free pages may not be unmapped yet
  for (size_t page = first; page < end;) {
    size_t run = page;
    while (run < end && !arena_pages_[run]) arena_pages_[run++] = true;
    if (run > page) pages_.Map(arena_begin_ + page * page_bytes(), run - page);
    page = std::max(run, page + 1);
  }
  free_pages_ -= lacking;
  return data;
}

void DeviceMemory::Free(void* data, size_t bytes) {
  const auto found = reserved_.find(static_cast<std::byte*>(data));
  if (found == reserved_.end()) return arena_.Free(data, bytes);
  mapper_.Drain();
  free_pages_ += pages_.Release(found->first, found->second);
  reserved_.erase(found);
}

void* DeviceMemory::Reserve(size_t bytes) {
  bytes = Pages(bytes) * page_bytes();
  std::byte* begin = pages_.Reserve(bytes);
  if (begin != nullptr) reserved_.emplace(begin, bytes);
  return begin;
}

bool DeviceMemory::Commit(void* data, size_t bytes) {
  const size_t pages = bytes / page_bytes();
  if (pages > free_pages_) return false;
  free_pages_ -= pages;
  mapper_.Map(static_cast<std::byte*>(data), pages);
  return true;
}

void DeviceMemory::Share(void* to, const void* from, size_t bytes) {
  mapper_.Share(static_cast<std::byte*>(to), static_cast<const std::byte*>(from), bytes / page_bytes());
}

void DeviceMemory::Decommit(void* data, size_t bytes, bool frees, std::span<const cudaStream_t> after) {
  std::vector<cudaEvent_t> events(after.size());
  for (size_t i = 0; i < after.size(); ++i) {
    CHECK_CUDA(cudaEventCreateWithFlags(&events[i], cudaEventDisableTiming));
    CHECK_CUDA(cudaEventRecord(events[i], after[i]));
  }
  if (frees) free_pages_ += bytes / page_bytes();
  mapper_.Unmap(static_cast<std::byte*>(data), bytes / page_bytes(), frees, std::move(events));
}

DeviceMemory::Range DeviceMemory::RangeOf(const void* data) const {
  auto* at = static_cast<std::byte*>(const_cast<void*>(data));
  const auto after = reserved_.upper_bound(at);
  if (after != reserved_.begin()) {
    const auto& [begin, bytes] = *std::prev(after);
    if (at < begin + bytes) return {begin, bytes};
  }
  return {arena_begin_, bytes()};
}

}  // namespace ringside::cuda
