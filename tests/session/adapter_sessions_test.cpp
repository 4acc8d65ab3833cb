// The adapter of a conversation: chosen at creation or by a turn, kept over restarts, forks, exports and imports, never
// shared with text computed under another adapter; and the error of a turn whose adapter is gone.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "tests/session/durable_fixture.h"

namespace ringside {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

class AdapterSessions : public DurableSessionTest {
 protected:
  void SetUp() override {
    DurableSessionTest::SetUp();
    Serve({"law", "sql"});
  }
  /// Restarts the server with these adapters.
  void Serve(std::vector<std::string> adapters) {
    options.adapters = std::move(adapters);
    Restart();
  }
  std::string NewUnder(const std::string& adapter) {
    const Result<SessionInfo> info = table->CreateSession(me, {}, {.adapter = adapter}, {});
    EXPECT_TRUE(info.ok()) << info.status().ToString();
    return info.ok() ? info->id : "";
  }
  static TurnSpec AskUnder(std::optional<std::string> adapter, std::string text, std::string conversation = "",
                           std::string previous = "") {
    TurnSpec spec = Ask(std::move(text), std::move(conversation), std::move(previous));
    spec.adapter = std::move(adapter);
    return spec;
  }
  /// The adapter index in the turn's engine request, and the adapter's name in the response.
  std::pair<int, std::string> AdapterOf(TurnSpec spec) {
    const std::string id = Turn(std::move(spec), "Yes.");
    const auto response = table->GetResponse(me, id);
    return {engine->last().adapter, response.ok() ? (*response)->adapter : response.status().ToString()};
  }
  static std::pair<int, std::string> Is(int number, std::string name) { return {number, std::move(name)}; }
};

TEST_F(AdapterSessions, ConversationKeepsItsInitialAdapter) {
  const std::string id = NewUnder("sql");
  EXPECT_EQ(AdapterOf(Ask("1", id)), Is(2, "sql"));
  EXPECT_EQ(table->GetSession(me, id)->adapter, "sql");
  EXPECT_EQ(AdapterOf(Ask("1", NewConversation())), Is(0, ""));
  const Result<SessionInfo> unknown = table->CreateSession(me, {}, {.adapter = "poetry"}, {});
  EXPECT_EQ(unknown.status().code(), StatusCode::kNotFound);
  EXPECT_EQ(unknown.status().reason(), "model_not_found");
  EXPECT_EQ(unknown.status().param(), "ringside.adapter");
}

TEST_F(AdapterSessions, TurnSetsTheAdapterOfLaterTurns) {
  const std::string id = NewConversation();
  EXPECT_EQ(AdapterOf(AskUnder("law", "1", id)), Is(1, "law"));
  EXPECT_EQ(AdapterOf(Ask("2", id)), Is(1, "law"));
  EXPECT_EQ(AdapterOf(AskUnder("", "3", id)), Is(0, ""));
  EXPECT_EQ(AdapterOf(Ask("4", id)), Is(0, ""));
  // A refused turn does not change the adapter.
  Start(AskUnder("sql", "5", id));
  engine->Start(engine->count() - 1);
  engine->End(engine->count() - 1, FinishReason::kError, Overloaded("full"));
  table->Flush();
  EXPECT_EQ(AdapterOf(Ask("6", id)), Is(0, ""));
}

TEST_F(AdapterSessions, AdapterSurvivesARestart) {
  const std::string began = NewUnder("sql"), chose = NewConversation();
  const std::string response = Turn(AskUnder("law", "1", chose), "Yes."), chain = Turn(AskUnder("sql", "1"), "Yes.");
  Serve({"sql", "law"});                      // the indices have changed
  std::map<std::string, std::string> listed;  // according to their summaries
  const auto page = table->ListSessions(me, "", 10);
  ASSERT_TRUE(page.ok());
  for (const SessionInfo& info : page->sessions) listed[info.id] = info.adapter;
  EXPECT_EQ(listed, (std::map<std::string, std::string>{{began, "sql"}, {chose, "law"}}));
  EXPECT_EQ((*table->GetResponse(me, response))->adapter, "law");
  EXPECT_EQ(AdapterOf(Ask("2", began)), Is(1, "sql"));
  EXPECT_EQ(AdapterOf(Ask("2", chose)), Is(2, "law"));
  EXPECT_EQ(AdapterOf(Ask("2", "", chain)), Is(1, "sql"));
}

TEST_F(AdapterSessions, NamesAMissingAdapterAndAllowsAnother) {
  const std::string id = NewUnder("sql");
  Turn(Ask("1", id), "Yes.");
  Serve({"law"});
  const Status refused = table->StartTurn(me, Ask("2", id), sink).status();
  EXPECT_EQ(refused.code(), StatusCode::kNotFound);
  EXPECT_EQ(refused.reason(), "model_not_found");
  EXPECT_EQ(refused.param(), "model");
  EXPECT_THAT(refused.message(), HasSubstr("no adapter 'sql'"));
  EXPECT_EQ(Texts(id), (std::vector<std::string>{"1", "Yes."})) << "what was said stays";
  EXPECT_EQ(AdapterOf(AskUnder("law", "2", id)), Is(1, "law"));
  Serve({});
  EXPECT_EQ(AdapterOf(AskUnder("", "3", id)), Is(0, ""));
  EXPECT_EQ(AdapterOf(Ask("4", id)), Is(0, ""));
}

TEST_F(AdapterSessions, ForksAndCopiesInheritTheAdapter) {
  const std::string id = NewUnder("law");
  const std::string first = Turn(AskUnder("sql", "1", id), "Yes.");
  EXPECT_EQ(AdapterOf(Ask("2", table->Fork(me, id, {})->id)), Is(2, "sql"));
  Turn(Ask("2", id), "Yes.");
  EXPECT_EQ(AdapterOf(Ask("other", "", first)), Is(2, "sql"));
  const Result<std::string> exported = table->ExportSession(me, id);
  ASSERT_TRUE(exported.ok());
  EXPECT_EQ(AdapterOf(Ask("3", table->ImportSession(me, *exported)->id)), Is(2, "sql"));
  Serve({});
  const Result<SessionInfo> imported = table->ImportSession(me, *exported);
  ASSERT_TRUE(imported.ok()) << imported.status().ToString();
  EXPECT_EQ(table->StartTurn(me, Ask("3", imported->id), sink).status().reason(), "model_not_found");
}

TEST_F(AdapterSessions, DifferentAdaptersShareNoPrefix) {
  const std::string text(400, 'x');
  const auto history = [&](const std::string& adapter, std::vector<std::string> texts) {
    TurnSpec spec;
    spec.carries_history = true;
    spec.store = false;
    spec.adapter = adapter;
    for (size_t i = 0; i < texts.size(); ++i) {
      spec.input.push_back({i % 2 == 0 ? ChatRole::kUser : ChatRole::kAssistant, texts[i]});
    }
    return spec;
  };
  const auto raw = [&](const std::string& adapter) {
    TurnSpec spec = history(adapter, {});
    spec.raw = RawPrompt{text, {}};
    return spec;
  };
  const auto asked = [&](TurnSpec spec) {
    Turn(std::move(spec), "Yes.");
    return engine->last();
  };
  const TurnRequest plain = asked(history("", {text})), sql = asked(history("sql", {text}));
  EXPECT_NE(sql.timeline, plain.timeline);
  EXPECT_FALSE(sql.continues);
  EXPECT_EQ(sql.adapter, 2);
  const TurnRequest law = asked(history("law", {text, "Yes.", "2"}));
  EXPECT_NE(law.timeline, sql.timeline);
  EXPECT_FALSE(law.continues);
  EXPECT_EQ(asked(history("sql", {text, "Yes.", "2"})).timeline, sql.timeline);
  EXPECT_EQ(asked(history("", {text, "Yes.", "2"})).timeline, plain.timeline);
  EXPECT_NE(asked(raw("")).timeline, asked(raw("sql")).timeline);
  EXPECT_THAT(engine->forks(), IsEmpty());
}

TEST_F(AdapterSessions, OlderRecordsHaveNoAdapter) {
  CreatedRecord created{.owner = "me", .codec = "c"};
  const std::string before = Encode(created).payload;
  EXPECT_EQ(DecodeCreated(before)->window.adapter, "");
  created.window.adapter = "sql";
  EXPECT_EQ(DecodeCreated(Encode(created).payload)->window.adapter, "sql");
  EXPECT_TRUE(Encode(created).payload.starts_with(before));
  TurnRecord turn;
  const std::string plain = Encode(turn).payload;
  EXPECT_EQ(DecodeTurn(plain)->adapter, "");
  turn.adapter = "sql";
  EXPECT_EQ(DecodeTurn(Encode(turn).payload)->adapter, "sql");
  EXPECT_EQ(DecodeTurn(Encode(turn).payload)->calls, CallPlace::kNone);
  EXPECT_TRUE(Encode(turn).payload.starts_with(plain));
  SessionSummary summary{.owner = "me"};
  EXPECT_EQ(DecodeSummary(Encode(summary))->window.adapter, "");
  summary.window.adapter = "sql";
  EXPECT_EQ(DecodeSummary(Encode(summary))->window.adapter, "sql");
}

}  // namespace
}  // namespace ringside
