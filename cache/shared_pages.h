// Which pages of memory belong to several slabs. The first tokens of a conversation are at the beginning of its slab,
// so caches with the same first tokens, in the same order, have them in the same pages (cuMemMap). Owned by KvPool.
// THREAD: engine.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

namespace ringside {

class KvCache;

class SharedPages {
 public:
  /// Records that `cache` maps the pages [first, end) of `from`, which are at the same places of its slab.
  void Add(const KvCache* cache, const KvCache* from, int64_t first, int64_t end);
  /// Another cache that maps this page of the cache, too; null = none.
  const KvCache* OtherUser(const KvCache* cache, int64_t page) const;
  /// Records that the cache no longer maps this page. REQUIRES: it has another user.
  void Remove(const KvCache* cache, int64_t page);
  /// True if the cache has a page with other users. Constant time: asked several times per step.
  bool Any(const KvCache* cache) const { return pages_.contains(cache); }
  /// Number of these pages.
  int64_t Count(const KvCache* cache) const;
  /// The first of these pages from `first` on; nullopt = none.
  std::optional<int64_t> First(const KvCache* cache, int64_t first = 0) const;
  /// True if `other` maps every page that the cache shares.
  bool SharesAll(const KvCache* cache, const KvCache* other) const;
  /// Number of pages that sharing saves.
  int64_t saved() const { return saved_; }

 private:
  using Users = std::vector<const KvCache*>;  // two or more
  std::unordered_map<const KvCache*, std::map<int64_t, std::shared_ptr<Users>>> pages_;
  int64_t saved_ = 0;
};

}  // namespace ringside
