// A table on a scripted engine and a real journal in a temporary folder, which can be closed and reopened.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "session/records.h"
#include "session/table/session_table.h"
#include "tests/session/recording_sink.h"
#include "tests/session/scripted_engine.h"

namespace ringside {

class DurableSessionTest : public ::testing::Test {
 protected:
  void SetUp() override {
    path = std::filesystem::temp_directory_path() / MakePath();
    std::filesystem::remove_all(path);
    options = TableFixture::Options();
    Open();
  }
  void TearDown() override {
    Close();
    std::filesystem::remove_all(path);
  }

  void Open() {
    JournalOptions log = journal_options;
    log.path = path;
    log.clock = &clock;
    auto opened = Journal::Open(log);
    ASSERT_TRUE(opened.ok()) << opened.status().ToString();
    journal = std::move(*opened);
    engine = std::make_unique<ScriptedEngine>(tokenizer.first_id());
    table = std::make_unique<SessionTable>(options, tokenizer, *chat, *engine, journal.get(), clock);
    ASSERT_TRUE(table->Open().ok());
  }
  void Close() {
    if (table) table->Flush();
    table.reset();
    engine.reset();
    journal.reset();
  }
  /// Delivered events are on disk at any time: closing writes nothing that a kill would lose.
  void Restart() {
    Close();
    Open();
  }

  std::string NewConversation() {
    Result<SessionInfo> info = table->CreateSession(me, {}, {}, {});
    CHECK(info.ok());
    return info->id;
  }
  std::string Start(TurnSpec spec) {
    const Result<TurnTicket> ticket = table->StartTurn(me, std::move(spec), sink);
    if (!ticket.ok()) ADD_FAILURE() << ticket.status().ToString();
    return ticket.ok() ? ticket->response_id : "";
  }
  /// Asks and answers; returns the response's id.
  std::string Turn(TurnSpec spec, std::string_view answer) {
    const std::string id = Start(std::move(spec));
    engine->AnswerLast(answer);
    table->Flush();
    return id;
  }
  std::vector<std::string> Texts(const std::string& conversation) {
    std::vector<std::string> texts;
    const Result<SharedList<Item>> items = table->GetItems(me, conversation);
    if (!items.ok()) return {items.status().ToString()};
    for (const Item& item : *items) texts.push_back(std::string(item.text) + (item.complete ? "" : "..."));
    return texts;
  }
  /// Every event of a response, as replayed to a reader from the start.
  std::vector<std::string> Events(const std::string& response) {
    const auto reader = std::make_shared<RecordingSink>(99);
    const Status status = table->Replay(me, response, 0, reader);
    return status.ok() ? reader->lines() : std::vector<std::string>{status.ToString()};
  }
  /// The prompt of this conversation's next turn.
  std::string NextPrompt(const std::string& conversation) {
    Start(Ask("?", conversation));
    return tokenizer.Decode(engine->last().tokens);
  }
  std::shared_ptr<RecordingSink> Resume(ResumeRequest request, uint64_t connection = 2) {
    auto fresh = std::make_shared<RecordingSink>(connection);
    status = table->Resume(me, request, fresh);
    table->Flush();
    return fresh;
  }

  const Caller me{"me", 7};
  std::filesystem::path path;
  JournalOptions journal_options;
  SessionTableOptions options;
  ManualClock clock;
  ByteTokenizer tokenizer;
  std::optional<ChatTemplate> chat = std::move(ChatTemplate::Named("chatml").value());
  std::unique_ptr<Journal> journal;
  std::unique_ptr<ScriptedEngine> engine;
  std::unique_ptr<SessionTable> table;
  std::shared_ptr<RecordingSink> sink = std::make_shared<RecordingSink>(7);
  Status status;

 private:
  static std::string MakePath() {
    const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
    return std::string("ringside_durable_") + test->name() + std::to_string(getpid());
  }
};

}  // namespace ringside
