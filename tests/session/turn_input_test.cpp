// New input against the window: what is refused, the reported numbers, and what slides.
#include "session/turn/turn_input.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "session/table/session_table.h"
#include "tests/session/recording_sink.h"
#include "tests/session/scripted_engine.h"

namespace ringside {
namespace {

using ::testing::HasSubstr;

class TurnInput : public ::testing::Test, protected TableFixture {
 protected:
  Status Ask(const std::string& conversation, size_t letters, bool truncates = false) {
    TurnSpec spec;
    spec.conversation = conversation;
    spec.input = {{ChatRole::kUser, std::string(letters, 'a')}};
    spec.truncates = truncates;
    const auto ticket = table.StartTurn(me, spec, sink);
    if (ticket.ok()) engine.AnswerLast("Yo");
    return ticket.status();
  }
  std::string NewConversation() { return table.CreateSession(me, {}, {}, {})->id; }

  const Caller me{"me", 7};
  std::shared_ptr<RecordingSink> sink = std::make_shared<RecordingSink>(7);
};

TEST_F(TurnInput, LongerThanTheWindowIsRefusedWithBothNumbers) {
  const std::string id = NewConversation();
  const Status refused = Ask(id, 600);
  EXPECT_EQ(refused.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(refused.reason(), "context_length_exceeded");
  EXPECT_EQ(refused.param(), "input");
  EXPECT_THAT(refused.message(), HasSubstr("maximum context length is 516 tokens."));  // including the 4 pinned tokens
  EXPECT_THAT(refused.message(), HasSubstr("your messages resulted in 6"));
  EXPECT_TRUE(table.GetItems(me, id)->empty());
  EXPECT_TRUE(Ask(id, 600, true).ok());
  EXPECT_TRUE(Ask(id, 450).ok()) << "history slides";
  EXPECT_EQ(Ask(id, 512).reason(), "context_length_exceeded") << "of 512 shown some open the message and the answer";
}

TEST_F(TurnInput, UnansweredAdditionsAreNew) {
  const std::string id = NewConversation();
  ASSERT_TRUE(Ask(id, 10).ok());
  ASSERT_TRUE(table.AddItems(me, id, {{ChatRole::kUser, std::string(300, 'b')}}).ok());
  EXPECT_EQ(Ask(id, 300).reason(), "context_length_exceeded");
  EXPECT_TRUE(Ask(id, 100).ok());
  EXPECT_TRUE(Ask(id, 300).ok()) << "the item was answered";
}

TEST_F(TurnInput, PrefilledInputIsHistory) {
  const std::string id = NewConversation();
  TurnSpec warm_up;
  warm_up.conversation = id;
  warm_up.input = {{ChatRole::kUser, std::string(400, 'a')}};
  warm_up.warm_up = true;
  ASSERT_TRUE(table.StartTurn(me, warm_up, sink).ok());
  engine.AnswerLast("");
  EXPECT_TRUE(Ask(id, 300).ok());
}

// Includes answers that were not sampled here: their tokens must be computed like a question's.
TEST_F(TurnInput, AddedUncomputedAnswersAreNew) {
  const std::string id = NewConversation();
  ASSERT_TRUE(Ask(id, 10).ok());
  ASSERT_TRUE(table.AddItems(me, id, {{ChatRole::kUser, "b"}, {ChatRole::kAssistant, std::string(400, 'c')}}).ok());
  EXPECT_THAT(Ask(id, 100).message(), HasSubstr("your messages resulted in 5"));
  EXPECT_TRUE(Ask(id, 100, true).ok());
}

// Without a limit in the request the input and its answer fill the window.
TEST_F(TurnInput, AnswerGetsTheRemainingWindow) {
  const std::string id = NewConversation();
  const auto room = [&] { return engine.last().max_tokens; };
  const auto tokens = [&] { return std::ssize(engine.last().tokens); };
  ASSERT_TRUE(Ask(id, 100).ok());
  EXPECT_EQ(room(), 516 - tokens());
  const int64_t before = tokens() + 4;  // the answer, its end and a newline
  ASSERT_TRUE(Ask(id, 300).ok());
  EXPECT_EQ(room(), 512 - (tokens() - before)) << "history slides, but for what is pinned";
  ASSERT_TRUE(Ask(id, 600, true).ok());
  EXPECT_EQ(room(), 512) << "whatever the input, a window";
}

TEST_F(TurnInput, HistoryInTheRequestLeavesTheRemainingWindow) {
  TurnSpec spec;
  spec.carries_history = true;
  spec.store = false;
  spec.input = {
      {ChatRole::kUser, std::string(300, 'a')}, {ChatRole::kAssistant, std::string(100, 'b')}, {ChatRole::kUser, "c"}};
  ASSERT_TRUE(table.StartTurn(me, spec, sink).ok());
  EXPECT_EQ(engine.last().max_tokens, 516 - std::ssize(engine.last().tokens));
  engine.AnswerLast("Yo");
  spec.input.front().text += std::string(200, 'a');
  EXPECT_EQ(table.StartTurn(me, spec, sink).status().reason(), "context_length_exceeded");
  spec.history_slides = true;
  ASSERT_TRUE(table.StartTurn(me, spec, sink).ok());
  EXPECT_LT(engine.last().max_tokens, 512);
  EXPECT_GT(engine.last().max_tokens, 450);
  engine.AnswerLast("Yo");
  spec.input.back().text = std::string(600, 'c');
  EXPECT_EQ(table.StartTurn(me, spec, sink).status().reason(), "context_length_exceeded")
      << "the last message is never dropped";
}

TEST_F(TurnInput, ItemsAfterChangedInstructionsAreNew) {
  const std::string id = NewConversation();
  TurnSpec warm_up;
  warm_up.conversation = id;
  warm_up.warm_up = true;
  warm_up.input = {{ChatRole::kUser, "a"}};
  ASSERT_TRUE(table.StartTurn(me, warm_up, sink).ok());
  engine.AnswerLast("");
  ASSERT_TRUE(table.AddItems(me, id, {{ChatRole::kUser, std::string(600, 'b')}}).ok());
  TurnSpec spec;
  spec.conversation = id;
  spec.input = {{ChatRole::kUser, "c"}};
  spec.instructions = "Be kind.";
  EXPECT_EQ(table.StartTurn(me, spec, sink).status().reason(), "context_length_exceeded");
}

}  // namespace
}  // namespace ringside
