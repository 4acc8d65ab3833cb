// A damaged store: which conversations are reported as damaged, what still works, and that all others are unaffected.
#include <gmock/gmock.h>

#include <fstream>
#include <map>
#include <stop_token>

#include "tests/session/durable_fixture.h"

namespace ringside {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

class DamagedStoreTest : public DurableSessionTest {
 protected:
  /// A record that no session can have written.
  void AddNonsense(const std::string& id) {
    JournalEntry nonsense;
    nonsense.session = id;
    nonsense.records = {{static_cast<uint8_t>(RecordType::kEnd), "nonsense"}};
    ASSERT_TRUE(journal->Append(nonsense, nullptr).ok());
    journal->Flush();
  }
  void SetSummary(const std::string& id, std::string summary) {
    JournalEntry entry;
    entry.session = id;
    entry.summary = std::move(summary);
    ASSERT_TRUE(journal->Append(entry, nullptr).ok());
    journal->Flush();
  }
  /// All listed conversations with their reported damage, "" = none.
  std::map<std::string, std::string> Listed(const Caller& caller) {
    std::map<std::string, std::string> listed;
    const auto page = table->ListSessions(caller, "", 100);
    if (!page.ok()) ADD_FAILURE() << page.status().ToString();
    for (const SessionInfo& info : page->sessions) listed[info.id] = info.damage;
    return listed;
  }
};

TEST_F(DamagedStoreTest, DetectsInvalidRecordsBeforeTheNextStart) {
  const std::string id = NewConversation(), other = NewConversation();
  Turn(Ask("Hi", id), "Yo");
  AddNonsense(id);
  const uint64_t last = journal->Last(id)->seq;
  const SessionVerdict verdict = table->VerifySession(id).value();
  EXPECT_FALSE(verdict.ok);
  EXPECT_EQ(verdict.message, "record " + std::to_string(last) + " is inconsistent");
  EXPECT_TRUE(table->VerifySession(other)->ok);
  EXPECT_EQ(journal->stats().damaged_sessions, 1);
  EXPECT_EQ(Listed(me)[id], verdict.message);
}

TEST_F(DamagedStoreTest, DamagedConversationIsListedAndDeletable) {
  const std::string id = NewConversation(), other = NewConversation();
  Turn(Ask("Hi", id), "Yo");
  AddNonsense(id);
  Restart();
  EXPECT_TRUE(table->CheckStored({}).ok());
  EXPECT_THAT(Listed(me)[id], HasSubstr("is inconsistent"));
  EXPECT_EQ(Listed(me)[other], "");
  const Status damaged = table->GetSession(me, id).status();
  EXPECT_EQ(damaged.reason(), "session_damaged");
  EXPECT_THAT(damaged.message(), HasSubstr("is inconsistent"));
  EXPECT_EQ(table->StartTurn(me, Ask("Hi", id), sink).status().reason(), "session_damaged");
  EXPECT_EQ(table->GetSession({"another", 9}, id).status().code(), StatusCode::kNotFound);
  EXPECT_EQ(table->stats().conversations, 2);
  EXPECT_TRUE(table->DeleteSession(me, id).ok());
  EXPECT_EQ(journal->stats().damaged_sessions, 0);
  EXPECT_EQ(table->GetSession(me, id).status().code(), StatusCode::kNotFound);
  Restart();
  EXPECT_EQ(table->stats().conversations, 1);
}

TEST_F(DamagedStoreTest, ConversationWithoutASummaryIsKeptAsDamaged) {
  options.session_ttl_s = 1000;
  Restart();
  const std::string id = NewConversation(), other = NewConversation();
  SetSummary(id, "nonsense");
  EXPECT_EQ(table->VerifySession(id)->message, "its summary is inconsistent");
  Restart();
  EXPECT_EQ(table->stats().conversations, 2);
  EXPECT_EQ(journal->stats().damaged_sessions, 1);
  EXPECT_EQ(Listed({"", 7})[id], "its summary is inconsistent");  // its owner is unknown
  EXPECT_EQ(Listed(me).size(), 1U);
  clock.AdvanceMs(100'000);
  table->Sweep();
  EXPECT_EQ(table->stats().conversations, 2);  // its age is unknown, so it does not expire
  EXPECT_TRUE(table->DeleteSession({"", 7}, id).ok());
}

TEST_F(DamagedStoreTest, LoadedSessionContinuesAndIsReportedDamaged) {
  const std::string id = NewConversation();
  Turn(Ask("Hi", id), "Yo");
  AddNonsense(id);
  EXPECT_FALSE(table->VerifySession(id)->ok);
  EXPECT_THAT(Texts(id), ElementsAre("Hi", "Yo"));
  EXPECT_TRUE(table->ExportSession(me, id).ok());
  EXPECT_EQ(table->AddItems(me, id, {{ChatRole::kUser, "More"}}).status().reason(), "session_damaged");
}

TEST_F(DamagedStoreTest, FullCheckStopsOnRequest) {
  NewConversation();
  std::stop_source stop;
  stop.request_stop();
  EXPECT_EQ(table->CheckStored(stop.get_token()).code(), StatusCode::kCancelled);
}

// One byte of the database's largest file, at many offsets: the store is refused with a message, or the affected
// conversations are reported and all others are unchanged.
TEST_F(DamagedStoreTest, FlippedByteHidesNoConversation) {
  std::map<std::string, std::vector<std::string>> texts;
  for (int i = 0; i < 12; ++i) {
    const std::string id = NewConversation();
    Turn(Ask(std::string(400, static_cast<char>('a' + i)), id), "answer " + std::to_string(i));
    texts[id] = Texts(id);
  }
  Restart();  // the log has been flushed to a table now
  Close();
  const fs::path copy = path.string() + "_copy";
  fs::remove_all(copy);
  fs::copy(path, copy, fs::copy_options::recursive);
  fs::path largest;
  for (const auto& file : fs::directory_iterator(path / "log")) {
    if (largest.empty() || file.file_size() > fs::file_size(largest)) largest = file.path();
  }
  ASSERT_EQ(largest.extension(), ".sst");
  const auto size = static_cast<int64_t>(fs::file_size(largest));
  int refused = 0, named = 0;
  constexpr int kPlaces = 30;
  for (int place = 0; place < kPlaces; ++place) {
    fs::remove_all(path);
    fs::copy(copy, path, fs::copy_options::recursive);
    {
      std::fstream file(largest, std::ios::in | std::ios::out | std::ios::binary);
      const int64_t at = size * place / kPlaces;
      file.seekg(at);
      const auto byte = static_cast<char>(file.get() ^ 0x10);
      file.seekp(at);
      file.put(byte);
    }
    if (const Status refusal = Journal::Open({.path = path}).status(); !refusal.ok()) {
      ++refused;
      EXPECT_EQ(refusal.code(), StatusCode::kCorruption);
      EXPECT_THAT(refusal.message(),
                  StartsWith("the data stored in " + path.string() + " is damaged and is not served: "));
      continue;
    }
    Open();
    ASSERT_TRUE(table->CheckStored({}).ok());
    const auto listed = Listed(me);
    EXPECT_EQ(listed.size(), texts.size()) << place;
    int damaged = 0;
    for (const auto& [id, damage] : listed) {
      EXPECT_EQ(table->VerifySession(id)->ok, damage.empty());
      if (damage.empty()) {
        EXPECT_EQ(Texts(id), texts[id]);
        continue;
      }
      ++damaged;
      EXPECT_EQ(table->GetSession(me, id).status().reason(), "session_damaged");
      EXPECT_THAT(damage, testing::Not(HasSubstr(path.string())));
      EXPECT_TRUE(table->DeleteSession(me, id).ok());
    }
    EXPECT_EQ(static_cast<int>(Listed(me).size()), static_cast<int>(texts.size()) - damaged);
    // Also rows that share a block with the damaged, deleted ones.
    EXPECT_TRUE(table->CheckStored({}).ok());
    EXPECT_EQ(journal->stats().damaged_sessions, 0);
    named += damaged > 0 ? 1 : 0;
    Close();
  }
  EXPECT_GT(refused, 0);
  EXPECT_GT(named, kPlaces / 2);
  fs::remove_all(copy);
}

}  // namespace
}  // namespace ringside
