// Requests identified by their content only: the first sending starts a turn, even if the same was asked before; a
// repetition returns that turn and starts none.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/limits.h"
#include "session/table/request_keys.h"
#include "tests/held_memory.h"
#include "tests/session/recording_sink.h"
#include "tests/session/scripted_engine.h"

namespace ringside {
namespace {

using Sending = TurnSpec::Sending;

class RepeatedRequestsTest : public ::testing::Test, protected TableFixture {
 protected:
  static TurnSpec Ask(Sending sending, std::string conversation = "", std::string previous = "") {
    TurnSpec spec;
    spec.input = {{ChatRole::kUser, "Go on"}};
    spec.conversation = std::move(conversation);
    spec.previous_response_id = std::move(previous);
    spec.request_key = "digest";
    spec.sending = sending;
    return spec;
  }
  TurnTicket Start(Sending sending, const std::string& conversation = "", const std::string& previous = "") {
    const Result<TurnTicket> ticket = table.StartTurn(me, Ask(sending, conversation, previous), nullptr);
    EXPECT_TRUE(ticket.ok()) << ticket.status().ToString();
    return ticket.ok() ? *ticket : TurnTicket{};
  }
  std::string NewConversation() { return table.CreateSession(me, {}, {}, {})->id; }

  const Caller me{"me", 0};
};

// A request is remembered before it is validated, even if it names nonexistent objects.
TEST_F(RepeatedRequestsTest, DoesNotStoreLongIds) {
  constexpr int kRequests = 64;
  constexpr size_t kIdBytes = 1 << 20;
  const std::string id(kIdBytes, 'r');
  const int64_t before = held_memory;
  for (int i = 0; i < kRequests; ++i) {
    for (const bool conversation : {false, true}) {
      TurnSpec spec = Ask(Sending::kFirst, conversation ? id : "", conversation ? "" : id);
      spec.request_key += std::to_string(i);
      EXPECT_FALSE(table.StartTurn(me, std::move(spec), nullptr).ok());
    }
  }
  EXPECT_LT(held_memory - before, static_cast<int64_t>(kIdBytes));
}

TEST_F(RepeatedRequestsTest, RepetitionReturnsTheRunningOrFinishedTurn) {
  const std::string conversation = NewConversation(), parent = Start(Sending::kFirst).response_id;
  engine.AnswerLast("Yo");
  const std::vector<std::pair<std::string, std::string>> places = {{conversation, ""}, {"", parent}, {"", ""}};
  for (const auto& [where, previous] : places) {
    const TurnTicket first = Start(Sending::kFirst, where, previous);
    EXPECT_FALSE(first.reattached);
    const size_t turns = engine.count();
    engine.Start(turns - 1);
    const TurnTicket running = Start(Sending::kAgain, where, previous);
    engine.Say(turns - 1, "Yo");
    engine.End(turns - 1);
    const TurnTicket ended = Start(Sending::kAgain, where, previous);
    for (const TurnTicket& again : {running, ended}) {
      EXPECT_TRUE(again.reattached);
      EXPECT_EQ(again.response_id, first.response_id);
    }
    EXPECT_EQ(engine.count(), turns);
  }
}

TEST_F(RepeatedRequestsTest, EqualRequestsAreTwoTurnsAndARepetitionMatchesTheNewest) {
  const std::string conversation = NewConversation();
  for (const std::string& where : {conversation, std::string()}) {
    const std::string first = Start(Sending::kFirst, where).response_id;
    engine.AnswerLast("Yo");
    const std::string second = Start(Sending::kFirst, where).response_id;
    engine.AnswerLast("Yo");
    EXPECT_NE(first, second);
    EXPECT_EQ(Start(Sending::kAgain, where).response_id, second);
    // Deleting the older response does not affect the repetition's own.
    ASSERT_TRUE(table.DeleteResponse(me, first).ok());
    EXPECT_EQ(Start(Sending::kAgain, where).response_id, second);
  }
}

TEST_F(RepeatedRequestsTest, RepetitionOfARefusedRequestIsANewTurn) {
  const std::string conversation = NewConversation();
  const std::string first = Start(Sending::kFirst, conversation).response_id;
  engine.AnswerLast("Yo");
  engine.Refuse(Overloaded("Too many wait."));
  EXPECT_FALSE(table.StartTurn(me, Ask(Sending::kFirst, conversation), nullptr).ok());
  engine.Refuse(Status::Ok());
  const TurnTicket again = Start(Sending::kAgain, conversation);
  EXPECT_FALSE(again.reattached);
  EXPECT_NE(again.response_id, first);
  EXPECT_TRUE(Start(Sending::kAgain, conversation).reattached) << "of a repetition, too";
}

TEST_F(RepeatedRequestsTest, FailedRequestRunsAgain) {
  const std::string conversation = NewConversation();
  const std::string first = Start(Sending::kFirst, conversation).response_id;
  engine.End(0, FinishReason::kError, Overloaded("full"));
  const TurnTicket again = Start(Sending::kAgain, conversation);
  EXPECT_FALSE(again.reattached);
  EXPECT_NE(again.response_id, first);
}

TEST_F(RepeatedRequestsTest, RepetitionsExpire) {
  const std::string conversation = NewConversation();
  Start(Sending::kFirst, conversation);
  engine.AnswerLast("Yo");
  clock.AdvanceMs(limits::kRepeatSeconds * 1000);
  EXPECT_TRUE(Start(Sending::kAgain, conversation).reattached);
  clock.AdvanceMs(1);
  EXPECT_FALSE(Start(Sending::kAgain, conversation).reattached);
  engine.AnswerLast("Yo");
  EXPECT_EQ(engine.count(), 2U);
}

TEST_F(RepeatedRequestsTest, OwnersAreIsolated) {
  Start(Sending::kFirst);
  engine.AnswerLast("Yo");
  EXPECT_FALSE(table.StartTurn({"other", 0}, Ask(Sending::kAgain), nullptr)->reattached);
}

TEST(RequestKeysTest, RepetitionMayArriveBeforeTheOriginal) {
  RequestKeys keys;
  const uint64_t first = keys.Asked("k", Sending::kFirst, 1), again = keys.Asked("k", Sending::kAgain, 1);
  EXPECT_EQ(keys.Add("k", Sending::kAgain, again, "resp_again"), "resp_again");
  EXPECT_EQ(keys.Add("k", Sending::kFirst, first, "resp_first"), "resp_again");
  // A later sending is a different request.
  const uint64_t later = keys.Asked("k", Sending::kFirst, 2);
  EXPECT_EQ(keys.Add("k", Sending::kFirst, later, "resp_later"), "resp_later");
}

TEST(RequestKeysTest, KeysFromTheJournalKeepTheirAge) {
  RequestKeys keys;
  keys.Load("k", "resp_1", 10);
  keys.Load("k", "resp_2", 20);
  EXPECT_EQ(keys.Find("k"), "resp_2");
  keys.Asked("k", Sending::kFirst, 30);
  EXPECT_EQ(keys.Find("k"), "");
  keys.Load("k", "resp_2", 20);
  EXPECT_EQ(keys.Find("k"), "");
  keys.Load("k", "resp_3", 30);
  EXPECT_EQ(keys.Find("k"), "resp_3");
}

TEST(RequestKeysTest, BoundsRememberedKeys) {
  RequestKeys keys;
  keys.Asked("oldest", Sending::kFirst, 100);
  keys.Load("oldest", "resp_1", 1);
  EXPECT_EQ(keys.Find("oldest"), "");
  for (int64_t i = 0; i < limits::kMaxRequestsRemembered; ++i) keys.Asked(std::to_string(i), Sending::kFirst, 100);
  keys.Load("oldest", "resp_1", 1);
  EXPECT_EQ(keys.Find("oldest"), "resp_1") << "the oldest sending is forgotten";
}

}  // namespace
}  // namespace ringside
