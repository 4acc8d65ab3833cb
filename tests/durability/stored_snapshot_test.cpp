// A snapshot in the disk tier whose header or chunks were damaged without breaking the store's checksums: it is refused
// and deleted; no other data is ever returned.
#include <future>

#include "cache/store/ram_store.h"
#include "cache/store/rocksdb_store.h"
#include "cache/store/tiered_store.h"
#include "tests/cache/snapshot_cache.h"
#include "tests/durability/data_folder.h"

namespace ringside {
namespace {

// Without and with recurrent state.
class StoredSnapshotTest : public SnapshotCacheTest, public testing::WithParamInterface<bool> {
 protected:
  StoredSnapshotTest() : SnapshotCacheTest(DType::kF16, GetParam() ? kState : StateShape{}) {}
  void SetUp() override {
    auto disk = RocksDbStore::Open({.path = folder_.path() / "data", .min_free_bytes = 0});
    ASSERT_TRUE(disk.ok()) << disk.status().ToString();
    disk_ = disk->get();
    tiers_ = std::make_unique<TieredStore>(std::make_unique<RamStore>(0), std::move(*disk),
                                           TieredStoreOptions{.sweep_ms = 0});
    original_ = &Fresh(0, {4, 40, Eviction::kTurn});
    Grow(*original_, 100);
    Snapshot snapshot = Capture(*original_);
    snapshot.Seal();
    header_ = snapshot.EncodeHeader();
    for (const SnapshotChunk& chunk : snapshot.chunks()) parts_.push_back({*chunk.hash, chunk.bytes});
  }
  void Put(const std::string& header, const std::vector<StorePart>& parts) {
    ASSERT_TRUE(disk_->Erase(owner_).ok());
    owner_ = std::to_string(++puts_);  // a refused object is erased in the background, under its own name
    ASSERT_TRUE(disk_->Put(owner_, {header, parts}).ok());
  }
  Result<FetchedSnapshot> Fetch() {
    std::promise<Result<FetchedSnapshot>> told;
    tiers_->Fetch(owner_, [&](Result<FetchedSnapshot> fetched) { told.set_value(std::move(fetched)); });
    return told.get_future().get();
  }
  void ExpectRefused(const std::string& what) {
    const auto fetched = Fetch();
    ASSERT_FALSE(fetched.ok()) << what;
    ASSERT_TRUE(fetched.status().code() == StatusCode::kCorruption || fetched.status().code() == StatusCode::kMismatch)
        << what << ": " << fetched.status().ToString();
    ASSERT_EQ(Fetch().status().code(), StatusCode::kNotFound) << what << ": it is still there";
  }

  DataFolder folder_;
  KvCache* original_ = nullptr;
  Store* disk_ = nullptr;
  std::unique_ptr<TieredStore> tiers_;
  std::string owner_ = "0", header_;
  int puts_ = 0;
  std::vector<StorePart> parts_;
};

INSTANTIATE_TEST_SUITE_P(Both, StoredSnapshotTest, testing::Bool(),
                         [](const auto& info) { return info.param ? "WithState" : "WithoutState"; });

TEST_P(StoredSnapshotTest, RefusesEveryFlipAndTruncationOfTheHeader) {
  Put(header_, parts_);
  auto sound = Fetch();
  ASSERT_TRUE(sound.ok()) << sound.status().ToString();
  KvCache& restored = Fresh(1, {0, 1, Eviction::kToken});
  ASSERT_TRUE(sound->snapshot.Restore(restored, *backend_, proof_).ok());
  ExpectSame(*original_, restored);
  std::mt19937 random(1);
  for (size_t i = 0; i < header_.size(); ++i) {
    std::string damaged = header_;
    damaged[i] = static_cast<char>(damaged[i] ^ (1 + random() % 255));
    Put(damaged, parts_);
    ExpectRefused("byte " + std::to_string(i));
    Put(header_.substr(0, i), parts_);
    ExpectRefused("cut to " + std::to_string(i));
    if (HasFatalFailure()) return;
  }
  std::printf("%zu bytes of a header flipped and cut off\n", header_.size());
}

TEST_P(StoredSnapshotTest, RefusesAFlippedByteOfAChunk) {
  std::mt19937 random(2);
  for (int i = 0; i < 500; ++i) {
    std::vector<StorePart> damaged = parts_;
    Blob& bytes = damaged[random() % damaged.size()].bytes;
    Blob changed = Blob::CopyOf(bytes.bytes());
    changed.writable()[random() % changed.size()] ^= static_cast<std::byte>(1 + random() % 255);
    bytes = changed;
    Put(header_, damaged);
    ExpectRefused("flip " + std::to_string(i));
    if (HasFatalFailure()) return;
  }
}

TEST_P(StoredSnapshotTest, RefusesMissingAndForeignChunks) {
  for (size_t i = 0; i < parts_.size(); ++i) {
    std::vector<StorePart> damaged = parts_;
    damaged.erase(damaged.begin() + static_cast<std::ptrdiff_t>(i));
    Put(header_, damaged);
    const auto fetched = Fetch();
    ASSERT_FALSE(fetched.ok());
    damaged = parts_;
    damaged[i].bytes = parts_[(i + 1) % parts_.size()].bytes;
    Put(header_, damaged);
    ExpectRefused("chunk " + std::to_string(i));
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace ringside
