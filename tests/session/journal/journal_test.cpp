// The journal on a real folder: what it stores, in which order, what it refuses, and its number of syncs.
#include "session/journal/journal.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <future>
#include <mutex>
#include <sstream>
#include <thread>

#include "session/journal/journal_format.h"
#include "session/journal/rocksdb_log.h"
#include "tests/session/journal/journal_fixture.h"

namespace ringside {
namespace {

namespace fs = std::filesystem;

TEST(JournalFormat, OlderHeadHasNoByteCount) {
  const std::string head = journal_format::EncodeHead("key", {{7, {2, 3}, 100}, 4});
  const auto read = journal_format::DecodeHead("key", head);
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(read->last.bytes, 100U);
  std::string older = head.substr(0, head.size() - 16);
  const uint64_t check = journal_format::Checksum("key", older);
  for (int i = 0; i < 8; ++i) older.push_back(static_cast<char>(check >> (8 * i)));
  const auto before = journal_format::DecodeHead("key", older);
  ASSERT_TRUE(before.has_value());
  EXPECT_EQ(before->last, (JournalPosition{7, {2, 3}, 0}));
  EXPECT_EQ(before->boot, 4U);
}

TEST_F(JournalTest, KeepsRecordsInOrderAcrossReopening) {
  JournalPosition last;
  {
    auto journal = MustOpen();
    EXPECT_TRUE(Append(*journal, Entry("a", {"one", "two"}, true)).get().status.ok());
    EXPECT_TRUE(Append(*journal, Entry("b", {"other"}, true)).get().status.ok());
    const Told told = Append(*journal, Entry("a", {"", "four"})).get();
    EXPECT_TRUE(told.status.ok());
    last = told.last;
    EXPECT_EQ(last.seq, 4u);
  }
  auto journal = MustOpen();
  const auto read = journal->Read("a");
  ASSERT_TRUE(read.ok()) << read.status().ToString();
  EXPECT_EQ(read->records, (std::vector<JournalRecord>{{7, "one"}, {7, "two"}, {7, ""}, {7, "four"}}));
  EXPECT_EQ(read->last, last);
  EXPECT_EQ(*journal->Last("a"), last);
  EXPECT_EQ(journal->Read("b")->records.size(), 1u);
  EXPECT_EQ(journal->Read("c").status().code(), StatusCode::kNotFound);
  EXPECT_EQ(Append(*journal, Entry("a", {"five"})).get().last.seq, 5u);
}

TEST_F(JournalTest, ChainIdentifiesTheHistory) {
  auto journal = MustOpen();
  const auto chain = [&](const std::string& session, std::vector<std::string> payloads) {
    return Append(*journal, Entry(session, std::move(payloads), true)).get().last.chain;
  };
  const JournalChain a = chain("a", {"x", "y"});
  EXPECT_NE(a, chain("b", {"x", "y"}));  // the same records in another session
  EXPECT_NE(a, chain("c", {"y", "x"}));
  EXPECT_NE(chain("d", {"xy"}), chain("e", {"x", "y"}));
  EXPECT_EQ(a.Hex().size(), 32u);
  // The chain depends on the records, not on their division into entries.
  JournalChain expected = journal_format::FirstChain("a");
  expected = journal_format::NextChain(expected, 1, 7, "x");
  expected = journal_format::NextChain(expected, 2, 7, "y");
  EXPECT_EQ(a, expected);
}

TEST_F(JournalTest, ReturnsTheChainUpToAnyRecord) {
  std::vector<JournalChain> chains = {journal_format::FirstChain("a")};
  {
    auto journal = MustOpen();
    chains.push_back(Append(*journal, Entry("a", {"one"}, true)).get().last.chain);
    for (const char* text : {"two", "three"}) chains.push_back(Append(*journal, Entry("a", {text})).get().last.chain);
    ASSERT_TRUE(Append(*journal, Entry("empty", {}, true)).get().status.ok());
    ASSERT_TRUE(Append(*journal, Entry("gone", {"x"}, true)).get().status.ok());
    ASSERT_TRUE(Erase(*journal, "gone").status.ok());
  }
  auto journal = MustOpen();
  for (uint64_t seq = 0; seq < chains.size(); ++seq) EXPECT_EQ(*journal->ChainAt("a", seq), chains[seq]) << seq;
  EXPECT_EQ(*journal->ChainAt("empty", 0), journal_format::FirstChain("empty"));
  EXPECT_EQ(journal->ChainAt("a", 4).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(journal->ChainAt("empty", 1).status().code(), StatusCode::kNotFound);
  for (const char* id : {"gone", "unknown", ""}) {
    EXPECT_EQ(journal->ChainAt(id, 0).status().code(), StatusCode::kNotFound);
  }
}

TEST_F(JournalTest, FlushReturnsAfterEarlierAcknowledgements) {
  auto journal = MustOpen();
  journal->Flush();  // nothing to wait for
  std::atomic<int> told = 0;
  for (int i = 0; i < 200; ++i) {
    ASSERT_TRUE(
        journal->Append(Entry("a", {"x"}, i == 0), [&](const Status&, const JournalPosition&) { ++told; }).ok());
  }
  journal->Flush();
  EXPECT_EQ(told, 200);
  EXPECT_EQ(journal->stats().entries, 200u);
}

TEST_F(JournalTest, SummariesAreReplacedAndListed) {
  {
    auto journal = MustOpen();
    JournalEntry entry = Entry("a", {"one"}, true);
    entry.summary = "first";
    EXPECT_TRUE(Append(*journal, entry).get().status.ok());
    EXPECT_TRUE(Append(*journal, Entry("bb", {}, true)).get().status.ok());
    JournalEntry second = Entry("a", {});
    second.summary = std::string("sec\0nd", 6);
    EXPECT_TRUE(Append(*journal, second).get().status.ok());
  }
  auto journal = MustOpen();
  std::map<std::string, std::pair<uint64_t, std::string>> heads;
  const Status status = journal->ForEachHead([&](const JournalHead& head) {
    heads[std::string(head.session)] = {head.last.seq, std::string(head.summary)};
  });
  EXPECT_TRUE(status.ok());
  EXPECT_EQ(heads, (std::map<std::string, std::pair<uint64_t, std::string>>{{"a", {1, std::string("sec\0nd", 6)}},
                                                                            {"bb", {0, ""}}}));
  EXPECT_EQ(journal->Read("a")->summary, std::string("sec\0nd", 6));
  EXPECT_EQ(journal->stats().sessions, 2);
}

TEST_F(JournalTest, CreatesASessionOnceAndAppendsOnlyToExisting) {
  auto journal = MustOpen();
  EXPECT_EQ(Append(*journal, Entry("a", {"x"})).get().status.code(), StatusCode::kNotFound);
  EXPECT_TRUE(Append(*journal, Entry("a", {"x"}, true)).get().status.ok());
  EXPECT_EQ(Append(*journal, Entry("a", {"x"}, true)).get().status.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(journal->Read("a")->records.size(), 1u);
  EXPECT_EQ(Append(*journal, Entry("", {"x"}, true)).get().status.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(Append(*journal, Entry(std::string(129, 'x'), {}, true)).get().status.code(), StatusCode::kInvalidArgument);
}

TEST_F(JournalTest, ErasedSessionStaysErased) {
  {
    auto journal = MustOpen();
    for (const char* id : {"a", "b", "bb"})
      EXPECT_TRUE(Append(*journal, Entry(id, {"x", "y"}, true)).get().status.ok());
    EXPECT_TRUE(Erase(*journal, "b").status.ok());
    EXPECT_TRUE(Erase(*journal, "unknown").status.ok());
    EXPECT_EQ(journal->Read("b").status().code(), StatusCode::kNotFound);
    // Pending output of the erased session's turn does not recreate it.
    EXPECT_EQ(Append(*journal, Entry("b", {"z"})).get().status.code(), StatusCode::kNotFound);
  }
  auto journal = MustOpen();
  EXPECT_EQ(journal->Read("b").status().code(), StatusCode::kNotFound);
  EXPECT_EQ(journal->Read("a")->records.size(), 2u);
  EXPECT_EQ(journal->Read("bb")->records.size(), 2u);
  EXPECT_EQ(journal->stats().sessions, 2);
  EXPECT_TRUE(Append(*journal, Entry("b", {"new"}, true)).get().status.ok());
  EXPECT_EQ(journal->Read("b")->records, (std::vector<JournalRecord>{{7, "new"}}));
}

bool AnyFileHolds(const fs::path& folder, const std::string& text) {
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    std::ostringstream bytes;
    bytes << std::ifstream(entry.path(), std::ios::binary).rdbuf();
    if (bytes.str().find(text) != std::string::npos) return true;
  }
  return false;
}

TEST_F(JournalTest, PurgeRemovesBytesOfErasedSessions) {
  const std::string canary = "canary-of-an-erased-session", summary = "canary-in-its-summary";
  for (const bool reopened : {false, true}) {
    auto journal = MustOpen();
    const std::string id = reopened ? "gone-again" : "gone";
    JournalEntry entry = Entry(id, {canary}, true);
    entry.summary = summary;
    EXPECT_TRUE(Append(*journal, entry).get().status.ok());
    EXPECT_TRUE(Append(*journal, Entry("kept" + id, {"stays"}, true)).get().status.ok());
    if (reopened) journal = nullptr, journal = MustOpen();  // its rows are in a table file now
    EXPECT_TRUE(AnyFileHolds(folder_, canary));
    EXPECT_TRUE(Erase(*journal, id).status.ok());
    EXPECT_EQ(journal->stats().erased_unpurged, 1);
    EXPECT_TRUE(journal->Purge().ok());
    EXPECT_EQ(journal->stats().erased_unpurged, 0);
    EXPECT_FALSE(AnyFileHolds(folder_, canary));
    EXPECT_FALSE(AnyFileHolds(folder_, summary));
    EXPECT_EQ(journal->Read("kept" + id)->records.size(), 1u);
  }
}

TEST_F(JournalTest, UnpurgedErasureSurvivesARestart) {
  {
    auto journal = MustOpen();
    EXPECT_TRUE(Append(*journal, Entry("a", {"canary"}, true)).get().status.ok());
    EXPECT_TRUE(Erase(*journal, "a").status.ok());
  }
  auto journal = MustOpen();
  EXPECT_EQ(journal->stats().erased_unpurged, 1);
  EXPECT_TRUE(journal->Purge().ok());
  EXPECT_FALSE(AnyFileHolds(folder_, "canary"));
}

TEST_F(JournalTest, PendingEntriesShareOneSync) {
  auto journal = MustOpen();
  // The first callback blocks the journal's thread until all other entries are queued.
  std::promise<void> queued;
  std::shared_future<void> go(queued.get_future());
  ASSERT_TRUE(journal->Append(Entry("a", {}, true), [go](const Status&, const JournalPosition&) { go.wait(); }).ok());
  while (journal->stats().commits == 0) std::this_thread::yield();
  std::mutex mutex;
  std::vector<uint64_t> order;
  constexpr uint64_t kEntries = 500;
  std::promise<void> all;
  for (uint64_t i = 0; i < kEntries; ++i) {
    ASSERT_TRUE(journal
                    ->Append(Entry("a", {std::to_string(i)}),
                             [&](const Status& status, const JournalPosition& last) {
                               EXPECT_TRUE(status.ok());
                               std::lock_guard lock(mutex);
                               order.push_back(last.seq);
                               if (order.size() == kEntries) all.set_value();
                             })
                    .ok());
  }
  queued.set_value();
  all.get_future().wait();
  for (uint64_t i = 0; i < kEntries; ++i) ASSERT_EQ(order[i], i + 1);
  EXPECT_EQ(journal->stats().commits, 2u);
  EXPECT_EQ(journal->Read("a")->records.size(), kEntries);
}

// Other sessions' tokens do not wait for a large import to be written.
TEST_F(JournalTest, TokenIsAcknowledgedBeforeAQueuedImport) {
  auto journal = MustOpen();
  std::promise<void> queued;
  std::shared_future<void> go(queued.get_future());
  ASSERT_TRUE(journal->Append(Entry("a", {}, true), [go](const Status&, const JournalPosition&) { go.wait(); }).ok());
  while (journal->stats().commits == 0) std::this_thread::yield();
  std::vector<std::string> told;
  const auto note = [&](const char* what) {
    return [&told, what](const Status& status, const JournalPosition&) {
      EXPECT_TRUE(status.ok());
      told.emplace_back(what);
    };
  };
  ASSERT_TRUE(journal->Append(Entry("import", {std::string(16 << 20, 'x')}, true), note("import")).ok());
  ASSERT_TRUE(journal->Append(Entry("import", {"more"}), note("more of it")).ok());
  JournalEntry token = Entry("a", {"token"});
  token.urgent = true;
  ASSERT_TRUE(journal->Append(std::move(token), note("token")).ok());
  queued.set_value();
  journal->Flush();
  EXPECT_EQ(told, (std::vector<std::string>{"token", "import", "more of it"}));
  EXPECT_EQ(journal->Read("import")->records.size(), 2u);
}

TEST_F(JournalTest, FullQueueRefusesEntriesButErases) {
  options_.queue_entries = 4;
  options_.queue_bytes = 1000;
  auto journal = MustOpen();
  std::promise<void> release;
  std::shared_future<void> go(release.get_future());
  ASSERT_TRUE(journal->Append(Entry("a", {}, true), [go](const Status&, const JournalPosition&) { go.wait(); }).ok());
  while (journal->stats().commits == 0) std::this_thread::yield();
  ASSERT_TRUE(journal->Append(Entry("a", {std::string(900, 'x')}), nullptr).ok());
  EXPECT_EQ(journal->Append(Entry("a", {std::string(200, 'x')}), nullptr).code(), StatusCode::kOverloaded);  // bytes
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(journal->Append(Entry("a", {"y"}), nullptr).ok());
  EXPECT_EQ(journal->Append(Entry("a", {"y"}), nullptr).code(), StatusCode::kOverloaded);  // entries
  auto erased = std::async(std::launch::async, [&] { return Erase(*journal, "unknown"); });
  release.set_value();
  EXPECT_TRUE(erased.get().status.ok());
  EXPECT_EQ(Append(*journal, Entry("a", {"z"})).get().last.seq, 5u);
}

TEST_F(JournalTest, CloseCommitsQueuedEntries) {
  int told = 0;
  {
    auto journal = MustOpen();
    for (int i = 0; i < 100; ++i) {
      ASSERT_TRUE(journal
                      ->Append(Entry("a", {"x"}, i == 0),
                               [&](const Status& status, const JournalPosition&) { told += status.ok(); })
                      .ok());
    }
  }
  EXPECT_EQ(told, 100);
  EXPECT_EQ(MustOpen()->Read("a")->records.size(), 100u);
}

TEST_F(JournalTest, ManyThreadsKeepEachSessionInOrder) {
  auto journal = MustOpen();
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([&, t] {
      const std::string id = "s" + std::to_string(t);
      std::vector<std::future<Told>> told;
      for (int i = 0; i < 100; ++i) told.push_back(Append(*journal, Entry(id, {std::to_string(i)}, i == 0)));
      for (auto& one : told) EXPECT_TRUE(one.get().status.ok());
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int t = 0; t < 8; ++t) {
    const auto read = journal->Read("s" + std::to_string(t));
    ASSERT_TRUE(read.ok());
    ASSERT_EQ(read->records.size(), 100u);
    for (int i = 0; i < 100; ++i) EXPECT_EQ(read->records[i].payload, std::to_string(i));
  }
  EXPECT_TRUE(journal->Verify()->empty());
}

TEST_F(JournalTest, OneProcessAtATime) {
  auto journal = MustOpen();
  EXPECT_EQ(OpenCode(), StatusCode::kBusy);
  journal.reset();
  EXPECT_EQ(OpenCode(), StatusCode::kOk);
}

TEST_F(JournalTest, FilesAreForTheOwnerOnly) {
  MustOpen();
  int files = 0;
  for (const auto& entry : fs::recursive_directory_iterator(folder_)) {
    struct stat info {};
    ASSERT_EQ(stat(entry.path().c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, entry.is_directory() ? 0700u : 0600u) << entry.path();
    ++files;
  }
  EXPECT_GT(files, 4);
}

TEST_F(JournalTest, RefusesAnotherSchema) {
  MustOpen();
  {
    auto log = OpenRocksDbLog(options_, {});
    ASSERT_TRUE(log.ok());
    EXPECT_TRUE((*log)->Commit({{RowChange::Kind::kPut, journal_format::kSchemaKey, "ringside-log 2"}}).ok());
  }
  EXPECT_EQ(OpenCode(), StatusCode::kMismatch);
}

TEST_F(JournalTest, MissingOrHeadlessLogIsNotRecreated) {
  { EXPECT_TRUE(Append(*MustOpen(), Entry("a", {"x"}, true)).get().status.ok()); }
  fs::copy(options_.path, folder_ / "copy", fs::copy_options::recursive);
  fs::remove(options_.path + "/log/CURRENT");
  EXPECT_EQ(OpenCode(), StatusCode::kCorruption);
  fs::remove_all(options_.path + "/log");
  EXPECT_EQ(OpenCode(), StatusCode::kCorruption);
  fs::remove_all(options_.path);
  fs::rename(folder_ / "copy", options_.path);
  EXPECT_EQ(MustOpen()->Read("a")->records.size(), 1u);
}

// Damage inside rows that RocksDB's own checksums cannot detect: rows are changed directly through RocksDB.
class JournalDamageTest : public JournalTest {
 protected:
  void SetUp() override {
    auto journal = MustOpen();
    for (const char* id : {"hurt", "sound"}) {
      JournalEntry entry = Entry(id, {"one", "two", "three"}, true);
      entry.summary = "summary";
      ASSERT_TRUE(Append(*journal, entry).get().status.ok());
    }
  }
  void Change(const RowChange& change) {
    auto log = OpenRocksDbLog(options_, {});
    ASSERT_TRUE(log.ok());
    ASSERT_TRUE((*log)->Commit({change}).ok());
  }
  std::string Value(const std::string& key) {
    auto log = OpenRocksDbLog(options_, {});
    JournalCursor cursor = (*log)->Cursor();
    cursor.Seek(key);
    return std::string(cursor.value());
  }
  void ExpectOnlyHurtIsDamaged() {
    auto journal = MustOpen();
    const auto damaged = journal->Verify();
    ASSERT_TRUE(damaged.ok());
    EXPECT_EQ(*damaged, std::vector<std::string>{"hurt"});
    const auto read = journal->Read("hurt");
    ASSERT_FALSE(read.ok());
    EXPECT_EQ(read.status().code(), StatusCode::kCorruption);
    EXPECT_NE(read.status().message().find("hurt"), std::string::npos);
    EXPECT_EQ(read.status().reason(), "session_damaged");
    EXPECT_EQ(Append(*journal, Entry("hurt", {"more"})).get().status.code(), StatusCode::kCorruption);
    EXPECT_EQ(journal->Read("sound")->records.size(), 3u);
    EXPECT_TRUE(Append(*journal, Entry("sound", {"four"})).get().status.ok());
    EXPECT_EQ(journal->stats().damaged_sessions, 1);
    EXPECT_TRUE(Erase(*journal, "hurt").status.ok());
    EXPECT_EQ(journal->stats().damaged_sessions, 0);
  }
};

TEST_F(JournalDamageTest, AChangedRecord) {
  const std::string key = journal_format::RecordKey("hurt", 2);
  std::string value = Value(key);
  value[1] ^= 1;
  Change({RowChange::Kind::kPut, key, value});
  ExpectOnlyHurtIsDamaged();
}
TEST_F(JournalDamageTest, ChainAtADamagedRecordIsNotReported) {
  const std::string key = journal_format::RecordKey("hurt", 2);
  std::string value = Value(key);
  value.back() ^= 1;  // its chain
  Change({RowChange::Kind::kPut, key, value});
  auto journal = MustOpen();
  EXPECT_TRUE(journal->ChainAt("hurt", 1).ok());
  EXPECT_EQ(journal->ChainAt("hurt", 2).status().code(), StatusCode::kCorruption);
  EXPECT_EQ(journal->ChainAt("hurt", 3).status().code(), StatusCode::kCorruption);
  EXPECT_TRUE(journal->ChainAt("sound", 3).ok());
}
TEST_F(JournalDamageTest, ChangedRecordType) {
  const std::string key = journal_format::RecordKey("hurt", 3);
  std::string value = Value(key);
  value[0] ^= 1;
  Change({RowChange::Kind::kPut, key, value});
  ExpectOnlyHurtIsDamaged();
}
TEST_F(JournalDamageTest, MissingRecord) {
  Change({RowChange::Kind::kDelete, journal_format::RecordKey("hurt", 2), ""});
  ExpectOnlyHurtIsDamaged();
}
TEST_F(JournalDamageTest, MissingLastRecord) {
  Change({RowChange::Kind::kDelete, journal_format::RecordKey("hurt", 3), ""});
  ExpectOnlyHurtIsDamaged();
}
TEST_F(JournalDamageTest, ExtraRecord) {
  const std::string value = Value(journal_format::RecordKey("hurt", 3));
  Change({RowChange::Kind::kPut, journal_format::RecordKey("hurt", 4), value});
  ExpectOnlyHurtIsDamaged();
}
TEST_F(JournalDamageTest, TruncatedRecord) {
  Change({RowChange::Kind::kPut, journal_format::RecordKey("hurt", 1), "short"});
  ExpectOnlyHurtIsDamaged();
}
TEST_F(JournalDamageTest, RecordOfAnotherSession) {
  Change({RowChange::Kind::kPut, journal_format::RecordKey("hurt", 1), Value(journal_format::RecordKey("sound", 1))});
  ExpectOnlyHurtIsDamaged();
}

TEST_F(JournalDamageTest, HeadOfAnotherSessionIsListedAsDamaged) {
  Change({RowChange::Kind::kPut, journal_format::HeadKey("hurt"), Value(journal_format::HeadKey("sound"))});
  {
    std::map<std::string, std::string> heads;
    EXPECT_TRUE(MustOpen()
                    ->ForEachHead([&](const JournalHead& head) {
                      heads[std::string(head.session)] = std::string(head.summary) + ": " + std::string(head.damage);
                    })
                    .ok());
    EXPECT_EQ(heads,
              (std::map<std::string, std::string>{{"hurt", "summary: its head is damaged"}, {"sound", "summary: "}}));
  }
  ExpectOnlyHurtIsDamaged();
}

TEST_F(JournalTest, LimitsRecordAndIdSizes) {
  auto journal = MustOpen();
  const std::string big(limits::kMaxJournalRecordBytes, 'x');
  EXPECT_TRUE(Append(*journal, Entry("a", {big}, true)).get().status.ok());
  EXPECT_EQ(Append(*journal, Entry("a", {big + 'x'})).get().status.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(journal->Read("a")->records[0].payload, big);
}

TEST_F(JournalTest, BackupUnderLoadHasAcknowledgedData) {
  auto journal = MustOpen();
  EXPECT_TRUE(Append(*journal, Entry("a", {"0"}, true)).get().status.ok());
  std::atomic<uint64_t> acknowledged{1};
  std::jthread writer([&](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      const Told told = Append(*journal, Entry("a", {std::string(4096, 'x')})).get();
      EXPECT_TRUE(told.status.ok());
      acknowledged = told.last.seq;
    }
  });
  std::vector<std::pair<std::string, uint64_t>> backups;
  for (int i = 0; i < 5; ++i) {
    while (acknowledged < static_cast<uint64_t>(20 * i)) std::this_thread::yield();
    const std::string copy = (folder_ / ("copy" + std::to_string(i))).string();
    fs::create_directory(copy);
    const uint64_t before = acknowledged;
    const Status made = journal->Backup(copy);
    ASSERT_TRUE(made.ok()) << made.ToString();
    backups.emplace_back(copy, before);
  }
  writer = {};
  const uint64_t last = acknowledged;
  journal.reset();
  fs::remove_all(options_.path);  // files shared with the copies survive
  for (const auto& [copy, before] : backups) {
    options_.path = copy;
    const auto restored = MustOpen();
    ASSERT_NE(restored, nullptr);
    EXPECT_TRUE(restored->Verify()->empty());
    const uint64_t reached = restored->Last("a")->seq;
    EXPECT_GE(reached, before);
    EXPECT_LE(reached, last);
    const Told next = Append(*restored, Entry("a", {"on it goes"})).get();
    EXPECT_TRUE(next.status.ok());
    EXPECT_EQ(next.last.seq, reached + 1);
  }
}

TEST_F(JournalTest, RefusesATruncatedBackup) {
  const std::string copy = (folder_ / "copy").string();
  fs::create_directory(copy);
  {
    auto journal = MustOpen();
    EXPECT_TRUE(Append(*journal, Entry("a", {"x", "y"}, true)).get().status.ok());
    ASSERT_TRUE(journal->Backup(copy).ok());
  }
  fs::remove_all(copy + "/log");
  options_.path = copy;
  EXPECT_EQ(OpenCode(), StatusCode::kCorruption);
}

TEST_F(JournalTest, RefusesABackupToAFullDisk) {
  options_.min_free_bytes = int64_t{1} << 60;
  const std::string copy = (folder_ / "copy").string();
  fs::create_directory(copy);
  const Status refused = MustOpen()->Backup(copy);
  EXPECT_EQ(refused.reason(), "storage_full");
  EXPECT_TRUE(fs::is_empty(copy));
}

TEST_F(JournalTest, LowDiskSpaceRefusesEntriesButErases) {
  { EXPECT_TRUE(Append(*MustOpen(), Entry("a", {"x"}, true)).get().status.ok()); }
  options_.min_free_bytes = int64_t{1} << 60;
  auto journal = MustOpen();
  bool told = false;
  const Status refused =
      journal->Append(Entry("a", {"y"}), [&](const Status&, const JournalPosition&) { told = true; });
  EXPECT_EQ(refused.code(), StatusCode::kUnavailable);  // immediately, before the turn has any effect
  EXPECT_EQ(refused.reason(), "storage_full");
  EXPECT_EQ(journal->stats().refused, 1u);
  EXPECT_TRUE(journal->healthy());
  EXPECT_EQ(journal->Read("a")->records.size(), 1u);
  EXPECT_TRUE(Erase(*journal, "a").status.ok());
  EXPECT_EQ(journal->Read("a").status().code(), StatusCode::kNotFound);
  EXPECT_FALSE(told);
}

}  // namespace
}  // namespace ringside
