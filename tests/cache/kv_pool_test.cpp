#include "cache/kv_pool.h"

#include <gtest/gtest.h>

#include <cstring>

#include "kernels/backend.h"

namespace ringside {
namespace {

TEST(KvShape, EveryPositionOfAWindowAndItsChunkHasARowOfItsOwn) {
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

TEST_F(KvPoolTest, LendsEachSlotOnceAndGivesItEmptyAgain) {
  auto made = KvPool::Make(*backend_, shape_, 2);
  ASSERT_TRUE(made.ok());
  KvPool& pool = *made;
  const RingWindow window{4, 20, Eviction::kToken};
  KvCache* first = pool.Acquire(window);
  KvCache* second = pool.Acquire(window);
  ASSERT_NE(first, nullptr);
  ASSERT_NE(second, nullptr);
  EXPECT_NE(first->slab(), second->slab());
  EXPECT_EQ(pool.Acquire(window), nullptr);
  EXPECT_EQ(pool.used(), 2);
  first->ring().Append(3);
  pool.Release(first);
  EXPECT_EQ(pool.used(), 1);
  KvCache* again = pool.Acquire({1, 10, Eviction::kTurn});
  ASSERT_EQ(again, first);
  EXPECT_EQ(again->ring().next(), 0);
  EXPECT_EQ(again->ring().window().memory_len, 10);
}

}  // namespace
}  // namespace ringside
