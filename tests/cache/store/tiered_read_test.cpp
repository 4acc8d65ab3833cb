// A cache on the disk is read by several threads: they are in the store at the same time, and the first failure ends
// the read.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <future>
#include <memory>
#include <mutex>

#include "cache/store/ram_store.h"
#include "cache/store/tiered_store.h"
#include "cache/store/tiered_store_impl.h"
#include "tests/cache/snapshot_cache.h"

namespace ringside {
namespace {

/// What the readers of a disk do.
struct Readers {
  std::mutex mutex;
  std::condition_variable changed;
  int begun = 0, inside = 0, most_inside = 0;
  Status status;  // what GetPart returns
};

/// A disk whose first reader waits for a second one.
class MeetingDisk final : public Store {
 public:
  explicit MeetingDisk(std::shared_ptr<Readers> readers) : readers_(std::move(readers)), inner_(1 << 30) {}

  Status Put(const std::string& owner, StoreObject object) override { return inner_.Put(owner, std::move(object)); }
  Result<std::string> GetManifest(const std::string& owner) override { return inner_.GetManifest(owner); }
  Result<Blob> GetPart(const std::string& owner, const ChunkHash& key, size_t bytes) override {
    std::unique_lock lock(readers_->mutex);
    ++readers_->begun;
    readers_->most_inside = std::max(readers_->most_inside, ++readers_->inside);
    readers_->changed.notify_all();
    readers_->changed.wait_for(lock, std::chrono::seconds(20), [&] { return readers_->most_inside > 1; });
    --readers_->inside;
    if (!readers_->status.ok()) return readers_->status;
    return inner_.GetPart(owner, key, bytes);
  }
  Status Erase(const std::string& owner) override { return inner_.Erase(owner); }
  StoreIndex& index() override { return inner_.index(); }
  int64_t budget_bytes() const override { return inner_.budget_bytes(); }

 private:
  const std::shared_ptr<Readers> readers_;
  RamStore inner_;
};

class TieredReadTest : public SnapshotCacheTest {
 protected:
  /// A cache in several chunks, on the disk only.
  void SetUp() override {
    backend_->piece_bytes = cache_.shape().tile_bytes();
    Grow(cache_, 150);
    Snapshot snapshot = Capture(cache_);
    snapshot.Seal();
    const StoreObject object = StoreObjectOf(snapshot);
    ASSERT_GT(object.parts.size(), 4u) << "more than readers";
    ASSERT_TRUE(disk_->Put("a", object).ok());
    tiers_ = std::make_unique<TieredStore>(std::make_unique<RamStore>(1 << 30), std::move(disk_),
                                           TieredStoreOptions{.sweep_ms = 0});
  }
  Result<FetchedSnapshot> Fetch() {
    std::promise<Result<FetchedSnapshot>> told;
    tiers_->Fetch("a", [&](Result<FetchedSnapshot> fetched) { told.set_value(std::move(fetched)); });
    return told.get_future().get();
  }

  const std::shared_ptr<Readers> readers_ = std::make_shared<Readers>();
  std::unique_ptr<Store> disk_ = std::make_unique<MeetingDisk>(readers_);
  KvCache& cache_ = Fresh(0, {4, 40, Eviction::kTurn});
  std::unique_ptr<TieredStore> tiers_;
};

TEST_F(TieredReadTest, ReadersAreInTheStoreAtOnce) {
  const auto fetched = Fetch();
  ASSERT_TRUE(fetched.ok()) << fetched.status().ToString();
  EXPECT_GT(readers_->most_inside, 1);
  EXPECT_EQ(fetched->tier, StorageTier::kDisk);
  KvCache& restored = Fresh(1, {0, 1, Eviction::kToken});
  Scribble(restored);
  ASSERT_TRUE(fetched->snapshot.Restore(restored, *backend_, proof_).ok());
  ExpectSame(cache_, restored);
}

TEST_F(TieredReadTest, AFailureEndsTheRead) {
  readers_->status = IoError("the disk is broken");
  EXPECT_EQ(Fetch().status().code(), StatusCode::kIo);
  EXPECT_LE(readers_->begun, 4) << "at most one part of each reader";
}

}  // namespace
}  // namespace ringside
