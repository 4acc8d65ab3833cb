// Slabs of address space, reserved at start, over a smaller amount of memory: a slab gets pages as its ring grows into
// them. Each slab is one slot: the KV cache of one conversation. THREAD: engine.
//
// A lent cache reserves ("promises") memory, which backs it from then on, and may be committed more ahead of need. When
// a reservation lacks pages, the pool takes them from idle slabs and from memory committed ahead, so that only the
// reservations count against the limit. Pages that several caches share (SharedPages) count once.
#pragma once

#include <memory>
#include <vector>

#include "base/status.h"
#include "cache/kv_cache.h"
#include "cache/shared_pages.h"
#include "kernels/slab_run.h"
#include "kernels/tensor.h"

namespace ringside {

class SlabMemory;

class KvPool {
 public:
  /// Reserves addresses for `slots` slabs of the shape and `memory_bytes` of the backend's memory for all of the slabs,
  /// rounded down to pages: at least one whole slab (0 = every slab fully backed). REQUIRES: the backend outlives the
  /// pool. ERRORS: kOverloaded, with the bytes, if the memory is not available.
  static Result<KvPool> Make(SlabMemory& memory, const KvShape& shape, int64_t slots, int64_t memory_bytes = 0);
  /// Bytes of a whole slab, in pages of this memory.
  static int64_t SlabBytes(const SlabMemory& memory, const KvShape& shape);

  const KvShape& shape() const { return shape_; }
  int64_t slots() const { return static_cast<int64_t>(caches_.size()); }
  int64_t used() const { return slots() - static_cast<int64_t>(free_.size()); }

  // In bytes, whole pages.
  int64_t memory_bytes() const { return pages_ * page_bytes_; }
  int64_t reserved_bytes() const { return reserved_pages_ * page_bytes_; }
  /// True if full slabs would need more memory than there is.
  bool overcommitted() const { return pages_ < slots() * Pages(shape_.slab_bytes()); }
  /// Bytes that can still be reserved.
  int64_t free_bytes() const { return memory_bytes() - reserved_bytes(); }
  /// Bytes backed by memory, reserved or not.
  int64_t committed_bytes() const { return (pages_ - free_pages_) * page_bytes_; }
  int64_t reserved_bytes(const KvCache& cache) const { return cache.reserved_pages_ * page_bytes_; }
  /// Bytes that the pool gets back when the cache is released.
  int64_t own_bytes(const KvCache& cache) const {
    return (cache.reserved_pages_ - shared_.Count(&cache)) * page_bytes_;
  }
  /// Bytes that sharing saves.
  int64_t shared_bytes() const { return shared_.saved() * page_bytes_; }
  /// Bytes that a cache with this window needs for its first `tokens` tokens.
  int64_t BytesFor(const RingWindow& window, int64_t tokens) const;

  /// Lends an empty cache with this window until Release; null if every slot is lent. It has no memory until Grow.
  KvCache* Lend(const RingWindow& window);
  /// Raises the reservation of the cache to `bytes` (never lowers it). If less than half of `ahead` is committed beyond
  /// that, commits all of `ahead` as far as unreserved memory allows. ERRORS: kOverloaded, and nothing changes, if the
  /// bytes cannot be reserved or the backend has no memory.
  Status Grow(KvCache* cache, int64_t bytes, int64_t ahead = 0);

  // Shared pages: those of a common prefix, from the end of the recurrent state on.
  /// Bytes of whole pages that a cache with the first `tokens` tokens of `from` can share with it; 0 once the memory
  /// has refused to share.
  int64_t ShareableBytes(const KvCache& from, int64_t tokens) const;
  /// Maps these pages to the cache, reserves them and those before them, and returns the range of the shared ones in
  /// its slab: empty if memory is lacking or refuses to share. REQUIRES: the cache has no reservation; both have the
  /// same window; `from` holds all rows of its first `tokens` tokens.
  SlabRange Share(KvCache* cache, const KvCache& from, int64_t tokens);
  /// The range that the cache shares with `from`, if that has every page that the cache shares; else empty.
  SlabRange SharedRange(const KvCache& cache, const KvCache& from) const;
  /// Bytes of the pages that the cache shares.
  int64_t SharedBytes(const KvCache& cache) const { return shared_.Count(&cache) * page_bytes_; }
  bool shares(const KvCache& cache) const { return shared_.Any(&cache); }
  /// Bytes of the shared pages into which the cache would write `rows` rows from this position on.
  int64_t SharedBytesAt(const KvCache& cache, int64_t position, int64_t rows) const;
  /// Copies these pages, so that no other cache uses the ones that are written. ERRORS: as Grow.
  Status Unshare(KvCache* cache, int64_t position, int64_t rows);

  /// Shrinks the reservation to the tokens that the cache holds.
  void Settle(KvCache* cache);
  void Release(KvCache* cache);
  /// Commits `bytes` to each idle slab ahead of need, in lending order, but leaves half of the uncommitted memory for
  /// caches that grow.
  void Prepare(int64_t bytes);

 private:
  int64_t Pages(int64_t bytes) const { return (bytes + page_bytes_ - 1) / page_bytes_; }
  /// Commits memory to the cache up to `pages` pages. REQUIRES: enough free pages.
  Status Commit(KvCache* cache, int64_t pages);
  /// Takes pages off the ends of slabs until `pages` pages are free.
  void Reclaim(int64_t pages);
  void Shrink(KvCache* cache, int64_t pages);
  /// Shrinks the reservation to `pages` pages.
  void Unreserve(KvCache* cache, int64_t pages);
  /// The shared pages into which the cache would write these rows.
  std::vector<int64_t> SharedPagesAt(const KvCache& cache, int64_t position, int64_t rows) const;
  std::byte* PageOf(const KvCache& cache, int64_t page) const {
    return static_cast<std::byte*>(cache.slab()) + page * page_bytes_;
  }

  SlabMemory* memory_ = nullptr;
  KvShape shape_;
  int64_t page_bytes_ = 1;
  int64_t pages_ = 0, reserved_pages_ = 0, free_pages_ = 0;
  Buffer slabs_;
  std::vector<std::unique_ptr<KvCache>> caches_;
  SharedPages shared_;
  bool can_share_ = true;
  std::vector<KvCache*> free_;  // idle slabs; LIFO, because the last one released still has memory
};

/// The shape whose ring takes any chunk of up to `chunk` tokens, even after a full window of `memory_len`: R >=
/// memory_len + chunk - 1.
KvShape MakeKvShape(int64_t layers, int64_t kv_heads, int64_t head_dim, DType dtype, int64_t pinned_max,
                    int64_t memory_len, int64_t chunk);

}  // namespace ringside
