// Saving all caches to a slow disk: most recently used first, several at a time, and the remaining ones are reported.
#include <gtest/gtest.h>

#include <algorithm>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/cache/store/held_disk.h"
#include "tests/engine/tiers/engine_tiers.h"

namespace ringside {
namespace {

class EngineSaveAllTest : public EngineTiersTest {
 protected:
  static constexpr int kSlots = 16;

  void StartOnSlowDisk(int64_t host_bytes) {
    tiers_ =
        std::make_unique<TieredStore>(std::make_unique<RamStore>(host_bytes), std::make_unique<HeldDisk>(disk_),
                                      TieredStoreOptions{.sweep_ms = 0, .batch_bytes = 0, .least_waiting_bytes = 0});
    Start({.slots = kSlots}, {.tiers = tiers_.get(), .idle_ms = 3'600'000, .fetch_deadline_ms = kMinute});
    for (TimelineId timeline = 1; timeline <= kSlots; ++timeline) Say(timeline);
  }
  void TearDown() override {
    disk_->LetAllThrough();
    engine_.reset();
    tiers_.reset();
  }
  std::future<Status> SaveAll() {
    const auto told = std::make_shared<std::promise<Status>>();
    engine_->SaveAll([told](const Status& status) { told->set_value(status); });
    return told->get_future();
  }

  const std::shared_ptr<HeldDisk::Gate> disk_ = std::make_shared<HeldDisk::Gate>();
};

INSTANTIATE_TEST_SUITE_P(Ahead, EngineSaveAllTest, ::testing::Bool());

TEST_P(EngineSaveAllTest, SavesMostRecentlyUsedFirst) {
  StartOnSlowDisk(/*host_bytes=*/1 << 20);
  std::future<Status> saved = SaveAll();
  std::vector<std::string> first = disk_->WaitForPuts(TieredStore::kWriters);
  std::ranges::sort(first);
  EXPECT_EQ(first, (std::vector<std::string>{Owner(13), Owner(14), Owner(15), Owner(16)}));
  for (TimelineId timeline = 12; timeline >= 1; --timeline) {
    disk_->LetThrough(1);
    EXPECT_EQ(disk_->WaitForPuts(kSlots + 1 - timeline).back(), Owner(timeline));
  }
  disk_->LetAllThrough();
  EXPECT_TRUE(saved.get().ok());
  EXPECT_EQ(tiers_->unsaved().caches, 0);
  EXPECT_EQ(tiers_->stats().disk_objects, kSlots);
}

TEST_P(EngineSaveAllTest, ReportsRemainingWork) {
  StartOnSlowDisk(/*host_bytes=*/1 << 20);
  std::future<Status> saved = SaveAll();
  // Eight are in flight; the others are still in their slots.
  while (engine_->stats().unsaved != kSlots - 2 * TieredStore::kWriters) std::this_thread::yield();
  EXPECT_GT(engine_->stats().unsaved_bytes, 0);
  (void)disk_->WaitForPuts(TieredStore::kWriters);
  EXPECT_EQ(tiers_->unsaved().caches, 2 * TieredStore::kWriters);
  EXPECT_EQ(saved.wait_for(std::chrono::seconds(0)), std::future_status::timeout);
  disk_->LetAllThrough();
  EXPECT_TRUE(saved.get().ok());
  EXPECT_EQ(engine_->stats().unsaved, 0);
}

TEST_P(EngineSaveAllTest, SavesOneByOneWithoutHostMemory) {
  StartOnSlowDisk(/*host_bytes=*/64);
  disk_->LetAllThrough();
  EXPECT_TRUE(SaveAll().get().ok());
  EXPECT_EQ(tiers_->stats().disk_objects, kSlots);
  EXPECT_EQ(tiers_->stats().dropped, 0u);
}

TEST_P(EngineSaveAllTest, ReportsAnEngineThatStopsMeanwhile) {
  StartOnSlowDisk(/*host_bytes=*/1 << 20);
  std::future<Status> saved = SaveAll();
  (void)disk_->WaitForPuts(1);
  engine_.reset();
  disk_->LetAllThrough();
  EXPECT_EQ(saved.get().code(), StatusCode::kUnavailable);
}

}  // namespace
}  // namespace ringside
