// Tiers without threads, as in a simulation: all work runs where the test requests it.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "cache/store/ram_store.h"
#include "cache/store/tiered_store.h"
#include "tests/cache/snapshot_cache.h"

namespace ringside {
namespace {

class TieredQueuedTest : public SnapshotCacheTest {};

TEST_F(TieredQueuedTest, RunsCallsInOrderOnTheGivenThread) {
  constexpr int64_t kRoom = 1 << 30;
  ManualClock clock;
  std::vector<std::string> told;
  const auto tell = [&](const char* what) { return [&told, what](const Status&) { told.emplace_back(what); }; };
  KvCache& cache = Fresh(0, {4, 40, Eviction::kTurn});
  Grow(cache, 60);
  {
    TieredStore tiers(std::make_unique<RamStore>(kRoom, clock), std::make_unique<RamStore>(kRoom, clock),
                      {.host_idle_ms = 1000, .own_threads = false}, clock);
    ASSERT_TRUE(tiers.Store("a", Capture(cache), tell("stored")).ok());
    tiers.Fork("a", "b", tell("forked"));
    EXPECT_TRUE(told.empty());
    tiers.RunQueued();
    EXPECT_EQ(told, (std::vector<std::string>{"stored", "forked"}));
    clock.AdvanceMs(2000);
    tiers.Sweep();
    EXPECT_EQ(tiers.stats().demoted, 2u);
    tiers.Fetch("b", [&](Result<FetchedSnapshot> fetched) {
      ASSERT_TRUE(fetched.ok());
      EXPECT_EQ(fetched->tier, StorageTier::kDisk);
      tell("fetched")(Status::Ok());
    });
    tiers.Erase("a", tell("erased"));
    tiers.RunQueued();
    EXPECT_EQ(told, (std::vector<std::string>{"stored", "forked", "fetched", "erased"}));
    EXPECT_FALSE(tiers.Find("a").has_value());
    told.clear();
    tiers.Flush(tell("flushed"));
  }
  EXPECT_EQ(told, std::vector<std::string>{"flushed"}) << "whoever asked is told at the end";
}

}  // namespace
}  // namespace ringside
