// A full disk, a read-only disk and a folder in use, on a small mounted file system. Skipped without the permission to
// mount one.
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <future>

#include "cache/store/rocksdb_store.h"
#include "session/journal/journal.h"

namespace ringside {
namespace {

namespace fs = std::filesystem;
constexpr int64_t kMiB = int64_t{1} << 20;

class SmallDiskTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (fs::temp_directory_path() / "small_disk.XXXXXX").string();
    CHECK(mkdtemp(name.data()) != nullptr);
    folder_ = name;
    mounted_ = mount("tmpfs", folder_.c_str(), "tmpfs", 0, "size=96m,nr_inodes=200") == 0;
    const std::string why = std::strerror(errno);
    if (!mounted_ && geteuid() != 0) GTEST_SKIP() << "only root can mount a file system";
    ASSERT_TRUE(mounted_) << "the test needs the right to mount a file system: " << why;
    journal_.path = store_.path = folder_ / "data";
    journal_.min_free_bytes = 2 * kMiB;
    journal_.space_look_ms = 0;
    store_.min_free_bytes = 4 * kMiB;
  }
  void TearDown() override {
    if (mounted_) umount2(folder_.c_str(), MNT_DETACH);
    fs::remove_all(folder_);
  }

  static Status Append(Journal& journal, const std::string& session, bool create, size_t bytes) {
    JournalEntry entry;
    entry.session = session;
    entry.create = create;
    entry.records.push_back({1, std::string(bytes, 'x')});
    std::promise<Status> told;
    const Status accepted =
        journal.Append(entry, [&](const Status& status, const JournalPosition&) { told.set_value(status); });
    return accepted.ok() ? told.get_future().get() : accepted;
  }
  static Status Erase(Journal& journal, const std::string& session) {
    std::promise<Status> told;
    const Status accepted =
        journal.Erase(session, [&](const Status& status, const JournalPosition&) { told.set_value(status); });
    return accepted.ok() ? told.get_future().get() : accepted;
  }
  static StoreObject Object(char name, int64_t bytes) {
    Blob blob = Blob::Make(static_cast<size_t>(bytes));
    std::memset(blob.writable(), name, blob.size());
    return {std::string(1, name), {{HashOf(blob.bytes()), blob}}};
  }
  /// Leaves this much free space on the disk.
  void Fill(int64_t left) {
    const auto space = fs::space(folder_);
    std::ofstream out(folder_ / "filler", std::ios::binary | std::ios::app);
    const std::string block(4096, 'f');
    for (auto bytes = static_cast<int64_t>(space.available) - left; bytes > 0; bytes -= 4096) out << block;
  }

  fs::path folder_;
  bool mounted_ = false;
  JournalOptions journal_;
  RocksDbStoreOptions store_;
};

TEST_F(SmallDiskTest, FullDiskRefusesTurnsButServesTheRest) {
  auto journal = Journal::Open(journal_);
  ASSERT_TRUE(journal.ok()) << journal.status().ToString();
  ASSERT_TRUE(Append(**journal, "a", true, 1000).ok());
  ASSERT_TRUE(Append(**journal, "b", true, 1000).ok());
  Fill(kMiB);
  const Status refused = Append(**journal, "a", false, 1000);
  EXPECT_EQ(refused.code(), StatusCode::kUnavailable);
  EXPECT_EQ(refused.reason(), "storage_full");
  EXPECT_TRUE((*journal)->Check().reason() == "storage_full");
  EXPECT_EQ((*journal)->Read("a")->records.size(), 1u);
  EXPECT_TRUE(Erase(**journal, "b").ok());
  EXPECT_TRUE((*journal)->healthy());
  fs::remove(folder_ / "filler");
  EXPECT_TRUE(Append(**journal, "a", false, 1000).ok());
  EXPECT_FALSE((*journal)->Check().reason() == "storage_full");
  EXPECT_EQ((*journal)->Read("a")->records.size(), 2u);
}

TEST_F(SmallDiskTest, FullDiskStopsTheJournalWithoutLoss) {
  journal_.min_free_bytes = 0;
  uint64_t acknowledged = 0;
  {
    auto journal = Journal::Open(journal_);
    ASSERT_TRUE(journal.ok());
    ASSERT_TRUE(Append(**journal, "a", true, 1000).ok());
    acknowledged = 1;
    Fill(0);
    Status status;
    while ((status = Append(**journal, "a", false, 10'000)).ok()) ++acknowledged;
    EXPECT_EQ(status.code(), StatusCode::kIo);
    EXPECT_EQ(status.reason(), "storage_failed");
    EXPECT_FALSE((*journal)->healthy());
  }
  fs::remove(folder_ / "filler");
  auto journal = Journal::Open(journal_);
  ASSERT_TRUE(journal.ok()) << journal.status().ToString();
  const auto read = (*journal)->Read("a");
  ASSERT_TRUE(read.ok()) << read.status().ToString();
  EXPECT_GE(read->records.size(), acknowledged);
  EXPECT_TRUE(Append(**journal, "a", false, 10).ok());
}

TEST_F(SmallDiskTest, CacheTierStopsBeforeTheJournal) {
  auto journal = Journal::Open(journal_);
  auto store = RocksDbStore::Open(store_);
  ASSERT_TRUE(journal.ok() && store.ok());
  ASSERT_TRUE(Append(**journal, "a", true, 1000).ok());
  ASSERT_TRUE((*store)->Put("a", Object('a', 3 * kMiB)).ok());
  Status status;
  char name = 'b';
  while ((status = (*store)->Put(std::string(1, name), Object(name, 3 * kMiB))).ok()) ++name;
  EXPECT_EQ(status.code(), StatusCode::kOverloaded);
  EXPECT_TRUE((*store)->healthy());
  EXPECT_EQ(*(*store)->GetManifest("a"), "a");
  EXPECT_TRUE(Append(**journal, "a", false, 1000).ok());  // turns continue
  ASSERT_TRUE((*store)->Erase("a").ok());                 // and the freed space is usable at once
  ASSERT_TRUE((*store)->Erase("b").ok());
  EXPECT_TRUE((*store)->Put("z", Object('z', 3 * kMiB)).ok());
}

TEST_F(SmallDiskTest, FullDiskUnderTheTierLosesNothing) {
  store_.min_free_bytes = -kMiB * 1000;  // no free-space check
  {
    auto store = RocksDbStore::Open(store_);
    ASSERT_TRUE(store.ok());
    ASSERT_TRUE((*store)->Put("a", Object('a', kMiB)).ok());
    Fill(kMiB);
    EXPECT_FALSE((*store)->Put("b", Object('b', 3 * kMiB)).ok());
    EXPECT_EQ(*(*store)->GetManifest("a"), "a");
    EXPECT_EQ((*store)->GetManifest("b").status().code(), StatusCode::kNotFound);
  }
  fs::remove(folder_ / "filler");
  auto store = RocksDbStore::Open(store_);
  ASSERT_TRUE(store.ok()) << store.status().ToString();
  const StoreObject a = Object('a', kMiB);
  EXPECT_TRUE((*store)->GetPart("a", a.parts[0].key, kMiB).ok());
  EXPECT_TRUE((*store)->Put("b", Object('b', 3 * kMiB)).ok());
}

TEST_F(SmallDiskTest, ReadOnlyDiskIsAnIoError) {
  {
    auto journal = Journal::Open(journal_);
    auto store = RocksDbStore::Open(store_);
    ASSERT_TRUE(journal.ok() && store.ok());
  }
  ASSERT_EQ(mount("tmpfs", folder_.c_str(), "tmpfs", MS_REMOUNT | MS_RDONLY, "size=96m,nr_inodes=200"), 0)
      << std::strerror(errno);
  EXPECT_EQ(Journal::Open(journal_).status().code(), StatusCode::kIo);
  EXPECT_EQ(RocksDbStore::Open(store_).status().code(), StatusCode::kIo);
}

TEST_F(SmallDiskTest, UnownedFolderIsAnIoError) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can become someone else";
  {
    auto journal = Journal::Open(journal_);
    auto store = RocksDbStore::Open(store_);
    ASSERT_TRUE(journal.ok() && store.ok());
  }
  fs::permissions(folder_, fs::perms::all);
  constexpr uid_t kNobody = 65534;
  ASSERT_EQ(seteuid(kNobody), 0);
  const Status journal = Journal::Open(journal_).status(), store = RocksDbStore::Open(store_).status();
  ASSERT_EQ(seteuid(0), 0);
  EXPECT_EQ(journal.code(), StatusCode::kIo) << journal.ToString();
  EXPECT_EQ(store.code(), StatusCode::kIo) << store.ToString();
  EXPECT_TRUE(Journal::Open(journal_).ok());
}

TEST_F(SmallDiskTest, LackOfFilesLosesNothing) {
  auto journal = Journal::Open(journal_);
  auto store = RocksDbStore::Open(store_);
  ASSERT_TRUE(journal.ok() && store.ok());
  ASSERT_TRUE(Append(**journal, "a", true, 1000).ok());
  ASSERT_TRUE((*store)->Put("a", Object('a', kMiB)).ok());
  fs::create_directory(folder_ / "many");
  for (int i = 0; std::ofstream(folder_ / "many" / std::to_string(i)).good(); ++i) {
  }
  EXPECT_FALSE((*store)->Put("b", Object('b', kMiB)).ok());  // needs a file
  EXPECT_TRUE(Append(**journal, "a", false, 1000).ok());     // has one
  EXPECT_TRUE(Erase(**journal, "a").ok());
  EXPECT_FALSE((*journal)->Purge().ok());
  EXPECT_EQ(*(*store)->GetManifest("a"), "a");
  store->reset();
  journal->reset();
  fs::remove_all(folder_ / "many");
  journal = Journal::Open(journal_);
  ASSERT_TRUE(journal.ok()) << journal.status().ToString();
  EXPECT_EQ((*journal)->Read("a").status().code(), StatusCode::kNotFound);
  EXPECT_TRUE((*journal)->Purge().ok());
  store = RocksDbStore::Open(store_);
  ASSERT_TRUE(store.ok()) << store.status().ToString();
  EXPECT_EQ(*(*store)->GetManifest("a"), "a");
  EXPECT_TRUE((*store)->Put("b", Object('b', kMiB)).ok());
}

TEST_F(SmallDiskTest, FolderInUseIsBusy) {
  auto journal = Journal::Open(journal_);
  auto store = RocksDbStore::Open(store_);
  ASSERT_TRUE(journal.ok() && store.ok());
  EXPECT_EQ(Journal::Open(journal_).status().code(), StatusCode::kBusy);
  EXPECT_EQ(RocksDbStore::Open(store_).status().code(), StatusCode::kBusy);
}

}  // namespace
}  // namespace ringside
