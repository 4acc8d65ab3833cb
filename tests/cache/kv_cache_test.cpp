#include "cache/kv_cache.h"

#include <gtest/gtest.h>

#include <cstddef>

#include "cache/kv_pool.h"

namespace ringside {
namespace {

// At every position of two turns of the ring, drafts of the allowed length can be dropped again, and one row more
// could not.
TEST(KvCache, RetractableRowsCanBeRolledBack) {
  for (const bool recurrent : {false, true}) {
    KvShape shape = MakeKvShape(1, 1, 2, DType::kF32, 8, 100, 20);
    if (recurrent) shape.state = {.layers = 1, .boundary_bytes = 16, .tail_row_bytes = 8, .slots = 3};
    for (const Eviction eviction : {Eviction::kTurn, Eviction::kToken}) {
      KvCache cache(shape, nullptr);
      cache.Reset({4, 100, eviction});
      std::vector<StateWrite> writes;
      cache.Append(6, &writes);
      for (int64_t next = 6; next < 300; ++next) {
        if (next % 37 == 0) cache.ring().AddMessageStart(next);
        const int64_t drafts = cache.retractable_rows();
        if (!recurrent) {
          ASSERT_GE(drafts, 19) << next;
        }
        if (recurrent) {
          ASSERT_LT(next % StateShape::kChunk + drafts, StateShape::kChunk) << next;
        }
        ASSERT_LE(1 + drafts, cache.ring().max_chunk());
        cache.Append(1 + drafts, &writes);
        for (int64_t kept = next + 1; kept <= next + 1 + drafts; ++kept) ASSERT_TRUE(cache.CanRollBack(kept)) << kept;
        cache.RollBack(next + 1);
      }
    }
  }
}

TEST(KvCache, ReplaysAndBranchesRetractNothing) {
  const KvShape shape = MakeKvShape(1, 1, 2, DType::kF32, 8, 100, 20);
  std::byte slab{};  // not accessed
  KvCache cache(shape, &slab), branch(shape, nullptr);
  cache.Reset({4, 100, Eviction::kToken});
  std::vector<StateWrite> writes;
  cache.Append(4, &writes);
  branch.Reset({4, 100, Eviction::kToken});
  branch.BranchOff(cache, 4);
  EXPECT_EQ(branch.retractable_rows(), 0);
  cache.ring().SkipTo(500);  // rows that the next tokens would see were never computed
  cache.Append(1, &writes);
  EXPECT_EQ(cache.retractable_rows(), 0);
}

}  // namespace
}  // namespace ringside
