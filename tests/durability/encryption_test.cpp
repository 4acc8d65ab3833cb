// An encrypted journal and disk tier: no plaintext on disk, rows decrypt only in their own place and with their own
// key, and keys are deleted with their session. Rows are changed directly through RocksDB.
#include <rocksdb/db.h>

#include <cstring>
#include <future>

#include "cache/store/rocksdb_store.h"
#include "gtest/gtest.h"
#include "session/journal/journal_format.h"
#include "session/journal/rocksdb_log.h"
#include "tests/durability/data_folder.h"
#include "tests/durability/fault_file_system.h"

namespace ringside {
namespace {

const std::string kCanary = "a canary that sings on no disk", kSummaryCanary = "a canary in a summary";

class EncryptionTest : public testing::Test {
 protected:
  EncryptionTest() {
    journal_.path = store_.path = folder_.path() / "data";
    journal_.min_free_bytes = store_.min_free_bytes = 0;
    journal_.master_key = SealKey::Random();
  }
  std::unique_ptr<Journal> MustOpen() {
    auto journal = Journal::Open(journal_);
    EXPECT_TRUE(journal.ok()) << journal.status().ToString();
    return std::move(*journal);
  }
  std::unique_ptr<RocksDbStore> MustOpenStore(Journal& journal) {
    store_.key_of = [&journal](const std::string& owner) { return journal.KeyOf(owner); };
    auto store = RocksDbStore::Open(store_);
    EXPECT_TRUE(store.ok()) << store.status().ToString();
    return std::move(*store);
  }
  static Status Append(Journal& journal, const std::string& session, bool create, const std::string& text) {
    JournalEntry entry;
    entry.session = session;
    entry.create = create;
    entry.records.push_back({1, text});
    if (create) entry.summary = kSummaryCanary;
    std::promise<Status> told;
    const Status accepted =
        journal.Append(entry, [&](const Status& status, const JournalPosition&) { told.set_value(status); });
    return accepted.ok() ? told.get_future().get() : accepted;
  }
  static void Erase(Journal& journal, const std::string& session) {
    ASSERT_TRUE(journal.Erase(session, nullptr).ok());
    journal.Flush();
  }
  static Blob CanaryBlob(size_t bytes) {
    Blob blob = Blob::Make(bytes);
    for (size_t i = 0; i < bytes; ++i) blob.writable()[i] = static_cast<std::byte>(kCanary[i % kCanary.size()]);
    return blob;
  }
  static StoreObject Object(size_t bytes) {
    const Blob blob = CanaryBlob(bytes);
    return {kCanary, {{HashOf(blob.bytes()), blob}}};
  }
  /// Every row of the journal whose key contains `name`.
  std::vector<RowChange> RowsOf(const std::string& name) {
    auto log = OpenRocksDbLog(journal_, {});
    EXPECT_TRUE(log.ok());
    std::vector<RowChange> out;
    JournalCursor cursor = (*log)->Cursor();
    for (cursor.Seek(std::string(1, '\0')); cursor.Valid(); cursor.Next()) {
      if (cursor.key().find(name) == std::string_view::npos) continue;
      out.push_back({RowChange::Kind::kPut, std::string(cursor.key()), std::string(cursor.value())});
    }
    return out;
  }
  void Change(const std::vector<RowChange>& rows) {
    auto log = OpenRocksDbLog(journal_, {});
    ASSERT_TRUE(log.ok());
    ASSERT_TRUE((*log)->Commit(rows).ok());
  }
  StatusCode OpenCode() { return Journal::Open(journal_).status().code(); }

  DataFolder folder_;
  JournalOptions journal_;
  RocksDbStoreOptions store_;
};

TEST_F(EncryptionTest, NoPlaintextIsOnDisk) {
  const auto expect_none = [&](const char* when) {
    for (const std::string& canary : {kCanary, kSummaryCanary, kCanary.substr(0, 12)}) {
      EXPECT_FALSE(AnyFileHolds(folder_.path(), canary)) << when << ": " << canary;
    }
    const std::string master(journal_.master_key->bytes());
    EXPECT_FALSE(AnyFileHolds(folder_.path(), master)) << when;
  };
  std::string key;
  {
    auto journal = MustOpen();
    auto store = MustOpenStore(*journal);
    ASSERT_TRUE(Append(*journal, "a", true, kCanary).ok());
    ASSERT_TRUE(Append(*journal, "a", false, kCanary).ok());
    ASSERT_TRUE(store->Put("a", Object(1'200'000)).ok());
    key = (*journal->KeyOf("a"))->bytes();
    expect_none("as a crash leaves it");
    ASSERT_TRUE(store->Purge().ok());
  }
  expect_none("closed");
  auto journal = MustOpen();
  expect_none("opened again");
  EXPECT_FALSE(AnyFileHolds(folder_.path(), key));
  EXPECT_EQ((*journal->KeyOf("a"))->bytes(), key);
  auto store = MustOpenStore(*journal);
  const auto read = journal->Read("a");
  ASSERT_TRUE(read.ok()) << read.status().ToString();
  EXPECT_EQ(read->records, (std::vector<JournalRecord>{{1, kCanary}, {1, kCanary}}));
  EXPECT_EQ(read->summary, kSummaryCanary);
  std::string summary;
  ASSERT_TRUE(journal->ForEachHead([&](const JournalHead& head) { summary = head.summary; }).ok());
  EXPECT_EQ(summary, kSummaryCanary);
  EXPECT_TRUE(Append(*journal, "a", false, "more").ok());
  EXPECT_TRUE(journal->Verify()->empty());
  EXPECT_EQ(*store->GetManifest("a"), kCanary);
  const Blob expected = CanaryBlob(1'200'000);
  const auto part = store->GetPart("a", HashOf(expected.bytes()), expected.size());
  ASSERT_TRUE(part.ok()) << part.status().ToString();
  EXPECT_TRUE(std::ranges::equal(part->bytes(), expected.bytes()));
}

TEST_F(EncryptionTest, CanaryIsFoundWithoutEncryption) {  // the search itself works
  journal_.master_key.reset();
  auto journal = MustOpen();
  auto store = MustOpenStore(*journal);
  ASSERT_TRUE(Append(*journal, "a", true, kCanary).ok());
  EXPECT_TRUE(AnyFileHolds(folder_.path(), kCanary));
  EXPECT_TRUE(AnyFileHolds(folder_.path(), kSummaryCanary));
  EXPECT_EQ(*journal->KeyOf("a"), std::nullopt);
}

TEST_F(EncryptionTest, RefusesAnotherKeyByName) {
  { ASSERT_TRUE(Append(*MustOpen(), "a", true, kCanary).ok()); }
  const SealKey right = *journal_.master_key;
  journal_.master_key = SealKey::Random();
  EXPECT_EQ(OpenCode(), StatusCode::kMismatch);
  EXPECT_NE(Journal::Open(journal_).status().message().find("does not match"), std::string::npos);
  journal_.master_key.reset();
  EXPECT_EQ(OpenCode(), StatusCode::kMismatch);
  EXPECT_NE(Journal::Open(journal_).status().message().find("no encryption key"), std::string::npos);
  journal_.master_key = right;
  EXPECT_EQ(MustOpen()->Read("a")->records.size(), 1u);
}

TEST_F(EncryptionTest, RefusesAKeyForAnUnencryptedLog) {
  const auto key = std::exchange(journal_.master_key, std::nullopt);
  { ASSERT_TRUE(Append(*MustOpen(), "a", true, "x").ok()); }
  journal_.master_key = key;
  EXPECT_EQ(OpenCode(), StatusCode::kMismatch);
  EXPECT_NE(Journal::Open(journal_).status().message().find("not encrypted"), std::string::npos);
  journal_.master_key.reset();
  EXPECT_EQ(OpenCode(), StatusCode::kOk);
}

TEST_F(EncryptionTest, DeletedSessionStaysUnreadableDespiteOldRows) {
  {
    auto journal = MustOpen();
    ASSERT_TRUE(Append(*journal, "gone", true, kCanary).ok());
    ASSERT_TRUE(Append(*journal, "kept", true, kCanary).ok());
  }
  std::vector<RowChange> rows = RowsOf("gone");
  ASSERT_EQ(rows.size(), 4u);  // head, summary, key, record
  std::string sealed_key;
  std::erase_if(rows, [&](const RowChange& row) {
    const bool is_key = row.key == journal_format::DataKeyKey("gone");
    if (is_key) sealed_key = row.value;
    return is_key;
  });
  {
    auto journal = MustOpen();
    Erase(*journal, "gone");
    EXPECT_EQ(journal->KeyOf("gone").status().code(), StatusCode::kNotFound);
  }
  EXPECT_TRUE(AnyFileHolds(folder_.path(), rows[0].value));  // old bytes may remain until they are purged
  Change(rows);                                              // an attacker restores them
  {
    auto journal = MustOpen();
    EXPECT_EQ(journal->Read("gone").status().code(), StatusCode::kCorruption);
    EXPECT_EQ(journal->KeyOf("gone").status().code(), StatusCode::kCorruption);
    EXPECT_EQ(*journal->Verify(), std::vector<std::string>{"gone"});
    EXPECT_EQ(journal->Read("kept")->records.size(), 1u);
    std::map<std::string, std::string> heads;
    EXPECT_TRUE(journal
                    ->ForEachHead([&](const JournalHead& head) {
                      heads[std::string(head.session)] = std::string(head.summary) + std::string(head.damage);
                    })
                    .ok());
    EXPECT_EQ(heads.size(), 2U);
    EXPECT_EQ(heads["gone"], "its encryption key was deleted");  // without any of its content
    Erase(*journal, "gone");
    ASSERT_TRUE(journal->Purge().ok());
  }
  EXPECT_FALSE(AnyFileHolds(folder_.path(), sealed_key));  // a purge removes even that
}

TEST_F(EncryptionTest, RefusesRelocatedRows) {
  {
    auto journal = MustOpen();
    for (const char* session : {"aa", "bb"}) ASSERT_TRUE(Append(*journal, session, true, kCanary).ok());
  }
  // Session bb's key row under the name of aa: all checksums of the log are valid.
  std::vector<RowChange> key = RowsOf("bb");
  std::erase_if(key, [](const RowChange& row) { return row.key != journal_format::DataKeyKey("bb"); });
  ASSERT_EQ(key.size(), 1u);
  key[0].key = journal_format::DataKeyKey("aa");
  Change(key);
  auto journal = MustOpen();
  EXPECT_EQ(journal->Read("aa").status().code(), StatusCode::kCorruption);
  EXPECT_EQ(journal->Read("bb")->records[0].payload, kCanary);
}

TEST_F(EncryptionTest, RefusesForgedRecordsWithAValidChain) {
  { ASSERT_TRUE(Append(*MustOpen(), "aa", true, kCanary).ok()); }
  std::vector<RowChange> rows = RowsOf("aa");
  // An attacker with write access can compute the chain, but cannot seal.
  const std::string record_key = journal_format::RecordKey("aa", 1), head_key = journal_format::HeadKey("aa");
  for (RowChange& row : rows) {
    if (row.key != record_key) continue;
    JournalRecord forged = {1, std::string(journal_format::DecodeRecord(row.value)->payload)};
    forged.payload[20] ^= 1;
    const JournalChain chain =
        journal_format::NextChain(journal_format::FirstChain("aa"), 1, forged.type, forged.payload);
    Change({{RowChange::Kind::kPut, record_key, journal_format::EncodeRecord(forged, chain)},
            {RowChange::Kind::kPut, head_key, journal_format::EncodeHead(head_key, {{1, chain}, 1})}});
  }
  auto journal = MustOpen();
  EXPECT_EQ(journal->ChainAt("aa", 1).status().code(), StatusCode::kOk);
  EXPECT_EQ(journal->Read("aa").status().code(), StatusCode::kCorruption);
}

// ---- the disk tier

class SealedStoreTest : public EncryptionTest {
 protected:
  void SetUp() override {
    auto journal = MustOpen();
    auto store = MustOpenStore(*journal);
    for (const char* owner : {"aa", "bb"}) {
      ASSERT_TRUE(Append(*journal, owner, true, "x").ok());
      ASSERT_TRUE(store->Put(owner, Object(kBytes)).ok());
    }
  }
  using Rows = std::map<std::string, std::string>;
  /// Changes the rows of both column families with `change`.
  void ChangeRows(const std::function<void(Rows& rows, Rows& parts)>& change) {
    std::vector<rocksdb::ColumnFamilyHandle*> families;
    rocksdb::DB* opened = nullptr;
    ASSERT_TRUE(rocksdb::DB::Open(rocksdb::DBOptions(), store_.path + "/kv",
                                  {{rocksdb::kDefaultColumnFamilyName, {}}, {"parts", {}}}, &families, &opened)
                    .ok());
    const std::unique_ptr<rocksdb::DB> db(opened);
    Rows content[2];
    for (int i = 0; i < 2; ++i) {
      const std::unique_ptr<rocksdb::Iterator> row(db->NewIterator({}, families[i]));
      for (row->SeekToFirst(); row->Valid(); row->Next()) content[i][row->key().ToString()] = row->value().ToString();
    }
    change(content[0], content[1]);
    for (int i = 0; i < 2; ++i) {
      for (const auto& [key, value] : content[i]) ASSERT_TRUE(db->Put({}, families[i], key, value).ok());
      ASSERT_TRUE(db->DestroyColumnFamilyHandle(families[i]).ok());
    }
  }
  static std::vector<std::string> KeysWith(const Rows& rows, const std::string& name) {
    std::vector<std::string> out;
    for (const auto& [key, value] : rows) {
      if (key.find(name) != std::string::npos) out.push_back(key);
    }
    return out;
  }
  void ExpectSound(const std::string& owner, bool manifest, bool part) {
    auto journal = MustOpen();
    auto store = MustOpenStore(*journal);
    const Blob expected = CanaryBlob(kBytes);
    const auto found = store->GetManifest(owner);
    EXPECT_EQ(found.status().code(), manifest ? StatusCode::kOk : StatusCode::kCorruption) << found.status().ToString();
    const auto bytes = store->GetPart(owner, HashOf(expected.bytes()), kBytes);
    EXPECT_EQ(bytes.status().code(), part ? StatusCode::kOk : StatusCode::kCorruption) << bytes.status().ToString();
    EXPECT_TRUE(!bytes.ok() || std::ranges::equal(bytes->bytes(), expected.bytes()));
  }
  static constexpr size_t kBytes = 1'200'000;  // three pieces
};

TEST_F(SealedStoreTest, RefusesAChunkOfAnotherConversation) {
  ChangeRows([](Rows&, Rows& parts) {
    const auto a = KeysWith(parts, "aa"), b = KeysWith(parts, "bb");
    ASSERT_EQ(a.size(), 3u);
    ASSERT_EQ(b.size(), 3u);
    EXPECT_NE(a[0].substr(3), b[0].substr(3));  // equal plaintexts have different ciphertexts
    for (size_t i = 0; i < 3; ++i) parts[b[i]] = parts[a[i]];
  });
  ExpectSound("aa", true, true);
  ExpectSound("bb", true, false);
}
TEST_F(SealedStoreTest, RefusesAManifestOfAnotherConversation) {
  ChangeRows([](Rows& rows, Rows&) { rows["mbb"] = rows["maa"]; });
  ExpectSound("bb", false, true);
}
TEST_F(SealedStoreTest, RefusesReorderedPieces) {
  ChangeRows([](Rows&, Rows& parts) {
    const auto keys = KeysWith(parts, "aa");
    std::swap(parts[keys[0]], parts[keys[1]]);
  });
  ExpectSound("aa", true, false);
}
TEST_F(SealedStoreTest, RefusesAFlippedBit) {
  ChangeRows([](Rows& rows, Rows& parts) {
    parts[KeysWith(parts, "aa")[1]][1000] ^= 1;
    rows["mbb"][15] ^= 1;
  });
  ExpectSound("aa", true, false);
  ExpectSound("bb", false, true);
}

TEST_F(SealedStoreTest, IsErasedWithItsSession) {
  auto journal = MustOpen();
  auto store = MustOpenStore(*journal);
  Erase(*journal, "aa");
  EXPECT_EQ(store->GetManifest("aa").status().code(), StatusCode::kNotFound);  // although the store still has the bytes
  EXPECT_TRUE(store->index().Find("aa").has_value());
  EXPECT_EQ(store->Put("aa", Object(100)).code(), StatusCode::kNotFound);
  EXPECT_TRUE(store->Erase("aa").ok());
  EXPECT_FALSE(store->index().Find("aa").has_value());
  // A new session of that name gets a new key, and none of the old data.
  ASSERT_TRUE(Append(*journal, "aa", true, "x").ok());
  EXPECT_EQ(store->GetManifest("aa").status().code(), StatusCode::kNotFound);
}

TEST_F(SealedStoreTest, DropsDataOfTheOtherEncryptionMode) {
  {
    auto plain = store_;
    plain.key_of = nullptr;
    auto store = RocksDbStore::Open(plain);
    ASSERT_TRUE(store.ok()) << store.status().ToString();
    EXPECT_EQ((*store)->GetManifest("aa").status().code(), StatusCode::kNotFound);
    ASSERT_TRUE((*store)->Put("aa", Object(100)).ok());
  }
  EXPECT_TRUE(AnyFileHolds(folder_.path(), kCanary));
  auto journal = MustOpen();
  auto store = MustOpenStore(*journal);
  EXPECT_EQ(store->GetManifest("aa").status().code(), StatusCode::kNotFound);
  EXPECT_FALSE(AnyFileHolds(folder_.path(), kCanary));
}

}  // namespace
}  // namespace ringside
