// A journal over a shared store, with one server: appends, reads, erasing, encryption, damage.
#include <gmock/gmock.h>

#include "session/journal/journal_format.h"
#include "tests/session/postgres/postgres_fixture.h"

namespace ringside {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

class PostgresJournalTest : public PostgresTest {
 protected:
  std::vector<std::string> Damaged(const Journal& journal) {
    const auto damaged = journal.Verify();
    EXPECT_TRUE(damaged.ok()) << damaged.status().ToString();
    return damaged.ok() ? *damaged : std::vector<std::string>();
  }
  std::vector<std::string> Heads(const Journal& journal) {
    std::vector<std::string> sessions;
    EXPECT_TRUE(journal.ForEachHead([&](const JournalHead& head) { sessions.emplace_back(head.session); }).ok());
    return sessions;
  }
};

TEST_F(PostgresJournalTest, ReadsBackWhatItAppended) {
  auto journal = MustOpen("a");
  ASSERT_NE(journal, nullptr);
  ASSERT_TRUE(Write(*journal, Labelled("conv_1", {"one", "two"}, {.owner = "ada", .conversation = true})).ok());
  ASSERT_TRUE(Write(*journal, Entry("conv_1", {std::string("\0three\xff", 7)})).ok());
  const JournalChain chain = journal->Last("conv_1")->chain;
  for (const char* reader : {"before", "after a restart"}) {
    EXPECT_THAT(Payloads(*journal, "conv_1"), ElementsAre("one", "two", std::string("\0three\xff", 7))) << reader;
    EXPECT_EQ(journal->Summary("conv_1")->summary, "summary of conv_1");
    EXPECT_EQ(journal->Last("conv_1")->seq, 3U);
    EXPECT_EQ(journal->Last("conv_1")->chain, chain);
    EXPECT_EQ(*journal->ChainAt("conv_1", 3), chain);
    EXPECT_NE(*journal->ChainAt("conv_1", 2), chain);
    EXPECT_EQ(journal->ChainAt("conv_1", 4).status().code(), StatusCode::kNotFound);
    EXPECT_THAT(Damaged(*journal), ElementsAre());
    journal = nullptr;
    journal = MustOpen("a");
    ASSERT_NE(journal, nullptr);
  }
  EXPECT_EQ(Write(*journal, Entry("conv_1", {"unclaimed"})).code(), StatusCode::kNotFound);
  ASSERT_TRUE(journal->Claim("conv_1").ok());
  EXPECT_TRUE(Write(*journal, Entry("conv_1", {"four"})).ok());
  EXPECT_EQ(journal->Last("conv_1")->seq, 4U);
}

TEST_F(PostgresJournalTest, ReadsLongSessionsInPages) {
  const auto journal = MustOpen("a");
  ASSERT_NE(journal, nullptr);
  std::vector<std::string> all;
  for (int i = 0; i < 9'500; ++i) all.push_back("record " + std::to_string(i));  // more than two pages of rows
  all.insert(all.begin() + 100, std::string(3 << 20, 'x'));                      // and pages that end by their bytes
  all.insert(all.begin() + 200, std::string(5 << 20, 'y'));
  all.emplace_back(6 << 20, 'z');
  ASSERT_TRUE(Write(*journal, Entry("conv_1", all, true)).ok());
  ASSERT_TRUE(Write(*journal, Entry("conv_10", {"of another"}, true)).ok());
  EXPECT_EQ(Payloads(*journal, "conv_1"), all);
  EXPECT_TRUE(journal->ChainAt("conv_1", 9'000).ok());
  EXPECT_THAT(Damaged(*journal), ElementsAre());
}

TEST_F(PostgresJournalTest, VisitsHeadsInTheOrderOfAFolder) {
  const auto journal = MustOpen("a");
  ASSERT_NE(journal, nullptr);
  for (const char* name : {"zz", "b", "aaa", "B", "a"}) ASSERT_TRUE(Write(*journal, Entry(name, {"x"}, true)).ok());
  EXPECT_THAT(Heads(*journal), ElementsAre("B", "a", "b", "zz", "aaa"));
}

TEST_F(PostgresJournalTest, VisitsManyHeadsInPages) {
  const auto journal = MustOpen("a");
  ASSERT_NE(journal, nullptr);
  std::vector<std::future<Told>> told;
  std::vector<std::string> names;
  for (int i = 0; i < 1'100; ++i) {
    names.push_back("conv_" + std::to_string(10'000 + i));
    told.push_back(Append(*journal, Labelled(names.back(), {"x"}, {.owner = "ada"})));
  }
  for (auto& one : told) ASSERT_TRUE(one.get().status.ok());
  EXPECT_EQ(Heads(*journal), names);
}

TEST_F(PostgresJournalTest, ErasedRowsAreDeletedAtOnce) {
  const auto journal = MustOpen("a");
  ASSERT_NE(journal, nullptr);
  ASSERT_TRUE(Write(*journal, Labelled("conv_1", {"secret"}, {.owner = "ada"})).ok());
  ASSERT_TRUE(Erase(*journal, "conv_1").status.ok());
  EXPECT_TRUE(Erase(*journal, "conv_unknown").status.ok());
  EXPECT_EQ(journal->Read("conv_1").status().code(), StatusCode::kNotFound);
  EXPECT_THAT(server_->Numbers(database_, "select (select count(*) from record) + (select count(*) from session)"),
              ElementsAre(0));
  EXPECT_TRUE(journal->Purge().ok());
  ASSERT_TRUE(Write(*journal, Entry("conv_1", {"again"}, true)).ok());
  EXPECT_THAT(Payloads(*journal, "conv_1"), ElementsAre("again"));
}

// Everything may be one batch.
TEST_F(PostgresJournalTest, ASessionIsCreatedErasedAndCreatedAgainInOrder) {
  const auto journal = MustOpen("a");
  ASSERT_NE(journal, nullptr);
  auto created = Append(*journal, Entry("conv_1", {"first"}, true));
  auto other = Append(*journal, Entry("conv_2", {"other"}, true));
  const Told erased = Erase(*journal, "conv_1");
  auto again = Append(*journal, Entry("conv_1", {"second"}, true));
  auto twice = Append(*journal, Entry("conv_1", {"third"}, true));
  EXPECT_TRUE(created.get().status.ok() && other.get().status.ok() && erased.status.ok() && again.get().status.ok());
  EXPECT_EQ(twice.get().status.code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(Payloads(*journal, "conv_1"), ElementsAre("second"));
  EXPECT_THAT(Payloads(*journal, "conv_2"), ElementsAre("other"));
}

TEST_F(PostgresJournalTest, EncryptedSessionsHideContentsAndOwners) {
  options_.master_key = SealKey(std::string(kSealKeyBytes, 'k'));
  auto journal = MustOpen("a");
  ASSERT_NE(journal, nullptr);
  const SessionLabel label = {.owner = "ada", .conversation = true};
  ASSERT_TRUE(Write(*journal, Labelled("conv_1", {"my name is Ada"}, label)).ok());
  EXPECT_THAT(Payloads(*journal, "conv_1"), ElementsAre("my name is Ada"));
  EXPECT_TRUE(journal->KeyOf("conv_1")->has_value());
  EXPECT_EQ(journal->List("ada", "", 10)->size(), 1U);
  EXPECT_EQ(journal->List("ada", "", 10)->at(0).stored.summary, "summary of conv_1");
  EXPECT_TRUE(journal->List("bob", "", 10)->empty());
  const std::string rows = server_->Texts(database_,
                                          "select concat_ws(' ', s.owner, encode(s.summary, 'escape'),"
                                          " encode(r.value, 'escape')) from session s join record r on "
                                          "r.session = s.key")[0];
  EXPECT_THAT(rows, Not(HasSubstr("ada")));
  EXPECT_THAT(rows, Not(HasSubstr("Ada")));
  EXPECT_THAT(rows, Not(HasSubstr("summary")));
  journal = nullptr;
  journal = MustOpen("a");
  ASSERT_NE(journal, nullptr);
  EXPECT_THAT(Payloads(*journal, "conv_1"), ElementsAre("my name is Ada"));
}

TEST_F(PostgresJournalTest, AnotherKeyIsRefused) {
  ASSERT_NE(MustOpen("a"), nullptr);
  options_.master_key = SealKey(std::string(kSealKeyBytes, 'k'));
  EXPECT_EQ(TryOpen(Options("a")).status().code(), StatusCode::kMismatch) << "the store is not encrypted";
  database_ = server_->MakeDatabase();
  ASSERT_NE(MustOpen("a"), nullptr);
  options_.master_key = SealKey(std::string(kSealKeyBytes, 'x'));
  EXPECT_EQ(TryOpen(Options("b")).status().code(), StatusCode::kMismatch);
  options_.master_key = std::nullopt;
  EXPECT_EQ(TryOpen(Options("b")).status().code(), StatusCode::kMismatch);
}

TEST_F(PostgresJournalTest, DamageIsFoundAndOtherSessionsRemain) {
  const std::pair<const char*, const char*> kDamages[] = {
      {"update record set value = set_byte(value, 2, 65) where seq = 2", "the chain breaks at record 2"},
      {"delete from record where seq = 2", "record 2 is missing"},
      {"delete from record where seq = 3", "it has 2 records, its head says 3"},
      {"update record set value = '\\x01' where seq = 1", "record 1 is cut"},
      {"update session set head = set_byte(head, 0, 9)", "its head is damaged"},
      {"update session set summary = set_byte(summary, 0, 9)", "its summary is damaged"},
      {"update session set summary = '\\x'", "its summary is damaged"},
  };
  for (const auto& [damage, found] : kDamages) {
    database_ = server_->MakeDatabase();
    const auto journal = MustOpen("a");
    ASSERT_NE(journal, nullptr);
    ASSERT_TRUE(Write(*journal, Labelled("conv_1", {"one", "two", "three"}, {.owner = "ada"})).ok());
    server_->Execute(database_, damage);
    ASSERT_TRUE(Write(*journal, Labelled("conv_2", {"sound"}, {.owner = "ada"})).ok());
    const auto read = journal->Read("conv_1");
    EXPECT_EQ(read.status().reason(), "session_damaged") << damage;
    EXPECT_THAT(read.status().message(), HasSubstr(found));
    EXPECT_THAT(Payloads(*journal, "conv_2"), ElementsAre("sound"));
    EXPECT_TRUE(journal->healthy());
  }
}

TEST_F(PostgresJournalTest, VerifyNamesDamagedSessions) {
  const auto journal = MustOpen("a");
  ASSERT_NE(journal, nullptr);
  ASSERT_TRUE(Write(*journal, Entry("conv_1", {"one"}, true)).ok());
  ASSERT_TRUE(Write(*journal, Entry("conv_2", {"two"}, true)).ok());
  server_->Execute(database_, "delete from record where session = 'conv_2'");
  EXPECT_THAT(Damaged(*journal), ElementsAre("conv_2"));
}

TEST_F(PostgresJournalTest, ACursorReadsASnapshot) {
  auto log = OpenPostgresLog(Options("a"), std::nullopt, {});
  ASSERT_TRUE(log.ok());
  ASSERT_TRUE((*log)->shared()->Reserve({"conv_1"})->empty());
  const auto put = [&](const std::string& value, uint64_t seq) {
    return (*log)->Commit({{RowChange::Kind::kPut, journal_format::HeadKey("conv_1"), value},
                           {RowChange::Kind::kPut, journal_format::RecordKey("conv_1", seq), value}});
  };
  ASSERT_TRUE(put("first", 1).ok());
  JournalCursor cursor = (*log)->Cursor();
  cursor.Seek(journal_format::HeadKey("conv_1"));
  ASSERT_TRUE(put("second", 2).ok());
  ASSERT_TRUE(cursor.Valid());
  EXPECT_EQ(cursor.value(), "first");
  cursor.Seek(journal_format::RecordKey("conv_1", 0));
  ASSERT_TRUE(cursor.Valid());
  EXPECT_EQ(cursor.key(), journal_format::RecordKey("conv_1", 1));
  cursor.Next();
  EXPECT_FALSE(cursor.Valid());
  EXPECT_TRUE(cursor.status().ok());
  cursor.Seek(journal_format::SummaryKey("conv_1"));
  EXPECT_FALSE(cursor.Valid());
  cursor.Seek("x");
  EXPECT_FALSE(cursor.Valid());
}

TEST_F(PostgresJournalTest, RefusesABackup) {
  const auto journal = MustOpen("a");
  ASSERT_NE(journal, nullptr);
  const Status refused = journal->Backup(folder_);
  EXPECT_EQ(refused.code(), StatusCode::kUnavailable);
  EXPECT_THAT(refused.message(), HasSubstr("pg_dump"));
}

}  // namespace
}  // namespace ringside
