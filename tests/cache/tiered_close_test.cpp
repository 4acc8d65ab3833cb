// Closing the tiers while the disk is slow: what is only moved about is given up.
#include <gtest/gtest.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "cache/ram_store.h"
#include "cache/tiered_store.h"
#include "tests/cache/snapshot_cache.h"

namespace ringside {
namespace {

/// A disk whose first Put takes until it is let go.
class HeldDisk final : public Store {
 public:
  Status Put(const std::string& owner, StoreObject object) override {
    std::unique_lock lock(mutex_);
    ++*puts;
    changed_.notify_all();
    changed_.wait(lock, [&] { return free_; });
    return inner_.Put(owner, std::move(object));
  }
  Result<std::string> GetManifest(const std::string& owner) override { return inner_.GetManifest(owner); }
  Result<Blob> GetPart(const std::string& owner, const ChunkHash& key, size_t bytes) override {
    return inner_.GetPart(owner, key, bytes);
  }
  Status Erase(const std::string& owner) override { return inner_.Erase(owner); }
  StoreIndex& index() override { return inner_.index(); }
  int64_t budget_bytes() const override { return inner_.budget_bytes(); }

  void WaitForPut() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return *puts > 0; });
  }
  void LetGo() {
    std::lock_guard lock(mutex_);
    free_ = true;
    changed_.notify_all();
  }
  const std::shared_ptr<std::atomic<int>> puts = std::make_shared<std::atomic<int>>(0);

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool free_ = false;
  RamStore inner_{int64_t{1} << 40};
};

class TieredCloseTest : public SnapshotCacheTest {};

TEST_F(TieredCloseTest, WaitsForThePutUnderWayAndBeginsNoOther) {
  KvCache& cache = Fresh(0, {1, 32});
  Grow(cache, 40);
  const int64_t bytes = Capture(cache).chunk_bytes();
  auto held = std::make_unique<HeldDisk>();
  HeldDisk& disk = *held;
  const auto puts = disk.puts;
  std::atomic<int> told{0};
  auto tiers = std::make_unique<TieredStore>(std::make_unique<RamStore>(bytes + bytes / 2), std::move(held),
                                             TieredStoreOptions{.sweep_ms = 0});
  constexpr int kOwners = 20;  // memory has room for one
  for (int i = 0; i < kOwners; ++i) {
    ASSERT_TRUE(tiers->Store(std::to_string(i), Capture(cache), [&](const Status&) { ++told; }).ok());
  }
  disk.WaitForPut();
  std::thread closing([&] { tiers.reset(); });
  // Closing has begun once the destructor has taken away what others may ask; it says so nowhere, so give it a moment:
  // too short a one can only let more puts begin and fail the test.
  std::this_thread::sleep_for(std::chrono::seconds(1));
  disk.LetGo();
  closing.join();
  EXPECT_EQ(told, kOwners);
  EXPECT_LE(*puts, 2);  // the one under way, and at most one that it had led to
}

}  // namespace
}  // namespace ringside
