// "Device" memory of the CPU backend: anonymous mappings, zeroed and committed on first touch, with huge pages for
// large blocks. Weights are packed into arenas of 64 MiB or more: a single matrix is often smaller than a huge page,
// and TLB misses on small pages cost a decode step some of its bandwidth.
// THREAD: any.
#pragma once

#include <cstddef>
#include <map>
#include <mutex>

namespace ringside::cpu {

class Memory {
 public:
  Memory() = default;
  ~Memory();
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  /// Zeroed, page-aligned bytes, or null if the system has none.
  void* Allocate(size_t bytes);
  /// As Allocate, aligned to 64 bytes, in an arena shared with other weights.
  void* AllocateWeight(size_t bytes);
  /// Reserves addresses, which must not be accessed until Commit. Null if the system has none.
  void* Reserve(size_t bytes);
  /// Commits zeroed memory to whole pages of a range of Reserve; false if the system has none.
  bool Commit(void* data, size_t bytes);
  /// Releases the pages' memory; the addresses stay reserved.
  void Decommit(void* data, size_t bytes);
  /// Page size of slabs of this size: huge pages if a slab spans several, else small ones.
  static int64_t PageBytes(int64_t slab_bytes);
  /// Frees memory of Allocate, AllocateWeight or Reserve; `bytes` as passed there.
  void Free(void* data, size_t bytes);

 private:
  struct Arena {
    size_t bytes = 0, used = 0, live = 0;  // live: allocations not yet freed
  };

  std::mutex mutex_;
  std::map<std::byte*, Arena> arenas_;  // by first address
  std::byte* open_ = nullptr;           // the arena with free space
};

}  // namespace ringside::cpu
