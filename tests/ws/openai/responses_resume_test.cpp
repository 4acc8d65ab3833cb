#include "tests/ws/openai/responses_fixture.h"

namespace ringside {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;

class ResponsesResumeTest : public ResponsesTest {
 protected:
  Json Resume(const std::string& session, Json more = Json::object()) {
    Json event = {{"type", "ringside:session.resume"}, {"session", session}};
    event.update(more);
    return event;
  }
};

TEST_F(ResponsesResumeTest, ReconnectedSocketGetsEveryMissedEventOnce) {
  const std::string id = NewConversation();
  const std::string answer = "Hello, world";
  for (size_t cut = 0; cut <= answer.size(); ++cut) {
    auto lost = std::make_unique<TestSocket>(table);
    lost->Send(Create({{"conversation", id}}));
    const size_t turn = engine.count() - 1;
    engine.Start(turn);
    engine.Say(turn, answer.substr(0, cut));
    std::vector<Json> seen = lost->Frames();
    const uint64_t last = seen.back()["ringside"]["seq"];
    lost.reset();
    engine.Say(turn, answer.substr(cut));
    TestSocket again(table);
    again.Send(Resume(id, {{"after", last}}));
    engine.End(turn);
    std::vector<Json> missed = again.Frames();
    ASSERT_EQ(missed.front()["type"], "ringside:session.resumed");
    EXPECT_EQ(missed.front()["replay"], "events");
    EXPECT_EQ(missed.front()["session_present"], true);
    EXPECT_TRUE(missed.front()["active_response_id"].is_string());
    seen.insert(seen.end(), missed.begin() + 1, missed.end());
    std::string text;
    for (size_t i = 0; i < seen.size(); ++i) {
      EXPECT_EQ(seen[i]["sequence_number"], i);
      EXPECT_EQ(seen[i]["ringside"]["seq"], seen[0]["ringside"]["seq"].get<uint64_t>() + i);
      if (seen[i]["type"] == "response.output_text.delta") text += seen[i]["delta"];
    }
    EXPECT_EQ(text, answer);
    EXPECT_EQ(seen.back()["type"], "response.completed");
    EXPECT_EQ(seen.back()["response"]["output"][0]["content"][0]["text"], answer);
  }
}

TEST_F(ResponsesResumeTest, ReplayMayStartInsideAGroupOfEvents) {
  const std::string id = NewConversation();
  client.Send(Create({{"conversation", id}}));
  engine.Answer(0, "a");
  const std::vector<Json> all = client.Frames();
  for (size_t after = 0; after + 1 < all.size(); ++after) {
    TestSocket again(table);
    again.Send(Resume(id, {{"after", after}}));
    std::vector<Json> missed = again.Frames();
    missed.erase(missed.begin());
    EXPECT_EQ(missed, std::vector<Json>(all.begin() + static_cast<ptrdiff_t>(after) + 1, all.end())) << after;
  }
}

TEST_F(ResponsesResumeTest, SnapshotHasTheTextAndLaterEventsFollow) {
  const std::string id = NewConversation();
  client.Send(Create({{"conversation", id}}));
  engine.Start(0);
  engine.Say(0, "abc");
  const std::vector<Json> before = client.Frames();
  TestSocket again(table);
  again.Send(Resume(id));
  std::vector<Json> frames = again.Frames();
  ASSERT_THAT(Types(frames), ElementsAre("ringside:session.resumed", "ringside:session.snapshot"));
  EXPECT_EQ(frames[0]["replay"], "snapshot");
  EXPECT_EQ(frames[0]["next_seq"], 7);
  EXPECT_EQ(frames[1], (Json{{"type", "ringside:session.snapshot"},
                             {"response_id", before[0]["response"]["id"]},
                             {"item_id", before[2]["item"]["id"]},
                             {"text", "abc"},
                             {"next_seq", 7}}));
  engine.Say(0, "d");
  EXPECT_EQ(again.Frame()["delta"], "d");
}

TEST_F(ResponsesResumeTest, IdleSessionReportsItsState) {
  const std::string id = NewConversation();
  client.Send(Resume(id));
  Json frame = client.Frame();
  EXPECT_EQ(frame["replay"], "none");
  EXPECT_EQ(frame["state"], "new");
  EXPECT_EQ(frame["kv_tokens"], 0);
  EXPECT_EQ(frame["next_seq"], 0);
  EXPECT_TRUE(frame["active_response_id"].is_null());
  client.Send(Create({{"conversation", id}}));
  engine.Answer(0, "a");
  client.Frames();
  client.Send(Resume(id));
  frame = client.Frame();
  EXPECT_EQ(frame["state"], "slot");
  EXPECT_EQ(frame["next_seq"], 9);
  EXPECT_GT(frame["kv_tokens"], 0);
}

TEST_F(ResponsesResumeTest, NewAttachmentClosesTheOlderOne) {
  const std::string id = NewConversation();
  TestSocket first(table), second(table);
  first.Send(Resume(id));
  second.Send(Resume(id));
  first.Frames();
  const std::optional<Outbox::Closing> closing = first.outbox->TakeClose();
  ASSERT_TRUE(closing);
  EXPECT_EQ(closing->code, 4409);
  EXPECT_FALSE(second.outbox->TakeClose());
}

TEST_F(ResponsesResumeTest, SocketThatNeverResumedStaysOpen) {
  const std::string id = NewConversation();
  client.Send(Create({{"conversation", id}}));
  TestSocket other(table);
  other.Send(Resume(id));
  engine.Answer(0, "a");
  EXPECT_EQ(client.Frames().back()["type"], "response.completed");
  EXPECT_EQ(other.Frames().back()["type"], "response.completed");
  EXPECT_FALSE(client.outbox->TakeClose());
}

TEST_F(ResponsesResumeTest, UnknownSessionIsAbsentNotAnError) {
  client.Send(Resume("conv_nope"));
  const Json frame = client.Frame();
  EXPECT_EQ(frame["type"], "ringside:session.resumed");
  EXPECT_EQ(frame["session_present"], false);
  EXPECT_EQ(frame["replay"], "none");
}

TEST_F(ResponsesResumeTest, RewindForkAndRegenerate) {
  const std::string id = NewConversation();
  client.Send(Create({{"conversation", id}}));
  engine.Answer(0, "Yo");
  client.Frames();
  client.Send(Json{{"type", "ringside:session.fork"}, {"session", id}});
  Json frame = client.Frame();
  EXPECT_EQ(frame["type"], "ringside:session.forked");
  EXPECT_EQ(frame["items"], 2);
  const std::string fork = frame["session"];
  EXPECT_NE(fork, id);
  client.Send(Json{{"type", "ringside:session.rewind"}, {"session", id}, {"to", 1}});
  EXPECT_EQ(client.Frame(), (Json{{"type", "ringside:session.rewound"}, {"session", id}, {"items", 1}}));
  client.Send(Create({{"conversation", id}, {"input", Json::array()}}));
  ASSERT_EQ(engine.count(), 2U);
  EXPECT_EQ(engine.requests()[0].tokens, engine.requests()[1].tokens);
  EXPECT_EQ(table.GetItems({"me", 0}, fork)->size(), 2U);
}

TEST_F(ResponsesResumeTest, ForkHasTheGivenMetadata) {
  const std::string id = NewConversation();
  client.Send(Create({{"conversation", id}}));
  engine.Answer(0, "Yo");
  ASSERT_TRUE(table.SetMetadata({"me", 0}, id, {{"title", "First"}}).ok());
  client.Frames();
  client.Send(Json{{"type", "ringside:session.fork"}, {"session", id}, {"metadata", nullptr}});
  EXPECT_EQ(table.GetSession({"me", 0}, client.Frame()["session"])->metadata, (Metadata{{"title", "First"}}));
  client.Send(Json{{"type", "ringside:session.fork"}, {"session", id}, {"at", 1}, {"metadata", {{"parent", id}}}});
  EXPECT_EQ(table.GetSession({"me", 0}, client.Frame()["session"])->metadata, (Metadata{{"parent", id}}));
  client.Send(Json{{"type", "ringside:session.fork"}, {"session", id}, {"metadata", {{"parent", 5}}}});
  const Json failed = client.Frame();
  EXPECT_EQ(failed["verb"], "fork");
  EXPECT_EQ(failed["error"]["param"], "metadata.parent");
}

TEST_F(ResponsesResumeTest, FailedVerbsSendTheirOwnEvent) {
  const std::string id = NewConversation();
  client.Send(Create({{"conversation", id}}));
  client.Frames();
  const std::vector<std::pair<Json, std::string>> cases = {
      {{{"type", "ringside:session.resume"}}, "missing_required_parameter"},
      {{{"type", "ringside:session.resume"}, {"session", 5}}, "invalid_type"},
      {{{"type", "ringside:session.resume"}, {"session", id}, {"after", -1}}, "invalid_value"},
      {{{"type", "ringside:session.resume"}, {"session", id}, {"epoch", "x"}}, "invalid_type"},
      {{{"type", "ringside:session.rewind"}, {"session", id}}, "missing_required_parameter"},
      {{{"type", "ringside:session.rewind"}, {"session", id}, {"to", 0}}, "conversation_locked"},
      {{{"type", "ringside:session.rewind"}, {"session", "x"}, {"to", 0}}, "conversation_not_found"},
      {{{"type", "ringside:session.fork"}, {"session", id}, {"at", 9}}, "invalid_value"},
      {{{"type", "ringside:session.fork"}}, "missing_required_parameter"},
  };
  for (const auto& [event, code] : cases) {
    client.Send(event);
    const Json frame = client.Frame();
    EXPECT_EQ(frame["type"], "ringside:session.failed") << event;
    EXPECT_EQ("ringside:session." + frame["verb"].get<std::string>(), event["type"].get<std::string>()) << event;
    EXPECT_EQ(frame["error"]["code"], code) << event << frame;
  }
}

TEST_F(ResponsesResumeTest, ReportsQueuePositionToListeners) {
  const std::string id = NewConversation();
  client.Send(Create({{"conversation", id}, {"stream_id", "a"}}));
  TestSocket attached(table);
  attached.Send(Resume(id));
  const std::string response = client.Frames().front()["response"]["id"];
  attached.Frames();
  const auto sink = engine.last().sink;
  for (const int64_t position : {2, 1}) {
    sink->OnQueued(position);
    const Json event = {{"type", "ringside:response.queued"}, {"response_id", response}, {"position", position}};
    EXPECT_EQ(attached.Frame(), event);
    Json on_lane = event;
    on_lane["stream_id"] = "a";
    EXPECT_EQ(client.Frame(), on_lane);
  }
  engine.Start(0);
  sink->OnQueued(1);  // late
  EXPECT_THAT(Types(client.Frames()), ElementsAre("response.output_item.added", "response.content_part.added"));
}

TEST_F(ResponsesResumeTest, SlowReaderGetsMergedDeltas) {
  const std::string id = NewConversation();
  client.Send(Create({{"conversation", id}}));
  engine.Start(0);
  std::string answer;
  for (int i = 0; i < 20000; ++i) answer += static_cast<char>('a' + i % 26);
  engine.Say(0, answer);
  engine.End(0);
  const std::vector<Json> frames = client.Frames();
  EXPECT_LT(frames.size(), answer.size() / 2);
  std::string text;
  int64_t last = -1;
  for (const Json& frame : frames) {
    EXPECT_GT(frame["sequence_number"], last);
    last = frame["sequence_number"];
    if (frame["type"] == "response.output_text.delta") text += frame["delta"];
  }
  EXPECT_EQ(text, answer);
  EXPECT_EQ(last, 4 + 20000 + 3);  // the numbers are those of an unmerged answer
}

}  // namespace
}  // namespace ringside
