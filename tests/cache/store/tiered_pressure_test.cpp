// Conversations are evicted from slots faster than the disk accepts them: memory stays within the bound of
// cache/SNAPSHOT.md, the oldest are dropped, the newest are kept.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <fstream>
#include <future>
#include <memory>
#include <string>
#include <thread>

#include "cache/blob_reserve.h"
#include "cache/store/ram_store.h"
#include "cache/store/tiered_store.h"
#include "tests/cache/snapshot_cache.h"
#include "tests/cache/store/held_disk.h"
#include "tests/sanitized.h"

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

TEST_F(TieredPressureTest, ChurnOfTenThousandOnASlowDiskStaysBounded) {
  constexpr int kSnapshots = 10'000, kBudget = 20, kPutEvery = 100;
  const auto before = static_cast<int64_t>(BlobReserve::Instance().taken_bytes());
  const int64_t budget = kBudget * (size_ + 2048);  // including headers
  Open(budget);
  // In addition to the budget: the last arrival, the one being inserted and the one being written. Three are on the
  // "disk".
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
  gate_->LetAllThrough();
  std::promise<void> flushed;
  tiers_->Flush([&](const Status&) { flushed.set_value(); });
  flushed.get_future().wait();
  EXPECT_FALSE(Has(0));
  EXPECT_EQ(told, kSnapshots);
  const TieredStoreStats stats = tiers_->stats();
  EXPECT_GE(static_cast<int>(stats.dropped), kSnapshots - kSnapshots / kPutEvery - 2 * kBudget);
  EXPECT_GE(kept, kBudget);
}

// A Put that never returns: abandoned snapshots are reported at once and leave nothing waiting for the disk.
TEST_F(TieredPressureTest, AbandonedPutLeavesNothingBehind) {
  constexpr int kSnapshots = 3'000, kBudget = 20;
  Open(kBudget * (size_ + 2048));
  KvCache& cache = *caches_[0];
  const auto living = std::make_shared<int>();  // held by each pending callback
  for (int i = 0; i < kSnapshots; ++i) {
    // Every second one replaces a waiting snapshot of one of a few owners.
    const std::string owner = i % 2 == 0 ? std::to_string(i) : "again " + std::to_string(i % 6);
    ASSERT_TRUE(tiers_->Store(owner, Capture(cache), [living](const Status&) {}).ok());
  }
  gate_->WaitForPut();
  const auto patience = std::chrono::steady_clock::now() + std::chrono::seconds(60);  // exceeded only on failure
  while (living.use_count() > 2 * kBudget && std::chrono::steady_clock::now() < patience) std::this_thread::yield();
  EXPECT_LE(living.use_count(), 2 * kBudget);
  EXPECT_EQ(gate_->puts(), 1) << "the first Put still hangs";
}

int64_t ResidentBytes() {
  int64_t pages = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> pages >> resident;
  return resident * sysconf(_SC_PAGESIZE);
}

// As above, with whole snapshots of more than 1 MiB, measured by the process's resident memory: the formula of
// cache/SNAPSHOT.md and the reserve, plus the allocator's overhead.
TEST_F(TieredPressureTest, ResidentMemoryStaysWithinTheDocumentedBound) {
  constexpr int kSnapshots = kSanitized ? 300 : 10'000, kBudget = 32, kPutEvery = 100;
  constexpr int64_t kMiB = 1 << 20, kAllowance = 64 * kMiB;
  const KvShape shape{4, 4, 64, DType::kF16, 2, 16};
  auto slab = backend_->Allocate(static_cast<size_t>(shape.slab_bytes()));
  ASSERT_TRUE(slab.ok());
  KvCache cache(shape, slab->data());
  cache.Reset({4, 200, Eviction::kTurn});
  Grow(cache, 300);
  const int64_t size = Capture(cache).chunk_bytes();
  ASSERT_GE(size, kMiB);
  const int64_t budget = kBudget * (size + 16 * 1024);  // including headers
  tiers_ = std::make_unique<TieredStore>(std::make_unique<RamStore>(budget),
                                         std::make_unique<HeldDisk>(gate_, /*budget_bytes=*/3 * size),
                                         TieredStoreOptions{.sweep_ms = 0, .least_waiting_bytes = 2 * size});
  const auto taken_before = static_cast<int64_t>(BlobReserve::Instance().taken_bytes());
  const int64_t resident_before = ResidentBytes();
  int64_t most_taken = 0, most_resident = 0;
  for (int i = 0; i < kSnapshots; ++i) {
    if (i % kPutEvery == 0) gate_->LetThrough(1);
    ASSERT_TRUE(tiers_->Store(std::to_string(i), Capture(cache), nullptr).ok()) << i;
    most_taken = std::max(most_taken, static_cast<int64_t>(BlobReserve::Instance().taken_bytes()) - taken_before);
    if (i % 16 == 0) most_resident = std::max(most_resident, ResidentBytes() - resident_before);
  }
  const int64_t formula = budget + 3 * size + 3 * size;  // plus three on the "disk", which is memory here
  EXPECT_LE(most_taken, formula);
  if (!kSanitized) {  // it would measure the sanitizer
    EXPECT_LE(most_resident, formula + limits::kBlobReserveBytes + kAllowance)
        << "MiB: " << most_resident / kMiB << " of " << formula / kMiB << " + " << limits::kBlobReserveBytes / kMiB;
  }
  RecordProperty("most_resident_mib", static_cast<int>(most_resident / kMiB));
}

}  // namespace
}  // namespace ringside
