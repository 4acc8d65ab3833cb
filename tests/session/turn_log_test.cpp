// The log of a turn, however it ends: one line with its facts and trace, and none of its text.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "base/log.h"
#include "tests/session/recording_sink.h"
#include "tests/session/scripted_engine.h"

namespace ringside {
namespace {

/// Logs when it receives a turn's end.
class LoggingSink final : public RecordingSink {
 public:
  void OnEvent(const TurnEvent& event) override {
    RecordingSink::OnEvent(event);
    if (event.kind != TurnEvent::Kind::kEnded) return;
    WriteLog(LogLevel::kInfo, "told", {{"event", "told"}, {"response_id", event.response->id}});
  }
};

class TurnLogTest : public ::testing::Test, protected TableFixture {
 protected:
  /// The lines with one of these events that `act` logs.
  template <class Act>
  std::vector<nlohmann::json> Logged(Act act, const std::set<std::string>& events = {"turn"}) {
    ConfigureLog(LogLevel::kDebug, LogFormat::kJson);
    testing::internal::CaptureStderr();
    act();
    std::istringstream log(testing::internal::GetCapturedStderr());
    ConfigureLog(LogLevel::kInfo, LogFormat::kText);
    EXPECT_EQ(log.str().find("Albatross"), std::string::npos) << log.str();
    std::vector<nlohmann::json> lines;
    for (std::string line; std::getline(log, line);) {
      nlohmann::json parsed = nlohmann::json::parse(line);
      if (events.contains(parsed.value("event", ""))) lines.push_back(std::move(parsed));
    }
    return lines;
  }
  std::string Start() {
    TurnSpec spec;
    spec.input = {{ChatRole::kUser, "Albatross asks."}};
    return table.StartTurn(me, std::move(spec), sink).value().response_id;
  }

  const Caller me{"somebody", 7, {"4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7", true}};
  std::shared_ptr<RecordingSink> sink = std::make_shared<RecordingSink>(7);
};

TEST_F(TurnLogTest, LogsOneLinePerTurn) {
  std::string id;
  const auto turns = Logged([&] {
    id = Start();
    engine.AnswerLast("Albatross says.");
  });
  ASSERT_EQ(turns.size(), 1u);
  EXPECT_EQ(turns[0].value("response_id", ""), id);
  EXPECT_EQ(turns[0].value("owner", ""), "somebody");
  EXPECT_EQ(turns[0].value("end", ""), "completed");
  EXPECT_GT(turns[0].value("tokens_in", 0), 15);
  EXPECT_EQ(turns[0].value("trace_id", ""), me.trace.trace_id);
  EXPECT_EQ(turns[0].value("span_id", ""), me.trace.span_id);
}

TEST_F(TurnLogTest, LogsFailedAndCancelledTurns) {
  const auto turns = Logged([&] {
    Start();
    engine.Start(0);
    engine.Say(0, "Albatross");
    engine.End(0, FinishReason::kError, IoError("the device failed"));
    Start();
    engine.Start(1);
    engine.End(1, FinishReason::kCancelled);
    Start();
    engine.End(2, FinishReason::kError, Overloaded("full"));
  });
  ASSERT_EQ(turns.size(), 3u);
  EXPECT_EQ(turns[0].value("end", ""), "interrupted");
  EXPECT_EQ(turns[1].value("end", ""), "cancelled");
  EXPECT_EQ(turns[2].value("end", ""), "failed");
  for (const nlohmann::json& turn : turns) EXPECT_EQ(turn.value("trace_id", ""), me.trace.trace_id);
}

// When the client has an answer, its line is in the log; a request made after that is logged after it.
TEST_F(TurnLogTest, LogsBeforeTheEndIsSent) {
  sink = std::make_shared<LoggingSink>();
  const auto lines = Logged(
      [&] {
        Start();
        engine.AnswerLast("Albatross says.");
        Start();
        engine.Start(1);
        engine.End(1, FinishReason::kCancelled);
        Start();
        engine.Start(2);
        engine.End(2, FinishReason::kError, IoError("the device failed"));
      },
      {"turn", "told"});
  ASSERT_EQ(lines.size(), 6u);
  for (size_t i = 0; i < lines.size(); i += 2) {
    EXPECT_EQ(lines[i].value("event", ""), "turn");
    EXPECT_EQ(lines[i + 1].value("event", ""), "told");
    EXPECT_EQ(lines[i].value("response_id", ""), lines[i + 1].value("response_id", ""));
  }
}

}  // namespace
}  // namespace ringside
