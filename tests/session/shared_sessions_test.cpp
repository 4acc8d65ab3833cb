// Two servers of one store: which of them may write a session, and what both see.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <future>
#include <set>

#include "base/limits.h"
#include "session/journal/delta_log.h"
#include "session/records.h"
#include "session/table/session_table.h"
#include "tests/cache/store/store_folder.h"
#include "tests/session/recording_sink.h"
#include "tests/session/scripted_engine.h"
#include "tests/session/shared_memory.h"

namespace ringside {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

class SharedSessionsTest : public ::testing::Test {
 protected:
  struct Server {
    std::string name;
    SharedMemoryLog* log = nullptr;
    std::unique_ptr<Journal> journal;
    std::unique_ptr<ScriptedEngine> engine;
    std::unique_ptr<SessionTable> table;
  };

  void SetUp() override {
    options = TableFixture::Options();
    one = Start("one");
    two = Start("two");
  }

  Server Start(const std::string& name) {
    Server server{.name = name};
    JournalOptions log;
    log.clock = &clock;
    log.master_key = master_key;
    log.queue_entries = queue_entries;
    if (options.durability == Durability::kTurn) log.deltas_path = folder.path() / name;
    log.open_log = [&](const std::vector<RowChange>& initial,
                       std::optional<int64_t>) -> Result<std::unique_ptr<JournalLog>> {
      auto opened = std::make_unique<SharedMemoryLog>(store, name, clock);
      opened->alone = alone;
      {
        std::lock_guard lock(store->mutex);
        for (const RowChange& row : initial) store->rows.emplace(row.key, row.value);
      }
      server.log = opened.get();
      return std::unique_ptr<JournalLog>(std::move(opened));
    };
    auto opened = Journal::Open(log);
    CHECK(opened.ok());
    server.journal = std::move(*opened);
    server.engine = std::make_unique<ScriptedEngine>(tokenizer.first_id());
    server.table =
        std::make_unique<SessionTable>(options, tokenizer, *chat, *server.engine, server.journal.get(), clock);
    CHECK(server.table->Open().ok());
    return server;
  }
  void Stop(Server* server) {
    server->table->Flush();
    server->table.reset();
    server->engine.reset();
    server->journal.reset();
  }
  /// A copy of the texts that the server's process has kept, as of now.
  std::filesystem::path CopyDeltas(Server& server) {
    server.table->Flush();
    std::filesystem::path copy = folder.path() / "copy";
    std::filesystem::copy(folder.path() / server.name, copy, std::filesystem::copy_options::recursive);
    return copy;
  }
  /// Ends the server as `kill -9` does, and starts it with these texts.
  void Crash(Server* server, const std::filesystem::path& deltas) {
    server->log->refuses_commits = true;
    Stop(server);
    std::filesystem::remove_all(folder.path() / server->name);
    std::filesystem::rename(deltas, folder.path() / server->name);
    *server = Start(server->name);
  }
  void Crash(Server* server) { Crash(server, CopyDeltas(*server)); }
  void RestartWith(Durability durability) {
    options.durability = durability;
    Restart();
  }
  void Restart() {
    Stop(&one);
    Stop(&two);
    one = Start("one");
    two = Start("two");
  }

  std::string NewConversation(Server& server) {
    clock.AdvanceMs(1'000);
    const Result<SessionInfo> info = server.table->CreateSession(me, {}, {}, {});
    CHECK(info.ok());
    return info->id;
  }
  std::string Begin(Server& server, TurnSpec spec) {
    const Result<TurnTicket> ticket = server.table->StartTurn(me, std::move(spec), sink);
    if (!ticket.ok()) ADD_FAILURE() << ticket.status().ToString();
    return ticket.ok() ? ticket->response_id : "";
  }
  std::string Turn(Server& server, TurnSpec spec, std::string_view answer) {
    const std::string id = Begin(server, std::move(spec));
    server.engine->AnswerLast(answer);
    server.table->Flush();
    return id;
  }
  std::vector<std::string> Texts(Server& server, const std::string& conversation) {
    const Result<SharedList<Item>> items = server.table->GetItems(me, conversation);
    if (!items.ok()) return {items.status().reason()};
    std::vector<std::string> texts;
    for (const Item& item : *items) texts.push_back(std::string(item.text) + (item.complete ? "" : "..."));
    return texts;
  }
  std::vector<std::string> ListedAt(Server& server) {
    std::vector<std::string> ids;
    const auto page = server.table->ListSessions(me, "", 100);
    if (!page.ok()) return {page.status().ToString()};
    for (const SessionInfo& info : page->sessions) ids.push_back(info.id);
    return ids;
  }
  /// The journal's thread may use a session for a moment after Flush: sweeps until the server holds this number.
  static void SweepUntilHeld(Server& server, int64_t held) {
    for (int tries = 0; tries < 10'000 && server.table->Held() != held; ++tries) {
      server.table->Sweep();
      server.table->Flush();
    }
    server.table->Flush();
    EXPECT_EQ(server.table->Held(), held);
  }
  /// Starts an answer and says some of it.
  void HalfAnAnswer(Server& server, const std::string& conversation) {
    Begin(server, Ask("Go on", conversation));
    server.engine->Start(server.engine->requests().size() - 1);
    server.table->Flush();
    server.engine->Say(server.engine->requests().size() - 1, "half an ");
    server.table->Flush();
  }
  /// Whether a list can describe the conversation without reading its records.
  static bool SummaryIsCurrent(Server& server, const std::string& conversation) {
    const Result<JournalSummary> stored = server.journal->Summary(conversation);
    CHECK(stored.ok());
    const auto summary = DecodeSummary(stored->summary);
    return summary.ok() && summary->seq == stored->last.seq;
  }
  std::string PromptOf(Server& server) { return tokenizer.Decode(server.engine->last().tokens); }
  int64_t claims() {
    std::lock_guard lock(store->mutex);
    return store->claims;
  }

  const Caller me{"me", 7};
  const Folder folder;
  std::shared_ptr<SharedMemory> store = std::make_shared<SharedMemory>();
  std::optional<SealKey> master_key;
  bool alone = false;
  size_t queue_entries = limits::kJournalQueueEntries;
  SessionTableOptions options;
  ManualClock clock;
  ByteTokenizer tokenizer;
  std::optional<ChatTemplate> chat = std::move(ChatTemplate::Named("chatml").value());
  std::shared_ptr<RecordingSink> sink = std::make_shared<RecordingSink>(7);
  Server one, two;
};

TEST_F(SharedSessionsTest, ReadsNeedNoClaim) {
  const std::string first = NewConversation(one), second = NewConversation(two);
  const std::string response = Turn(one, Ask("Hi", first), "Hello");
  const int64_t before = claims();
  EXPECT_THAT(Texts(two, first), ElementsAre("Hi", "Hello"));
  EXPECT_EQ(two.table->GetSession(me, first)->items, 2);
  EXPECT_EQ(two.table->GetResponse(me, response).value()->status, ResponseStatus::kCompleted);
  EXPECT_THAT(*two.table->GetInputItems(me, response), SizeIs(1));
  EXPECT_THAT(two.table->ListResponses(me, first, 10).value(), SizeIs(1));
  EXPECT_THAT(ListedAt(one), ElementsAre(second, first));
  EXPECT_THAT(ListedAt(two), ElementsAre(second, first));
  EXPECT_EQ(two.table->Search(me, {.text = "hello", .limit = 10})->matches.size(), 1U);
  const auto reader = std::make_shared<RecordingSink>(99);
  ASSERT_TRUE(two.table->Replay(me, response, 0, reader).ok());
  EXPECT_EQ(reader->text(), "Hello");
  EXPECT_EQ(claims(), before);
  EXPECT_EQ(two.table->GetSession({"another", 9}, first).status().code(), StatusCode::kNotFound);
  EXPECT_THAT(ListedAt(one), ElementsAre(second, first)) << "the views of the other server changed nothing";
}

TEST_F(SharedSessionsTest, AnyServerContinuesAnIdleConversation) {
  const std::string id = NewConversation(one);
  Turn(one, Ask("Hi", id), "Hello");
  const auto attached = std::make_shared<RecordingSink>(3);
  ASSERT_TRUE(one.table->Resume(me, {id, {}, {}, {}}, attached).ok());
  one.table->Flush();
  const std::string previous = Turn(two, Ask("And?", id), "Well");
  EXPECT_THAT(PromptOf(two), HasSubstr("Hello"));
  EXPECT_THAT(attached->lines(), testing::Contains(HasSubstr("taken over")));
  Turn(one, Ask("Back", id), "here");
  EXPECT_THAT(PromptOf(one), HasSubstr("Well"));
  EXPECT_THAT(Texts(two, id), ElementsAre("Hi", "Hello", "And?", "Well", "Back", "here"));
}

TEST_F(SharedSessionsTest, ChainsContinueByTheirResponseAnywhere) {
  const std::string first = Turn(one, Ask("Hi"), "Hello");
  const std::string second = Turn(two, Ask("And?", "", first), "Well");
  EXPECT_THAT(PromptOf(two), HasSubstr("Hello"));
  EXPECT_THAT(*one.table->GetInputItems(me, second), SizeIs(3));
}

TEST_F(SharedSessionsTest, AnAnsweringConversationIsLockedElsewhere) {
  const std::string id = NewConversation(one);
  const std::string response = Begin(one, Ask("Hi", id));
  one.table->Flush();
  EXPECT_EQ(two.table->StartTurn(me, Ask("And?", id), sink).status().reason(), "conversation_locked");
  EXPECT_EQ(two.table->GetSession(me, id)->active_response_id, response);
  EXPECT_EQ(two.table->GetResponse(me, response).value()->status, ResponseStatus::kInProgress);
  EXPECT_EQ(two.table->Cancel(me, response).reason(), "conversation_locked");
  EXPECT_EQ(two.table->DeleteSession(me, id).reason(), "conversation_locked");
  EXPECT_EQ(two.table->Replay(me, response, 0, sink).reason(), "conversation_locked");
  one.engine->AnswerLast("Hello");
  one.table->Flush();
  Turn(two, Ask("And?", id), "Well");
  EXPECT_THAT(Texts(one, id), ElementsAre("Hi", "Hello", "And?", "Well"));
}

TEST_F(SharedSessionsTest, AServerThatVanishedLosesNothingAcknowledged) {
  const std::string id = NewConversation(one);
  Turn(one, Ask("Hi", id), "Hello");
  Begin(one, Ask("Go on", id));
  one.engine->Start(1);
  one.engine->Say(1, "half an ");
  one.table->Flush();
  store->EndLease("one");
  Turn(two, Ask("And?", id), "Well");
  EXPECT_THAT(Texts(two, id), ElementsAre("Hi", "Hello", "Go on", "half an ...", "And?", "Well"));
  // The former owner cannot write and knows it.
  one.engine->Say(1, "answer");
  one.table->Flush();
  EXPECT_FALSE(one.journal->healthy());
  EXPECT_FALSE(one.journal->lost()) << "the process ends";
  EXPECT_THAT(one.journal->Check().message(), HasSubstr("Another server"));
  EXPECT_THAT(Texts(two, id), ElementsAre("Hi", "Hello", "Go on", "half an ...", "And?", "Well"));
}

class FirstEvent final : public RecordingSink {
 public:
  void OnEvent(const TurnEvent& event) override {
    if (event.kind == TurnEvent::Kind::kBegun) announced_as_refused = event.response->refused;
    RecordingSink::OnEvent(event);
  }
  std::optional<bool> announced_as_refused;
};

TEST_F(SharedSessionsTest, ACutAnswerDoesNotVanishWhileAnotherServerClaimsIt) {
  const std::string id = NewConversation(one);
  HalfAnAnswer(one, id);
  EXPECT_THAT(Texts(two, id), IsEmpty()) << "it runs";
  store->EndLease("one");
  const std::vector<std::string> cut = {"Go on", "half an ..."};
  EXPECT_EQ(Texts(two, id), cut);
  const Result<SessionInfo> before = two.table->GetSession(me, id);
  Server three = Start("three");
  ASSERT_TRUE(three.journal->Claim(id).ok());  // and has not read it yet
  EXPECT_EQ(Texts(two, id), cut);
  EXPECT_EQ(two.table->GetSession(me, id)->epoch, before->epoch);
}

TEST_F(SharedSessionsTest, NothingIsClaimedOfATurnThatOnlyTheStoreKnows) {
  const std::string id = NewConversation(one);
  const auto started = std::make_shared<RecordingSink>(), running = std::make_shared<RecordingSink>();
  ASSERT_TRUE(one.table->StartTurn(me, Ask("Hi", id), running).ok());
  one.table->Flush();
  one.engine->Start(0);
  one.table->Flush();
  const std::vector<std::string> before = running->lines();
  store->EndLease("one");
  ASSERT_TRUE(one.table->StartTurn(me, Ask("Hi"), started).ok());
  one.engine->Say(0, "text");
  one.engine->End(0);
  one.table->Flush();
  EXPECT_THAT(started->lines(), IsEmpty());
  EXPECT_EQ(running->lines(), before);
  const std::vector<TurnId> cancelled = one.engine->cancelled();
  EXPECT_THAT(std::set<TurnId>(cancelled.begin(), cancelled.end()), SizeIs(2));
}

TEST_F(SharedSessionsTest, AQuestionThatIsNotStoredIsNotAcknowledged) {
  alone = true;
  store = std::make_shared<SharedMemory>();
  Stop(&one);
  one = Start("one");
  const std::string id = NewConversation(one);
  const auto refused = std::make_shared<FirstEvent>();
  one.log->refuses_commits = true;
  const Result<TurnTicket> ticket = one.table->StartTurn(me, Ask("Hi", id), refused);
  ASSERT_TRUE(ticket.ok());
  one.table->Flush();
  EXPECT_EQ(refused->announced_as_refused, true);
  EXPECT_THAT(refused->lines().back(), HasSubstr("failed"));
}

TEST_F(SharedSessionsTest, DeletesAnywhere) {
  const std::string id = NewConversation(one), other = NewConversation(one);
  Turn(one, Ask("Hi", id), "Hello");
  ASSERT_TRUE(two.table->DeleteSession(me, id).ok());
  EXPECT_THAT(Texts(one, id), ElementsAre("conversation_not_found"));
  EXPECT_THAT(Texts(two, id), ElementsAre("conversation_not_found"));
  EXPECT_THAT(ListedAt(one), ElementsAre(other));
  EXPECT_EQ(two.table->DeleteSession(me, id).reason(), "conversation_not_found");
  EXPECT_EQ(two.table->DeleteSession({"another", 9}, other).reason(), "conversation_not_found");
}

TEST_F(SharedSessionsTest, LimitsCountAllServers) {
  options.max_sessions_per_owner = 3;
  Restart();
  NewConversation(one);
  NewConversation(one);
  NewConversation(two);
  EXPECT_EQ(two.table->CreateSession(me, {}, {}, {}).status().reason(), "rate_limit_exceeded");
  clock.AdvanceMs(10'000);
  EXPECT_EQ(one.table->CreateSession(me, {}, {}, {}).status().reason(), "rate_limit_exceeded");
  EXPECT_EQ(one.table->Owners().at(0).conversations, 3);
  EXPECT_EQ(one.table->Owners().at(0).owner, "me");
  EXPECT_GT(two.table->Owners().at(0).stored_bytes, 0);
}

TEST_F(SharedSessionsTest, OldChainsOfAllServersAreDeleted) {
  options.max_chains_per_owner = 4;
  Restart();
  std::vector<std::string> responses;
  for (int i = 0; i < 12; ++i) {
    clock.AdvanceMs(10'000);
    responses.push_back(Turn(i % 2 == 0 ? one : two, Ask("Hi " + std::to_string(i)), "Hello"));
    one.table->Sweep();
    two.table->Sweep();
    one.table->Flush();
    two.table->Flush();
  }
  EXPECT_LE(one.log->Totals("me")->chains, 7);  // each server deletes those that no other has
  EXPECT_TRUE(one.table->GetResponse(me, responses.back()).ok());
  EXPECT_EQ(two.table->GetResponse(me, responses.front()).status().code(), StatusCode::kNotFound);
}

TEST_F(SharedSessionsTest, UnusedSessionsAreGivenBackThenExpire) {
  options.session_ttl_s = 3'600;
  Restart();
  const std::string id = NewConversation(one);
  Turn(one, Ask("Hi", id), "Hello");
  one.table->Sweep();
  EXPECT_EQ(one.log->Find(id, "me")->server, "one");
  clock.AdvanceMs(700'000);
  SweepUntilHeld(one, 0);
  EXPECT_EQ(one.log->Find(id, "me")->server, "");
  EXPECT_THAT(Texts(one, id), ElementsAre("Hi", "Hello"));
  clock.AdvanceMs(4'000'000);
  two.table->Sweep();
  two.table->Flush();
  EXPECT_THAT(Texts(one, id), ElementsAre("conversation_not_found"));
  EXPECT_EQ(two.table->stats().expired, 1U);
}

TEST_F(SharedSessionsTest, HandsOverWhatIsAtRest) {
  const std::string idle = NewConversation(one), busy = NewConversation(one);
  Turn(one, Ask("Hi", idle), "Hello");
  Begin(one, Ask("Hi", busy));
  EXPECT_EQ(one.table->Held(), 2);
  one.table->HandOver(true);
  SweepUntilHeld(one, 1);
  EXPECT_EQ(two.log->Find(idle, "me")->server, "");
  one.engine->AnswerLast("Hello");
  one.table->Flush();
  SweepUntilHeld(one, 0);
  EXPECT_THAT(Texts(one, busy), ElementsAre("Hi", "Hello"));
  EXPECT_EQ(one.table->Held(), 0);
  one.table->HandOver(false);
  Turn(one, Ask("Again", busy), "Yes");
  one.table->Sweep();
  EXPECT_EQ(one.table->Held(), 1);
}

TEST_F(SharedSessionsTest, WhatIsHandedOverIsListedWithoutReadingIt) {
  queue_entries = 1;  // full while anything waits
  Restart();
  std::vector<std::string> ids;
  for (int i = 0; i < 20; ++i) {
    ids.push_back(NewConversation(one));
    one.table->Flush();
    Turn(one, Ask("Hi", ids.back()), "Hello");
    EXPECT_FALSE(SummaryIsCurrent(two, ids.back())) << "the test needs one that is outdated";
  }
  one.table->HandOver(true);
  SweepUntilHeld(one, 0);
  for (const std::string& id : ids) EXPECT_TRUE(SummaryIsCurrent(two, id));
}

TEST_F(SharedSessionsTest, AListRefreshesWhatACrashLeftOutdated) {
  const std::string id = NewConversation(one);
  Turn(one, Ask("Hi", id), "Hello");
  EXPECT_THAT(ListedAt(two), ElementsAre(id));
  two.table->Sweep();
  two.table->Flush();
  EXPECT_FALSE(SummaryIsCurrent(two, id)) << "another server has it";
  store->EndLease("one");
  EXPECT_THAT(ListedAt(two), ElementsAre(id));
  std::promise<void> refreshed;
  two.table->Post([&] { refreshed.set_value(); });
  refreshed.get_future().wait();
  two.table->Sweep();
  two.table->Flush();
  EXPECT_TRUE(SummaryIsCurrent(two, id));
}

TEST_F(SharedSessionsTest, AStopGivesEverythingBack) {
  const std::string id = NewConversation(one);
  Turn(one, Ask("Hi", id), "Hello");
  Stop(&one);
  EXPECT_EQ(two.log->Find(id, "me")->server, "");
  one = Start("one");
  EXPECT_THAT(Texts(one, id), ElementsAre("Hi", "Hello"));
}

TEST_F(SharedSessionsTest, WithoutALeaseTextWaitsForTheStore) {
  options.durability = Durability::kTurn;
  Restart();
  const std::string id = NewConversation(one);
  Begin(one, Ask("Hi", id));
  one.engine->Start(0);
  one.table->Flush();
  one.engine->Say(0, "seen ");
  one.table->Flush();
  EXPECT_EQ(sink->text(), "seen ");
  one.log->holds_lease = false;
  one.engine->Say(0, "kept ");
  one.table->Flush();
  EXPECT_EQ(sink->text(), "seen kept ") << "the store has it";
  EXPECT_THAT(Texts(two, id), IsEmpty()) << "the answer is running";
  store->EndLease("one");
  one.engine->Say(0, "never told");
  one.table->Flush();
  EXPECT_EQ(sink->text(), "seen kept ");
}

TEST_F(SharedSessionsTest, EqualHistoriesOnTwoServersDoNotCollide) {
  const auto chat_request = [](std::string text) {
    TurnSpec spec = Ask(std::move(text));
    spec.carries_history = true;
    spec.store = true;
    return spec;
  };
  Turn(one, chat_request("Hi"), "Hello");
  Turn(two, chat_request("Hi"), "Hello");
  Stop(&two);
  two = Start("two");  // finds its chain again by the request's history
  TurnSpec next = chat_request("Hi");
  next.input.push_back({ChatRole::kAssistant, "Hello"});
  next.input.push_back({ChatRole::kUser, "And?"});
  Turn(two, next, "Well");
  EXPECT_EQ(one.log->Totals("me")->chains, 2);
}

TEST_F(SharedSessionsTest, ARetryElsewhereFindsTheFirstAnswer) {
  const std::string id = NewConversation(one);
  TurnSpec spec = Ask("Hi", id);
  spec.request_key = "retry-1";
  spec.sending = TurnSpec::Sending::kNamed;
  const std::string response = Begin(one, spec);
  EXPECT_EQ(two.table->StartTurn(me, spec, sink).status().reason(), "conversation_locked");
  one.engine->AnswerLast("Hello");
  one.table->Flush();
  const Result<TurnTicket> again = two.table->StartTurn(me, spec, sink);
  ASSERT_TRUE(again.ok()) << again.status().ToString();
  EXPECT_EQ(again->response_id, response);
  EXPECT_THAT(two.engine->requests(), IsEmpty());
}

TEST_F(SharedSessionsTest, ShareLinksOpenAnywhere) {
  const std::string id = NewConversation(one);
  Turn(one, Ask("Hi", id), "Hello");
  const Result<NewShare> made = one.table->ShareSession(me, id, 0);
  ASSERT_TRUE(made.ok());
  const Result<SharedSession> shared = two.table->ReadShare(made->token);
  ASSERT_TRUE(shared.ok()) << shared.status().ToString();
  EXPECT_THAT(shared->items, SizeIs(2));
  EXPECT_THAT(two.table->ListShares(me, id).value(), SizeIs(1));
}

TEST_F(SharedSessionsTest, EncryptedSessionsMoveToo) {
  master_key = SealKey::Random();
  store = std::make_shared<SharedMemory>();
  Restart();
  const std::string id = NewConversation(one);
  Turn(one, Ask("A secret", id), "Kept");
  EXPECT_THAT(ListedAt(two), ElementsAre(id));
  Turn(two, Ask("And?", id), "Well");
  EXPECT_THAT(Texts(one, id), ElementsAre("A secret", "Kept", "And?", "Well"));
  for (const auto& [key, value] : store->rows) EXPECT_THAT(value, testing::Not(HasSubstr("secret")));
}

TEST_F(SharedSessionsTest, ARestartKeepsTheTextThatClientsHaveReceived) {
  RestartWith(Durability::kTurn);
  const std::string id = NewConversation(one);
  Turn(one, Ask("Hi", id), "Hello");
  HalfAnAnswer(one, id);
  ASSERT_TRUE(one.table->SetMetadata(me, id, {{"while", "it runs"}}).ok());
  EXPECT_THAT(Texts(two, id), ElementsAre("Hi", "Hello")) << "the store does not have it";
  Crash(&one);
  EXPECT_THAT(Texts(two, id), ElementsAre("Hi", "Hello", "Go on", "half an ..."));
  Turn(two, Ask("And?", id), "Well");
  EXPECT_THAT(Texts(one, id), ElementsAre("Hi", "Hello", "Go on", "half an ...", "And?", "Well"));
  Crash(&one);
  EXPECT_THAT(Texts(one, id), ElementsAre("Hi", "Hello", "Go on", "half an ...", "And?", "Well"));
}

TEST_F(SharedSessionsTest, ARestartLeavesAnAnswerThatAnotherServerHasClosed) {
  RestartWith(Durability::kTurn);
  const std::string id = NewConversation(one);
  HalfAnAnswer(one, id);
  const std::filesystem::path deltas = CopyDeltas(one);
  store->EndLease("one");
  Turn(two, Ask("And?", id), "Well");
  const std::vector<std::string> texts = Texts(two, id);
  EXPECT_THAT(texts, ElementsAre("Go on", "And?", "Well"));
  Crash(&one, deltas);
  EXPECT_EQ(Texts(two, id), texts);
  Turn(one, Ask("So?", id), "Yes");
}

TEST_F(SharedSessionsTest, ARestartAddsNothingToAnAnswerThatHasEnded) {
  RestartWith(Durability::kTurn);
  const std::string id = NewConversation(one);
  HalfAnAnswer(one, id);
  const std::filesystem::path deltas = CopyDeltas(one);
  one.engine->AnswerLast("answer");
  one.table->Flush();
  Crash(&one, deltas);
  EXPECT_THAT(Texts(two, id), ElementsAre("Go on", "half an answer"));
}

TEST_F(SharedSessionsTest, ARestartSkipsADeletedConversation) {
  RestartWith(Durability::kTurn);
  const std::string id = NewConversation(one), other = NewConversation(one);
  HalfAnAnswer(one, id);
  HalfAnAnswer(one, other);
  const std::filesystem::path deltas = CopyDeltas(one);
  ASSERT_TRUE(one.table->DeleteSession(me, id).ok());
  one.table->Flush();
  Crash(&one, deltas);
  EXPECT_THAT(ListedAt(two), ElementsAre(other));
  EXPECT_THAT(Texts(two, other), ElementsAre("Go on", "half an ..."));
}

TEST_F(SharedSessionsTest, TheTextOfADeletedConversationIsForgotten) {
  RestartWith(Durability::kTurn);
  const std::string id = NewConversation(one), other = NewConversation(one);
  HalfAnAnswer(one, id);
  HalfAnAnswer(one, other);
  ASSERT_TRUE(one.table->DeleteSession(me, id).ok());
  one.table->Flush();
  one.engine->End(one.engine->requests().size() - 2);
  const auto log = DeltaLog::Open(CopyDeltas(one), master_key);
  ASSERT_TRUE(log.ok());
  const auto left = (*log)->ReadLeft();
  ASSERT_THAT(*left, SizeIs(1));
  EXPECT_EQ(left->at(0).session, other);
}

TEST_F(SharedSessionsTest, ARestartKeepsTheTextOfEncryptedSessions) {
  master_key = SealKey::Random();
  store = std::make_shared<SharedMemory>();
  RestartWith(Durability::kTurn);
  const std::string id = NewConversation(one);
  HalfAnAnswer(one, id);
  Crash(&one);
  EXPECT_THAT(Texts(two, id), ElementsAre("Go on", "half an ..."));
}

TEST_F(SharedSessionsTest, WithoutALeaseKeptTextGoesToTheStoreToo) {
  RestartWith(Durability::kTurn);
  const std::string id = NewConversation(one);
  HalfAnAnswer(one, id);
  const std::filesystem::path before = CopyDeltas(one);
  one.log->holds_lease = false;
  one.engine->Say(one.engine->requests().size() - 1, "answer");
  one.table->Flush();
  Crash(&one, before);
  EXPECT_THAT(Texts(two, id), ElementsAre("Go on", "half an answer...")) << "the store had it before clients";
}

}  // namespace
}  // namespace ringside
