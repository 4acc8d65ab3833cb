// Text of running answers after a crash of their server's process, with durability "turn" and a folder.
#include "session/journal/delta_log.h"
#include "tests/session/shared_fixture.h"

namespace ringside {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;

using RestoredAnswersTest = SharedFixture;

TEST_F(RestoredAnswersTest, ARestartKeepsTheTextThatClientsHaveReceived) {
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

TEST_F(RestoredAnswersTest, ARestartLeavesAnAnswerThatAnotherServerHasClosed) {
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

TEST_F(RestoredAnswersTest, ARestartAddsNothingToAnAnswerThatHasEnded) {
  RestartWith(Durability::kTurn);
  const std::string id = NewConversation(one);
  HalfAnAnswer(one, id);
  const std::filesystem::path deltas = CopyDeltas(one);
  one.engine->AnswerLast("answer");
  one.table->Flush();
  Crash(&one, deltas);
  EXPECT_THAT(Texts(two, id), ElementsAre("Go on", "half an answer"));
}

TEST_F(RestoredAnswersTest, ARestartSkipsADeletedConversation) {
  const auto [id, other] = TwoHalfAnswers();
  const std::filesystem::path deltas = CopyDeltas(one);
  ASSERT_TRUE(one.table->DeleteSession(me, id).ok());
  one.table->Flush();
  Crash(&one, deltas);
  EXPECT_THAT(ListedAt(two), ElementsAre(other));
  EXPECT_THAT(Texts(two, other), ElementsAre("Go on", "half an ..."));
}

TEST_F(RestoredAnswersTest, TheTextOfADeletedConversationIsForgotten) {
  const auto [id, other] = TwoHalfAnswers();
  ASSERT_TRUE(one.table->DeleteSession(me, id).ok());
  one.table->Flush();
  one.engine->End(one.engine->requests().size() - 2);
  const auto log = DeltaLog::Open(CopyDeltas(one), master_key);
  ASSERT_TRUE(log.ok());
  const auto found = (*log)->ReadUnfinished();
  ASSERT_THAT(*found, SizeIs(1));
  EXPECT_EQ(found->at(0).session, other);
}

TEST_F(RestoredAnswersTest, ARestartKeepsTheTextOfEncryptedSessions) {
  master_key = SealKey::Random();
  store = std::make_shared<SharedMemory>();
  RestartWith(Durability::kTurn);
  const std::string id = NewConversation(one);
  HalfAnAnswer(one, id);
  Crash(&one);
  EXPECT_THAT(Texts(two, id), ElementsAre("Go on", "half an ..."));
}

TEST_F(RestoredAnswersTest, WithoutALeaseKeptTextGoesToTheStoreToo) {
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
