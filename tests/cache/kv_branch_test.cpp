// Branches of a cache, compared by bytes: each row stores its position and its writer at the ends of its lane.
#include "cache/kv_branch.h"

#include <gtest/gtest.h>

#include <cstring>

#include "cache/kv_pool.h"
#include "kernels/backend.h"
#include "tests/cache/whole_cache.h"

namespace ringside {
namespace {

class KvBranchTest : public testing::Test {
 protected:
  static constexpr RingWindow kWindow{5, 40, Eviction::kToken};
  struct Row {
    int32_t position, writer;
    friend bool operator==(const Row&, const Row&) = default;
  };

  void SetUp() override {
    auto made = KvPool::Make(*backend_, shape_, 3);
    ASSERT_TRUE(made.ok());
    pool_ = std::make_unique<KvPool>(std::move(*made));
    history_ = LendWhole(*pool_, kWindow);
    first_ = LendWhole(*pool_, kWindow);
    second_ = LendWhole(*pool_, kWindow);
  }
  std::byte* Lane(const KvCache& cache, int64_t position) {
    const bool shared = cache.history() != nullptr && position < cache.branch();
    auto* slab = static_cast<std::byte*>(shared ? const_cast<void*>(cache.history()) : cache.slab());
    const bool own = cache.history() != nullptr && !shared;
    const int64_t slot = own ? shape_.Slot(position - cache.branch(), 0) : shape_.Slot(position, kWindow.pinned);
    return slab + slot / 16 * shape_.tile_bytes() + slot % 16 * static_cast<int64_t>(sizeof(Row));
  }
  void Append(KvCache* cache, int64_t rows, int32_t writer) {
    for (; rows > 0; --rows) {
      const int64_t position = cache->ring().Append(1);
      const Row row{static_cast<int32_t>(position), writer};
      std::memcpy(Lane(*cache, position), &row, sizeof row);
    }
  }
  Row At(const KvCache& cache, int64_t position) {
    Row row{};
    std::memcpy(&row, Lane(cache, position), sizeof row);
    return row;
  }
  /// Asserts that the rows from `from` on that the next token attends to were written by `writer`.
  void ExpectWrittenBy(const KvCache& cache, int64_t from, int64_t end, int32_t writer) {
    for (int64_t p = std::max(from, cache.ring().FirstLive(cache.ring().next())); p < end; ++p) {
      EXPECT_EQ(At(cache, p), (Row{static_cast<int32_t>(p), writer})) << p;
    }
  }

  std::unique_ptr<Backend> backend_ = std::move(*MakeCpuBackend({.threads = 1}));
  const KvShape shape_ = MakeKvShape(1, 1, 4, DType::kF32, 8, 40, 24);  // a ring of 64 rows
  std::unique_ptr<KvPool> pool_;
  KvCache *history_ = nullptr, *first_ = nullptr, *second_ = nullptr;
};

TEST_F(KvBranchTest, BranchesPartCopyAndJoin) {
  ASSERT_EQ(shape_.ring_rows(), 64);
  // From a prompt inside the pinned tile to a ring that has wrapped three times, at every offset in a tile.
  for (int64_t length = 5; length < 200; ++length) {
    history_->Reset(kWindow);
    Append(history_, length, 0);
    for (KvCache* branch : {first_, second_}) {
      EXPECT_LE(BranchOff(*backend_, branch, *history_, length), shape_.tile_bytes());
      EXPECT_EQ(branch->ring().next(), length);
      ExpectWrittenBy(*branch, 5, length, 0);
    }
    Append(first_, 7, 1);
    Append(second_, 3, 2);
    ExpectWrittenBy(*first_, length, length + 7, 1);
    ExpectWrittenBy(*second_, length, length + 3, 2);
    ExpectWrittenBy(*history_, 5, length, 0);
    EXPECT_LE(CopyBranch(*backend_, second_, *first_, length), 2 * shape_.tile_bytes());
    EXPECT_EQ(second_->ring().next(), length + 7);
    ExpectWrittenBy(*second_, length, length + 7, 1);
    Append(second_, 20, 2);
    ExpectWrittenBy(*second_, length, length + 7, 1);
    ExpectWrittenBy(*second_, length + 7, length + 27, 2);
    ExpectWrittenBy(*first_, length, length + 7, 1);
    const int64_t end = length + 7 + length % 21;
    EXPECT_GT(JoinBranch(*backend_, history_, *second_, end), 0);
    EXPECT_EQ(history_->ring().next(), end);
    ExpectWrittenBy(*history_, 5, length, 0);
    ExpectWrittenBy(*history_, length, length + 7, 1);
    ExpectWrittenBy(*history_, length + 7, end, 2);
    // Rows overwritten by the last tile count as evicted.
    for (int64_t p = std::max<int64_t>(history_->ring().resident(), 5); p < length; ++p) {
      EXPECT_EQ(At(*history_, p), (Row{static_cast<int32_t>(p), 0})) << p;
    }
  }
}

TEST_F(KvBranchTest, BranchesAnywhereAndContinuesIndefinitely) {
  for (int64_t length = 6; length < 200; ++length) {
    const int64_t tokens = std::max<int64_t>(5, length - 9);  // of a 64-row ring, these rows are still present
    history_->Reset(kWindow);
    Append(history_, length, 0);
    BranchOff(*backend_, first_, *history_, tokens);
    EXPECT_EQ(first_->ring().next(), tokens);
    EXPECT_FALSE(first_->SeesRows(history_->ring().next() - 64));
    ExpectWrittenBy(*first_, 5, tokens, 0);
    Append(first_, 20, 1);
    ExpectWrittenBy(*first_, 5, tokens, 0);
    ExpectWrittenBy(*first_, tokens, tokens + 20, 1);
    EXPECT_EQ(first_->SeesRows(tokens), first_->ring().FirstLive(tokens + 20) < first_->branch());
    Append(first_, 100, 1);  // its own ring wraps, twice
    ExpectWrittenBy(*first_, tokens, tokens + 120, 1);
    EXPECT_FALSE(first_->SeesRows(tokens + 120));
    ExpectWrittenBy(*history_, 5, length, 0);
  }
}

TEST_F(KvBranchTest, BranchIsExtendedByRowsOfAnother) {
  for (int64_t length = 5; length < 200; ++length) {
    history_->Reset(kWindow);
    Append(history_, length, 0);
    for (KvCache* branch : {first_, second_}) BranchOff(*backend_, branch, *history_, length);
    Append(first_, 40, 1);
    for (const int64_t end : {length, length + 1, length + 1 + length % 30, length + 40}) {
      ExtendBranch(*backend_, second_, *first_, end);
      EXPECT_EQ(second_->ring().next(), end);
      ExpectWrittenBy(*second_, 5, length, 0);
      ExpectWrittenBy(*second_, length, end, 1);
    }
    Append(second_, 3, 2);
    ExpectWrittenBy(*second_, length + 40, length + 43, 2);
    ExpectWrittenBy(*first_, length, length + 40, 1);
    ExpectWrittenBy(*history_, 5, length, 0);
  }
}

TEST_F(KvBranchTest, EmptyJoinChangesNothing) {
  Append(history_, 30, 0);
  BranchOff(*backend_, first_, *history_, 30);
  Append(first_, 4, 1);
  EXPECT_EQ(JoinBranch(*backend_, history_, *first_, 30), 0);
  EXPECT_EQ(history_->ring().next(), 30);
  ExpectWrittenBy(*history_, 5, 30, 0);
  first_->Reset(kWindow);
  EXPECT_EQ(first_->history(), nullptr);
}

}  // namespace
}  // namespace ringside
