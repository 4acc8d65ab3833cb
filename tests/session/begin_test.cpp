// Concurrency while a turn begins: rendering a long text takes time and must not block other sessions.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <future>

#include "tests/session/durable_fixture.h"

namespace ringside {
namespace {

using ::testing::ElementsAre;

constexpr std::chrono::seconds kPatience{30};  // reached only if the server is faulty

// Resuming a session and changing its metadata complete on the journal's thread, which delivers every other session's
// tokens.
TEST_F(DurableSessionTest, LongTokenizationDoesNotDelayOtherAnswers) {
  const std::string slow = NewConversation(), other = NewConversation();
  const auto attached_before = Resume({slow, {}, {}, {}}, 7);
  Start(Ask("Hello", other));
  std::future<std::string> heard;
  bool in_time = false;
  tokenizer.on_next_encode = [&] {
    heard = std::async(std::launch::async, [&] {
      const auto attached = Resume({slow, {}, {}, {}}, 8);
      EXPECT_TRUE(table->SetMetadata(me, slow, {{"k", "v"}}).ok());
      engine->Start(0);
      engine->Say(0, "abc");
      table->Flush();
      return sink->text();
    });
    in_time = heard.wait_for(kPatience) == std::future_status::ready;
  };
  const auto ticket = table->StartTurn(me, Ask("A long text", slow), std::make_shared<RecordingSink>(7));
  EXPECT_TRUE(in_time);
  EXPECT_EQ(heard.get(), "abc");
  EXPECT_EQ(ticket.status().reason(), "superseded") << "another connection has resumed the session meanwhile";
}

TEST_F(DurableSessionTest, SessionIsBusyWhileItsTurnStarts) {
  const std::string id = NewConversation();
  std::vector<StatusCode> codes;
  tokenizer.on_next_encode = [&] {
    codes = {table->StartTurn(me, Ask("Me, too", id), sink).status().code(),
             table->AddItems(me, id, {{ChatRole::kUser, "x"}}).status().code(),
             table->Rewind(me, id, 0).status().code()};
    table->Sweep();
  };
  const std::string response = Start(Ask("Hello", id));
  EXPECT_THAT(codes, ElementsAre(StatusCode::kBusy, StatusCode::kBusy, StatusCode::kBusy));
  engine->AnswerLast("Yo");
  table->Flush();
  EXPECT_THAT(Texts(id), ElementsAre("Hello", "Yo"));
}

TEST_F(DurableSessionTest, FailedStartLeavesTheSessionIdle) {
  const std::string id = NewConversation();
  EXPECT_EQ(table->StartTurn(me, Ask(std::string(3'000, 'a'), id), sink).status().reason(), "context_length_exceeded");
  tokenizer.on_next_encode = [] { throw std::bad_alloc(); };
  EXPECT_THROW((void)table->StartTurn(me, Ask("Hello", id), sink), std::bad_alloc);
  Turn(Ask("Hello", id), "Yo");
  EXPECT_THAT(Texts(id), ElementsAre("Hello", "Yo"));
}

// A deleted session stays deleted, even if a turn is about to extend it.
TEST_F(DurableSessionTest, StartingTurnDoesNotRecreateADeletedConversation) {
  const std::string id = NewConversation();
  tokenizer.on_next_encode = [&] { EXPECT_TRUE(table->DeleteSession(me, id).ok()); };
  const auto ticket = table->StartTurn(me, Ask("Hello", id), sink);
  EXPECT_EQ(ticket.status().code(), StatusCode::kNotFound);
  EXPECT_EQ(ticket.status().reason(), "conversation_not_found");
  EXPECT_FALSE(table->Knows(id));
  EXPECT_TRUE(table->ListSessions(me, "", 10)->sessions.empty());
  EXPECT_EQ(engine->count(), 0u);
  Restart();
  EXPECT_FALSE(table->Knows(id));
}

// The last response of a chain is deleted while a turn is about to continue the chain.
TEST_F(DurableSessionTest, StartingTurnDoesNotRecreateADeletedChain) {
  const std::string first = Turn(Ask("Hi"), "Yo");
  tokenizer.on_next_encode = [&] { EXPECT_TRUE(table->DeleteResponse(me, first).ok()); };
  const auto ticket = table->StartTurn(me, Ask("More", "", first), sink);
  EXPECT_EQ(ticket.status().reason(), "previous_response_not_found");
  EXPECT_EQ(table->stats().chains, 0);
  EXPECT_EQ(engine->count(), 1u);
}

}  // namespace
}  // namespace ringside
