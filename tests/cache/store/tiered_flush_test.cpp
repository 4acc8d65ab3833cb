// Before a restart: objects in memory are flushed to a slow disk in batches, most recently used first, and the
// remaining ones are reported.
#include <gtest/gtest.h>

#include <algorithm>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "cache/store/ram_store.h"
#include "cache/store/tiered_store.h"
#include "tests/cache/snapshot_cache.h"
#include "tests/cache/store/held_disk.h"

namespace ringside {
namespace {

class TieredFlushTest : public SnapshotCacheTest {
 protected:
  static constexpr int kOwners = 8;

  /// Memory holds the saves of "0" to "7", in that order.
  void Open(int64_t disk_budget = int64_t{1} << 40, int64_t batch_bytes = 0) {
    tiers_ = std::make_unique<TieredStore>(std::make_unique<RamStore>(1 << 24),
                                           std::make_unique<HeldDisk>(gate_, disk_budget),
                                           TieredStoreOptions{.sweep_ms = 0, .batch_bytes = batch_bytes});
    for (int i = 0; i < kOwners; ++i) {
      std::promise<void> stored;
      ASSERT_TRUE(
          tiers_->Store(std::to_string(i), Capture(*caches_[0]), [&](const Status&) { stored.set_value(); }).ok());
      stored.get_future().wait();
    }
  }
  void SetUp() override {
    Grow(Fresh(0, {1, 32}), 40);
    bytes_ = Capture(*caches_[0]).chunk_bytes();
  }
  void TearDown() override {
    gate_->LetAllThrough();
    gate_->LetStoredReturn();
    tiers_.reset();
  }
  std::future<Status> Flush() {
    const auto told = std::make_shared<std::promise<Status>>();
    tiers_->Flush([told](const Status& status) { told->set_value(status); });
    return told->get_future();
  }
  std::vector<std::string> Begun(size_t n) {
    std::vector<std::string> owners = gate_->WaitForPuts(n);
    EXPECT_EQ(owners.size(), n);
    return owners;
  }

  int64_t bytes_ = 0;
  const std::shared_ptr<HeldDisk::Gate> gate_ = std::make_shared<HeldDisk::Gate>();
  std::unique_ptr<TieredStore> tiers_;
};

TEST_F(TieredFlushTest, WritesMostRecentlyUsedFirstFourAtATime) {
  Open();
  EXPECT_EQ(tiers_->unsaved().caches, kOwners);
  EXPECT_EQ(tiers_->unsaved().bytes, tiers_->stats().host_bytes);
  std::future<Status> flushed = Flush();
  std::vector<std::string> first = Begun(TieredStore::kWriters);
  std::ranges::sort(first);
  EXPECT_EQ(first, (std::vector<std::string>{"4", "5", "6", "7"}));
  for (int i = 3; i >= 0; --i) {
    gate_->LetThrough(1);
    EXPECT_EQ(Begun(static_cast<size_t>(kOwners - i)).back(), std::to_string(i));
  }
  EXPECT_EQ(tiers_->unsaved().caches, TieredStore::kWriters);
  EXPECT_EQ(flushed.wait_for(std::chrono::seconds(0)), std::future_status::timeout);
  gate_->LetAllThrough();
  EXPECT_TRUE(flushed.get().ok());
  EXPECT_EQ(tiers_->unsaved().caches, 0);
  EXPECT_EQ(tiers_->unsaved().bytes, 0);
  EXPECT_EQ(tiers_->stats().disk_objects, kOwners);
}

TEST_F(TieredFlushTest, WritesRequestedObjectsFirst) {
  Open();
  std::future<Status> flushed = Flush();
  (void)Begun(TieredStore::kWriters);
  std::promise<Status> saved;
  const int64_t room = tiers_->saving_room();
  tiers_->SaveToDisk("0", [&](const Status& status) { saved.set_value(status); });
  EXPECT_LE(tiers_->saving_room(), room - bytes_);
  // The request is processed once the answering thread has reached it.
  std::promise<void> answered;
  tiers_->Fetch("nobody", [&](const auto&) { answered.set_value(); });
  answered.get_future().wait();
  gate_->LetThrough(1);
  EXPECT_EQ(Begun(TieredStore::kWriters + 1).back(), "0");
  gate_->LetAllThrough();
  EXPECT_TRUE(saved.get_future().get().ok());
  EXPECT_TRUE(flushed.get().ok());
  EXPECT_EQ(tiers_->saving_room(), room);
  EXPECT_EQ(gate_->puts(), kOwners) << "each once";
}

TEST_F(TieredFlushTest, FullDiskKeepsMostRecentlyUsed) {
  Open(/*disk_budget=*/3 * (bytes_ + bytes_ / 2));
  gate_->LetAllThrough();
  EXPECT_EQ(Flush().get().code(), StatusCode::kOverloaded);
  const TieredStore::Unsaved unsaved = tiers_->unsaved();
  EXPECT_EQ(unsaved.caches, kOwners - tiers_->stats().disk_objects);
  EXPECT_GE(unsaved.bytes, unsaved.caches * bytes_);
  EXPECT_GE(tiers_->stats().disk_objects, 3);
  EXPECT_EQ(tiers_->stats().dropped, 0u) << "none went for another";
  EXPECT_EQ(tiers_->stats().demoted, static_cast<uint64_t>(tiers_->stats().disk_objects));
}

TEST_F(TieredFlushTest, DoesNotEvictFreshlyWrittenObjects) {
  Open(/*disk_budget=*/bytes_ + bytes_ / 2);
  gate_->HoldWhatIsStored();
  gate_->LetAllThrough();
  std::future<Status> flushed = Flush();
  // One of the first puts has landed; the fifth starts after another one has found no room.
  (void)gate_->WaitForPuts(TieredStore::kWriters + 1);
  gate_->LetStoredReturn();
  EXPECT_EQ(flushed.get().code(), StatusCode::kOverloaded);
  EXPECT_EQ(tiers_->stats().dropped, 0u);
  EXPECT_EQ(tiers_->stats().disk_objects, 1);
  EXPECT_EQ(tiers_->unsaved().caches, kOwners - 1);
}

TEST_F(TieredFlushTest, BatchesSmallWrites) {
  Open(int64_t{1} << 40, /*batch_bytes=*/int64_t{1} << 20);
  gate_->LetAllThrough();
  EXPECT_TRUE(Flush().get().ok());
  EXPECT_EQ(gate_->batches(), (std::vector<size_t>{kOwners}));
  EXPECT_EQ(Begun(kOwners), (std::vector<std::string>{"7", "6", "5", "4", "3", "2", "1", "0"}));
  EXPECT_EQ(tiers_->unsaved().caches, 0);
  EXPECT_EQ(tiers_->stats().demoted, static_cast<uint64_t>(kOwners));
  EXPECT_TRUE(Flush().get().ok());
  EXPECT_EQ(gate_->puts(), kOwners) << "each once";
}

TEST_F(TieredFlushTest, BatchSizeIsBounded) {
  Open(int64_t{1} << 40, /*batch_bytes=*/2 * bytes_);
  gate_->LetAllThrough();
  EXPECT_TRUE(Flush().get().ok());
  const std::vector<size_t> batches = gate_->batches();
  EXPECT_EQ(batches.size(), static_cast<size_t>(kOwners / 2));
  for (const size_t size : batches) EXPECT_LE(size, 2U);
}

TEST_F(TieredFlushTest, OverfullBatchKeepsMostRecentlyUsed) {
  Open(/*disk_budget=*/3 * (bytes_ + bytes_ / 2), /*batch_bytes=*/int64_t{1} << 20);
  gate_->LetAllThrough();
  EXPECT_EQ(Flush().get().code(), StatusCode::kOverloaded);
  EXPECT_GE(tiers_->stats().disk_objects, 3);
  EXPECT_EQ(tiers_->stats().dropped, 0u) << "none went for another";
  EXPECT_EQ(tiers_->unsaved().caches, kOwners - tiers_->stats().disk_objects);
  tiers_->Fetch("7", [](const Result<FetchedSnapshot>& fetched) { EXPECT_TRUE(fetched.ok()); });
}

TEST_F(TieredFlushTest, PredictsWhatWouldBeKept) {
  constexpr int64_t kHost = 1 << 24, kDisk = 1 << 29;
  Open(kDisk);
  // New snapshots displace stored ones, but not each other.
  EXPECT_TRUE(tiers_->WouldKeep("new", kHost, 0));
  EXPECT_TRUE(tiers_->WouldKeep("new", kHost / 2, kHost / 2));
  EXPECT_TRUE(tiers_->WouldKeep("new", kHost / 2 + 1, kHost / 2)) << "it may wait for the disk";
  EXPECT_FALSE(tiers_->WouldKeep("ram_new", kHost / 2 + 1, kHost / 2));
  // A snapshot too large for memory is kept on disk only.
  EXPECT_TRUE(tiers_->WouldKeep("new", kDisk, 0));
  EXPECT_FALSE(tiers_->WouldKeep("new", kDisk, 1));
  EXPECT_FALSE(tiers_->WouldKeep("new", kDisk + 1, 0));
  EXPECT_FALSE(tiers_->WouldKeep("ram_new", kHost + 1, 0)) << "the disk has none of these";
}

TEST_F(TieredFlushTest, WithoutMemoryTheDiskKeepsObjectsThatCanWait) {
  TieredStore direct(std::make_unique<RamStore>(0), std::make_unique<RamStore>(1 << 20),
                     {.sweep_ms = 0, .least_waiting_bytes = 1000});
  EXPECT_TRUE(direct.WouldKeep("a", 400, 600));
  EXPECT_FALSE(direct.WouldKeep("a", 401, 600));
  EXPECT_TRUE(direct.WouldKeep("a", 5000, 0));
  TieredStore none(std::make_unique<RamStore>(0), nullptr, {.sweep_ms = 0});
  EXPECT_FALSE(none.WouldKeep("a", 1, 0));
}

TEST_F(TieredFlushTest, CloseWaitsForRunningPutsAndStartsNoOther) {
  Open();
  std::future<Status> flushed = Flush();
  (void)Begun(TieredStore::kWriters);
  std::thread closing([&] { tiers_.reset(); });
  // Closing has started by then; otherwise more puts start and the test fails.
  std::this_thread::sleep_for(std::chrono::seconds(1));
  gate_->LetAllThrough();
  closing.join();
  EXPECT_EQ(flushed.get().code(), StatusCode::kUnavailable);
  EXPECT_EQ(gate_->puts(), TieredStore::kWriters);
}

}  // namespace
}  // namespace ringside
