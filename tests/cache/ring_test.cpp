#include "cache/ring.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <random>
#include <set>

namespace ringside {
namespace {

// The ring as a plain list: the position in each physical row, and a direct implementation of the liveness rule.
class NaiveRing {
 public:
  NaiveRing(RingWindow window, int64_t rows) : window_(window), rows_(window.pinned + rows, -1) {}

  void Append(int64_t n) {
    for (int64_t i = 0; i < n; ++i) {
      const int64_t p = next_++;
      rows_[p < window_.pinned ? p : window_.pinned + (p - window_.pinned) % RingRows()] = p;
    }
  }
  void RollBack(int64_t to) {
    for (int64_t& row : rows_) {
      if (row >= to) row = -1;
    }
    std::erase_if(starts_, [&](int64_t start) { return start >= to; });
    next_ = to;
  }
  void AddStart(int64_t start) { starts_.insert(start); }
  int64_t FirstLive(int64_t t) const {
    const int64_t oldest = t - window_.memory_len + 1;
    if (oldest <= window_.pinned) return window_.pinned;
    for (int64_t p = oldest; p <= std::min(t, oldest + window_.slack()); ++p) {
      if (starts_.contains(p)) return p;
    }
    return oldest;
  }
  // Whether the ring still holds every row that the query at position t attends to, apart from its own.
  bool HoldsAllFor(int64_t t) const {
    for (int64_t p = FirstLive(t); p < t; ++p) {
      if (std::find(rows_.begin(), rows_.end(), p) == rows_.end()) return false;
    }
    return true;
  }
  int64_t next() const { return next_; }
  const std::set<int64_t>& starts() const { return starts_; }

 private:
  int64_t RingRows() const { return static_cast<int64_t>(rows_.size()) - window_.pinned; }
  RingWindow window_;
  std::deque<int64_t> rows_;
  std::set<int64_t> starts_;
  int64_t next_ = 0;
};

class RingWalk : public testing::TestWithParam<std::tuple<int64_t, int64_t, int64_t, Eviction>> {};

TEST_P(RingWalk, MatchesAListOnRandomWalks) {
  const auto [pinned, memory_len, chunk, eviction] = GetParam();
  std::mt19937 random(static_cast<uint32_t>(pinned * 1000 + memory_len * 10 + chunk));
  for (int history = 0; history < 60; ++history) {
    const RingWindow window{pinned, memory_len, eviction};
    Ring ring(window, memory_len + chunk - 1);
    NaiveRing naive(window, memory_len + chunk - 1);
    EXPECT_EQ(ring.max_chunk(), ring.rows() + pinned);
    for (int step = 0; step < 80; ++step) {
      if (random() % 4 == 0 && ring.next() > 0) {
        const int64_t to = ring.next() - static_cast<int64_t>(random() % (2 * chunk + 2));
        if (ring.CanRollBack(to)) {
          ring.RollBack(to);
          naive.RollBack(to);
        }
      } else {
        if (random() % 3 == 0) {
          ring.AddMessageStart(ring.next());
          naive.AddStart(ring.next());
        }
        const int64_t first = naive.next(), most = ring.max_chunk();
        ASSERT_GE(most, chunk);
        // Every row of the chunk must find its whole window after the chunk has been written; a larger chunk must not.
        const auto each_finds_its_window = [first](const NaiveRing& after) {
          for (int64_t t = first; t < after.next(); ++t) {
            if (!after.HoldsAllFor(t)) return false;
          }
          return true;
        };
        NaiveRing beyond = naive;
        beyond.Append(most + 1);
        ASSERT_FALSE(each_finds_its_window(beyond)) << first;
        const int64_t n = 1 + static_cast<int64_t>(random() % (random() % 2 == 0 ? most : chunk));
        EXPECT_EQ(ring.Append(n), first);
        naive.Append(n);
        ASSERT_TRUE(each_finds_its_window(naive)) << first;
        ASSERT_TRUE(ring.CanRollBack(first));
      }
      ASSERT_EQ(ring.next(), naive.next());
      for (int64_t t = std::max<int64_t>(0, ring.next() - 2 * memory_len); t <= ring.next(); ++t) {
        ASSERT_EQ(ring.FirstLive(t), naive.FirstLive(t)) << t;
      }
      // A permitted rollback is always safe, whatever was rolled back before.
      for (int64_t to = 0; to <= ring.next(); ++to) {
        if (ring.CanRollBack(to) && to > pinned) {
          ASSERT_TRUE(naive.HoldsAllFor(to)) << to << " of " << ring.next();
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, RingWalk,
                         testing::Combine(testing::Values(0, 1, 4, 7), testing::Values(8, 16, 33),
                                          testing::Values(1, 2, 7, 16),
                                          testing::Values(Eviction::kTurn, Eviction::kToken)));

TEST(Ring, PresentTokensStayLiveUntilMemoryLenIsFull) {
  Ring ring({4, 100, Eviction::kToken}, 100);
  EXPECT_EQ(ring.FirstLive(0), 4);
  EXPECT_EQ(ring.FirstLive(103), 4);
  EXPECT_EQ(ring.FirstLive(104), 5);
  EXPECT_EQ(ring.EvictedAt(103), 0);
  EXPECT_EQ(ring.EvictedAt(110), 7);
}

TEST(Ring, PinnedQueryKeepsItsDistanceInTheCache) {
  Ring ring({4, 100, Eviction::kToken}, 100);
  EXPECT_EQ(ring.PinnedQueryPosition(2), 2);
  EXPECT_EQ(ring.PinnedQueryPosition(103), 103);   // nothing evicted: the true position
  EXPECT_EQ(ring.PinnedQueryPosition(5000), 103);  // S + memory_len - 1 from here on
}

TEST(Ring, TurnEvictionOpensTheWindowAtAMessageWithinAQuarter) {
  Ring ring({0, 100, Eviction::kTurn}, 100);
  ring.AddMessageStart(0);
  ring.AddMessageStart(60);
  EXPECT_EQ(ring.FirstLive(100), 1);   // 60 is more than 25 tokens later
  EXPECT_EQ(ring.FirstLive(134), 60);  // 35 + 25
  EXPECT_EQ(ring.FirstLive(159), 60);  // exactly memory_len
  EXPECT_EQ(ring.FirstLive(160), 61);
}

TEST(Ring, MessageStartsAfterTheQueryDoNotMoveIt) {
  Ring with({0, 8, Eviction::kTurn}, 16), without({0, 8, Eviction::kTurn}, 16);
  with.AddMessageStart(12);
  for (int64_t t = 0; t < 12; ++t) EXPECT_EQ(with.FirstLive(t), without.FirstLive(t)) << t;
}

TEST(Ring, RollBackRemembersTheHighWaterMark) {
  // A spare of 4 rows: measured from the current end, a second rollback would wrongly seem free.
  Ring ring({0, 8, Eviction::kToken}, 12);
  for (int i = 0; i < 10; ++i) ring.Append(4);  // next = 40, rows 28 .. 39 are present
  ASSERT_TRUE(ring.CanRollBack(36));
  ring.RollBack(36);
  EXPECT_EQ(ring.resident(), 28);
  EXPECT_FALSE(ring.CanRollBack(34));  // would need row 27
  EXPECT_TRUE(ring.CanRollBack(35));
}

TEST(Ring, RollBackIntoThePinnedPrefixRestarts) {
  Ring ring({4, 8, Eviction::kToken}, 12);
  for (int i = 0; i < 10; ++i) ring.Append(4);
  EXPECT_FALSE(ring.CanRollBack(10));
  ring.RollBack(4);
  EXPECT_EQ(ring.resident(), 4);
  ring.Append(5);
  EXPECT_TRUE(ring.CanRollBack(6));
}

TEST(Ring, SkipToContinuesAfterTheGap) {
  Ring ring({4, 8, Eviction::kToken}, 12);
  ring.Append(4);
  ring.SkipTo(1000);
  EXPECT_EQ(ring.Append(5), 1000);
  EXPECT_FALSE(ring.CanRollBack(1003));  // would attend to rows that never existed
  EXPECT_TRUE(ring.CanRollBack(4));
}

}  // namespace
}  // namespace ringside
