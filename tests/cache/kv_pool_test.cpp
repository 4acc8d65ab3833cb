#include "cache/kv_pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <random>

#include "kernels/backend.h"
#include "tests/cache/whole_cache.h"
#include "tests/kernels/forwarding_backend.h"

namespace ringside {
namespace {

TEST(KvShape, EveryPositionOfWindowAndChunkHasItsOwnRow) {
  const KvShape shape = MakeKvShape(2, 3, 8, DType::kF16, 5, 40, 7);
  EXPECT_EQ(shape.pinned_capacity(), 16);
  EXPECT_GE(shape.ring_rows(), 40 + 7 - 1);
  EXPECT_EQ(shape.ring_rows() % KvShape::kTile, 0);
  for (int64_t last = 0; last < 300; ++last) {
    std::vector<bool> taken(static_cast<size_t>(shape.pinned_capacity() + shape.ring_rows()));
    for (int64_t p = 0; p <= last; ++p) {
      if (p >= 5 && p <= last - shape.ring_rows()) continue;
      const auto slot = static_cast<size_t>(shape.Slot(p, 5));
      ASSERT_LT(slot, taken.size());
      ASSERT_FALSE(taken[slot]) << p << " of " << last;
      taken[slot] = true;
    }
  }
}

TEST(KvShape, TilesDoNotOverlapAndFillTheSlab) {
  const KvShape shape = MakeKvShape(2, 3, 8, DType::kF32, 5, 40, 7);
  int64_t expected = 0;
  for (int64_t tile = 0; tile < shape.pinned_tiles + shape.ring_tiles; ++tile) {
    for (int64_t layer = 0; layer < 2; ++layer) {
      for (int64_t head = 0; head < 3; ++head) {
        EXPECT_EQ(shape.TileOffset(layer, tile, head), expected);
        expected += 2 * 16 * 8 * 4;
      }
    }
  }
  EXPECT_EQ(shape.slab_bytes(), expected);
}

class KvPoolTest : public testing::Test {
 protected:
  std::unique_ptr<Backend> backend_ = std::move(*MakeCpuBackend({.threads = 1}));
  KvShape shape_ = MakeKvShape(2, 1, 8, DType::kF32, 4, 20, 5);
};

TEST_F(KvPoolTest, LendsEachSlotOnceAndEmpty) {
  auto made = KvPool::Make(*backend_, shape_, 2);
  ASSERT_TRUE(made.ok());
  KvPool& pool = *made;
  const RingWindow window{4, 20, Eviction::kToken};
  KvCache* first = LendWhole(pool, window);
  KvCache* second = LendWhole(pool, window);
  ASSERT_NE(first, nullptr);
  ASSERT_NE(second, nullptr);
  EXPECT_NE(first->slab(), second->slab());
  EXPECT_EQ(LendWhole(pool, window), nullptr);
  EXPECT_EQ(pool.used(), 2);
  first->ring().Append(3);
  pool.Release(first);
  EXPECT_EQ(pool.used(), 1);
  KvCache* again = LendWhole(pool, {1, 10, Eviction::kTurn});
  ASSERT_EQ(again, first);
  EXPECT_EQ(again->ring().next(), 0);
  EXPECT_EQ(again->ring().window().memory_len, 10);
}

// Counts pages, and fails on demand. Committed memory contains stale rows, as after another conversation.
struct PageBackend final : ForwardingBackend {
  PageBackend() : ForwardingBackend(std::move(*MakeCpuBackend({.threads = 1}))) {}
  Status Commit(void* data, size_t bytes) override {
    if (fails) return Unavailable("no");
    RETURN_IF_ERROR(ForwardingBackend::Commit(data, bytes));
    std::memset(data, 0xff, bytes);
    committed += static_cast<int64_t>(bytes);
    return Status::Ok();
  }
  void Decommit(void* data, size_t bytes) override {
    committed -= static_cast<int64_t>(bytes);
    ForwardingBackend::Decommit(data, bytes);
  }
  Status Share(void* to, const void* from, size_t bytes) override {
    return refuses_sharing ? Unavailable("no") : ForwardingBackend::Share(to, from, bytes);
  }
  int64_t committed = 0;
  bool fails = false, refuses_sharing = false;
};

class KvMemoryTest : public testing::Test {
 protected:
  // A page of 4,096 bytes is two tiles: 32 tokens. A slab has 1 + 16 tiles, 9 pages.
  static constexpr int64_t kPage = 4096;
  PageBackend backend_;
  KvShape shape_ = MakeKvShape(2, 1, 8, DType::kF32, 4, 252, 5);
  RingWindow window_{4, 252, Eviction::kToken};

  void Write(KvCache* cache, int64_t tokens) {
    cache->ring().Append(tokens);
    std::memset(cache->slab(), 1, static_cast<size_t>(shape_.HeldBytes(cache->ring().next(), window_.pinned)));
  }
};

TEST_F(KvMemoryTest, MapsThePrefixOfTheSlab) {
  ASSERT_EQ(shape_.tile_bytes(), kPage / 2);
  for (const int64_t pinned : {0, 1, 4, 16}) {
    for (int64_t next = 0; next < 400; ++next) {
      int64_t end = 0;
      for (int64_t p = 0; p < next; ++p) end = std::max(end, (shape_.Slot(p, pinned) / 16 + 1) * shape_.tile_bytes());
      ASSERT_EQ(shape_.HeldBytes(next, pinned), end) << pinned << ", " << next;
    }
  }
}

TEST_F(KvMemoryTest, HoldsManyShortCachesInTheMemoryOfFewSlabs) {
  auto pool = KvPool::Make(backend_, shape_, 18, 2 * KvPool::SlabBytes(backend_, shape_));
  ASSERT_TRUE(pool.ok()) << pool.status().ToString();
  EXPECT_EQ(pool->memory_bytes(), 18 * kPage);
  EXPECT_TRUE(pool->overcommitted());
  std::vector<KvCache*> caches;
  for (int i = 0; i < 18; ++i) {
    caches.push_back(pool->Lend(window_));
    ASSERT_TRUE(pool->Grow(caches.back(), pool->BytesFor(window_, 20)).ok());
    Write(caches.back(), 20);
  }
  EXPECT_EQ(backend_.committed, 18 * kPage);
  EXPECT_EQ(pool->free_bytes(), 0);
  // A full pool cannot commit another page until a cache leaves.
  const int64_t two = pool->BytesFor(window_, 40);
  EXPECT_EQ(two, 2 * kPage);
  EXPECT_EQ(pool->Grow(caches[0], two).code(), StatusCode::kOverloaded);
  EXPECT_EQ(pool->reserved_bytes(*caches[0]), kPage);
  pool->Release(caches[5]);
  EXPECT_TRUE(pool->Grow(caches[0], two).ok());
  EXPECT_EQ(backend_.committed, 18 * kPage);
  EXPECT_EQ(pool->committed_bytes(), 18 * kPage);
}

TEST_F(KvMemoryTest, PagesMappedAheadAreUnowned) {
  auto pool = KvPool::Make(backend_, shape_, 3, 9 * kPage);
  ASSERT_TRUE(pool.ok()) << pool.status().ToString();
  KvCache *first = pool->Lend(window_), *second = pool->Lend(window_);
  ASSERT_TRUE(pool->Grow(first, kPage, 3 * kPage).ok());
  EXPECT_EQ(backend_.committed, 4 * kPage);
  EXPECT_EQ(pool->free_bytes(), 8 * kPage);
  Write(first, 20);
  // Half of the readahead is still unused: nothing more is requested.
  ASSERT_TRUE(pool->Grow(first, 2 * kPage, 3 * kPage).ok());
  EXPECT_EQ(backend_.committed, 4 * kPage);
  ASSERT_TRUE(pool->Grow(second, 7 * kPage).ok());
  EXPECT_EQ(backend_.committed, 9 * kPage);
  EXPECT_EQ(pool->Grow(first, 3 * kPage).code(), StatusCode::kOverloaded);
  EXPECT_EQ(*static_cast<char*>(first->slab()), 1);  // its own rows are unchanged
  // A turn that has ended keeps its pages.
  pool->Settle(first);
  EXPECT_EQ(pool->reserved_bytes(*first), kPage);
  EXPECT_EQ(pool->free_bytes(), kPage);
  EXPECT_TRUE(pool->Grow(second, 8 * kPage).ok());
}

TEST_F(KvMemoryTest, NextSlabIsMappedBeforeItIsLent) {
  auto pool = KvPool::Make(backend_, shape_, 6, 9 * kPage);
  ASSERT_TRUE(pool.ok()) << pool.status().ToString();
  pool->Prepare(2 * kPage);
  EXPECT_EQ(backend_.committed, 4 * kPage) << "two slabs; half of the memory is left";
  EXPECT_EQ(pool->free_bytes(), 9 * kPage);
  KvCache *first = pool->Lend(window_), *second = pool->Lend(window_);
  ASSERT_TRUE(pool->Grow(first, 2 * kPage).ok());
  EXPECT_EQ(backend_.committed, 4 * kPage);
  ASSERT_TRUE(pool->Grow(second, 2 * kPage).ok());
  EXPECT_EQ(backend_.committed, 4 * kPage);
  pool->Prepare(2 * kPage);
  EXPECT_EQ(backend_.committed, 6 * kPage);
  ASSERT_TRUE(pool->Grow(first, 7 * kPage).ok()) << "what is prepared is taken back";
  EXPECT_EQ(backend_.committed, 9 * kPage);
  EXPECT_EQ(pool->free_bytes(), 0);
  std::memset(first->slab(), 1, 7 * kPage);
}

TEST_F(KvMemoryTest, GrowthKeepsPagesMappedAhead) {
  auto pool = KvPool::Make(backend_, shape_, 3, 9 * kPage);
  ASSERT_TRUE(pool.ok());
  KvCache *first = pool->Lend(window_), *second = pool->Lend(window_), *third = pool->Lend(window_);
  ASSERT_TRUE(pool->Grow(first, kPage, 3 * kPage).ok());
  ASSERT_TRUE(pool->Grow(second, 3 * kPage, kPage).ok());
  ASSERT_TRUE(pool->Grow(third, kPage).ok());
  ASSERT_EQ(backend_.committed, 9 * kPage);
  EXPECT_TRUE(pool->Grow(first, 5 * kPage).ok());  // taken from the second
  EXPECT_EQ(pool->free_bytes(), 0);
  std::memset(first->slab(), 1, 5 * kPage);
}

TEST_F(KvMemoryTest, FailedAllocationChangesNothing) {
  auto pool = KvPool::Make(backend_, shape_, 2);
  ASSERT_TRUE(pool.ok());
  EXPECT_FALSE(pool->overcommitted());
  KvCache* cache = pool->Lend(window_);
  backend_.fails = true;
  EXPECT_EQ(pool->Grow(cache, kPage).code(), StatusCode::kUnavailable);
  EXPECT_EQ(pool->reserved_bytes(), 0);
  EXPECT_EQ(pool->committed_bytes(), 0);
  EXPECT_EQ(LendWhole(*pool, window_), nullptr);
  EXPECT_EQ(pool->used(), 1);
  backend_.fails = false;
  EXPECT_TRUE(pool->Grow(cache, kPage).ok());
  EXPECT_NE(LendWhole(*pool, window_), nullptr);
}

TEST_F(KvMemoryTest, RefusesLessThanOneSlab) {
  const auto none = KvPool::Make(backend_, shape_, 2, 8 * kPage);
  EXPECT_EQ(none.status().code(), StatusCode::kOverloaded);
  EXPECT_NE(none.status().message().find("36864 bytes"), std::string::npos) << none.status().message();
}

TEST_F(KvMemoryTest, SharesWholePagesOfAPrefix) {
  auto pool = KvPool::Make(backend_, shape_, 4, 12 * kPage);
  ASSERT_TRUE(pool.ok());
  pool->Prepare(kPage);
  KvCache *first = pool->Lend(window_), *second = pool->Lend(window_), *third = pool->Lend(window_);
  ASSERT_TRUE(pool->Grow(first, pool->BytesFor(window_, 100)).ok());
  Write(first, 100);  // 8 tiles: the last one is begun
  EXPECT_EQ(pool->ShareableBytes(*first, 90), 3 * kPage) << "6 of 7 tiles are whole";
  const SlabRange shared = pool->Share(second, *first, 90);
  EXPECT_EQ(shared.begin, 0);
  EXPECT_EQ(shared.end, 3 * kPage);
  second->Adopt(*first, 90);
  ASSERT_TRUE(pool->Grow(second, pool->BytesFor(window_, 90)).ok());
  EXPECT_EQ(pool->reserved_bytes(), 5 * kPage) << "4 of the first, 1 of the second";
  EXPECT_EQ(pool->shared_bytes(), 3 * kPage);
  EXPECT_EQ(pool->own_bytes(*second), kPage);
  EXPECT_EQ(std::memcmp(first->slab(), second->slab(), 3 * kPage), 0);
  pool->Share(third, *second, 40);
  EXPECT_EQ(pool->reserved_bytes(), 5 * kPage);
  // Only a page that is written becomes the cache's own.
  EXPECT_EQ(pool->SharedBytesAt(*second, 90, 10), 0);
  EXPECT_EQ(pool->SharedBytesAt(*second, 4, 1), kPage);
  ASSERT_TRUE(pool->Unshare(second, 4, 1).ok());
  std::memset(second->slab(), 2, 10);
  EXPECT_EQ(static_cast<char*>(first->slab())[0], 1);
  EXPECT_EQ(static_cast<char*>(third->slab())[0], 1);
  EXPECT_EQ(static_cast<char*>(second->slab())[kPage - 1], 1) << "the rest is copied";
  EXPECT_EQ(pool->reserved_bytes(), 6 * kPage);
  // The first owner leaves; the pages stay for the others.
  pool->Release(first);
  EXPECT_EQ(static_cast<char*>(third->slab())[0], 1);
  EXPECT_EQ(static_cast<char*>(second->slab())[3 * kPage - 1], 1);
  pool->Release(second);
  EXPECT_EQ(pool->reserved_bytes(), kPage);
  EXPECT_EQ(pool->shared_bytes(), 0);
  pool->Release(third);
  EXPECT_EQ(pool->reserved_bytes(), 0);
}

// A caller that counts on shareable bytes must not wait for them forever.
TEST_F(KvMemoryTest, MemoryThatRefusesToShareIsNotAskedAgain) {
  auto pool = KvPool::Make(backend_, shape_, 2, 12 * kPage);
  ASSERT_TRUE(pool.ok());
  KvCache *first = pool->Lend(window_), *second = pool->Lend(window_);
  ASSERT_TRUE(pool->Grow(first, pool->BytesFor(window_, 100)).ok());
  Write(first, 100);
  EXPECT_EQ(pool->ShareableBytes(*first, 100), 3 * kPage);
  backend_.refuses_sharing = true;
  EXPECT_EQ(pool->Share(second, *first, 100).end, 0);
  EXPECT_FALSE(pool->shares(*second));
  EXPECT_EQ(pool->ShareableBytes(*first, 100), 0);
  EXPECT_TRUE(pool->Grow(second, 4 * kPage).ok());
  EXPECT_EQ(pool->reserved_bytes(), 8 * kPage);
}

TEST_F(KvMemoryTest, UnsharingWaitsForMemory) {
  auto pool = KvPool::Make(backend_, shape_, 2, 9 * kPage);
  ASSERT_TRUE(pool.ok());
  KvCache *first = pool->Lend(window_), *second = pool->Lend(window_);
  ASSERT_TRUE(pool->Grow(first, 9 * kPage).ok());
  Write(first, 200);
  pool->Share(second, *first, 200);
  EXPECT_EQ(pool->free_bytes(), 0);
  EXPECT_EQ(pool->Unshare(second, 10, 1).code(), StatusCode::kOverloaded);
  pool->Release(first);
  EXPECT_TRUE(pool->Unshare(second, 10, 1).ok()) << "no other cache has the page";
  EXPECT_EQ(static_cast<char*>(second->slab())[0], 1);
}

TEST_F(KvMemoryTest, NoPageIsLostOrAllocatedTwice) {
  auto pool = KvPool::Make(backend_, shape_, 12, 30 * kPage);
  ASSERT_TRUE(pool.ok());
  std::mt19937 random(7);
  std::map<KvCache*, unsigned char> lent;  // expected content of its rows
  int64_t shared_most = 0;
  for (int step = 0; step < 20'000; ++step) {
    const auto any = [&] { return std::next(lent.begin(), static_cast<int64_t>(random() % lent.size())); };
    switch (random() % 6) {
      case 0:
        if (KvCache* cache = pool->Lend(window_); cache != nullptr) lent[cache] = static_cast<unsigned char>(step);
        break;
      case 1:
        if (lent.empty()) break;
        {
          const auto one = any();
          pool->Release(one->first);
          lent.erase(one);
        }
        break;
      case 2:
        if (!lent.empty()) pool->Settle(any()->first);
        break;
      case 3: {
        if (lent.empty()) break;
        const auto& [from, fill] = *any();
        const int64_t tokens = from->ring().next();
        KvCache* cache = tokens > window_.memory_len ? nullptr : pool->Lend(window_);
        if (cache == nullptr) break;
        const SlabRange shared = pool->Share(cache, *from, tokens);
        if (!pool->Grow(cache, pool->BytesFor(window_, tokens)).ok()) {
          pool->Release(cache);
          break;
        }
        cache->Adopt(*from, tokens);
        const int64_t held = shape_.HeldBytes(tokens, window_.pinned);
        auto* rest = static_cast<std::byte*>(cache->slab()) + shared.end;
        if (held > shared.end) std::memset(rest, fill, static_cast<size_t>(held - shared.end));
        lent[cache] = fill;
        break;
      }
      default: {
        if (lent.empty()) break;
        auto& [cache, fill] = *any();
        const int64_t tokens = cache->ring().next() + 1 + static_cast<int64_t>(random() % 5);
        if (!pool->Grow(cache, pool->BytesFor(window_, tokens), random() % 3 * kPage).ok()) break;
        // Its content changes: as after a rewind to the first token.
        if (!pool->Unshare(cache, 0, std::min(tokens, window_.memory_len)).ok()) break;
        cache->ring().Append(tokens - cache->ring().next());
        fill = static_cast<unsigned char>(step);
        std::memset(cache->slab(), fill, static_cast<size_t>(shape_.HeldBytes(tokens, window_.pinned)));
      }
    }
    ASSERT_EQ(backend_.committed, pool->committed_bytes());
    ASSERT_LE(pool->committed_bytes(), pool->memory_bytes());
    ASSERT_LE(pool->reserved_bytes(), pool->memory_bytes());
    shared_most = std::max(shared_most, pool->shared_bytes());
    for (const auto& [cache, fill] : lent) {
      const int64_t held = shape_.HeldBytes(cache->ring().next(), window_.pinned);
      const auto* rows = static_cast<unsigned char*>(cache->slab());
      ASSERT_TRUE(held == 0 || (rows[0] == fill && rows[held - 1] == fill));
    }
  }
  EXPECT_GT(shared_most, 4 * kPage);
}

}  // namespace
}  // namespace ringside
