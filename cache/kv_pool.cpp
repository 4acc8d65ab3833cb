#include "cache/kv_pool.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "base/defect.h"
#include "kernels/slab_memory.h"

namespace ringside {

int64_t KvPool::SlabBytes(const SlabMemory& memory, const KvShape& shape) {
  const int64_t page = memory.page_bytes(shape.slab_bytes());
  return (shape.slab_bytes() + page - 1) / page * page;
}

Result<KvPool> KvPool::Make(SlabMemory& memory, const KvShape& shape, int64_t slots, int64_t memory_bytes) {
  KvPool pool;
  pool.memory_ = &memory;
  pool.shape_ = shape;
  pool.page_bytes_ = memory.page_bytes(shape.slab_bytes());
  const int64_t slab_bytes = SlabBytes(memory, shape);
  if (memory_bytes == 0) memory_bytes = slots * slab_bytes;
  const std::optional<size_t> free = memory.free_bytes();
  if (free && static_cast<int64_t>(*free) < memory_bytes) {
    return Overloaded(fmt::format("{} bytes are wanted for caches, {} are free", memory_bytes, *free));
  }
  if (memory_bytes < slab_bytes) {
    return Overloaded(
        fmt::format("one full window takes {} bytes, but all caches together have {}", slab_bytes, memory_bytes));
  }
  pool.pages_ = pool.free_pages_ = memory_bytes / pool.page_bytes_;
  ASSIGN_OR_RETURN(pool.slabs_, memory.Reserve(static_cast<size_t>(slots * slab_bytes)));
  for (int64_t i = 0; i < slots; ++i) {
    void* slab = static_cast<std::byte*>(pool.slabs_.data()) + i * slab_bytes;
    pool.caches_.push_back(std::make_unique<KvCache>(shape, slab));
  }
  for (auto cache = pool.caches_.rbegin(); cache != pool.caches_.rend(); ++cache) pool.free_.push_back(cache->get());
  return pool;
}

int64_t KvPool::BytesFor(const RingWindow& window, int64_t tokens) const {
  return Pages(shape_.HeldBytes(tokens, window.pinned)) * page_bytes_;
}

KvCache* KvPool::Lend(const RingWindow& window) {
  if (free_.empty()) return nullptr;
  KvCache* cache = free_.back();
  free_.pop_back();
  if (!RINGSIDE_DEFECT("slot_not_reset")) cache->Reset(window);
  return cache;
}

Status KvPool::Grow(KvCache* cache, int64_t bytes, int64_t ahead) {
  const int64_t before = cache->reserved_pages_, least = std::max(Pages(bytes), before), more = least - before;
  if (more > pages_ - reserved_pages_) {
    return Overloaded(
        fmt::format("no memory for {} more bytes of a cache: {} are free", more * page_bytes_, free_bytes()));
  }
  reserved_pages_ += more;
  cache->reserved_pages_ = least;
  if (least > cache->pages_) {
    Reclaim(least - cache->pages_);  // promised but not free: committed ahead elsewhere
    if (Status status = Commit(cache, least); !status.ok()) {
      reserved_pages_ -= more;
      cache->reserved_pages_ = before;
      return status;
    }
  }
  const int64_t all = Pages(shape_.slab_bytes());
  if (cache->pages_ >= std::min(Pages(bytes + ahead / 2), all)) return Status::Ok();
  const int64_t most = std::min({Pages(bytes + ahead), all, cache->pages_ + free_pages_});
  if (most > cache->pages_) static_cast<void>(Commit(cache, most));  // best effort: committing ahead may fail
  return Status::Ok();
}

Status KvPool::Commit(KvCache* cache, int64_t pages) {
  const int64_t more = pages - cache->pages_;
  CHECK_LE(more, free_pages_);
  RETURN_IF_ERROR(memory_->Commit(PageOf(*cache, cache->pages_), static_cast<size_t>(more * page_bytes_)));
  cache->pages_ = pages;
  free_pages_ -= more;
  return Status::Ok();
}

void KvPool::Reclaim(int64_t pages) {
  for (KvCache* cache : free_) {  // the slab released longest ago first
    if (free_pages_ >= pages) return;
    Shrink(cache, std::max<int64_t>(0, cache->pages_ - (pages - free_pages_)));
  }
  for (auto& cache : caches_) {
    if (free_pages_ >= pages) return;
    Shrink(cache.get(), std::max(cache->reserved_pages_, cache->pages_ - (pages - free_pages_)));
  }
}

void KvPool::Shrink(KvCache* cache, int64_t pages) {
  const int64_t less = cache->pages_ - pages;
  if (less <= 0) return;
  memory_->Decommit(PageOf(*cache, pages), static_cast<size_t>(less * page_bytes_));
  cache->pages_ = pages;
  free_pages_ += less;
}

void KvPool::Unreserve(KvCache* cache, int64_t pages) {
  if (cache->reserved_pages_ <= pages) return;
  if (const std::optional<int64_t> first = shared_.First(cache, pages)) {
    // Pages after a shared one leave as well, so that the rest of the slab has no hole.
    for (int64_t begin = *first, end = *first; begin < cache->pages_; begin = end) {
      const bool shared = shared_.OtherUser(cache, begin) != nullptr;
      while (end < cache->pages_ && (shared_.OtherUser(cache, end) != nullptr) == shared) ++end;
      const auto bytes = static_cast<size_t>((end - begin) * page_bytes_);
      shared ? memory_->Unshare(PageOf(*cache, begin), bytes) : memory_->Decommit(PageOf(*cache, begin), bytes);
      // Other caches have the shared ones reserved.
      (shared ? reserved_pages_ : free_pages_) += end - begin;
      for (int64_t page = begin; shared && page < end; ++page) shared_.Remove(cache, page);
    }
    cache->pages_ = *first;
  }
  reserved_pages_ -= cache->reserved_pages_ - pages;
  cache->reserved_pages_ = pages;
}

void KvPool::Settle(KvCache* cache) {
  Unreserve(cache, Pages(shape_.HeldBytes(cache->ring().next(), cache->ring().window().pinned)));
}

void KvPool::Release(KvCache* cache) {
  CHECK(cache != nullptr);
  Unreserve(cache, 0);
  free_.push_back(cache);
}

int64_t KvPool::ShareableBytes(const KvCache& from, int64_t tokens) const {
  if (!can_share_) return 0;
  const int64_t pinned = from.ring().window().pinned;
  // Only whole tiles: the next token is written into a tile that has begun.
  const int64_t whole = tokens <= pinned ? tokens / KvShape::kTile * KvShape::kTile : KvCache::BranchAt(tokens, pinned);
  const int64_t begin = Pages(shape_.state.bytes()), end = shape_.HeldBytes(whole, pinned) / page_bytes_;
  return std::max<int64_t>(0, end - begin) * page_bytes_;
}

SlabRange KvPool::Share(KvCache* cache, const KvCache& from, int64_t tokens) {
  CHECK_EQ(cache->reserved_pages_, 0);
  const int64_t pages = ShareableBytes(from, tokens) / page_bytes_, begin = Pages(shape_.state.bytes());
  CHECK_LE(begin + pages, from.reserved_pages_);
  if (pages == 0 || !Grow(cache, begin * page_bytes_).ok()) return {};
  Shrink(cache, begin);
  const auto bytes = static_cast<size_t>(pages * page_bytes_);
  can_share_ = memory_->Share(PageOf(*cache, begin), PageOf(from, begin), bytes).ok();
  if (!can_share_) return {};
  shared_.Add(cache, &from, begin, begin + pages);
  cache->pages_ = cache->reserved_pages_ = begin + pages;
  return SharedRange(*cache, from);
}

SlabRange KvPool::SharedRange(const KvCache& cache, const KvCache& from) const {
  const std::optional<int64_t> begin = shared_.First(&cache);
  if (!begin || !shared_.SharesAll(&cache, &from)) return {};
  return {*begin * page_bytes_, (*begin + shared_.Count(&cache)) * page_bytes_};
}

std::vector<int64_t> KvPool::SharedPagesAt(const KvCache& cache, int64_t position, int64_t rows) const {
  std::vector<int64_t> pages;
  if (!shares(cache)) return pages;
  const int64_t pinned = cache.ring().window().pinned;
  for (int64_t p = position; p < position + rows;) {
    const int64_t slot = shape_.Slot(p, pinned), tile = slot / KvShape::kTile;
    const int64_t last = (shape_.TileBegin(tile + 1) - 1) / page_bytes_;
    for (int64_t page = shape_.TileBegin(tile) / page_bytes_; page <= last; ++page) {
      if (shared_.OtherUser(&cache, page) != nullptr) pages.push_back(page);
    }
    const int64_t next = p + KvShape::kTile - slot % KvShape::kTile;
    p = p < pinned ? std::min(next, pinned) : next;
  }
  std::ranges::sort(pages);
  pages.erase(std::ranges::unique(pages).begin(), pages.end());
  return pages;
}

int64_t KvPool::SharedBytesAt(const KvCache& cache, int64_t position, int64_t rows) const {
  return std::ssize(SharedPagesAt(cache, position, rows)) * page_bytes_;
}

Status KvPool::Unshare(KvCache* cache, int64_t position, int64_t rows) {
  const std::vector<int64_t> pages = SharedPagesAt(*cache, position, rows);
  const auto more = std::ssize(pages);
  if (more > pages_ - reserved_pages_) {
    return Overloaded(fmt::format("no memory for {} bytes that a cache no longer shares: {} are free",
                                  more * page_bytes_, free_bytes()));
  }
  Reclaim(more);
  const auto bytes = static_cast<size_t>(page_bytes_);
  for (const int64_t page : pages) {
    const KvCache* other = shared_.OtherUser(cache, page);
    void* place = PageOf(*cache, page);
    memory_->Unshare(place, bytes);
    if (Status status = memory_->Commit(place, bytes); !status.ok()) {
      CHECK(memory_->Share(place, PageOf(*other, page), bytes).ok());  // as before
      return status;
    }
    memory_->CopyOnDevice(place, PageOf(*other, page), bytes);
    shared_.Remove(cache, page);
    ++reserved_pages_, --free_pages_;
  }
  return Status::Ok();
}

void KvPool::Prepare(int64_t bytes) {
  const int64_t each = Pages(std::min(bytes, shape_.slab_bytes())), left = free_pages_ / 2;
  for (auto cache = free_.rbegin(); cache != free_.rend() && free_pages_ - each >= left; ++cache) {
    if ((*cache)->pages_ < each && !Commit(*cache, each).ok()) return;  // then memory is committed on demand
  }
}

KvShape MakeKvShape(int64_t layers, int64_t kv_heads, int64_t head_dim, DType dtype, int64_t pinned_max,
                    int64_t memory_len, int64_t chunk) {
  const auto tiles = [](int64_t rows) { return (rows + KvShape::kTile - 1) / KvShape::kTile; };
  return {layers, kv_heads, head_dim, dtype, tiles(pinned_max), tiles(memory_len + chunk - 1)};
}

}  // namespace ringside
