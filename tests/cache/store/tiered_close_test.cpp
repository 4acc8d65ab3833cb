// Closing the tiers while the disk is slow: moves between tiers are abandoned.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>

#include "cache/store/ram_store.h"
#include "cache/store/tiered_store.h"
#include "tests/cache/snapshot_cache.h"
#include "tests/cache/store/held_disk.h"

namespace ringside {
namespace {

class TieredCloseTest : public SnapshotCacheTest {};

TEST_F(TieredCloseTest, WaitsForTheRunningPutAndStartsNoOther) {
  KvCache& cache = Fresh(0, {1, 32});
  Grow(cache, 40);
  const int64_t bytes = Capture(cache).chunk_bytes();
  const auto gate = std::make_shared<HeldDisk::Gate>();
  std::atomic<int> told{0};
  auto tiers = std::make_unique<TieredStore>(std::make_unique<RamStore>(bytes + bytes / 2),
                                             std::make_unique<HeldDisk>(gate), TieredStoreOptions{.sweep_ms = 0});
  constexpr int kOwners = 20;  // memory has room for one
  for (int i = 0; i < kOwners; ++i) {
    ASSERT_TRUE(tiers->Store(std::to_string(i), Capture(cache), [&](const Status&) { ++told; }).ok());
  }
  gate->WaitForPut();
  std::thread closing([&] { tiers.reset(); });
  // Closing has started once the destructor has dropped pending requests, which is not observable; wait a moment. Too
  // short a wait can only let more puts start and fail the test.
  std::this_thread::sleep_for(std::chrono::seconds(1));
  gate->LetAllThrough();
  closing.join();
  EXPECT_EQ(told, kOwners);
  EXPECT_LE(gate->puts(), 2);  // the put in progress, and at most one that it triggered
}

}  // namespace
}  // namespace ringside
