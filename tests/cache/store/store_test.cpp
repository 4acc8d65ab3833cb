// The stores of the tiers: one contract for both, plus the disk's own behaviour.
#include "cache/store/store.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>
#include <vector>

#include "cache/store/ram_store.h"
#include "cache/store/rocksdb_store.h"
#include "tests/cache/store/store_folder.h"

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

TEST_P(StoreTest, PutsSeveralInOneBatch) {
  auto store = Make(100);
  ASSERT_TRUE(store->Put("b", {"old", {Part("x"), Part("y")}}).ok());
  std::vector<NamedObject> objects;
  objects.push_back({"long name", {"m1", {Part("x")}}});
  objects.push_back({"too large", {"m2", {Part(std::string(100, 'l'))}}});
  objects.push_back({"b", {"new", {Part("y"), Part("z")}}});
  objects.push_back({"a", {"m3", {}}});
  const std::vector<Status> put = store->PutAll(std::move(objects));
  ASSERT_EQ(put.size(), 4U);
  EXPECT_EQ(put[1].code(), StatusCode::kOverloaded);
  for (const size_t i : {0, 2, 3}) EXPECT_TRUE(put[i].ok()) << i;
  EXPECT_EQ(*store->GetManifest("long name"), "m1");
  EXPECT_EQ(Text(*store->GetPart("long name", KeyOf("x"), 1)), "x");
  EXPECT_EQ(store->GetManifest("too large").status().code(), StatusCode::kNotFound);
  EXPECT_EQ(*store->GetManifest("b"), "new");
  EXPECT_EQ(Text(*store->GetPart("b", KeyOf("z"), 1)), "z");
  EXPECT_EQ(store->GetPart("b", KeyOf("x"), 1).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(*store->GetManifest("a"), "m3");
  EXPECT_EQ(store->index().bytes(), 3 + 5 + 2);
  EXPECT_TRUE(store->PutAll({}).empty());
}

TEST_P(StoreTest, PutsAndErasesOwnersConcurrently) {
  auto store = Make(1 << 20);
  constexpr int kThreads = 4, kRounds = 20;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kRounds; ++i) {
        const std::string own = "own_" + std::to_string(t), said = own + std::to_string(i);
        EXPECT_TRUE(store->Put(own, {said, {Part(said), Part("of all")}}).ok());
        EXPECT_TRUE(store->Put("shared", {said, {Part(said)}}).ok());
        if (i % 5 != t) continue;
        EXPECT_TRUE(store->Erase("shared").ok());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  int64_t bytes = 0;
  for (const std::string& owner : store->index().Owners()) {
    const std::string said = *store->GetManifest(owner);
    EXPECT_EQ(Text(*store->GetPart(owner, KeyOf(said), said.size())), said);
    bytes += store->index().Find(owner)->bytes;
  }
  EXPECT_EQ(store->index().bytes(), bytes);
  EXPECT_GE(store->index().owners(), kThreads);
}

TEST_P(StoreTest, ConcurrentOwnersStayWithinTheBudget) {
  constexpr int kThreads = 4, kRounds = 50;
  auto store = Make(kRounds * 110);
  std::vector<std::thread> threads;
  std::atomic<int> put{0};
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kRounds; ++i) {
        const std::string owner = std::to_string(100 * t + i);
        put += store->Put(owner, {"", {Part(std::string(100, 'x') + owner)}}).ok() ? 1 : 0;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_LE(store->index().bytes(), store->budget_bytes());
  EXPECT_EQ(store->index().owners(), put);
  EXPECT_GE(put, kRounds);
}

TEST_P(StoreTest, ErasesOnlyTheGivenObject) {
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

TEST_P(StoreTest, CountsBytesAndRefusesBeyondTheBudget) {
  auto store = Make(100);
  ASSERT_TRUE(store->Put("a", {"12345", {Part(std::string(40, 'x'))}}).ok());
  EXPECT_EQ(store->index().bytes(), 45);
  EXPECT_EQ(store->Put("b", {"", {Part(std::string(56, 'y'))}}).code(), StatusCode::kOverloaded);
  EXPECT_EQ(store->GetManifest("b").status().code(), StatusCode::kNotFound);
  EXPECT_EQ(store->Put("a", {"", {Part(std::string(101, 'z'))}}).code(), StatusCode::kOverloaded);
  EXPECT_EQ(*store->GetManifest("a"), "12345");  // the old object is kept
  ASSERT_TRUE(store->Put("a", {"", {Part(std::string(90, 'z'))}}).ok());
  EXPECT_EQ(store->index().bytes(), 90);
  ASSERT_TRUE(store->Erase("a").ok());
  EXPECT_EQ(store->index().bytes(), 0);
}

TEST_P(StoreTest, TracksTheLeastRecentlyUsed) {
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

TEST_P(StoreTest, EvictsSpareObjectsBeforeOlderOnes) {
  auto store = Make(1 << 20);
  StoreIndex& index = store->index();
  EXPECT_EQ(index.PickEvictionVictim(), std::nullopt);
  for (const char* owner : {"a", "b", "c"}) {
    index.SetSpare(owner, true);  // has nothing yet
    ASSERT_TRUE(store->Put(owner, {"m", {}}).ok());
    clock_.AdvanceMs(10);
  }
  EXPECT_EQ(index.PickEvictionVictim(), "a");
  for (const char* owner : {"c", "b", "b"}) index.SetSpare(owner, true);
  EXPECT_EQ(index.PickEvictionVictim(), "c");
  index.Touch("c", clock_.MonotonicNs());
  EXPECT_EQ(index.PickEvictionVictim(), "b");
  EXPECT_EQ(index.Owners(), (std::vector<std::string>{"a", "b", "c"}));
  index.SetSpare("b", false);
  EXPECT_EQ(index.PickEvictionVictim(), "c");
  ASSERT_TRUE(store->Erase("c").ok());
  EXPECT_EQ(index.PickEvictionVictim(), "a");
  index.SetSpare("b", true);
  index.Clear();
  EXPECT_EQ(index.PickEvictionVictim(), std::nullopt);
}

TEST_P(StoreTest, AcceptsEmptyAndLargeParts) {
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

TEST_F(RocksDbStoreTest, KeepsObjectsSizesAndOrderAcrossARestart) {
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

TEST_F(RocksDbStoreTest, AgesFollowUptimeDespiteClockChanges) {
  double uptime_s = 1.7e9;
  options_.uptime_s = [&] { return uptime_s; };
  ASSERT_TRUE(Make()->Put("of an older version", {"m", {Part("x")}}).ok());  // by the wall clock
  uptime_s = 1000;
  {
    auto store = Make();
    ASSERT_TRUE(store->Put("a", {"m", {Part("x")}}).ok());
    uptime_s += 100;
    ASSERT_TRUE(store->Put("b", {"m", {Part("x")}}).ok());
  }
  uptime_s += 50;
  clock_.AdvanceMs(3'600'000);
  auto store = Make();
  EXPECT_EQ(store->index().Owners(), (std::vector<std::string>{"of an older version", "a", "b"}));
  const auto age_s = [&](const std::string& owner) {
    return (clock_.MonotonicNs() - store->index().Find(owner)->used_ns) / 1'000'000'000;
  };
  EXPECT_EQ(age_s("of an older version"), 150);
  EXPECT_EQ(age_s("a"), 150);
  EXPECT_EQ(age_s("b"), 50);
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

TEST_F(RocksDbStoreTest, PurgeRemovesErasedAndReplacedBytes) {
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

TEST_F(RocksDbStoreTest, DropsForeignEntries) {
  ASSERT_TRUE(Make()->Put("a", {"m", {Part("x")}}).ok());
  fs::remove(options_.path + "/kv/CURRENT");
  auto store = Make();
  EXPECT_EQ(store->index().owners(), 0);
  EXPECT_TRUE(store->Put("a", {"m", {Part("x")}}).ok());
}

}  // namespace
}  // namespace ringside
