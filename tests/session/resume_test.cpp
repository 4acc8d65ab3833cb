#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "session/table/session_table.h"
#include "tests/session/recording_sink.h"
#include "tests/session/scripted_engine.h"

namespace ringside {
namespace {

using ::testing::ElementsAre;

class ResumeTest : public ::testing::Test, protected TableFixture {
 protected:
  void SetUp() override { id = table.CreateSession(me, {}, {}, {})->id; }
  std::string Ask(std::string text) {
    TurnSpec spec;
    spec.conversation = id;
    spec.input = {{ChatRole::kUser, std::move(text)}};
    return table.StartTurn(me, std::move(spec), sink)->response_id;
  }
  std::shared_ptr<RecordingSink> Resume(std::optional<uint64_t> after, std::optional<uint64_t> epoch = {},
                                        uint64_t connection = 2) {
    auto fresh = std::make_shared<RecordingSink>(connection);
    EXPECT_TRUE(table.Resume(me, {id, epoch, after, {}}, fresh).ok());
    return fresh;
  }

  const Caller me{"me", 1};
  std::string id;
  std::shared_ptr<RecordingSink> sink = std::make_shared<RecordingSink>(1);
};

TEST_F(ResumeTest, SendsEveryMissedEventOnceThenNewEvents) {
  Ask("Hi");
  engine.Start(0);
  engine.Say(0, "abc");  // wire numbers 4, 5, 6
  const auto fresh = Resume(4);
  engine.Say(0, "de");
  engine.End(0);
  EXPECT_THAT(fresh->lines(),
              ElementsAre("resumed events", "text 5 b", "text 6 c", "text 7 d", "text 8 e", "ended 9 completed"));
  EXPECT_EQ(sink->text(), "abcde");  // earlier listeners keep listening
}

TEST_F(ResumeTest, TextIsCompleteAtEveryPoint) {
  const std::string answer = "The answer.";
  Ask("Hi");
  engine.Start(0);
  for (size_t said = 0; said < answer.size(); ++said) {
    for (size_t known = 0; known <= said; ++known) {
      const auto fresh = Resume(3 + known);
      EXPECT_EQ(answer.substr(0, known) + fresh->text(), answer.substr(0, said));
    }
    engine.Say(0, answer.substr(said, 1));
  }
}

TEST_F(ResumeTest, SendsTheTextSoFarWithoutANumber) {
  Ask("Hi");
  engine.Start(0);
  engine.Say(0, "abc");
  const auto fresh = Resume({});
  engine.Say(0, "d");
  EXPECT_THAT(fresh->lines(), ElementsAre("resumed snapshot", "snapshot 7 abc", "text 7 d"));
}

TEST_F(ResumeTest, AnotherEpochInvalidatesNumbers) {
  Ask("Hi");
  engine.Start(0);
  engine.Say(0, "abc");
  const uint64_t epoch = Resume(4)->reply().epoch;
  EXPECT_EQ(Resume(4, epoch)->reply().replay, ResumeReply::Replay::kEvents);
  EXPECT_EQ(Resume(4, epoch + 1)->reply().replay, ResumeReply::Replay::kSnapshot);
}

TEST_F(ResumeTest, NumbersRunOverTheWholeSession) {
  Ask("Hi");
  engine.Answer(0, "ab");  // 0..9: four, two deltas, four
  EXPECT_EQ(Resume(9)->reply().next_seq, 10U);
  EXPECT_EQ(Resume(9)->reply().replay, ResumeReply::Replay::kNone);
  Ask("More");
  engine.Start(1);
  engine.Say(1, "c");
  const auto fresh = Resume(8);
  EXPECT_THAT(fresh->lines(), ElementsAre("resumed events", "ended 6 completed", "begun 0", "opened 2", "text 4 c"));
}

TEST_F(ResumeTest, DoesNotReplayRewoundEvents) {
  Ask("Hi");
  engine.Answer(0, "ab");
  ASSERT_TRUE(table.Rewind(me, id, 0).ok());
  EXPECT_EQ(Resume(2)->reply().replay, ResumeReply::Replay::kNone);
  Ask("More");
  EXPECT_EQ(Resume(2)->reply().replay, ResumeReply::Replay::kSnapshot);
}

TEST_F(ResumeTest, RejectsAFutureNumber) {
  Ask("Hi");
  engine.Start(0);
  EXPECT_EQ(Resume(1000)->reply().replay, ResumeReply::Replay::kSnapshot);
}

TEST_F(ResumeTest, ReportsAnUnknownSessionAsAbsent) {
  auto fresh = std::make_shared<RecordingSink>(2);
  EXPECT_TRUE(table.Resume(me, {"conv_nope", {}, {}, {}}, fresh).ok());
  EXPECT_THAT(fresh->lines(), ElementsAre("resumed none"));
  EXPECT_FALSE(fresh->reply().present);
}

TEST_F(ResumeTest, NewerResumeTakesOver) {
  Ask("Hi");
  engine.Start(0);
  const auto first = Resume(3);
  const auto second = Resume(3, {}, 3);
  engine.Say(0, "a");
  EXPECT_THAT(first->lines(), ElementsAre("resumed events", "taken over"));
  EXPECT_THAT(second->lines(), ElementsAre("resumed events", "text 4 a"));
}

TEST_F(ResumeTest, AttachedConnectionGetsEventsOnce) {
  Ask("Hi");
  engine.Start(0);
  const auto same = Resume(3, {}, 1);
  engine.Say(0, "a");
  EXPECT_EQ(same->text() + sink->text(), "a");
}

TEST_F(ResumeTest, ReportsTurnsStartedByOthers) {
  const auto watcher = Resume({});
  Ask("Hi");
  engine.Answer(0, "a");
  EXPECT_THAT(watcher->lines(), ElementsAre("resumed none", "begun 0", "opened 2", "text 4 a", "ended 5 completed"));
}

TEST_F(ResumeTest, ReplayOfAResponseHasItsOwnNumbers) {
  const std::string response = Ask("Hi");
  engine.Answer(0, "abc");
  auto fresh = std::make_shared<RecordingSink>(2);
  ASSERT_TRUE(table.Replay(me, response, 5, fresh).ok());
  EXPECT_THAT(fresh->lines(), ElementsAre("text 5 b", "text 6 c", "ended 7 completed"));
}

TEST_F(ResumeTest, NoDeltaIsLostOrDuplicatedDuringAnAnswer) {
  std::string answer;
  for (int i = 0; i < 2000; ++i) answer.push_back(static_cast<char>('a' + i % 26));
  Ask("Hi");
  engine.Start(0);
  std::thread speaker([&] {
    engine.Say(0, answer);
    engine.End(0);
  });
  std::vector<std::shared_ptr<RecordingSink>> sinks;
  for (uint64_t i = 0; i < 40; ++i) {
    sinks.push_back(std::make_shared<RecordingSink>(1));  // one connection: no takeover
    EXPECT_TRUE(table.Resume(me, {id, {}, 3, {}}, sinks.back()).ok());
  }
  speaker.join();
  // A second sink of a connection that already listens only gets past events: always a prefix.
  for (const auto& each : sinks) EXPECT_EQ(each->text(), answer.substr(0, each->text().size()));
  EXPECT_EQ(sink->text(), answer);
}

}  // namespace
}  // namespace ringside
