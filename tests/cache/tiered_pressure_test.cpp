// Conversations that leave their slots faster than the disk takes them: memory stays within the bound that
// cache/SNAPSHOT.md states, what is oldest goes, what is newest is kept.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <future>
#include <memory>
#include <string>

#include "cache/blob_reserve.h"
#include "cache/ram_store.h"
#include "cache/tiered_store.h"
#include "tests/cache/held_disk.h"
#include "tests/cache/snapshot_cache.h"

namespace ringside {
namespace {

class TieredPressureTest : public SnapshotCacheTest {
 protected:
  void Open(int64_t host_bytes) {
    tiers_ = std::make_unique<TieredStore>(std::make_unique<RamStore>(host_bytes),
                                           std::make_unique<HeldDisk>(gate_, /*budget_bytes=*/3 * size_),
                                           TieredStoreOptions{.sweep_ms = 0, .least_waiting_bytes = 2 * size_});
  }
  void TearDown() override {
    gate_->LetAllThrough();
    tiers_.reset();
  }
  Snapshot Talk() {
    KvCache& cache = Fresh(0, {4, 40, Eviction::kTurn});
    Grow(cache, 100);
    return Capture(cache);
  }
  bool Has(int owner) const { return tiers_->Find(std::to_string(owner)).has_value(); }

  const int64_t size_ = Talk().chunk_bytes();
  const std::shared_ptr<HeldDisk::Gate> gate_ = std::make_shared<HeldDisk::Gate>();
  std::unique_ptr<TieredStore> tiers_;
};

TEST_F(TieredPressureTest, AChurnOfTenThousandOntoASlowDiskStaysWithinItsBound) {
  constexpr int kSnapshots = 10'000, kBudget = 20, kPutEvery = 100;
  const auto before = static_cast<int64_t>(BlobReserve::Instance().taken_bytes());
  const int64_t budget = kBudget * (size_ + 2048);  // with their headers
  Open(budget);
  // Beside the budget: the last to come, the one that is taken in, the one that is written. Three are on the "disk".
  const int64_t bound = budget + 3 * size_ + 3 * size_;
  std::atomic<int> told{0}, kept{0};
  int64_t most = 0;
  KvCache& cache = *caches_[0];
  for (int i = 0; i < kSnapshots; ++i) {
    if (i % kPutEvery == 0) gate_->LetThrough(1);
    ASSERT_TRUE(tiers_
                    ->Store(std::to_string(i), Capture(cache),
                            [&](const Status& status) {
                              ++told;
                              kept += status.ok();
                            })
                    .ok())
        << i;
    most = std::max(most, static_cast<int64_t>(BlobReserve::Instance().taken_bytes()) - before);
  }
  EXPECT_LE(most, bound) << "of snapshots of " << size_ << " bytes: " << most / size_;
  EXPECT_TRUE(Has(kSnapshots - 1));
  EXPECT_FALSE(Has(0));
  gate_->LetAllThrough();
  std::promise<void> flushed;
  tiers_->Flush([&](const Status&) { flushed.set_value(); });
  flushed.get_future().wait();
  EXPECT_EQ(told, kSnapshots);
  const TieredStoreStats stats = tiers_->stats();
  EXPECT_GE(static_cast<int>(stats.dropped), kSnapshots - kSnapshots / kPutEvery - 2 * kBudget);
  EXPECT_GE(kept, kBudget);
}

}  // namespace
}  // namespace ringside
