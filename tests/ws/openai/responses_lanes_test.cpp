#include <functional>
#include <future>
#include <mutex>
#include <set>
#include <vector>

#include "base/limits.h"
#include "tests/held_memory.h"
#include "tests/ws/openai/responses_fixture.h"

namespace ringside {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;

class ResponsesLanesTest : public ResponsesTest {
 protected:
  bool Submitted(size_t count) {
    return Eventually([&] { return engine.count() >= count; });
  }
};

TEST_F(ResponsesLanesTest, EveryEventOfANamedLaneCarriesItsName) {
  client.Send(Create({{"stream_id", "a.b-C_1"}}));
  engine.Answer(0, "Yo");
  for (const Json& frame : client.Frames()) EXPECT_EQ(frame["stream_id"], "a.b-C_1");
  client.Send(Create({{"stream_id", "a.b-C_1"}, {"temperature", -1}}));
  EXPECT_EQ(client.Frame()["stream_id"], "a.b-C_1");
  client.Send(Json{{"type", "nonsense"}, {"stream_id", "x"}});
  EXPECT_EQ(client.Frame()["stream_id"], "x");
}

TEST_F(ResponsesLanesTest, LanesAreFifoAndRunConcurrently) {
  client.Send(Create({{"input", "1"}}));
  client.Send(Create({{"input", "2"}}));
  client.Send(Create({{"input", "3"}, {"stream_id", "b"}}));
  EXPECT_EQ(engine.count(), 2U);  // the second waits for the first
  engine.Answer(1, "b");
  engine.Answer(0, "a");
  ASSERT_TRUE(Submitted(3));
  EXPECT_NE(tokenizer.Decode(engine.last().tokens).find("user\n2"), std::string::npos);
  engine.Answer(2, "c");
  EXPECT_TRUE(Eventually([&] { return !client.socket.busy(); }));
}

TEST_F(ResponsesLanesTest, WorkerStartsQueuedRequests) {
  std::mutex mutex;
  std::vector<std::function<void()>> calls;
  size_t held = 0;
  TestSocket socket(table, "me", nullptr, [&](const std::string& client, size_t bytes, std::function<void()> call) {
    std::lock_guard lock(mutex);
    EXPECT_EQ(client, "me");
    held = bytes;
    calls.push_back(std::move(call));
    return Status::Ok();
  });
  const auto asked = [&] {
    std::lock_guard lock(mutex);
    return calls.size();
  };
  socket.Send(Create({{"input", "1"}}));
  socket.Send(Create({{"input", std::string(200, 'x')}}));
  engine.Answer(0, "a");
  ASSERT_TRUE(Eventually([&] { return asked() == 1; }));
  EXPECT_GT(held, 200U);
  EXPECT_EQ(engine.count(), 1U);  // nothing is rendered before a worker is available
  calls.front()();
  EXPECT_EQ(engine.count(), 2U);
  calls.clear();
  engine.Answer(1, "b");
  EXPECT_TRUE(Eventually([&] { return !socket.socket.busy(); }));
}

TEST_F(ResponsesLanesTest, QueuedRequestsUseOnlyTheirBytes) {
  client.Send(Create({{"input", "1"}}));
  std::string message = R"({"type":"response.create","input":[0)";
  for (int i = 0; i < 200'000; ++i) message += ",0";
  message += std::string((4 << 20) - message.size() - 2, ' ') + "]}";
  ASSERT_EQ(message.size(), static_cast<size_t>(limits::kMaxMessageBytes));
  const int64_t before = held_memory;
  for (int i = 0; i < 4; ++i) client.Send(message);
  EXPECT_LT(held_memory - before, limits::kMaxQueuedBytesPerConnection + (1 << 20));
  client.Send(message);
  const std::vector<Json> frames = client.Frames();
  ASSERT_EQ(frames.back()["type"], "error");
  EXPECT_EQ(frames.back()["error"]["code"], "rate_limit_exceeded");
  engine.Answer(0, "Yo");  // and each is answered in order
  size_t refused = 0;
  EXPECT_TRUE(Eventually([&] {
    for (const Json& frame : client.Frames()) refused += frame["type"] == "error";
    return refused == 4;
  }));
}

TEST_F(ResponsesLanesTest, RefusesRequestsWithoutAWorker) {
  std::atomic<bool> full{true};
  TestSocket socket(table, "me", nullptr, [&](const std::string&, size_t, const std::function<void()>& call) {
    if (full) return Unavailable("Too many requests are waiting to be worked on.");
    call();
    return Status::Ok();
  });
  for (const char* lane : {"a", "a", "a", "b", "b"}) socket.Send(Create({{"stream_id", lane}}));
  EXPECT_EQ(engine.count(), 2U);
  engine.Answer(0, "Yo");
  std::vector<std::string> refused;
  EXPECT_TRUE(Eventually([&] {
    for (const Json& frame : socket.Frames()) {
      if (frame["type"] != "error") continue;
      EXPECT_EQ(frame["status"], 503);
      EXPECT_EQ(frame["error"]["code"], "unavailable");
      refused.push_back(frame["stream_id"]);
    }
    return refused.size() >= 2;
  }));
  full = false;
  engine.Answer(1, "Yo");
  EXPECT_TRUE(Submitted(3)) << "b's second waited for the end of its first, which came back for it";
  EXPECT_THAT(refused, ElementsAre("a", "a"));
  socket.Send(Create({{"stream_id", "a"}}));
  EXPECT_EQ(engine.count(), 4U);
}

TEST_F(ResponsesLanesTest, RefusesAllQueuedRequestsIfNoneRuns) {
  TestSocket socket(table, "me", nullptr, [](const std::string&, size_t, const std::function<void()>&) {
    return Unavailable("Too many requests are waiting to be worked on.");
  });
  for (int i = 0; i < 18; ++i) socket.Send(Create({{"stream_id", "s" + std::to_string(i)}}));
  ASSERT_EQ(engine.count(), 16U);
  for (size_t i = 0; i < 16; ++i) engine.Answer(i, "Yo");
  std::vector<std::string> refused;
  EXPECT_TRUE(Eventually([&] {
    for (const Json& frame : socket.Frames()) {
      if (frame["type"] == "error") refused.push_back(frame["stream_id"]);
    }
    return refused.size() >= 2;
  }));
  EXPECT_THAT(refused, ElementsAre("s16", "s17"));
  EXPECT_FALSE(socket.socket.busy());
}

TEST_F(ResponsesLanesTest, QueuedBadRequestAnswersInOrder) {
  client.Send(Create({{"input", "1"}}));
  client.Send(Create({{"temperature", -1}}));
  client.Send(Create({{"input", "3"}}));
  engine.Answer(0, "a");
  ASSERT_TRUE(Submitted(2));
  engine.Answer(1, "c");
  std::vector<std::string> ends;
  for (const Json& frame : client.Frames()) {
    const std::string type = frame["type"];
    if (type == "response.completed" || type == "error" || type == "response.created") ends.push_back(type);
  }
  EXPECT_THAT(ends,
              ElementsAre("response.created", "response.completed", "error", "response.created", "response.completed"));
}

TEST_F(ResponsesLanesTest, RefusesInvalidNames) {
  for (const Json& name : {Json(""), Json("a b"), Json("\xc3\xa9"), Json(std::string(257, 'a')), Json(5)}) {
    client.Send(Create({{"stream_id", name}}));
    const Json frame = client.Frame();
    EXPECT_EQ(frame["error"]["code"], "invalid_stream_id") << name;
    EXPECT_FALSE(frame.contains("stream_id"));
  }
  client.Send(Create({{"stream_id", std::string(256, 'a')}}));
  EXPECT_EQ(engine.count(), 1U);
}

TEST_F(ResponsesLanesTest, Allows32NamesPlusTheDefaultLane) {
  for (int i = 0; i < 32; ++i) {
    client.Send(Create({{"stream_id", "s" + std::to_string(i)}, {"temperature", -1}}));
    EXPECT_EQ(client.Error()["code"], "invalid_value");
  }
  client.Send(Create({{"stream_id", "s32"}}));
  EXPECT_EQ(client.Error()["code"], "websocket_stream_limit_reached");
  client.Send(Create({{"stream_id", "s0"}}));
  client.Send(Create());
  EXPECT_EQ(engine.count(), 2U);
}

TEST_F(ResponsesLanesTest, SixteenRunAndOthersAreQueued) {
  for (int i = 0; i < 20; ++i) client.Send(Create({{"stream_id", "s" + std::to_string(i)}}));
  EXPECT_EQ(engine.count(), 16U);
  for (size_t i = 0; i < 20; ++i) {
    ASSERT_TRUE(Submitted(i + 1)) << i;
    engine.Answer(i, "x");
  }
  std::set<std::string> done;
  for (const Json& frame : client.Frames()) {
    if (frame["type"] == "response.completed") done.insert(frame["stream_id"].get<std::string>());
  }
  EXPECT_THAT(done, SizeIs(20));
}

TEST_F(ResponsesLanesTest, NewLaneWithAnOldIdForks) {
  client.Send(Create());
  engine.Answer(0, "Yo");
  const std::string first = client.Frames().back()["response"]["id"];
  client.Send(Create({{"previous_response_id", first}, {"input", "A"}}));
  client.Send(Create({{"previous_response_id", first}, {"input", "B"}, {"stream_id", "b"}}));
  ASSERT_EQ(engine.count(), 3U);
  EXPECT_NE(engine.requests()[1].timeline, engine.requests()[2].timeline);
  EXPECT_EQ(engine.requests()[1].tokens.size(), engine.requests()[2].tokens.size());
}

TEST_F(ResponsesLanesTest, LaneWithoutAPreviousIdStartsANewChain) {
  client.Send(Create({{"stream_id", "a"}}));
  engine.Answer(0, "Yo");
  client.Send(Create({{"stream_id", "a"}}));
  ASSERT_TRUE(Submitted(2));
  EXPECT_EQ(engine.requests()[0].tokens, engine.requests()[1].tokens);
  EXPECT_NE(engine.requests()[0].timeline, engine.requests()[1].timeline);
}

TEST_F(ResponsesLanesTest, KeepsOnlyTheNewestUnstoredResponsePerLane) {
  client.Send(Create({{"store", false}}));
  engine.Answer(0, "1");
  const std::string first = client.Frames().back()["response"]["id"];
  client.Send(Create({{"store", false}, {"previous_response_id", first}}));
  engine.Answer(1, "2");
  const std::string second = client.Frames().back()["response"]["id"];
  EXPECT_TRUE(Eventually([&] {  // the first is gone for its own connection too, once its end has been processed
    client.Send(Create({{"previous_response_id", first}, {"stream_id", "other"}}));
    const std::vector<Json> frames = client.Frames();
    if (frames[0]["type"] == "error") return true;
    engine.Answer(engine.count() - 1, "");
    client.Frames();
    return false;
  }));
  const size_t before = engine.count();
  client.Send(Create({{"previous_response_id", second}, {"store", false}}));
  EXPECT_EQ(engine.count(), before + 1);
}

TEST_F(ResponsesLanesTest, FailedContinuationEvictsItsUnstoredParent) {
  client.Send(Create({{"store", false}}));
  engine.Answer(0, "1");
  const std::string first = client.Frames().back()["response"]["id"];
  client.Send(Create({{"previous_response_id", first}, {"temperature", -1}, {"stream_id", "other"}}));
  EXPECT_EQ(client.Error()["param"], "temperature");  // a failed fork evicts nothing
  client.Send(Create({{"previous_response_id", first}, {"temperature", -1}}));
  EXPECT_EQ(client.Error()["param"], "temperature");
  client.Send(Create({{"previous_response_id", first}}));
  EXPECT_EQ(client.Error()["code"], "previous_response_not_found");
}

TEST_F(ResponsesLanesTest, UnstoredResponsesEndWithTheirSocket) {
  std::string first;
  {
    TestSocket brief(table);
    brief.Send(Create({{"store", false}}));
    engine.Answer(0, "1");
    first = brief.Frames().back()["response"]["id"];
    TestSocket same_owner(table);
    same_owner.Send(Create({{"previous_response_id", first}}));
    EXPECT_EQ(same_owner.Error()["code"], "previous_response_not_found");
    brief.Send(Create({{"store", false}, {"previous_response_id", first}}));
    ASSERT_EQ(engine.count(), 2U);
  }
  std::promise<void> behind;  // ended by the table's own thread
  table.Post([&] { behind.set_value(); });
  behind.get_future().wait();
  EXPECT_THAT(engine.cancelled(), ElementsAre(engine.requests()[1].turn));
}

TEST_F(ResponsesLanesTest, StoredResponsesSurviveTheirSocket) {
  std::string first;
  {
    TestSocket brief(table);
    brief.Send(Create());
    first = brief.Frames().front()["response"]["id"];
  }
  engine.Answer(0, "1");
  EXPECT_THAT(engine.cancelled(), SizeIs(0));
  client.Send(Create({{"previous_response_id", first}}));
  EXPECT_EQ(engine.count(), 2U);
}

TEST_F(ResponsesLanesTest, CancelFindsTheLane) {
  client.Send(Create({{"stream_id", "a"}}));
  client.Send(Create({{"stream_id", "b"}}));
  client.Send(Json{{"type", "response.cancel"}, {"stream_id", "b"}});
  EXPECT_THAT(engine.cancelled(), ElementsAre(engine.requests()[1].turn));
  client.Send(Json{{"type", "response.cancel"}});  // no default lane, and two candidates
  EXPECT_THAT(engine.cancelled(), SizeIs(1));
  engine.End(1, FinishReason::kCancelled);
  client.Send(Json{{"type", "response.cancel"}});  // the only one left
  EXPECT_THAT(engine.cancelled(), SizeIs(2));
}

TEST_F(ResponsesLanesTest, LimitsQueuedRequests) {
  client.Send(Create());
  for (int i = 0; i < 256; ++i) client.Send(Create());
  EXPECT_TRUE(Types(client.Frames()).size() < 3);
  client.Send(Create());
  EXPECT_EQ(client.Error()["code"], "rate_limit_exceeded");
}

TEST_F(ResponsesLanesTest, ClosedSocketStartsNoFurtherTurn) {
  client.Send(Create());
  client.Send(Create());
  client.socket.OnClosed();
  engine.Answer(0, "x");
  client.Send(Create());
  EXPECT_EQ(engine.count(), 1U);
  EXPECT_FALSE(client.socket.busy());
}

TEST_F(ResponsesLanesTest, ManySocketsAtOnce) {
  constexpr int kSockets = 8, kTurns = 20;
  std::atomic<bool> over{false};
  std::thread answers([&] {  // the engine's thread
    for (size_t next = 0; !over || next < engine.count();) {
      if (next < engine.count()) {
        engine.Answer(next++, "abc");
      } else {
        std::this_thread::yield();
      }
    }
  });
  std::vector<std::thread> clients;
  std::atomic<int> completed{0};
  for (int s = 0; s < kSockets; ++s) {
    clients.emplace_back([&] {
      TestSocket mine(table);
      const std::string id = NewConversation();
      for (int turn = 0; turn < kTurns; ++turn) {
        mine.Send(Create({{"conversation", id}}));
        std::string text;
        EXPECT_TRUE(Eventually([&] {
          for (const Json& frame : mine.Frames()) {
            if (frame["type"] == "response.output_text.delta") text += frame["delta"];
            if (frame["type"] == "response.completed") return true;
          }
          return false;
        }));
        EXPECT_EQ(text, "abc");
        ++completed;
      }
      EXPECT_EQ(table.GetItems({"me", 0}, id)->size(), 2U * kTurns);
    });
  }
  for (std::thread& each : clients) each.join();
  over = true;
  answers.join();
  EXPECT_EQ(completed, kSockets * kTurns);
}

}  // namespace
}  // namespace ringside
