// POST /v1/responses: whole, streamed and in the background; and when its client disconnects or retries.
#include "base/refusals/server_overload.h"
#include "tests/ws/openai/routes_fixture.h"

namespace ringside {
namespace {

using ::testing::Contains;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::SizeIs;

class ResponsesPostTest : public RoutesTest {
 protected:
  HttpResponse Post(Json fields = Json::object(), int retry = 0) {
    if (!fields.contains("input")) fields["input"] = "Hi";
    return Call("POST", "/v1/responses", fields, "me", {{"x-stainless-retry-count", std::to_string(retry)}});
  }
  /// The whole answer, from an engine that says "Yo".
  Json Answer(Json fields = Json::object()) {
    const HttpResponse waiting = Post(std::move(fields));
    EXPECT_EQ(Come(waiting).status, 0);
    engine.AnswerLast("Yo");
    return Ok(waiting);
  }
  std::string Prompt() { return tokenizer.Decode(engine.last().tokens); }
};

TEST_F(ResponsesPostTest, NonStreamingResponseIsSentAtItsEnd) {
  const HttpResponse waiting = Post({{"stream", false}, {"metadata", {{"k", "v"}}}});
  engine.Start(0);
  engine.Say(0, "Y");
  EXPECT_EQ(Come(waiting).status, 0);
  engine.Say(0, "o");
  engine.End(0);
  const Json response = Ok(waiting);
  EXPECT_EQ(response["status"], "completed");
  EXPECT_EQ(response["object"], "response");
  EXPECT_EQ(response["output"][0]["content"][0]["text"], "Yo");
  EXPECT_EQ(response["metadata"]["k"], "v");
  EXPECT_EQ(Ok(Call("GET", "/v1/responses/" + response["id"].get<std::string>())), response);
}

TEST_F(ResponsesPostTest, StreamHasTheSameEventsAsAWebSocket) {
  StreamedAnswer streamed(Post({{"stream", true}}));
  EXPECT_EQ(Types(streamed.Events()), (std::vector<std::string>{"response.created", "response.in_progress"}));
  engine.AnswerLast("Yo");
  std::vector<Json> events = streamed.Events();
  EXPECT_TRUE(streamed.done);
  EXPECT_EQ(streamed.outbox->TakeClose().value().code, Outbox::kEndOfBody);
  client.Send(Create());
  engine.AnswerLast("Yo");
  std::vector<Json> frames = client.Frames();
  frames.erase(frames.begin(), frames.begin() + 2);
  EXPECT_EQ(Types(events), Types(frames));
  for (size_t i = 0; i < events.size(); ++i) EXPECT_EQ(events[i]["sequence_number"], frames[i]["sequence_number"]);
  EXPECT_EQ(events.back()["response"]["output"][0]["content"], frames.back()["response"]["output"][0]["content"]);
}

TEST_F(ResponsesPostTest, ItContinuesConversationsAndChains) {
  const std::string conversation = NewConversation();
  const Json first = Answer({{"conversation", conversation}});
  EXPECT_EQ(first["conversation"]["id"], conversation);
  Answer({{"conversation", {{"id", conversation}}}, {"input", "More"}});
  EXPECT_NE(Prompt().find("Yo<|im_end|>\n<|im_start|>user\nMore"), std::string::npos);
  const Json chained = Answer();
  Answer({{"previous_response_id", chained["id"]}, {"input", "On"}, {"instructions", "Be brief."}});
  EXPECT_NE(Prompt().find("Yo<|im_end|>\n<|im_start|>user\nOn"), std::string::npos);
  EXPECT_NE(Prompt().find("Be brief."), std::string::npos);
}

TEST_F(ResponsesPostTest, ErrorIsAStatusAlsoWhenStreamed) {
  for (const bool stream : {false, true}) {
    const auto fails = [&](Json fields, int status, const std::string& code, const Json& param) {
      fields["stream"] = stream;
      Fails(Post(std::move(fields)), status, code, param);
    };
    fails({{"previous_response_id", "resp_none"}}, 400, "previous_response_not_found", "previous_response_id");
    fails({{"conversation", "conv_none"}}, 404, "conversation_not_found", "conversation");
    fails({{"model", "gpt"}}, 404, "model_not_found", "model");
    fails({{"background", true}, {"store", false}}, 400, "invalid_value", "background");
    fails({{"input", std::string(4'000, 'x')}}, 400, "context_length_exceeded", "input");
  }
  Fails(Call("POST", "/v1/responses", "{"), 400, "invalid_json", nullptr);
  Fails(Call("POST", "/v1/responses", "[]"), 400, "invalid_type", "body");
  Fails(Post({{"stream", "yes"}}), 400, "invalid_type", "stream");
  EXPECT_EQ(engine.count(), 0U);
}

TEST_F(ResponsesPostTest, FullQueueSendsRetryAfter) {
  engine.Refuse(Overloaded("Too many turns wait."));
  Router busy;
  RegisterResponseRoutes(busy, table, [](const std::string&) { return int64_t{2'500}; });
  HttpRequest request;
  request.method = "POST";
  request.path = "/v1/responses";
  request.body = R"({"input":"Hi"})";
  const HttpResponse refused = busy.Route(request);
  EXPECT_EQ(refused.status, 429);
  const auto header = [&](const std::string& name) {
    for (const auto& [key, value] : refused.headers) {
      if (key == name) return value;
    }
    return std::string();
  };
  EXPECT_EQ(header("Retry-After"), "3");
  EXPECT_EQ(header("retry-after-ms"), "2500");
}

TEST_F(ResponsesPostTest, TurnThatWouldWaitTooLongIsRefused) {
  const std::string conversation = NewConversation();
  engine.Overload(ServerOverload{.wait_s = 4, .retry_after_s = 7}.ToStatus());
  for (const bool stream : {false, true}) {
    const HttpResponse refused = Post({{"conversation", conversation}, {"stream", stream}});
    EXPECT_THAT(refused.headers, Contains(Pair("Retry-After", "7")));
    Fails(refused, 429, "server_overloaded", nullptr);
  }
  EXPECT_EQ(engine.count(), 0U);
  engine.Overload(Status::Ok());
  const HttpResponse first = Post({{"conversation", conversation}});
  engine.AnswerLast("Yo");
  Ok(first);
}

TEST_F(ResponsesPostTest, BusyConversationReturnsConflict) {
  const std::string conversation = NewConversation();
  const HttpResponse first = Post({{"conversation", conversation}});
  Fails(Post({{"conversation", conversation}, {"input", "x"}}), 409, "conversation_locked", "conversation");
  engine.AnswerLast("Yo");
  Ok(first);
}

TEST_F(ResponsesPostTest, RefusedTurnReturnsItsErrorAlsoWhenStreamed) {
  const HttpResponse waiting = Post();
  engine.End(0, FinishReason::kError, Overloaded("full"));
  Fails(Come(waiting), 429, "rate_limit_exceeded", nullptr);
  StreamedAnswer streamed(Post({{"stream", true}}));
  engine.End(1, FinishReason::kError, Overloaded("full"));
  EXPECT_EQ(streamed.Events().back()["type"], "response.failed");
  EXPECT_TRUE(streamed.done);
}

// If the client can continue the answer it gets the response; otherwise an error that makes it repeat the request.
TEST_F(ResponsesPostTest, InterruptedTurnReturnsItsStoredResponse) {
  const HttpResponse stored = Post(), unstored = Post({{"store", false}});
  const HttpResponse spoken = Post({{"store", false}, {"conversation", NewConversation()}});
  StreamedAnswer streamed(Post({{"stream", true}}));
  for (size_t turn = 0; turn < 4; ++turn) {
    engine.Start(turn);
    engine.Say(turn, "Y");
    engine.End(turn, FinishReason::kError, Unavailable("The device is gone."));
  }
  for (const HttpResponse& kept : {stored, spoken}) {
    const Json response = Ok(kept);
    EXPECT_EQ(response["incomplete_details"]["reason"], "interrupted");
    EXPECT_EQ(response["error"]["code"], "unavailable");
    EXPECT_EQ(response["output"][0]["content"][0]["text"], "Y");
  }
  const HttpResponse failed = Come(unstored);
  Fails(failed, 503, "unavailable", nullptr);
  EXPECT_THAT(failed.headers, Contains(Pair("Retry-After", "1")));
  EXPECT_EQ(streamed.Events().back()["response"]["incomplete_details"]["reason"], "interrupted");
  EXPECT_TRUE(streamed.done);
}

TEST_F(ResponsesPostTest, StoredAnswerContinuesWithoutItsClient) {
  Post();  // the client disconnects at once
  { StreamedAnswer gone(Post({{"stream", true}})); }
  EXPECT_THAT(engine.cancelled(), IsEmpty());
  EXPECT_EQ(engine.count(), 2U);
  for (const size_t turn : {0, 1}) engine.Answer(turn, "Yo");
}

TEST_F(ResponsesPostTest, UnstoredAnswerEndsWithItsClient) {
  for (const Json& fields : {Json{{"store", false}}, Json{{"store", false}, {"conversation", NewConversation()}}}) {
    const Json whole = Answer(fields);
    EXPECT_EQ(whole["output"][0]["content"][0]["text"], "Yo");
    Fails(Call("GET", "/v1/responses/" + whole["id"].get<std::string>()), 404, "response_not_found", "response_id");
    std::string id;
    {
      StreamedAnswer streamed(Post({{"stream", true}, {"store", false}}));
      id = streamed.Events().front()["response"]["id"];
      Fails(Call("GET", "/v1/responses/" + id), 404, "response_not_found", "response_id");
    }
  }
}

TEST_F(ResponsesPostTest, DisconnectCancelsAnUnstoredAnswer) {
  HttpResponse whole = Post({{"store", false}});
  engine.Start(0);
  EXPECT_THAT(engine.cancelled(), IsEmpty());
  const auto cancelled = [this](size_t count) {
    return Eventually([&] { return engine.cancelled().size() == count; });
  };
  whole = {};
  EXPECT_TRUE(cancelled(1));
  HttpResponse in_conversation = Post({{"store", false}, {"conversation", NewConversation()}});
  engine.Start(1);
  in_conversation = {};
  EXPECT_TRUE(cancelled(2));
  HttpResponse streamed = Post({{"store", false}, {"stream", true}});
  {
    StreamedAnswer reader(streamed);
    engine.Start(2);
    EXPECT_THAT(Types(reader.Events()), SizeIs(4));
  }
  EXPECT_THAT(engine.cancelled(), SizeIs(2)) << "the connection still holds it";
  streamed = {};
  EXPECT_TRUE(cancelled(3));
  for (const size_t turn : {0, 1, 2}) engine.End(turn, FinishReason::kCancelled);
}

TEST_F(ResponsesPostTest, BackgroundResponseIsPolledAndCancelled) {
  const Json begun = Ok(Post({{"background", true}}));
  EXPECT_EQ(begun["status"], "in_progress");
  EXPECT_EQ(begun["background"], true);
  const std::string path = "/v1/responses/" + begun["id"].get<std::string>();
  engine.Start(0);
  engine.Say(0, "Y");
  EXPECT_EQ(Ok(Call("GET", path))["output"][0]["content"][0]["text"], "Y");
  const HttpResponse cancelled = Call("POST", path + "/cancel");
  EXPECT_THAT(engine.cancelled(), SizeIs(1));
  engine.End(0, FinishReason::kCancelled);
  EXPECT_EQ(Ok(cancelled)["status"], "cancelled");
  const Json done = Ok(Post({{"background", true}, {"input", "More"}}));
  engine.AnswerLast("Yo");
  EXPECT_EQ(Ok(Call("GET", "/v1/responses/" + done["id"].get<std::string>()))["status"], "completed");
}

TEST_F(ResponsesPostTest, RepeatedRequestReturnsTheFirstAnswer) {
  const HttpResponse first = Post();
  engine.Start(0);
  engine.Say(0, "Y");
  const HttpResponse again = Post({}, 1);  // while the first is still running
  StreamedAnswer streamed(Post({{"stream", true}}, 2));
  EXPECT_THAT(Types(streamed.Events()), SizeIs(5));
  engine.Say(0, "o");
  engine.End(0);
  const Json response = Ok(first);
  EXPECT_EQ(Ok(again), response);
  EXPECT_EQ(streamed.Events().back()["response"], response);
  EXPECT_EQ(Ok(Post({}, 1)), response) << "and when it has ended";
  EXPECT_EQ(engine.count(), 1U);
  // The same request sent for the first time, other requests and other callers are different turns.
  const HttpResponse second = Post();
  engine.AnswerLast("No");
  EXPECT_NE(Ok(second)["id"], response["id"]);
  EXPECT_EQ(Ok(Post({}, 1)), Ok(Call("GET", "/v1/responses/" + Ok(Post({}, 1))["id"].get<std::string>())));
  EXPECT_EQ(engine.count(), 2U);
  Post({{"input", "Other"}}, 1);
  Call("POST", "/v1/responses", {{"input", "Hi"}}, "other", {{"x-stainless-retry-count", "1"}});
  EXPECT_EQ(engine.count(), 4U);
}

TEST_F(ResponsesPostTest, RequestIdMatchesAcrossHttpAndWebSocket) {
  const Json body = {{"input", "Hi"}, {"metadata", {{"client_request_id", "once"}}}};
  client.Send(Create(body));
  engine.AnswerLast("Yo");
  const Json response = client.Frames().back()["response"];
  EXPECT_EQ(Ok(Post(body)), response);
  EXPECT_EQ(engine.count(), 1U);
}

TEST_F(ResponsesPostTest, CountsInputTokensWithoutATurn) {
  const auto count = [this](const Json& body) {
    const Json counted = Ok(Call("POST", "/v1/responses/input_tokens", body));
    EXPECT_EQ(counted["object"], "response.input_tokens");
    return counted["input_tokens"].get<int64_t>();
  };
  const std::string conversation = NewConversation();
  const Json chained = Answer();
  Answer({{"previous_response_id", chained["id"]}, {"input", "On"}});  // `chained` is no longer the newest of a chain
  Answer({{"conversation", conversation}, {"instructions", "Be brief."}});
  for (const Json& body : {Json{{"input", "Hello"}}, Json{{"input", "Hello"}, {"instructions", "Be kind."}},
                           Json{{"input", "Hello"}, {"conversation", conversation}},
                           Json{{"input", "Hello"}, {"conversation", conversation}, {"instructions", "Be kind."}},
                           Json{{"input", "Hello"}, {"previous_response_id", chained["id"]}},
                           Json{{"input", Json::array({Message("user", "Hello"), Message("developer", "x")})}}}) {
    const size_t turns = engine.count();
    const int64_t counted = count(body);
    EXPECT_EQ(engine.count(), turns);
    EXPECT_EQ(count(body), counted) << "counting changes nothing";
    EXPECT_EQ(counted, Answer(body)["usage"]["input_tokens"]) << body;
  }
  const HttpResponse coloured = Call("POST", "/v1/responses/input_tokens", {{"input", "x"}, {"colour", 1}});
  EXPECT_EQ(Ok(coloured)["ringside"]["ignored"], Json::array({"colour"}));
  Fails(Call("POST", "/v1/responses/input_tokens", {{"input", "x"}, {"conversation", conversation}}, "other"), 404,
        "conversation_not_found", "conversation");
}

TEST_F(ResponsesPostTest, WaitingClientLearnsOfTheDeletion) {
  const std::string conversation = NewConversation();
  const HttpResponse waiting = Post({{"conversation", conversation}});
  engine.Start(0);
  ASSERT_TRUE(table.DeleteSession({"me", 0}, conversation).ok());
  engine.End(0, FinishReason::kCancelled);
  EXPECT_EQ(Ok(waiting)["status"], "cancelled");
}

}  // namespace
}  // namespace ringside
