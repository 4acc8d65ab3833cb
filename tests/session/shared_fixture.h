// Two servers, "one" and "two", of one shared store in memory.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/limits.h"
#include "session/records.h"
#include "session/table/session_table.h"
#include "tests/cache/store/store_folder.h"
#include "tests/session/recording_sink.h"
#include "tests/session/scripted_engine.h"
#include "tests/session/shared_memory.h"

namespace ringside {

class SharedFixture : public ::testing::Test {
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
  /// Starts an answer and emits a part.
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
  /// Restarts with durability "turn", and starts two answers of the first server. Returns their conversations.
  std::pair<std::string, std::string> TwoHalfAnswers() {
    RestartWith(Durability::kTurn);
    const std::string first = NewConversation(one), second = NewConversation(one);
    HalfAnAnswer(one, first);
    HalfAnAnswer(one, second);
    return {first, second};
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

}  // namespace ringside
