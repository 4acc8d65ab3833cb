// RowOrigins against a plain model: caches as lists of numbers, where each written row is a new number.
#include "cache/row_origins.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <vector>

#include "cache/kv_pool.h"
#include "cache/ring.h"
#include "cache/saved_origins.h"
#include "cache/snapshot.h"
#include "kernels/backend.h"
#include "tests/cache/whole_cache.h"

namespace ringside {
namespace {

struct Cache {
  RowOrigins origins;
  std::vector<int64_t> rows;
};

int64_t CommonRows(const Cache& a, const Cache& b) {
  const auto [end, other] = std::ranges::mismatch(a.rows, b.rows);
  return end - a.rows.begin();
}

class Caches {
 public:
  explicit Caches(uint32_t seed) : random_(seed) {}

  void Change() {
    Cache &cache = Any(), &other = Any();
    const int64_t rows = std::ssize(cache.rows);
    switch (Below(6)) {
      case 0:
        cache = Cache();
        break;
      case 1:
        RollBack(&cache, Below(rows + 1));
        break;
      case 2:  // speculation: the last rows are retracted
        RollBack(&cache, std::max<int64_t>(rows - Below(3), 0));
        Write(&cache, 1 + Below(3));
        break;
      case 3:
        if (&cache == &other) break;
        cache.origins = other.origins;
        cache.rows = other.rows;
        RollBack(&cache, Below(std::ssize(cache.rows) + 1));
        break;
      default:
        Write(&cache, 1 + Below(40));
    }
  }
  void Check() const {
    for (const Cache& a : caches_) {
      EXPECT_LE(a.origins.runs(), RowOrigins::kMaxRuns);
      for (const Cache& b : caches_) {
        EXPECT_EQ(a.origins.Compare(b.origins).common, CommonRows(a, b));
        EXPECT_EQ(a.origins.Compare(b.origins).order<0, b.origins.Compare(a.origins).order> 0);
      }
    }
  }
  void CheckOrder() {
    std::ranges::sort(caches_, [](const Cache& a, const Cache& b) { return a.origins.Compare(b.origins).order < 0; });
    for (size_t i = 0; i < caches_.size(); ++i) {
      int64_t common = std::ssize(caches_[i].rows);
      for (size_t j = i + 1; j < caches_.size(); ++j) {
        common = std::min(common, CommonRows(caches_[j - 1], caches_[j]));
        EXPECT_EQ(CommonRows(caches_[i], caches_[j]), common);
      }
    }
  }

 private:
  int64_t Below(int64_t n) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(n)); }
  Cache& Any() { return caches_[random_() % caches_.size()]; }
  void Write(Cache* cache, int64_t rows) {
    while (rows-- > 0) cache->rows.push_back(next_++);
    cache->origins.Write(std::ssize(cache->rows));
  }
  static void RollBack(Cache* cache, int64_t to) {
    cache->rows.resize(static_cast<size_t>(to));
    cache->origins.RollBack(to);
  }

  std::mt19937 random_;
  int64_t next_ = 0;
  std::vector<Cache> caches_{6};
};

TEST(RowOrigins, EqualsAPlainModel) {
  for (uint32_t seed = 0; seed < 20; ++seed) {
    Caches caches(seed);
    for (int i = 0; i < 1000; ++i) {
      caches.Change();
      caches.Check();
      if (i % 10 == 0) caches.CheckOrder();
      if (testing::Test::HasFailure()) FAIL() << "seed " << seed << ", change " << i;
    }
  }
}

TEST(RowOrigins, RingsKeepThem) {
  const RingWindow window{4, 64, Eviction::kToken};
  Ring donor(window, 96), taker(window, 96), restored(window, 96);
  donor.Append(50);
  ASSERT_TRUE(taker.Restore(40, 4, {}).ok());
  ASSERT_TRUE(restored.Restore(50, 4, {}).ok());
  taker.AdoptOrigins(donor.origins());
  const auto common = [](const Ring& a, const Ring& b) { return a.origins().Compare(b.origins()).common; };
  EXPECT_EQ(common(donor, taker), 40);
  EXPECT_EQ(common(donor, restored), 0) << "from a snapshot";
  taker.Append(10);
  EXPECT_EQ(common(donor, taker), 40) << "equal or not, computed twice";
  const Ring branch = donor;
  donor.Append(5);
  EXPECT_EQ(common(donor, branch), 50);
  donor.RollBack(45);
  donor.Append(10);
  EXPECT_EQ(common(donor, branch), 45);
  EXPECT_EQ(common(donor, taker), 40);
  donor.Clear();
  donor.Append(50);
  EXPECT_EQ(common(donor, branch), 0);
  EXPECT_EQ(common(taker, branch), 40) << "the donor is gone";
}

TEST(RowOrigins, TheirNumberIsLimited) {
  Cache cache;
  std::vector<Cache> copies;
  for (int64_t i = 1; i <= 1000; ++i) {
    cache.origins.Write(10 * i);
    copies.push_back(cache);
    cache = copies.back();  // as after a restore: the rows are those of the snapshot
    EXPECT_LE(cache.origins.runs(), RowOrigins::kMaxRuns);
    EXPECT_EQ(cache.origins.rows(), 10 * i);
  }
  EXPECT_EQ(copies[10].origins.Compare(cache.origins).common, copies[10].origins.rows());
}

TEST(RowOrigins, SnapshotsInMemoryKeepThem) {
  const auto backend = std::move(*MakeCpuBackend({.threads = 1}));
  const RingWindow window{4, 64, Eviction::kToken};
  auto pool = KvPool::Make(*backend, MakeKvShape(1, 1, 4, DType::kF32, 4, 64, 16), 3);
  ASSERT_TRUE(pool.ok());
  KvCache *saved = LendWhole(*pool, window), *restored = LendWhole(*pool, window), *read = LendWhole(*pool, window);
  saved->ring().Append(50);
  const std::vector<int32_t> tokens(50);
  Snapshot snapshot = Snapshot::Capture(*saved, *backend, {}, tokens, 0);
  saved->ring().Append(3);
  ASSERT_TRUE(snapshot.Share().Restore(*restored, *backend, {}).ok());
  EXPECT_EQ(saved->ring().origins().Compare(restored->ring().origins()).common, 50);
  snapshot.Seal();
  const std::string bytes = snapshot.Encode();
  auto decoded = Snapshot::Decode(std::as_bytes(std::span(bytes)));
  ASSERT_TRUE(decoded.ok() && decoded->Restore(*read, *backend, {}).ok());
  EXPECT_EQ(saved->ring().origins().Compare(read->ring().origins()).common, 0) << "bytes have no origins";
  SavedOrigins origins;
  origins.Note(snapshot);
  origins.Attach(&*decoded);
  ASSERT_TRUE(decoded->Restore(*read, *backend, {}).ok());
  EXPECT_EQ(saved->ring().origins().Compare(read->ring().origins()).common, 50);
}

TEST(SavedOrigins, ForgetTheOldest) {
  const auto backend = std::move(*MakeCpuBackend({.threads = 1}));
  const RingWindow window{4, 64, Eviction::kToken};
  auto pool = KvPool::Make(*backend, MakeKvShape(1, 1, 4, DType::kF32, 4, 64, 16), 1);
  ASSERT_TRUE(pool.ok());
  KvCache* cache = LendWhole(*pool, window);
  cache->ring().Append(5);
  SavedOrigins origins;
  std::vector<Snapshot> snapshots;
  for (size_t i = 0; i < SavedOrigins::kMost + 2; ++i) {
    Snapshot snapshot = Snapshot::Capture(*cache, *backend, {}, std::vector<int32_t>(5), 0);
    origins.Note(snapshot);
    snapshot.set_origins({});
    if (i < 3 || i > SavedOrigins::kMost) snapshots.push_back(std::move(snapshot));
  }
  const auto known = [&](Snapshot& snapshot) {
    origins.Attach(&snapshot);
    return snapshot.origins().rows() == 5;
  };
  EXPECT_FALSE(known(snapshots[0]));
  EXPECT_FALSE(known(snapshots[1]));
  EXPECT_TRUE(known(snapshots[2]));
  EXPECT_TRUE(known(snapshots.back()));
}

// The pages in the middle belong to another cache, too.
TEST(SnapshotRestore, LeavesTheTilesThatArePresent) {
  const auto backend = std::move(*MakeCpuBackend({.threads = 1}));
  const RingWindow window{20, 96, Eviction::kToken};
  auto pool = KvPool::Make(*backend, MakeKvShape(2, 1, 4, DType::kF32, 20, 96, 16), 2);
  ASSERT_TRUE(pool.ok());
  KvCache *saved = LendWhole(*pool, window), *restored = LendWhole(*pool, window);
  saved->ring().Append(100);
  const auto bytes = static_cast<size_t>(saved->shape().HeldBytes(100, 20));
  std::memset(saved->slab(), 1, bytes), std::memset(restored->slab(), 2, bytes);
  const Snapshot snapshot = Snapshot::Capture(*saved, *backend, {}, std::vector<int32_t>(100), 0);
  // From within tile 1 to within tile 4: 2 and 3 are whole.
  const int64_t begin = saved->shape().TileBegin(1) + 8, end = saved->shape().TileBegin(4) + 8;
  auto pending = snapshot.BeginRestore(*restored, *backend, {}, 0, {begin, end});
  ASSERT_TRUE(pending.ok());
  if (pending->ticket != 0) backend->WaitForCopy(pending->ticket);
  const auto* slab = static_cast<const char*>(restored->slab());
  const auto value_at = [&](int64_t tile) { return slab[saved->shape().TileBegin(tile)]; };
  for (const int64_t tile : {0, 1, 4, 5, 6}) EXPECT_EQ(value_at(tile), 1) << tile;
  for (const int64_t tile : {2, 3}) EXPECT_EQ(value_at(tile), 2) << tile;
}

}  // namespace
}  // namespace ringside
