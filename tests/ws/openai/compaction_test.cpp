// Compaction over the Responses API: above a threshold and on request, of stateless requests, chains and conversations.
#include "ws/content/compaction.h"

#include <future>

#include "tests/ws/openai/routes_fixture.h"

namespace ringside {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

const std::string kLong(120, 'q');

class CompactionTest : public RoutesTest {
 protected:
  static Json Above(int64_t threshold) { return {{{"type", "compaction"}, {"compact_threshold", threshold}}}; }
  HttpResponse Post(Json fields) { return Call("POST", "/v1/responses", std::move(fields)); }
  /// Sends a request that waits for a side turn, which ends with `summary`.
  HttpResponse Compacting(const std::function<HttpResponse()>& ask, const std::string& summary = "They said hi.") {
    const size_t before = engine.count();
    std::future<HttpResponse> answer = std::async(std::launch::async, ask);
    EXPECT_TRUE(Eventually([&] { return engine.count() > before; }));
    side = engine.last();
    engine.AnswerLast(summary);
    return answer.get();
  }
  Json AnswerTo(const HttpResponse& waiting) {
    engine.AnswerLast("Yo");
    return Ok(waiting);
  }
  static Json History() {
    return {Message("user", "First " + kLong), Message("assistant", "Fine"), Message("user", "Second")};
  }
  std::string Prompt() { return tokenizer.Decode(engine.last().tokens); }

  TurnRequest side;
};

TEST_F(CompactionTest, AStatelessHistoryIsReplacedAboveTheThreshold) {
  const Json asked = {{"input", History()}, {"store", false}, {"context_management", Above(100)}};
  const Json response = AnswerTo(Compacting([&] { return Post(asked); }));
  EXPECT_THAT(tokenizer.Decode(side.tokens), HasSubstr("First " + kLong));
  EXPECT_THAT(tokenizer.Decode(side.tokens), HasSubstr("Summarize the conversation"));
  EXPECT_EQ(side.max_tokens, kMaxSummaryTokens);
  EXPECT_TRUE(side.may_branch);
  EXPECT_THAT(Prompt(), Not(HasSubstr(kLong)));
  EXPECT_THAT(Prompt(), HasSubstr("They said hi.<|im_end|>\n<|im_start|>user\nSecond<|im_end|>"));
  ASSERT_EQ(response["output"].size(), 2U) << response;
  EXPECT_EQ(response["output"][0]["type"], "compaction");
  EXPECT_EQ(response["output"][1]["type"], "message");
  const Json& report = response["ringside"]["compaction"];
  EXPECT_GT(report["tokens_before"], report["tokens_after"]);
  EXPECT_EQ(report["tokens_after"], response["usage"]["input_tokens"]);
  EXPECT_EQ(report["by_model"], true);
  // The client sends everything back.
  const size_t turns = engine.count();
  Json longer = History();
  for (const Json& item : response["output"]) longer.push_back(item);
  longer.push_back(Message("user", "Third"));
  const HttpResponse next = Post({{"input", longer}, {"store", false}, {"context_management", Above(1000)}});
  ASSERT_EQ(engine.count(), turns + 1);
  const std::vector<TurnRequest> requests = engine.requests();
  EXPECT_EQ(requests[turns].timeline, requests[turns - 1].timeline);
  EXPECT_THAT(Prompt(), HasSubstr("Yo<|im_end|>\n<|im_start|>user\nThird"));
}

TEST_F(CompactionTest, BelowTheThresholdNothingHappens) {
  const Json response = AnswerTo(Post({{"input", History()}, {"context_management", Above(1500)}}));
  EXPECT_EQ(engine.count(), 1U);
  EXPECT_EQ(response["output"].size(), 1U);
  EXPECT_FALSE(response["ringside"].contains("compaction"));
  AnswerTo(Post({{"input", "A question alone " + kLong}, {"context_management", Above(1)}}));
  EXPECT_EQ(engine.count(), 2U);
}

TEST_F(CompactionTest, AStreamHasTheItemAtItsBeginning) {
  const Json asked = {{"input", History()}, {"stream", true}, {"context_management", Above(100)}};
  StreamedAnswer streamed(Compacting([&] { return Post(asked); }));
  engine.AnswerLast("Yo");
  const std::vector<Json> events = streamed.Events();
  ASSERT_GT(events.size(), 8U);
  EXPECT_EQ(events[2]["type"], "response.output_item.added");
  EXPECT_EQ(events[2]["item"]["type"], "compaction");
  EXPECT_EQ(events[3]["type"], "response.output_item.done");
  for (size_t i = 0; i < events.size(); ++i) {
    EXPECT_EQ(events[i]["sequence_number"], i);
    if (!events[i].contains("output_index")) continue;
    EXPECT_EQ(events[i]["output_index"], i < 4 ? 0 : 1) << events[i];
  }
  const Json whole = events.back()["response"];
  EXPECT_EQ(whole["output"][0], events[3]["item"]);
  const std::string again = "/v1/responses/" + whole["id"].get<std::string>() + "?stream=true&starting_after=2";
  StreamedAnswer replayed(Call("GET", again));
  EXPECT_EQ(replayed.Events()[0], events[3]);
}

TEST_F(CompactionTest, AChainIsForkedAtItsBeginning) {
  const Json first = AnswerTo(Post({{"input", "First " + kLong}, {"instructions", "Be brief."}}));
  const Json asked = {{"input", "Second"}, {"previous_response_id", first["id"]}, {"context_management", Above(100)}};
  const Json second = AnswerTo(Compacting([&] { return Post(asked); }));
  EXPECT_THAT(Prompt(), Not(HasSubstr(kLong)));
  EXPECT_THAT(Prompt(), HasSubstr("system\nBe brief.<|im_end|>"));
  EXPECT_EQ(second["output"][0]["type"], "compaction");
  // Both chains can be continued.
  AnswerTo(Post({{"input", "Third"}, {"previous_response_id", second["id"]}}));
  EXPECT_THAT(Prompt(), Not(HasSubstr(kLong)));
  EXPECT_THAT(Prompt(), HasSubstr("They said hi."));
  AnswerTo(Post({{"input", "Other"}, {"previous_response_id", first["id"]}}));
  EXPECT_THAT(Prompt(), HasSubstr(kLong));
}

TEST_F(CompactionTest, AConversationIsCompactedInPlace) {
  const std::string id = NewConversation();
  AnswerTo(Post({{"input", "First " + kLong}, {"conversation", id}}));
  const Json asked = {{"input", "Second"}, {"conversation", id}, {"context_management", Above(100)}};
  const Json second = AnswerTo(Compacting([&] { return Post(asked); }));
  EXPECT_EQ(second["output"][0]["type"], "compaction");
  const Json items = Ok(Call("GET", "/v1/conversations/" + id + "/items?order=asc"))["data"];
  ASSERT_EQ(items.size(), 3U) << items;
  EXPECT_THAT(items[0]["content"][0]["text"].get<std::string>(), HasSubstr("They said hi."));
  EXPECT_EQ(items[1]["content"][0]["text"], "Second");
}

TEST_F(CompactionTest, ASessionIsCompactedByAVerb) {
  const std::string id = NewConversation();
  client.Send(Json{{"type", "ringside:session.compact"}, {"session", id}});
  EXPECT_EQ(client.Frame()["error"]["code"], "invalid_value");
  AnswerTo(Post({{"input", "First " + kLong}, {"conversation", id}}));
  const Json second = AnswerTo(Post({{"input", "Second"}, {"conversation", id}}));
  Compacting([&] {
    client.Send(Json{{"type", "ringside:session.compact"}, {"session", id}, {"instructions", "Be short."}});
    return HttpResponse{};
  });
  EXPECT_THAT(tokenizer.Decode(side.tokens), HasSubstr("user\nBe short.<|im_end|>"));
  const Json frame = client.Frame();
  EXPECT_EQ(frame["type"], "ringside:session.compacted") << frame;
  EXPECT_EQ(frame["items"], 1);
  const std::string kept = "/v1/responses/" + second["id"].get<std::string>();
  EXPECT_EQ(Ok(Call("GET", kept))["output"], second["output"]);
  EXPECT_EQ(Ok(Call("GET", kept + "/input_items"))["data"], Json::array());
  EXPECT_GT(frame["compaction"]["tokens_before"], 100);
  AnswerTo(Post({{"input", "Third"}, {"conversation", id}}));
  EXPECT_THAT(Prompt(), Not(HasSubstr(kLong)));
  EXPECT_THAT(Prompt(), HasSubstr("They said hi."));
  client.Send(Json{{"type", "ringside:session.compact"}, {"session", "conv_none"}});
  EXPECT_EQ(client.Frame()["error"]["code"], "conversation_not_found");
  client.Send(Json{{"type", "ringside:session.compact"}, {"session", id}, {"instructions", 5}});
  EXPECT_EQ(client.Frame()["error"]["param"], "instructions");
}

// What a call gave stays with the call.
TEST_F(CompactionTest, AnExchangeUnderWayStays) {
  const Json call = {{"type", "function_call"}, {"call_id", "call_1"}, {"name", "look"}, {"arguments", "{\"q\": 1}"}};
  const Json result = {{"type", "function_call_output"}, {"call_id", "call_1"}, {"output", "found"}};
  Json input = History();
  input.push_back(call);
  input.push_back(result);
  const Json asked = {{"input", input}, {"context_management", Above(100)}};
  const Json response = AnswerTo(Compacting([&] { return Post(asked); }));
  EXPECT_THAT(Prompt(), HasSubstr("<tool_call>\n{\"name\": \"look\", \"arguments\": {\"q\": 1}}\n</tool_call>"));
  EXPECT_THAT(Prompt(), HasSubstr("<tool_response>\nfound\n</tool_response>"));
  const size_t turns = engine.count();
  Post({{"input", {response["output"][0], response["output"][1], Message("user", "Third")}}});
  ASSERT_EQ(engine.count(), turns + 1);
  EXPECT_EQ(engine.requests()[turns].timeline, engine.requests()[turns - 1].timeline);
}

TEST_F(CompactionTest, AWindowIsCompactedOnRequest) {
  const Json asked = {{"model", "tiny"}, {"input", History()}};
  const Json window = Ok(Compacting([&] { return Call("POST", "/v1/responses/compact", asked); }));
  EXPECT_EQ(window["object"], "response.compaction");
  ASSERT_EQ(window["output"].size(), 3U) << window;
  EXPECT_EQ(window["output"][0]["content"][0]["text"], "First " + kLong);
  EXPECT_EQ(window["output"][1]["content"][0]["text"], "Second");
  EXPECT_EQ(window["output"][2]["type"], "compaction");
  EXPECT_EQ(window["usage"]["input_tokens"], side.tokens.size());
  Json input = window["output"];
  input.push_back(Message("user", "Third"));
  AnswerTo(Post({{"input", input}}));
  EXPECT_THAT(Prompt(), HasSubstr("Second<|im_end|>"));
  EXPECT_THAT(Prompt(), HasSubstr("They said hi.<|im_end|>\n<|im_start|>user\nThird"));
  Fails(Call("POST", "/v1/responses/compact", Json::object()), 400, "missing_required_parameter", "input");
}

TEST_F(CompactionTest, AStoredChainIsCompactedOnRequest) {
  const Json first = AnswerTo(Post({{"input", "First"}}));
  const Json asked = {{"model", "tiny"}, {"previous_response_id", first["id"]}};
  const Json window = Ok(Compacting([&] { return Call("POST", "/v1/responses/compact", asked); }));
  EXPECT_EQ(window["output"][0]["content"][0]["text"], "First");
  EXPECT_THAT(tokenizer.Decode(side.tokens), HasSubstr("Yo<|im_end|>"));
}

TEST_F(CompactionTest, AnEmptySummaryIsAnOutline) {
  const Json asked = {{"input", History()}, {"context_management", Above(100)}};
  const Json response = AnswerTo(Compacting([&] { return Post(asked); }, ""));
  EXPECT_EQ(response["ringside"]["compaction"]["by_model"], false);
  EXPECT_THAT(Prompt(), HasSubstr("assistant: Fine"));
}

TEST_F(CompactionTest, HostileValuesAreNamed) {
  const auto fails = [&](const Json& management, const Json& param, const std::string& code = "invalid_type") {
    Fails(Post({{"input", "Hi"}, {"context_management", management}}), 400, code, param);
  };
  fails("compact", "context_management");
  fails({1}, "context_management[0]");
  fails({{{"compact_threshold", 5}}}, "context_management[0].type", "missing_required_parameter");
  fails(Above(0), "context_management[0].compact_threshold", "invalid_value");
  fails(Above(-1), "context_management[0].compact_threshold", "invalid_value");
  Json twice = Above(5);
  twice.push_back(twice[0]);
  fails(twice, "context_management[1].type", "invalid_value");
  for (const std::string opaque :
       {"", "gAAAAA", "ringside.c1:", "ringside.c1:!!", "ringside.c1:e30=", "ringside.c1:W10="}) {
    const Json input = {{{"type", "compaction"}, {"encrypted_content", opaque}}};
    Fails(Post({{"input", input}}), 400, "invalid_value", "input[0].encrypted_content");
  }
  Fails(Post({{"input", {{{"type", "compaction"}}}}}), 400, "missing_required_parameter", "input[0].encrypted_content");
  EXPECT_EQ(engine.count(), 0U);
}

TEST_F(CompactionTest, AnotherTypeIsIgnoredAndReported) {
  const Json response = AnswerTo(Post({{"input", "Hi"}, {"context_management", {{{"type", "shrink"}}}}}));
  EXPECT_EQ(response["ringside"]["ignored"], Json({"context_management[0]"}));
}

TEST_F(CompactionTest, AFailedSideTurnFailsTheRequest) {
  const Json asked = {{"input", History()}, {"context_management", Above(100)}};
  std::future<HttpResponse> answer = std::async(std::launch::async, [&] { return Post(asked); });
  ASSERT_TRUE(Eventually([&] { return engine.count() == 1; }));
  engine.End(0, FinishReason::kError, Unavailable("The engine is gone."));
  Fails(answer.get(), 503, "unavailable", nullptr);
}

}  // namespace
}  // namespace ringside
