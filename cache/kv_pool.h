// Slabs of address space, made at start, and the memory for them, which is less: a slab gets pages as its ring reaches
// them. Each slab is one slot: the cache of one conversation. Engine thread only.
//
// A cache that is lent is promised memory, which it has from then on; it may have more, ahead of need. Where a promise
// lacks pages they are taken from slabs that are not lent and from what others have ahead, so that what is promised is
// all that counts.
#pragma once

#include <memory>
#include <vector>

#include "base/status.h"
#include "cache/kv_cache.h"
#include "kernels/tensor.h"

namespace ringside {

class SlabMemory;

class KvPool {
 public:
  /// Addresses for `slots` slabs of the shape, and `memory_bytes` of the backend's memory for all of them, rounded down
  /// to pages: at least a whole slab's. 0 = room for every slab. kOverloaded, naming the bytes, if that is not to be
  /// had. The backend outlives the pool.
  static Result<KvPool> Make(SlabMemory& memory, const KvShape& shape, int64_t slots, int64_t memory_bytes = 0);
  /// What a whole slab takes, in pages of this memory.
  static int64_t SlabBytes(const SlabMemory& memory, const KvShape& shape);

  const KvShape& shape() const { return shape_; }
  int64_t slots() const { return static_cast<int64_t>(caches_.size()); }
  int64_t used() const { return slots() - static_cast<int64_t>(free_.size()); }

  // In bytes, whole pages.
  int64_t memory_bytes() const { return pages_ * page_bytes_; }
  int64_t promised_bytes() const { return promised_pages_ * page_bytes_; }
  /// Whether slabs may want more together than there is.
  bool overcommitted() const { return pages_ < slots() * Pages(shape_.slab_bytes()); }
  /// What can still be promised.
  int64_t free_bytes() const { return memory_bytes() - promised_bytes(); }
  /// What has memory, promised or not.
  int64_t committed_bytes() const { return (pages_ - free_pages_) * page_bytes_; }
  int64_t promised_bytes(const KvCache& cache) const { return cache.promised_pages_ * page_bytes_; }
  /// What a cache with this window needs for its first `tokens` tokens.
  int64_t BytesFor(const RingWindow& window, int64_t tokens) const;

  /// An empty cache with this window, or null if every slot is lent. It has no memory until Grow. The cache is the
  /// caller's until Release.
  KvCache* Lend(const RingWindow& window);
  /// The same with memory for the whole window; null if there is not so much.
  KvCache* Acquire(const RingWindow& window);
  /// Promises the cache so many bytes in all, never less than before. Where it has not half of `ahead` beyond them it
  /// gets all of it, as far as there is memory that nobody has. kOverloaded, and nothing changed, if they cannot be
  /// promised, or the backend has no memory.
  Status Grow(KvCache* cache, int64_t bytes, int64_t ahead = 0);
  /// Takes back what is promised beyond the tokens that the cache holds.
  void Settle(KvCache* cache);
  void Release(KvCache* cache);
  /// Gives memory ahead of need to slabs that are not lent, `bytes` each, in the order in which they will be; half of
  /// what nobody has is left for those that grow.
  void Prepare(int64_t bytes);

 private:
  int64_t Pages(int64_t bytes) const { return (bytes + page_bytes_ - 1) / page_bytes_; }
  /// Gives the cache memory up to so many pages; there must be as many.
  Status Commit(KvCache* cache, int64_t pages);
  /// Takes memory away from the ends of slabs until so many pages are free.
  void Reclaim(int64_t pages);
  void Shrink(KvCache* cache, int64_t pages);

  SlabMemory* memory_ = nullptr;
  KvShape shape_;
  int64_t page_bytes_ = 1;
  int64_t pages_ = 0, promised_pages_ = 0, free_pages_ = 0;
  Buffer slabs_;
  std::vector<std::unique_ptr<KvCache>> caches_;
  std::vector<KvCache*> free_;  // what was given back last is lent next: it has memory
};

/// The shape whose ring takes any chunk up to `chunk` tokens, also behind a full window of `memory_len`: R is at least
/// memory_len + chunk - 1.
KvShape MakeKvShape(int64_t layers, int64_t kv_heads, int64_t head_dim, DType dtype, int64_t pinned_max,
                    int64_t memory_len, int64_t chunk);

}  // namespace ringside
