// GET /v1/responses/{id}?stream=true: a response's events from any number on, finished or still running.
#include "base/limits.h"
#include "tests/ws/openai/routes_fixture.h"

namespace ringside {
namespace {

class ResponseStreamTest : public RoutesTest {
 protected:
  /// "/v1/responses/resp_..." of the answer that begins with these frames.
  static std::string PathOf(const std::vector<Json>& frames) {
    return "/v1/responses/" + frames.front()["response"]["id"].get<std::string>();
  }
  HttpResponse Stream(const std::string& path, std::optional<size_t> after = std::nullopt) {
    return Call("GET", path + "?stream=true" + (after ? "&starting_after=" + std::to_string(*after) : ""));
  }
  static std::vector<Json> From(const std::vector<Json>& events, size_t first) {
    return {events.begin() + static_cast<ptrdiff_t>(std::min(first, events.size())), events.end()};
  }
};

TEST_F(ResponseStreamTest, ReplaysAFinishedResponseFromAnyNumber) {
  client.Send(Create());
  engine.Answer(0, "Yo");
  const std::vector<Json> live = client.Frames();
  const std::string path = PathOf(live);
  EXPECT_EQ(StreamedAnswer(Stream(path)).Events(), live);
  for (size_t after = 0; after < live.size(); ++after) {
    StreamedAnswer answer(Stream(path, after));
    EXPECT_EQ(answer.Events(), From(live, after + 1)) << after;
    EXPECT_TRUE(answer.done);
    EXPECT_EQ(answer.outbox->TakeClose().value().code, Outbox::kEndOfBody);
  }
}

TEST_F(ResponseStreamTest, StreamsARunningResponseFromAnyNumber) {
  const std::string said = "Hello";
  // Requested after every number of events, with every number of letters delivered.
  for (size_t letters = 0; letters <= said.size(); ++letters) {
    for (size_t after = 0; after < 4 + letters; ++after) {
      client.Send(Create());
      const size_t turn = engine.count() - 1;
      engine.Start(turn);
      engine.Say(turn, said.substr(0, letters));
      std::vector<Json> live = client.Frames();
      const std::string path = PathOf(live);
      StreamedAnswer answer(Stream(path, after));
      std::vector<Json> streamed = answer.Events();
      EXPECT_EQ(streamed, From(live, after + 1));
      EXPECT_FALSE(answer.done);
      EXPECT_FALSE(answer.outbox->TakeClose());
      engine.Say(turn, said.substr(letters));
      engine.End(turn);
      for (const Json& frame : client.Frames()) live.push_back(frame);
      for (const Json& event : answer.Events()) streamed.push_back(event);
      EXPECT_EQ(streamed, From(live, after + 1)) << letters << " letters, after " << after;
      EXPECT_TRUE(answer.done);
      EXPECT_EQ(answer.outbox->TakeClose().value().code, Outbox::kEndOfBody);
    }
  }
}

TEST_F(ResponseStreamTest, StreamsAQueuedResponse) {
  client.Send(Create());
  const std::vector<Json> live = client.Frames();
  StreamedAnswer answer(Stream(PathOf(live)));
  EXPECT_EQ(answer.Events(), live);
  engine.End(0, FinishReason::kCancelled);
  EXPECT_EQ(answer.Events().back()["response"]["status"], "cancelled");
  EXPECT_TRUE(answer.done);
}

TEST_F(ResponseStreamTest, LeavingReaderStopsNothing) {
  client.Send(Create());
  engine.Start(0);
  const std::string path = PathOf(client.Frames());
  { const StreamedAnswer gone(Stream(path)); }
  StreamedAnswer stays(Stream(path)), also_stays(Stream(path));
  engine.Say(0, "Yo");
  engine.End(0);
  EXPECT_TRUE(engine.cancelled().empty());
  const std::vector<Json> events = stays.Events();
  EXPECT_EQ(events.back()["response"]["output"][0]["content"][0]["text"], "Yo");
  EXPECT_EQ(also_stays.Events(), events);
}

TEST_F(ResponseStreamTest, SlowReaderIsDisconnectedAndTheAnswerContinues) {
  client.Send(Create());
  engine.Start(0);
  StreamedAnswer slow(Stream(PathOf(client.Frames())));
  slow.Events();
  std::optional<Outbox::Closing> closing;
  for (int i = 0; i < 100 && !closing; ++i) {
    engine.SayAtOnce(0, std::string(100'000, 'x'));
    client.Frames();
    EXPECT_LE(slow.outbox->queued_bytes(), static_cast<size_t>(limits::kOutboxHardBytes));
    closing = slow.outbox->queued_bytes() == 0 ? slow.outbox->TakeClose() : std::nullopt;
  }
  ASSERT_TRUE(closing);
  EXPECT_EQ(closing->code, 1013);
  engine.End(0);
  EXPECT_EQ(client.Frames().back()["type"], "response.completed");
}

TEST_F(ResponseStreamTest, LargeAnswerIsNotASlowReader) {
  client.Send(Create());
  engine.Start(0);
  std::vector<Json> live = client.Frames();
  for (int i = 0; i < 50; ++i) {
    engine.SayAtOnce(0, std::string(100'000, 'x'));
    for (Json& frame : client.Frames()) live.push_back(std::move(frame));
  }
  StreamedAnswer answer(Stream(PathOf(live)));
  EXPECT_GT(answer.outbox->queued_bytes(), static_cast<size_t>(limits::kOutboxHardBytes));
  EXPECT_EQ(answer.Events(), live);
}

TEST_F(ResponseStreamTest, StreamHasOnlyNumberedEvents) {
  engine.Evict(5, 1);
  client.Send(Create({{"conversation", NewConversation()}}));
  const std::string path = PathOf(client.Frames());
  StreamedAnswer live(Stream(path));
  engine.Answer(0, "Yo");
  StreamedAnswer again(Stream(path));
  for (StreamedAnswer* answer : {&live, &again}) {
    const std::vector<Json> events = answer->Events();
    EXPECT_EQ(events.back()["type"], "response.completed");
    for (const Json& event : events) EXPECT_TRUE(event["sequence_number"].is_number_integer()) << event;
  }
}

TEST_F(ResponseStreamTest, ErrorsAreStatusCodesNotEvents) {
  client.Send(Create());
  engine.Answer(0, "Yo");
  const std::string path = PathOf(client.Frames());
  for (const char* after : {"-1", "x", "1x", "99999999999999999999"}) {
    Fails(Call("GET", path + "?stream=true&starting_after=" + after), 400, "invalid_value", "starting_after");
  }
  Fails(Call("GET", path + "?stream=true", nullptr, "other"), 404, "response_not_found", "response_id");
  Fails(Call("GET", "/v1/responses/resp_no?stream=true"), 404, "response_not_found", "response_id");
}

TEST_F(ResponseStreamTest, DeletingAResponseBeforeItsStreamEndsTheStream) {
  client.Send(Create());
  engine.Answer(0, "Yo");
  const std::string path = PathOf(client.Frames());
  const HttpResponse response = Stream(path);
  Ok(Call("DELETE", path));
  StreamedAnswer answer(response);
  EXPECT_TRUE(answer.Events().empty());
  EXPECT_FALSE(answer.done);
  const std::optional<Outbox::Closing> closing = answer.outbox->TakeClose();
  ASSERT_TRUE(closing);
  EXPECT_NE(closing->code, Outbox::kEndOfBody);
}

}  // namespace
}  // namespace ringside
