// The stores and the policy over them: what is kept where, what goes first, what comes back, and that everything that
// comes back is equal to what was stored.
#include "cache/tiered_store.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <future>
#include <sstream>

#include "cache/ram_store.h"
#include "cache/rocksdb_store.h"
#include "tests/cache/snapshot_cache.h"

namespace ringside {
namespace {

namespace fs = std::filesystem;

Blob MakeBlob(const std::string& text) { return Blob::CopyOf(std::as_bytes(std::span(text))); }
std::string Text(const Blob& blob) { return {reinterpret_cast<const char*>(blob.data()), blob.size()}; }
StorePart Part(const std::string& text) {
  const Blob blob = MakeBlob(text);
  return {HashOf(blob.bytes()), blob};
}
ChunkHash KeyOf(const std::string& text) { return HashOf(std::as_bytes(std::span(text))); }

bool AnyFileHolds(const fs::path& folder, const std::string& text) {
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    std::ostringstream bytes;
    bytes << std::ifstream(entry.path(), std::ios::binary).rdbuf();
    if (bytes.str().find(text) != std::string::npos) return true;
  }
  return false;
}

class Folder {
 public:
  Folder() {
    std::string name = (fs::temp_directory_path() / "tiers_test.XXXXXX").string();
    CHECK(mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  ~Folder() { fs::remove_all(path_); }
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

// ---- both stores: the same contract

class StoreTest : public testing::TestWithParam<bool> {
 protected:
  std::unique_ptr<Store> Make(int64_t budget) {
    if (GetParam()) return std::make_unique<RamStore>(budget, clock_);
    auto store =
        RocksDbStore::Open({.path = folder_.path() / "data", .budget_bytes = budget, .min_free_bytes = 0}, clock_);
    EXPECT_TRUE(store.ok()) << store.status().ToString();
    return store.ok() ? std::move(*store) : nullptr;
  }
  Folder folder_;
  ManualClock clock_;
};

TEST_P(StoreTest, PutReplacesTheWholeObject) {
  auto store = Make(1 << 20);
  ASSERT_TRUE(store->Put("a", {"first", {Part("x"), Part("y"), Part("y")}}).ok());
  EXPECT_EQ(*store->GetManifest("a"), "first");
  EXPECT_EQ(Text(*store->GetPart("a", KeyOf("x"), 1)), "x");
  ASSERT_TRUE(store->Put("b", {"other", {Part("x")}}).ok());
  ASSERT_TRUE(store->Put("a", {"second", {Part("y"), Part("z")}}).ok());
  EXPECT_EQ(*store->GetManifest("a"), "second");
  EXPECT_EQ(Text(*store->GetPart("a", KeyOf("y"), 1)), "y");
  EXPECT_EQ(Text(*store->GetPart("a", KeyOf("z"), 1)), "z");
  EXPECT_EQ(store->GetPart("a", KeyOf("x"), 1).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(Text(*store->GetPart("b", KeyOf("x"), 1)), "x");
  EXPECT_EQ(store->GetPart("b", KeyOf("y"), 1).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(store->GetManifest("c").status().code(), StatusCode::kNotFound);
}

TEST_P(StoreTest, EraseTakesAnObjectAwayAndNoOther) {
  auto store = Make(1 << 20);
  for (const char* owner : {"a", "ab", "b"}) ASSERT_TRUE(store->Put(owner, {owner, {Part(owner)}}).ok());
  ASSERT_TRUE(store->Erase("a").ok());
  ASSERT_TRUE(store->Erase("unknown").ok());
  EXPECT_EQ(store->GetManifest("a").status().code(), StatusCode::kNotFound);
  EXPECT_EQ(store->GetPart("a", KeyOf("a"), 1).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(*store->GetManifest("ab"), "ab");
  EXPECT_EQ(Text(*store->GetPart("ab", KeyOf("ab"), 2)), "ab");
  EXPECT_EQ(*store->GetManifest("b"), "b");
  ASSERT_TRUE(store->Put("a", {"again", {Part("a")}}).ok());
  EXPECT_EQ(Text(*store->GetPart("a", KeyOf("a"), 1)), "a");
}

TEST_P(StoreTest, CountsBytesAndRefusesWhatIsOverTheBudget) {
  auto store = Make(100);
  ASSERT_TRUE(store->Put("a", {"12345", {Part(std::string(40, 'x'))}}).ok());
  EXPECT_EQ(store->index().bytes(), 45);
  EXPECT_EQ(store->Put("b", {"", {Part(std::string(56, 'y'))}}).code(), StatusCode::kOverloaded);
  EXPECT_EQ(store->GetManifest("b").status().code(), StatusCode::kNotFound);
  EXPECT_EQ(store->Put("a", {"", {Part(std::string(101, 'z'))}}).code(), StatusCode::kOverloaded);
  EXPECT_EQ(*store->GetManifest("a"), "12345");  // what was there stays
  ASSERT_TRUE(store->Put("a", {"", {Part(std::string(90, 'z'))}}).ok());
  EXPECT_EQ(store->index().bytes(), 90);
  ASSERT_TRUE(store->Erase("a").ok());
  EXPECT_EQ(store->index().bytes(), 0);
}

TEST_P(StoreTest, KnowsWhoWasUsedLeastRecently) {
  auto store = Make(1 << 20);
  for (const char* owner : {"a", "b", "c"}) {
    ASSERT_TRUE(store->Put(owner, {"m", {}}).ok());
    clock_.AdvanceMs(10);
  }
  EXPECT_EQ(store->index().Oldest(), "a");
  store->index().Touch("a", clock_.MonotonicNs());
  EXPECT_EQ(store->index().Oldest(), "b");
  EXPECT_EQ(store->index().Oldest(int64_t{10} * 1'000'000), std::nullopt);
  EXPECT_EQ(store->index().Oldest(int64_t{10} * 1'000'000 + 1), "b");
  EXPECT_EQ(store->index().Owners(), (std::vector<std::string>{"b", "c", "a"}));
}

TEST_P(StoreTest, WhatIsSpareGoesBeforeWhatWasUsedBeforeIt) {
  auto store = Make(1 << 20);
  StoreIndex& index = store->index();
  EXPECT_EQ(index.FirstToGo(), std::nullopt);
  for (const char* owner : {"a", "b", "c"}) {
    index.SetSpare(owner, true);  // has nothing yet
    ASSERT_TRUE(store->Put(owner, {"m", {}}).ok());
    clock_.AdvanceMs(10);
  }
  EXPECT_EQ(index.FirstToGo(), "a");
  for (const char* owner : {"c", "b", "b"}) index.SetSpare(owner, true);
  EXPECT_EQ(index.FirstToGo(), "c");
  index.Touch("c", clock_.MonotonicNs());
  EXPECT_EQ(index.FirstToGo(), "b");
  EXPECT_EQ(index.Owners(), (std::vector<std::string>{"a", "b", "c"}));
  index.SetSpare("b", false);
  EXPECT_EQ(index.FirstToGo(), "c");
  ASSERT_TRUE(store->Erase("c").ok());
  EXPECT_EQ(index.FirstToGo(), "a");
  index.SetSpare("b", true);
  index.Clear();
  EXPECT_EQ(index.FirstToGo(), std::nullopt);
}

TEST_P(StoreTest, TakesEmptyAndLargeParts) {
  auto store = Make(int64_t{64} << 20);
  const std::string large(5'000'001, 'q');
  ASSERT_TRUE(store->Put("a", {"", {Part(""), Part(large)}}).ok());
  EXPECT_EQ(store->GetPart("a", KeyOf(""), 0)->size(), 0u);
  EXPECT_EQ(Text(*store->GetPart("a", KeyOf(large), large.size())), large);
  EXPECT_EQ(store->GetPart("a", KeyOf(large), large.size() - 1).status().code(), StatusCode::kCorruption);
}

INSTANTIATE_TEST_SUITE_P(Both, StoreTest, testing::Bool(),
                         [](const auto& info) { return std::string(info.param ? "Ram" : "RocksDb"); });

// ---- the disk alone

class RocksDbStoreTest : public testing::Test {
 protected:
  std::unique_ptr<RocksDbStore> Make() {
    auto store = RocksDbStore::Open(options_, clock_);
    EXPECT_TRUE(store.ok()) << store.status().ToString();
    return store.ok() ? std::move(*store) : nullptr;
  }
  Folder folder_;
  RocksDbStoreOptions options_{.path = folder_.path() / "data", .budget_bytes = 1 << 30, .min_free_bytes = 0};
  ManualClock clock_;
};

TEST_F(RocksDbStoreTest, KeepsObjectsSizesAndOrderAcrossAStart) {
  {
    auto store = Make();
    for (const char* owner : {"a", "b", "c"}) {
      ASSERT_TRUE(store->Put(owner, {owner, {Part(std::string(100, owner[0]))}}).ok());
      clock_.AdvanceMs(2000);
    }
    ASSERT_TRUE(store->Put("b", {"new", {Part(std::string(50, 'b'))}}).ok());
    ASSERT_TRUE(store->Erase("c").ok());
  }
  auto store = Make();
  EXPECT_EQ(store->index().Owners(), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(store->index().bytes(), 101 + 53);
  EXPECT_EQ(*store->GetManifest("b"), "new");
  EXPECT_EQ(Text(*store->GetPart("b", KeyOf(std::string(50, 'b')), 50)), std::string(50, 'b'));
  EXPECT_EQ(store->GetManifest("c").status().code(), StatusCode::kNotFound);
}

TEST_F(RocksDbStoreTest, FilesAreForTheOwnerOnly) {
  ASSERT_TRUE(Make()->Put("a", {"m", {Part("x")}}).ok());
  for (const auto& entry : fs::recursive_directory_iterator(options_.path)) {
    struct stat info {};
    ASSERT_EQ(stat(entry.path().c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, entry.is_directory() ? 0700u : 0600u) << entry.path();
  }
}

TEST_F(RocksDbStoreTest, OneProcessAtATime) {
  auto store = Make();
  EXPECT_EQ(RocksDbStore::Open(options_, clock_).status().code(), StatusCode::kBusy);
}

TEST_F(RocksDbStoreTest, PurgeTakesErasedAndReplacedBytesOffTheDisk) {
  const std::string erased = "canary-of-an-erased-object", replaced = "canary-of-a-replaced-part";
  auto store = Make();
  ASSERT_TRUE(store->Put("a", {"manifest-" + erased, {Part(erased)}}).ok());
  ASSERT_TRUE(store->Put("b", {"m", {Part(replaced), Part("kept")}}).ok());
  EXPECT_TRUE(AnyFileHolds(options_.path, erased));
  ASSERT_TRUE(store->Erase("a").ok());
  ASSERT_TRUE(store->Put("b", {"m", {Part("kept"), Part("new")}}).ok());
  ASSERT_TRUE(store->Purge().ok());
  EXPECT_FALSE(AnyFileHolds(options_.path, erased));
  EXPECT_FALSE(AnyFileHolds(options_.path, replaced));
  EXPECT_EQ(Text(*store->GetPart("b", KeyOf("kept"), 4)), "kept");
  EXPECT_EQ(Text(*store->GetPart("b", KeyOf("new"), 3)), "new");
}

TEST_F(RocksDbStoreTest, WhatIsNotOursIsThrownAway) {
  ASSERT_TRUE(Make()->Put("a", {"m", {Part("x")}}).ok());
  fs::remove(options_.path + "/kv/CURRENT");
  auto store = Make();
  EXPECT_EQ(store->index().owners(), 0);
  EXPECT_TRUE(store->Put("a", {"m", {Part("x")}}).ok());
}

// ---- the policy

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
    RollBack(cache, 0);  // other rows than the last conversation's
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

TEST_F(TieredStoreTest, ComesBackFromMemoryFromDiskAndAfterARestart) {
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
  ExpectRestores("a", cache, StorageTier::kHost);  // it was kept as the base of the next save
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

TEST_F(TieredStoreTest, ASaveOnABaseWritesTheChangedChunksOnly) {
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

TEST_F(TieredStoreTest, TheNewestWinsWhateverIsStillOnItsWay) {
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

TEST_F(TieredStoreTest, UnderPressureTheLeastRecentlyUsedGoesToDisk) {
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

TEST_F(TieredStoreTest, WhatIsInMemoryDoesNotWaitForTheStorageThread) {
  KvCache& cache = Talk(100);
  Open(kRoom, kRoom);
  ASSERT_TRUE(Put("a", Capture(cache)).ok());
  std::promise<void> busy, go_on;
  ASSERT_TRUE(tiers_
                  ->Store("b", Capture(cache),
                          [&](const Status&) {
                            busy.set_value();
                            go_on.get_future().wait();
                          })
                  .ok());
  busy.get_future().wait();
  ASSERT_TRUE(tiers_->Store("c", Capture(cache), nullptr).ok());  // it waits behind "b"
  for (const char* owner : {"a", "b", "c"}) {
    bool answered = false;
    tiers_->Fetch(owner, [&](Result<FetchedSnapshot> fetched) {
      answered = true;
      ASSERT_TRUE(fetched.ok()) << fetched.status().ToString();
      EXPECT_EQ(fetched->tier, StorageTier::kHost);
    });
    EXPECT_TRUE(answered) << owner;
  }
  go_on.set_value();
  ExpectRestores("c", cache, StorageTier::kHost);
}

TEST_F(TieredStoreTest, WhatASlotHasGoesFirstAndWithoutACopy) {
  KvCache& cache = Talk(100);
  const int64_t size = Capture(cache).chunk_bytes();
  for (const bool with_disk : {false, true}) {
    Open(size * 7 / 2, kRoom, with_disk);
    tiers_->SetInSlot("b", true);
    for (const char* owner : {"a", "b", "c", "d"}) ASSERT_TRUE(Put(owner, Capture(cache)).ok());
    EXPECT_FALSE(tiers_->Find("b").has_value());
    tiers_->SetInSlot("c", true);
    ASSERT_TRUE(Put("b", Capture(cache)).ok());  // in a slot, but newer
    EXPECT_FALSE(tiers_->Find("c").has_value());
    tiers_->SetInSlot("b", false);
    for (const char* owner : {"a", "b", "d"}) ExpectRestores(owner, cache, StorageTier::kHost);
    EXPECT_EQ(tiers_->stats().dropped, 0u);
    EXPECT_EQ(tiers_->stats().demoted, 0u);
    ASSERT_TRUE(Put("c", Capture(cache)).ok());  // none is spare: the oldest goes
    EXPECT_EQ(tiers_->Find("a").has_value(), with_disk);
    EXPECT_EQ(tiers_->stats().dropped, with_disk ? 0u : 1u);
    for (const char* owner : {"a", "b", "c", "d"}) ASSERT_TRUE(Erase(owner).ok());
  }
}

TEST_F(TieredStoreTest, ASweepGivesAwayWhatSlotsHaveBeforeItWritesToDisk) {
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

TEST_F(TieredStoreTest, ASweepMakesRoomBeforeItIsNeeded) {
  KvCache& cache = Talk(100);
  const int64_t size = Capture(cache).chunk_bytes();
  Open(size * 21 / 2, kRoom);
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(Put("s" + std::to_string(i), Capture(cache)).ok());
  EXPECT_EQ(tiers_->stats().host_objects, 10);
  tiers_->Sweep();
  EXPECT_LE(tiers_->stats().host_objects, 8);
  EXPECT_EQ(tiers_->stats().host_objects + tiers_->stats().disk_objects, 10);
}

TEST_F(TieredStoreTest, WhatIsTooLargeForMemoryGoesToDisk) {
  Open(1000, kRoom);
  KvCache& cache = Talk(100);
  ASSERT_TRUE(Put("a", Capture(cache)).ok());
  EXPECT_EQ(tiers_->stats().host_objects, 0);
  ExpectRestores("a", cache, StorageTier::kDisk);
}

TEST_F(TieredStoreTest, WithoutRoomAnywhereTheOldestIsDroppedAndTheNewestKept) {
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

TEST_F(TieredStoreTest, WithoutADiskTierTheOldestIsDropped) {
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
  EXPECT_TRUE(tiers_->Find("b").has_value());  // idle, but there is room and no other place
  clock_.AdvanceMs(6000);
  tiers_->Sweep();
  EXPECT_FALSE(tiers_->Find("b").has_value());
  EXPECT_EQ(Put("large", Capture(Talk(0))).code(), StatusCode::kOk);
}

TEST_F(TieredStoreTest, WhatDoesNotFitAnywhereIsRefused) {
  Open(1000, 1000);
  EXPECT_EQ(Put("a", Capture(Talk(100))).code(), StatusCode::kOverloaded);
  EXPECT_FALSE(tiers_->Find("a").has_value());
  EXPECT_EQ(tiers_->stats().dropped, 1u);
}

TEST_F(TieredStoreTest, IdleTimesApplyToEachTierAndUseResetsThem) {
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

TEST_F(TieredStoreTest, WhatIsForMemoryOnlyNeverReachesTheDisk) {
  KvCache& cache = Talk(100);
  const int64_t size = Capture(cache).chunk_bytes();
  Open(size * 7 / 2, kRoom);
  for (const char* owner : {"ram_a", "b", "ram_c"}) {
    ASSERT_TRUE(Put(owner, Capture(cache)).ok());
    clock_.AdvanceMs(1);
  }
  EXPECT_TRUE(Flush().ok());
  clock_.AdvanceMs(5000);
  tiers_->Sweep();  // idle: others go to the disk, these stay
  EXPECT_EQ(tiers_->Find("ram_a")->tier, StorageTier::kHost);
  EXPECT_EQ(tiers_->Find("b")->tier, StorageTier::kDisk);
  ASSERT_TRUE(Put("d", Capture(cache)).ok());
  ASSERT_TRUE(Put("e", Capture(cache)).ok());  // no room: the oldest goes, and not to the disk
  EXPECT_FALSE(tiers_->Find("ram_a").has_value());
  ExpectRestores("ram_c", cache, StorageTier::kHost);
  Open(kRoom, kRoom);
  EXPECT_TRUE(tiers_->Find("b").has_value());
  for (const char* owner : {"ram_a", "ram_c"}) EXPECT_FALSE(tiers_->Find(owner).has_value()) << owner;
}

TEST_F(TieredStoreTest, EraseTakesEveryTraceAndStaysErased) {
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

TEST_F(TieredStoreTest, AnEraseOvertakesWhatIsOnItsWay) {
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

TEST_F(TieredStoreTest, AForkHasTheSameRowsAndALifeOfItsOwn) {
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

TEST_F(TieredStoreTest, AForkIsThereAtOnceAndGoesWhenItIsErased) {
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

TEST_F(TieredStoreTest, PrefetchBringsItIntoMemory) {
  Open(kRoom, kRoom);
  KvCache& cache = Talk(100);
  ASSERT_TRUE(Put("a", Capture(cache)).ok());
  ASSERT_TRUE(Flush().ok());
  Open(kRoom, kRoom);
  tiers_->Prefetch("a");
  tiers_->Prefetch("unknown");
  ExpectRestores("a", cache, StorageTier::kHost);
}

TEST_F(TieredStoreTest, ReconcileErasesWhoIsNotKnown) {
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

TEST_F(TieredStoreTest, EveryCallbackComesBeforeTheEnd) {
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
