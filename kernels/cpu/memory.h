// The CPU's "device" memory: anonymous maps, zeroed and committed when touched, on huge pages where they are large.
// Weights are packed into arenas of 64 MiB or more, because a matrix of its own is often smaller than a huge page and
// walking small pages costs a decoding step part of its bandwidth. Thread-safe.
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

  /// Zeroed bytes, aligned to a page, or null if the system gives none.
  void* Allocate(size_t bytes);
  /// The same, aligned to 64, in an arena shared with other weights.
  void* AllocateWeight(size_t bytes);
  /// Addresses alone: what lies there must not be touched until Commit. Null if the system gives none.
  void* Reserve(size_t bytes);
  /// Zeroed memory for whole pages of what Reserve gave; false if the system gives none.
  bool Commit(void* data, size_t bytes);
  /// And without it again.
  void Decommit(void* data, size_t bytes);
  /// Huge pages for slabs of some of them, or small ones.
  static int64_t PageBytes(int64_t slab_bytes);
  /// Gives back what Allocate, AllocateWeight or Reserve gave; `bytes` as asked for then.
  void Free(void* data, size_t bytes);

 private:
  struct Arena {
    size_t bytes = 0, used = 0, live = 0;  // live: pieces not yet freed
  };

  std::mutex mutex_;
  std::map<std::byte*, Arena> arenas_;  // by first address
  std::byte* open_ = nullptr;           // the arena that still has room
};

}  // namespace ringside::cpu
