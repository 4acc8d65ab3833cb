#include "kernels/cpu/memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>

#include "base/check.h"

namespace ringside::cpu {
namespace {

constexpr size_t kHugePage = size_t{2} << 20, kArena = size_t{64} << 20;

/// 4 KiB on x86-64; up to 64 KiB on AArch64. A huge page is a multiple.
size_t PageSize() {
  static const auto size = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return size;
}

size_t RoundUp(size_t n, size_t unit) { return (n + unit - 1) / unit * unit; }

std::byte* Map(size_t bytes, int access) {
  void* p = mmap(nullptr, bytes, access, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return p == MAP_FAILED ? nullptr : static_cast<std::byte*>(p);
}

/// Maps whole pages; large blocks are aligned to a huge page.
std::byte* MapAligned(size_t bytes, int access) {
  if (bytes > SIZE_MAX / 2) return nullptr;
  const size_t size = RoundUp(bytes, PageSize());
  if (size < kHugePage) return Map(size, access);
  std::byte* raw = Map(size + kHugePage, access);
  if (raw == nullptr) return nullptr;
  const size_t skip = RoundUp(reinterpret_cast<uintptr_t>(raw), kHugePage) - reinterpret_cast<uintptr_t>(raw);
  if (skip > 0) munmap(raw, skip);
  munmap(raw + skip + size, kHugePage - skip);
  return raw + skip;
}

/// Best effort; small pages work too.
std::byte* WithHugePages(std::byte* p, size_t bytes) {
  if (p != nullptr && bytes >= kHugePage) madvise(p, RoundUp(bytes, PageSize()), MADV_HUGEPAGE);
  return p;
}

/// Replaces the mapping of these addresses; false if the system refuses.
bool MapAt(std::byte* at, size_t bytes, int access, int flags, int file, int64_t place) {
  return mmap(at, bytes, access, flags | MAP_FIXED, file, place) != MAP_FAILED;
}

void Unmap(std::byte* p, size_t bytes) { CHECK_EQ(munmap(p, RoundUp(bytes, PageSize())), 0); }

}  // namespace

Memory::~Memory() {
  if (file_ >= 0) close(file_);
  for (auto& [base, arena] : arenas_) Unmap(base, arena.bytes);
}

void* Memory::Allocate(size_t bytes) {
  bytes = std::max<size_t>(bytes, 1);
  return WithHugePages(MapAligned(bytes, PROT_READ | PROT_WRITE), bytes);
}

int64_t Memory::PageBytes(int64_t slab_bytes) {
  return static_cast<int64_t>(slab_bytes >= static_cast<int64_t>(2 * kHugePage) ? kHugePage : PageSize());
}

void* Memory::Reserve(size_t bytes) { return MapAligned(std::max<size_t>(bytes, 1), PROT_NONE); }

bool Memory::Commit(void* data, size_t bytes) {
  if (mprotect(data, bytes, PROT_READ | PROT_WRITE) != 0) return false;
  // Small slabs are packed too densely for huge pages: one page would span many of them.
  if (bytes % kHugePage == 0) WithHugePages(static_cast<std::byte*>(data), bytes);
  return true;
}

void Memory::Decommit(void* data, size_t bytes) {
  const std::lock_guard lock(mutex_);
  UnmapFile(static_cast<std::byte*>(data), bytes, /*frees=*/true);
  CHECK_EQ(madvise(data, bytes, MADV_DONTNEED), 0);
  CHECK_EQ(mprotect(data, bytes, PROT_NONE), 0);
}

void Memory::Unshare(void* data, size_t bytes) {
  const std::lock_guard lock(mutex_);
  UnmapFile(static_cast<std::byte*>(data), bytes, /*frees=*/false);
}

void Memory::Divide(std::byte* at) {
  const auto after = file_pages_.upper_bound(at);
  if (after == file_pages_.begin()) return;
  auto& [begin, pages] = *std::prev(after);
  const auto before = static_cast<size_t>(at - begin);
  if (before == 0 || before >= pages.bytes) return;
  file_pages_[at] = {pages.place + static_cast<int64_t>(before), pages.bytes - before};
  pages.bytes = before;
}

void Memory::UnmapFile(std::byte* data, size_t bytes, bool frees) {
  Divide(data), Divide(data + bytes);
  for (auto entry = file_pages_.lower_bound(data); entry != file_pages_.end() && entry->first < data + bytes;) {
    const auto [place, size] = entry->second;
    CHECK(MapAt(entry->first, size, PROT_NONE, MAP_ANONYMOUS | MAP_PRIVATE | MAP_NORESERVE, -1, 0));
    constexpr int kFree = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
    if (frees) CHECK_EQ(fallocate(file_, kFree, place, static_cast<off_t>(size)), 0);
    entry = file_pages_.erase(entry);
  }
}

bool Memory::MoveToFile(std::byte* data, size_t bytes) {
  if (file_ < 0) file_ = memfd_create("ringside shared pages", MFD_CLOEXEC);
  if (file_ < 0) return false;
  const int64_t place = file_bytes_;
  // Unlike a store to a mapping, a write reports that memory is lacking.
  size_t done = 0;
  for (ssize_t n = 1; n > 0 && done < bytes; done += static_cast<size_t>(std::max<ssize_t>(n, 0))) {
    n = pwrite(file_, data + done, bytes - done, place + static_cast<off_t>(done));
  }
  if (done < bytes || !MapAt(data, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file_, place)) {
    CHECK_EQ(ftruncate(file_, place), 0);  // frees the bytes that were written
    return false;
  }
  file_bytes_ += static_cast<int64_t>(bytes);
  file_pages_[data] = {place, bytes};
  return true;
}

bool Memory::ShareLocked(std::byte* to, std::byte* from, size_t bytes) {
  Divide(from), Divide(from + bytes);
  for (size_t at = 0; at < bytes;) {
    auto entry = file_pages_.lower_bound(from + at);
    if (entry == file_pages_.end() || entry->first > from + at) {
      const std::byte* end = from + bytes;
      if (entry != file_pages_.end() && entry->first < end) end = entry->first;
      if (!MoveToFile(from + at, static_cast<size_t>(end - (from + at)))) return false;
      entry = file_pages_.find(from + at);
    }
    const FilePages pages = entry->second;
    if (!MapAt(to + at, pages.bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file_, pages.place)) return false;
    file_pages_[to + at] = pages;
    at += pages.bytes;
  }
  return true;
}

bool Memory::Share(void* to, const void* from, size_t bytes) {
  const std::lock_guard lock(mutex_);
  auto* target = static_cast<std::byte*>(to);
  const bool shared = ShareLocked(target, static_cast<std::byte*>(const_cast<void*>(from)), bytes);
  if (!shared) UnmapFile(target, bytes, /*frees=*/false);
  return shared;
}

void* Memory::AllocateWeight(size_t bytes) {
  if (bytes > SIZE_MAX / 2) return nullptr;
  const std::lock_guard lock(mutex_);
  const size_t size = RoundUp(std::max<size_t>(bytes, 1), 64);
  if (open_ == nullptr || arenas_[open_].bytes - arenas_[open_].used < size) {
    const size_t arena_bytes = std::max(RoundUp(size, kHugePage), kArena);
    std::byte* base = WithHugePages(MapAligned(arena_bytes, PROT_READ | PROT_WRITE), arena_bytes);
    if (base == nullptr) return nullptr;
    arenas_[base].bytes = arena_bytes;
    open_ = base;
  }
  Arena& arena = arenas_[open_];
  std::byte* p = open_ + arena.used;
  arena.used += size;
  ++arena.live;
  return p;
}

void Memory::Free(void* data, size_t bytes) {
  std::byte* p = static_cast<std::byte*>(data);
  const std::lock_guard lock(mutex_);
  auto it = arenas_.upper_bound(p);
  if (it != arenas_.begin() && p < std::prev(it)->first + std::prev(it)->second.bytes) {
    it = std::prev(it);
    if (--it->second.live > 0) return;
    if (open_ == it->first) open_ = nullptr;
    Unmap(it->first, it->second.bytes);
    arenas_.erase(it);
    return;
  }
  UnmapFile(p, bytes, /*frees=*/true);
  Unmap(p, std::max<size_t>(bytes, 1));
}

}  // namespace ringside::cpu
