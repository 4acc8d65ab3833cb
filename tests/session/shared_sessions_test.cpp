// Two servers of one store: the right to write a session, and the views of both.
#include <future>
#include <set>

#include "tests/session/shared_fixture.h"

namespace ringside {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::UnorderedElementsAre;

using SharedSessionsTest = SharedFixture;

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

TEST_F(SharedSessionsTest, AReadIsNotOlderThanAnothersReadBefore) {
  for (const Durability durability : {Durability::kToken, Durability::kTurn}) {
    RestartWith(durability);
    const std::string id = NewConversation(one);
    Turn(one, Ask("Hi", id), "Hello");
    std::promise<void> visible, reply;
    one.log->before_reply = [&, first = true]() mutable {
      if (!std::exchange(first, false)) return;
      visible.set_value();
      reply.get_future().wait();
    };
    auto change = std::async(std::launch::async, [&] { return one.table->SetMetadata(me, id, {{"title", "new"}}); });
    visible.get_future().wait();
    EXPECT_THAT(two.table->GetSession(me, id)->metadata, SizeIs(1));
    auto read = std::async(std::launch::async, [&] { return one.table->GetSession(me, id)->metadata; });
    auto listed =
        std::async(std::launch::async, [&] { return one.table->ListSessions(me, "", 1)->sessions.at(0).metadata; });
    std::this_thread::sleep_for(std::chrono::milliseconds(50));  // the reads would be over if they did not wait
    reply.set_value();
    EXPECT_TRUE(change.get().ok());
    EXPECT_THAT(read.get(), SizeIs(1));
    EXPECT_THAT(listed.get(), SizeIs(1));
    one.log->before_reply = nullptr;
  }
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

}  // namespace
}  // namespace ringside
