// "Device" memory of the CPU backend: anonymous mappings, zeroed and committed on first touch, with huge pages for
// large blocks. Weights are packed into arenas of 64 MiB or more: a single matrix is often smaller than a huge page,
// and TLB misses on small pages cost a decode step some of its bandwidth.
// THREAD: any.
#pragma once

#include <cstddef>
#include <cstdint>
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
  /// Maps the committed pages of `from` to the reserved addresses `to` as well; false if the system has no memory.
  /// Pages are moved to a memory file when they are shared first: the others keep huge pages, which such files lack.
  bool Share(void* to, const void* from, size_t bytes);
  /// Unmaps pages that others still map; the addresses stay reserved.
  void Unshare(void* data, size_t bytes);
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

  /// Pages of the memory file at an address.
  struct FilePages {
    int64_t place;  // in the file
    size_t bytes;
  };
  /// Moves anonymous memory to the file. False if the system has no memory.
  bool MoveToFile(std::byte* data, size_t bytes);
  /// Moves the pages that are not in the file yet, and maps all of them to `to` as well.
  bool ShareLocked(std::byte* to, std::byte* from, size_t bytes);
  /// Reserves addresses again that were mapped to the file; `frees`: the file's pages have no other user.
  void UnmapFile(std::byte* data, size_t bytes, bool frees);
  /// Divides the entry that contains this address, so that one begins there.
  void Divide(std::byte* at);

  std::mutex mutex_;
  int file_ = -1;
  int64_t file_bytes_ = 0;                      // only grows: places are not used again, and freed ones take no memory
  std::map<std::byte*, FilePages> file_pages_;  // by address
  std::map<std::byte*, Arena> arenas_;          // by first address
  std::byte* open_ = nullptr;                   // the arena with free space
};

}  // namespace ringside::cpu
