// The tier policy: placement, eviction order, restores, and that a restored snapshot equals the stored one.
#include "cache/store/tiered_store.h"

#include <gtest/gtest.h>

#include <future>

#include "cache/store/ram_store.h"
#include "cache/store/rocksdb_store.h"
#include "tests/cache/snapshot_cache.h"
#include "tests/cache/store/store_folder.h"

namespace ringside {
namespace {

class TieredStoreTest : public SnapshotCacheTest {
 protected:
  // A snapshot of 100 tokens has about 43 KB.
  void Open(int64_t host_bytes, int64_t disk_bytes, bool with_disk = true) {
    tiers_.reset();
    std::unique_ptr<Store> disk;
    if (with_disk) {
      auto store = RocksDbStore::Open(
          {.path = folder_.path() / "data", .budget_bytes = disk_bytes, .min_free_bytes = 0}, clock_);
      ASSERT_TRUE(store.ok()) << store.status().ToString();
      disk = std::move(*store);
    }
    tiers_ = std::make_unique<TieredStore>(
        std::make_unique<RamStore>(host_bytes, clock_), std::move(disk),
        TieredStoreOptions{.host_idle_ms = 1000, .disk_idle_ms = 10'000, .sweep_ms = 0}, clock_);
  }
  /// A conversation of n tokens, in cache 0.
  KvCache& Talk(int64_t n) {
    KvCache& cache = Fresh(0, {4, 40, Eviction::kTurn});
    RollBack(cache, 0);  // rows that differ from the last conversation's
    Grow(cache, n);
    return cache;
  }
  Status Put(const std::string& owner, Snapshot snapshot) {
    std::promise<Status> told;
    const Status accepted =
        tiers_->Store(owner, std::move(snapshot), [&](const Status& status) { told.set_value(status); });
    return accepted.ok() ? told.get_future().get() : accepted;
  }
  Result<FetchedSnapshot> Get(const std::string& owner) {
    std::promise<Result<FetchedSnapshot>> told;
    tiers_->Fetch(owner, [&](Result<FetchedSnapshot> fetched) { told.set_value(std::move(fetched)); });
    return told.get_future().get();
  }
  template <class Call>
  static Status Wait(const Call& call) {
    std::promise<Status> told;
    call([&](const Status& status) { told.set_value(status); });
    return told.get_future().get();
  }
  Status Erase(const std::string& owner) {
    return Wait([&](auto done) { tiers_->Erase(owner, done); });
  }
  Status Flush() {
    return Wait([&](auto done) { tiers_->Flush(done); });
  }
  void ExpectRestores(const std::string& owner, const KvCache& cache, StorageTier tier) {
    const auto fetched = Get(owner);
    ASSERT_TRUE(fetched.ok()) << fetched.status().ToString();
    EXPECT_EQ(fetched->tier, tier);
    KvCache& restored = Fresh(1, {0, 1, Eviction::kToken});
    Scribble(restored);
    ASSERT_TRUE(fetched->snapshot.Restore(restored, *backend_, proof_).ok());
    ExpectSame(cache, restored);
  }

  Folder folder_;
  ManualClock clock_;
  std::unique_ptr<TieredStore> tiers_;
};

constexpr int64_t kRoom = 1 << 30;

TEST_F(TieredStoreTest, RestoresFromMemoryFromDiskAndAfterARestart) {
  Open(kRoom, kRoom);
  KvCache& cache = Talk(150);
  ASSERT_TRUE(Put("a", Capture(cache)).ok());
  EXPECT_EQ(tiers_->Find("a")->tier, StorageTier::kHost);
  ExpectRestores("a", cache, StorageTier::kHost);
  clock_.AdvanceMs(1001);
  tiers_->Sweep();
  EXPECT_EQ(tiers_->Find("a")->tier, StorageTier::kDisk);
  EXPECT_EQ(tiers_->stats().host_bytes, 0);
  ExpectRestores("a", cache, StorageTier::kDisk);
  ExpectRestores("a", cache, StorageTier::kHost);  // kept as the base of the next save
  Open(kRoom, kRoom);
  ExpectRestores("a", cache, StorageTier::kDisk);
  const TieredStoreStats stats = tiers_->stats();
  EXPECT_EQ(stats.disk_hits, 1u);
  EXPECT_EQ(stats.damaged, 0u);
  EXPECT_GT(stats.disk_read_bytes_per_second, 0);
  EXPECT_EQ(Get("b").status().code(), StatusCode::kNotFound);
}

TEST_F(TieredStoreTest, OnlyFlushedMemorySurvivesARestart) {
  Open(kRoom, kRoom);
  KvCache& cache = Talk(90);
  ASSERT_TRUE(Put("a", Capture(cache)).ok());
  ASSERT_TRUE(Flush().ok());
  EXPECT_EQ(tiers_->Find("a")->tier, StorageTier::kHost);  // and it stays in memory
  ASSERT_TRUE(Put("b", Capture(cache)).ok());
  Open(kRoom, kRoom);
  ExpectRestores("a", cache, StorageTier::kDisk);
  EXPECT_EQ(Get("b").status().code(), StatusCode::kNotFound);
}

TEST_F(TieredStoreTest, IncrementalSaveWritesOnlyChangedChunks) {
  Open(kRoom, kRoom);
  KvCache& cache = Talk(60);
  ASSERT_TRUE(Put("a", Capture(cache)).ok());
  const uint64_t first = tiers_->stats().stored_bytes;
  ASSERT_TRUE(Flush().ok());
  auto base = tiers_->Base("a");
  ASSERT_TRUE(base.has_value());
  Snapshot same = Capture(cache, &*base);
  ASSERT_TRUE(Put("a", std::move(same)).ok());
  EXPECT_EQ(tiers_->stats().stored_bytes, first);
  Grow(cache, 5);
  base = tiers_->Base("a");
  ASSERT_TRUE(Put("a", Capture(cache, &*base)).ok());
  EXPECT_LT(tiers_->stats().stored_bytes - first, first);
  ExpectRestores("a", cache, StorageTier::kHost);
  ASSERT_TRUE(Flush().ok());
  Open(kRoom, kRoom);
  ExpectRestores("a", cache, StorageTier::kDisk);
}

TEST_F(TieredStoreTest, NewestPutWinsOverPendingOnes) {
  Open(kRoom, kRoom);
  KvCache& cache = Talk(20);
  for (int i = 0; i < 50; ++i) {
    Grow(cache, 1);
    const auto base = tiers_->Base("a");
    ASSERT_TRUE(tiers_->Store("a", Capture(cache, base ? &*base : nullptr), nullptr).ok());
    if (i % 5 == 0) ExpectRestores("a", cache, StorageTier::kHost);
  }
  ASSERT_TRUE(Flush().ok());
  Open(kRoom, kRoom);
  ExpectRestores("a", cache, StorageTier::kDisk);
}

TEST_F(TieredStoreTest, PressureMovesLeastRecentlyUsedToDisk) {
  KvCache& cache = Talk(100);
  const int64_t size = Capture(cache).chunk_bytes();
  Open(size * 7 / 2, kRoom);
  for (const char* owner : {"a", "b", "c"}) {
    ASSERT_TRUE(Put(owner, Capture(cache)).ok());
    clock_.AdvanceMs(1);
  }
  ASSERT_TRUE(Get("a").ok());
  ASSERT_TRUE(Put("d", Capture(cache)).ok());
  EXPECT_EQ(tiers_->Find("a")->tier, StorageTier::kHost);
  EXPECT_EQ(tiers_->Find("b")->tier, StorageTier::kDisk);
  EXPECT_EQ(tiers_->Find("c")->tier, StorageTier::kHost);
  EXPECT_EQ(tiers_->Find("d")->tier, StorageTier::kHost);
  for (const char* owner : {"a", "b", "c", "d"}) EXPECT_TRUE(Get(owner).ok());
  EXPECT_LE(tiers_->stats().host_bytes, size * 7 / 2);
  EXPECT_EQ(tiers_->stats().dropped, 0u);
}

TEST_F(TieredStoreTest, MemoryHitsDoNotWaitForTheStorageThread) {
  KvCache& cache = Talk(100);
  Open(kRoom, kRoom);
  ASSERT_TRUE(Put("a", Capture(cache)).ok());
  const auto busy = std::make_shared<std::promise<void>>(), go_on = std::make_shared<std::promise<void>>();
  const auto block = [busy, gate = go_on->get_future().share()](const Status&) {
    busy->set_value();
    gate.wait();
  };
  ASSERT_TRUE(tiers_->Store("b", Capture(cache), block).ok());
  busy->get_future().wait();
  ASSERT_TRUE(tiers_->Store("c", Capture(cache), nullptr).ok());  // queued after "b"
  for (const char* owner : {"a", "b", "c"}) {
    bool answered = false;
    tiers_->Fetch(owner, [&](Result<FetchedSnapshot> fetched) {
      answered = true;
      ASSERT_TRUE(fetched.ok()) << fetched.status().ToString();
      EXPECT_EQ(fetched->tier, StorageTier::kHost);
    });
    EXPECT_TRUE(answered) << owner;
  }
  go_on->set_value();
  ExpectRestores("c", cache, StorageTier::kHost);
}

TEST_F(TieredStoreTest, EvictsObjectsHeldInSlotsFirstWithoutACopy) {
  KvCache& cache = Talk(100);
  const int64_t size = Capture(cache).chunk_bytes();
  for (const bool with_disk : {false, true}) {
    Open(size * 7 / 2, kRoom, with_disk);
    tiers_->SetInSlot("b", true);
    for (const char* owner : {"a", "b", "c", "d"}) ASSERT_TRUE(Put(owner, Capture(cache)).ok());
    EXPECT_FALSE(tiers_->Find("b").has_value());
    tiers_->SetInSlot("c", true);
    ASSERT_TRUE(Put("b", Capture(cache)).ok());  // resident in a slot, but newer
    EXPECT_FALSE(tiers_->Find("c").has_value());
    tiers_->SetInSlot("b", false);
    for (const char* owner : {"a", "b", "d"}) ExpectRestores(owner, cache, StorageTier::kHost);
    EXPECT_EQ(tiers_->stats().dropped, 0u);
    EXPECT_EQ(tiers_->stats().demoted, 0u);
    ASSERT_TRUE(Put("c", Capture(cache)).ok());  // none is spare: the oldest is dropped
    EXPECT_EQ(tiers_->Find("a").has_value(), with_disk);
    EXPECT_EQ(tiers_->stats().dropped, with_disk ? 0u : 1u);
    for (const char* owner : {"a", "b", "c", "d"}) ASSERT_TRUE(Erase(owner).ok());
  }
}

TEST_F(TieredStoreTest, SweepDropsObjectsHeldInSlotsBeforeWriting) {
  KvCache& cache = Talk(100);
  const int64_t size = Capture(cache).chunk_bytes();
  Open(size * 21 / 2, kRoom);
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(Put("s" + std::to_string(i), Capture(cache)).ok());
  for (int i = 6; i < 10; ++i) tiers_->SetInSlot("s" + std::to_string(i), true);
  tiers_->Sweep();
  EXPECT_EQ(tiers_->stats().host_objects, 8);
  EXPECT_EQ(tiers_->stats().disk_objects, 0);
  for (int i = 0; i < 6; ++i) EXPECT_TRUE(tiers_->Find("s" + std::to_string(i)).has_value()) << i;
}

TEST_F(TieredStoreTest, SweepFreesMemoryInAdvance) {
  KvCache& cache = Talk(100);
  const int64_t size = Capture(cache).chunk_bytes();
  Open(size * 21 / 2, kRoom);
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(Put("s" + std::to_string(i), Capture(cache)).ok());
  EXPECT_EQ(tiers_->stats().host_objects, 10);
  tiers_->Sweep();
  EXPECT_LE(tiers_->stats().host_objects, 8);
  EXPECT_EQ(tiers_->stats().host_objects + tiers_->stats().disk_objects, 10);
}

TEST_F(TieredStoreTest, ObjectsTooLargeForMemoryGoToDisk) {
  Open(1000, kRoom);
  KvCache& cache = Talk(100);
  ASSERT_TRUE(Put("a", Capture(cache)).ok());
  EXPECT_EQ(tiers_->stats().host_objects, 0);
  ExpectRestores("a", cache, StorageTier::kDisk);
}

TEST_F(TieredStoreTest, DropsTheOldestWhenEveryTierIsFull) {
  KvCache& cache = Talk(100);
  const int64_t size = Capture(cache).chunk_bytes();
  Open(size * 5 / 4, size * 5 / 4);
  for (const char* owner : {"a", "b", "c"}) {
    ASSERT_TRUE(Put(owner, Capture(cache)).ok()) << owner;
    clock_.AdvanceMs(1);
  }
  EXPECT_FALSE(tiers_->Find("a").has_value());
  EXPECT_EQ(Get("a").status().code(), StatusCode::kNotFound);
  EXPECT_EQ(tiers_->Find("b")->tier, StorageTier::kDisk);
  EXPECT_EQ(tiers_->Find("c")->tier, StorageTier::kHost);
  EXPECT_EQ(tiers_->stats().dropped, 1u);
}

TEST_F(TieredStoreTest, DropsTheOldestWithoutADiskTier) {
  KvCache& cache = Talk(100);
  const int64_t size = Capture(cache).chunk_bytes();
  Open(size * 5 / 2, 0, /*with_disk=*/false);
  for (const char* owner : {"a", "b", "c"}) {
    ASSERT_TRUE(Put(owner, Capture(cache)).ok());
    clock_.AdvanceMs(1);
  }
  EXPECT_EQ(Get("a").status().code(), StatusCode::kNotFound);
  ExpectRestores("b", cache, StorageTier::kHost);
  ExpectRestores("c", cache, StorageTier::kHost);
  clock_.AdvanceMs(5000);
  tiers_->Sweep();
  EXPECT_TRUE(tiers_->Find("b").has_value());  // idle, but there is room and no lower tier
  clock_.AdvanceMs(6000);
  tiers_->Sweep();
  EXPECT_FALSE(tiers_->Find("b").has_value());
  EXPECT_EQ(Put("large", Capture(Talk(0))).code(), StatusCode::kOk);
}

TEST_F(TieredStoreTest, RefusesObjectsThatFitNowhere) {
  Open(1000, 1000);
  EXPECT_EQ(Put("a", Capture(Talk(100))).code(), StatusCode::kOverloaded);
  EXPECT_FALSE(tiers_->Find("a").has_value());
  EXPECT_EQ(tiers_->stats().dropped, 1u);
}

TEST_F(TieredStoreTest, IdleTimesApplyPerTierAndResetOnUse) {
  Open(kRoom, kRoom);
  KvCache& cache = Talk(50);
  ASSERT_TRUE(Put("a", Capture(cache)).ok());
  ASSERT_TRUE(Put("b", Capture(cache)).ok());
  clock_.AdvanceMs(800);
  ASSERT_TRUE(Get("a").ok());
  clock_.AdvanceMs(800);
  tiers_->Sweep();
  EXPECT_EQ(tiers_->Find("a")->tier, StorageTier::kHost);
  EXPECT_EQ(tiers_->Find("b")->tier, StorageTier::kDisk);
  clock_.AdvanceMs(9500);
  tiers_->Sweep();
  EXPECT_EQ(tiers_->Find("a")->tier, StorageTier::kDisk);
  EXPECT_EQ(tiers_->Find("b")->tier, StorageTier::kDisk);
  ASSERT_TRUE(Get("b").ok());
  clock_.AdvanceMs(600);
  tiers_->Sweep();
  EXPECT_TRUE(tiers_->Find("b").has_value());
  clock_.AdvanceMs(12'000);
  tiers_->Sweep();
  EXPECT_FALSE(tiers_->Find("a").has_value());
}

TEST_F(TieredStoreTest, MemoryOnlyObjectsNeverReachTheDisk) {
  KvCache& cache = Talk(100);
  const int64_t size = Capture(cache).chunk_bytes();
  Open(size * 7 / 2, kRoom);
  for (const char* owner : {"ram_a", "b", "ram_c"}) {
    ASSERT_TRUE(Put(owner, Capture(cache)).ok());
    clock_.AdvanceMs(1);
  }
  EXPECT_TRUE(Flush().ok());
  clock_.AdvanceMs(5000);
  tiers_->Sweep();  // idle: others move to disk, these stay
  EXPECT_EQ(tiers_->Find("ram_a")->tier, StorageTier::kHost);
  EXPECT_EQ(tiers_->Find("b")->tier, StorageTier::kDisk);
  ASSERT_TRUE(Put("d", Capture(cache)).ok());
  ASSERT_TRUE(Put("e", Capture(cache)).ok());  // no room: the oldest is dropped, not moved to disk
  EXPECT_FALSE(tiers_->Find("ram_a").has_value());
  ExpectRestores("ram_c", cache, StorageTier::kHost);
  Open(kRoom, kRoom);
  EXPECT_TRUE(tiers_->Find("b").has_value());
  for (const char* owner : {"ram_a", "ram_c"}) EXPECT_FALSE(tiers_->Find(owner).has_value()) << owner;
}

TEST_F(TieredStoreTest, EraseRemovesEveryTrace) {
  Open(kRoom, kRoom);
  KvCache& cache = Talk(100);
  ASSERT_TRUE(Put("a", Capture(cache)).ok());
  ASSERT_TRUE(Put("b", Capture(cache)).ok());
  ASSERT_TRUE(Flush().ok());
  ASSERT_TRUE(Put("c", Capture(cache)).ok());
  for (const char* owner : {"a", "c", "unknown"}) EXPECT_TRUE(Erase(owner).ok());
  EXPECT_EQ(Get("a").status().code(), StatusCode::kNotFound);
  EXPECT_EQ(Get("c").status().code(), StatusCode::kNotFound);
  EXPECT_FALSE(tiers_->Base("a").has_value());
  Open(kRoom, kRoom);
  EXPECT_EQ(Get("a").status().code(), StatusCode::kNotFound);
  ExpectRestores("b", cache, StorageTier::kDisk);
}

TEST_F(TieredStoreTest, EraseOvertakesPendingPuts) {
  Open(kRoom, kRoom);
  KvCache& cache = Talk(100);
  for (int i = 0; i < 20; ++i) {
    const std::string owner = "s" + std::to_string(i);
    ASSERT_TRUE(tiers_->Store(owner, Capture(cache), nullptr).ok());
    if (i % 2 == 0) tiers_->Flush(nullptr);
    tiers_->Erase(owner, nullptr);
    EXPECT_FALSE(tiers_->Find(owner).has_value());
    EXPECT_EQ(Get(owner).status().code(), StatusCode::kNotFound);
  }
  ASSERT_TRUE(Flush().ok());
  EXPECT_EQ(tiers_->stats().host_objects, 0);
  EXPECT_EQ(tiers_->stats().disk_objects, 0);
}

TEST_F(TieredStoreTest, ForkHasTheSameRowsAndItsOwnLifetime) {
  Open(kRoom, kRoom);
  KvCache& cache = Talk(100);
  ASSERT_TRUE(Put("a", Capture(cache)).ok());
  const auto fork = [&](const char* from, const char* to) {
    return Wait([&](auto done) { tiers_->Fork(from, to, done); });
  };
  ASSERT_TRUE(fork("a", "b").ok());
  clock_.AdvanceMs(2000);
  tiers_->Sweep();
  ASSERT_TRUE(fork("a", "c").ok());  // from disk
  EXPECT_EQ(fork("unknown", "d").code(), StatusCode::kNotFound);
  ASSERT_TRUE(Erase("a").ok());
  ExpectRestores("b", cache, StorageTier::kDisk);
  ExpectRestores("c", cache, StorageTier::kHost);
}

TEST_F(TieredStoreTest, ForkIsImmediateAndErasable) {
  Open(kRoom, kRoom);
  KvCache& cache = Talk(100);
  ASSERT_TRUE(Put("memory", Capture(cache)).ok());
  ASSERT_TRUE(Put("disk", Capture(cache)).ok());
  ASSERT_TRUE(Flush().ok());
  Open(kRoom, kRoom);
  ASSERT_TRUE(Put("memory", Capture(cache)).ok());
  for (const std::string from : {"memory", "disk"}) {
    for (int i = 0; i < 20; ++i) {
      const std::string to = from + std::to_string(i);
      tiers_->Fork(from, to, nullptr);
      EXPECT_TRUE(tiers_->Find(to).has_value()) << to;
      if (i % 2 == 0) tiers_->Erase(to, nullptr);
      const Status stored = i % 4 == 0 ? tiers_->Store(to, Capture(cache), nullptr) : Status::Ok();
      ASSERT_TRUE(stored.ok()) << stored.ToString();
    }
    ASSERT_TRUE(Flush().ok());
    for (int i = 0; i < 20; ++i) {
      const std::string to = from + std::to_string(i);
      EXPECT_EQ(tiers_->Find(to).has_value(), i % 4 != 2) << to;
      if (i % 4 != 2) ExpectRestores(to, cache, StorageTier::kHost);
    }
  }
}

TEST_F(TieredStoreTest, PrefetchMovesToMemory) {
  Open(kRoom, kRoom);
  KvCache& cache = Talk(100);
  ASSERT_TRUE(Put("a", Capture(cache)).ok());
  ASSERT_TRUE(Flush().ok());
  Open(kRoom, kRoom);
  tiers_->Prefetch("a");
  tiers_->Prefetch("unknown");
  ExpectRestores("a", cache, StorageTier::kHost);
}

TEST_F(TieredStoreTest, ReconcileErasesUnknownOwners) {
  Open(kRoom, kRoom);
  KvCache& cache = Talk(30);
  for (const char* owner : {"a", "b", "c"}) ASSERT_TRUE(Put(owner, Capture(cache)).ok());
  ASSERT_TRUE(Flush().ok());
  Open(kRoom, kRoom);
  tiers_->Reconcile([](const std::string& owner) { return owner == "b"; });
  EXPECT_FALSE(tiers_->Find("a").has_value());
  EXPECT_FALSE(tiers_->Find("c").has_value());
  ExpectRestores("b", cache, StorageTier::kDisk);
}

TEST_F(TieredStoreTest, EveryCallbackRunsBeforeTheEnd) {
  Open(kRoom, kRoom);
  KvCache& cache = Talk(30);
  std::atomic<int> told{0};
  for (int i = 0; i < 20; ++i) {
    const std::string owner = std::to_string(i);
    ASSERT_TRUE(tiers_->Store(owner, Capture(cache), [&](const Status&) { ++told; }).ok());
    tiers_->Fetch(owner, [&](const Result<FetchedSnapshot>&) { ++told; });
    tiers_->Erase(owner, [&](const Status&) { ++told; });
    tiers_->Fork(owner, owner + "fork", [&](const Status&) { ++told; });
    tiers_->Flush([&](const Status&) { ++told; });
  }
  tiers_.reset();
  EXPECT_EQ(told, 100);
}

}  // namespace
}  // namespace ringside
