#include "engine/grammar/grammar.h"
#include "tests/ws/chat/chat_fixture.h"

namespace ringside {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

class ChatCompletionsTest : public ChatTest {
 protected:
  static Json Body(Json fields = Json::object()) {
    Json body = {{"model", "tiny"}, {"messages", {User("Hi")}}};
    body.update(fields);
    return body;
  }
  HttpResponse Ask(const Json& body, const std::string& principal = "me") {
    return Post("/v1/chat/completions", body, principal);
  }
  const std::string text = std::string(400, 'x');
};

TEST_F(ChatCompletionsTest, NonStreamingAnswerIsSentAtItsEnd) {
  const HttpResponse answer = Ask(Body());
  engine.AnswerLast("Yo");
  const Json whole = Whole(answer);
  EXPECT_EQ(whole["object"], "chat.completion");
  EXPECT_TRUE(whole["id"].get<std::string>().starts_with("chatcmpl-"));
  EXPECT_TRUE(whole["created"].is_number_integer());
  EXPECT_EQ(whole["model"], "tiny");
  ASSERT_THAT(whole["choices"], SizeIs(1));
  const Json expected = {
      {"index", 0},
      {"message", {{"role", "assistant"}, {"content", "Yo"}, {"refusal", nullptr}, {"annotations", Json::array()}}},
      {"logprobs", nullptr},
      {"finish_reason", "stop"}};
  EXPECT_EQ(whole["choices"][0], expected);
  const Json usage = whole["usage"];
  EXPECT_EQ(usage["prompt_tokens"], static_cast<int64_t>(engine.last().tokens.size()));
  EXPECT_EQ(usage["completion_tokens"], 3);
  EXPECT_EQ(usage["total_tokens"], usage["prompt_tokens"].get<int>() + 3);
  EXPECT_EQ(usage["prompt_tokens_details"]["cached_tokens"], 0);
}

TEST_F(ChatCompletionsTest, StreamSendsRoleOnceAndUsageLast) {
  ChatStream stream(Ask(Body({{"stream", true}, {"stream_options", {{"include_usage", true}}}})));
  engine.AnswerLast("Yo");
  const std::vector<Json> events = stream.Events();
  ASSERT_THAT(events, SizeIs(6));
  const auto choice = [&](size_t i) { return events[i]["choices"][0]; };
  EXPECT_EQ(choice(0)["delta"], Json({{"role", "assistant"}, {"content", ""}}));
  EXPECT_EQ(choice(1)["delta"], Json({{"content", "Y"}}));
  EXPECT_EQ(choice(2)["delta"], Json({{"content", "o"}}));
  EXPECT_EQ(choice(3)["delta"], Json::object());
  EXPECT_EQ(choice(3)["finish_reason"], "stop");
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(events[i]["object"], "chat.completion.chunk");
    EXPECT_EQ(events[i]["id"], events[0]["id"]);
    EXPECT_TRUE(events[i].contains("usage") && events[i]["usage"].is_null());
    EXPECT_EQ(choice(i)["index"], 0);
    EXPECT_TRUE(i == 3 || choice(i)["finish_reason"].is_null());
  }
  EXPECT_THAT(events[4]["choices"], IsEmpty());
  EXPECT_EQ(events[4]["usage"]["completion_tokens"], 3);
  EXPECT_EQ(events[5], "done");
  EXPECT_TRUE(stream.Ended());
}

TEST_F(ChatCompletionsTest, OmitsUsageUnlessRequested) {
  ChatStream stream(Ask(Body({{"stream", true}})));
  engine.AnswerLast("Yo");
  for (const Json& event : stream.Events()) EXPECT_TRUE(event == "done" || !event.contains("usage"));
}

TEST_F(ChatCompletionsTest, EventsBeforeTheClientListensAreKept) {
  const HttpResponse answer = Ask(Body({{"stream", true}}));
  engine.AnswerLast("Yo");
  ChatStream stream(answer);
  EXPECT_THAT(stream.Events(), SizeIs(5));
  EXPECT_TRUE(stream.Ended());
}

TEST_F(ChatCompletionsTest, SecondRequestReusesTheCache) {
  const HttpResponse first = Ask(Body({{"messages", {User("Hi")}}}));
  engine.AnswerLast("Yo");
  Whole(first);
  const auto computed = static_cast<int64_t>(engine.last().tokens.size());
  const HttpResponse second = Ask(Body({{"messages", {User("Hi"), Assistant("Yo"), User("And?")}}}));
  engine.AnswerLast("So");
  EXPECT_EQ(Whole(second)["usage"]["prompt_tokens_details"]["cached_tokens"], computed);
  // Another owner does not share it.
  const HttpResponse other = Ask(Body({{"messages", {User("Hi"), Assistant("Yo"), User("And?")}}}), "other");
  engine.AnswerLast("So");
  EXPECT_EQ(Whole(other)["usage"]["prompt_tokens_details"]["cached_tokens"], 0);
}

TEST_F(ChatCompletionsTest, ChoicesShareThePromptAndDifferInSeed) {
  const HttpResponse answer = Ask(Body({{"n", 3}, {"seed", 5}, {"messages", {User(text)}}}));
  EXPECT_EQ(engine.count(), 1u);  // the prompt is computed once
  engine.Start(0);
  engine.Say(0, "a");
  ASSERT_TRUE(Eventually([&] { return engine.count() == 3; }));
  const std::vector<TurnRequest> requests = engine.requests();
  EXPECT_THAT(engine.forks(), ElementsAre(std::pair(requests[0].timeline, requests[1].timeline),
                                          std::pair(requests[0].timeline, requests[2].timeline)));
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(requests[i].tokens, requests[0].tokens);
    EXPECT_EQ(requests[i].sampling.seed, 5 + i);
  }
  engine.Answer(2, "c");
  engine.Answer(1, "b", FinishReason::kLength);
  engine.End(0);
  const Json whole = Whole(answer);
  ASSERT_THAT(whole["choices"], SizeIs(3));
  EXPECT_EQ(whole["choices"][1]["index"], 1);
  EXPECT_EQ(whole["choices"][1]["message"]["content"], "b");
  EXPECT_EQ(whole["choices"][1]["finish_reason"], "length");
  EXPECT_EQ(whole["choices"][2]["message"]["content"], "c");
  EXPECT_EQ(whole["usage"]["prompt_tokens"], static_cast<int64_t>(requests[0].tokens.size()));
  EXPECT_EQ(whole["usage"]["completion_tokens"], 5);
}

TEST_F(ChatCompletionsTest, FirstStreamedChunkIsOfTheFirstChoice) {
  ChatStream stream(Ask(Body({{"n", 2}, {"stream", true}})));
  engine.Start(0);
  engine.Say(0, "a");
  ASSERT_TRUE(Eventually([&] { return engine.count() == 2; }));
  engine.Answer(1, "b");
  engine.End(0);
  const std::vector<Json> events = stream.Events();
  EXPECT_EQ(events.front()["choices"][0]["index"], 0);
  std::map<int, int> roles;
  for (const Json& event : events) {
    if (event == "done") continue;
    roles[event["choices"][0]["index"]] += event["choices"][0]["delta"].contains("role") ? 1 : 0;
  }
  EXPECT_EQ(roles, (std::map<int, int>{{0, 1}, {1, 1}}));
}

TEST_F(ChatCompletionsTest, ReturnsLogprobsOfChosenAndTopTokens) {
  const HttpResponse answer = Ask(Body({{"logprobs", true}, {"top_logprobs", 2}}));
  engine.AnswerLast("Yo");
  const Json content = Whole(answer)["choices"][0]["logprobs"]["content"];
  ASSERT_THAT(content, SizeIs(3));
  EXPECT_EQ(content[0]["token"], "Y");
  EXPECT_EQ(content[2]["token"], "<|im_end|>");
  EXPECT_THAT(content[2]["bytes"], SizeIs(10)) << "its name's";
  EXPECT_EQ(content[0]["bytes"], Json::array({89}));
  EXPECT_THAT(content[0]["top_logprobs"], SizeIs(2));
  ChatStream stream(Ask(Body({{"logprobs", true}, {"stream", true}})));
  engine.AnswerLast("Yo");
  const std::vector<Json> events = stream.Events();
  EXPECT_EQ(events[1]["choices"][0]["logprobs"]["content"][0]["token"], "Y");
  EXPECT_TRUE(events[0]["choices"][0]["logprobs"].is_null());
  EXPECT_EQ(events[3]["choices"][0]["logprobs"]["content"][0]["token"], "<|im_end|>");
  EXPECT_EQ(events[3]["choices"][0]["delta"]["content"], "");
}

TEST_F(ChatCompletionsTest, ReturnsTokenIdsWholeAndStreamed) {
  const HttpResponse answer = Ask(Body({{"return_token_ids", true}}));
  engine.AnswerLast("Yo");
  const Json whole = Whole(answer), ids = {'Y', 'o', ByteTokenizer::kImEnd};
  EXPECT_EQ(whole["prompt_token_ids"], Json(engine.requests()[0].tokens));
  EXPECT_EQ(whole["choices"][0]["token_ids"], ids);
  EXPECT_TRUE(whole["choices"][0]["logprobs"].is_null());

  ChatStream stream(Ask(Body({{"return_token_ids", true}, {"stream", true}})));
  engine.AnswerLast("Yo");
  Json streamed = Json::array(), prompts = Json::array();
  for (const Json& event : stream.Events()) {
    if (event == "done") continue;
    if (event.contains("prompt_token_ids")) prompts.push_back(event["prompt_token_ids"]);
    if (!event["choices"][0].contains("token_ids")) continue;
    for (const Json& id : event["choices"][0]["token_ids"]) streamed.push_back(id);
  }
  EXPECT_EQ(streamed, ids);
  EXPECT_EQ(prompts, Json::array({whole["prompt_token_ids"]}));

  const HttpResponse without = Ask(Body());
  engine.AnswerLast("Yo");
  EXPECT_FALSE(Whole(without).contains("prompt_token_ids"));
}

TEST_F(ChatCompletionsTest, FullConversationHasItsOwnReason) {
  const HttpResponse answer = Ask(Body());
  engine.Answer(0, "Yo", FinishReason::kSessionFull);
  const Json choice = Whole(answer)["choices"][0];
  EXPECT_EQ(choice["finish_reason"], "length");
  EXPECT_EQ(choice["ringside"], Json({{"incomplete_reason", "session_full"}}));
  ChatStream stream(Ask(Body({{"stream", true}})));
  engine.Answer(1, "Yo", FinishReason::kSessionFull);
  const std::vector<Json> events = stream.Events();
  EXPECT_EQ(events[events.size() - 2]["choices"][0]["ringside"]["incomplete_reason"], "session_full");
}

TEST_F(ChatCompletionsTest, JoinsTextPartsWithANewline) {
  const auto parts = [](const char* type) {
    return Json{{{"type", type}, {"text", "one"}}, {{"type", type}, {"text", ""}}, {{"type", type}, {"text", "two"}}};
  };
  Ask(Body({{"messages",
             {{{"role", "system"}, {"content", parts("text")}},
              {{"role", "user"}, {"content", parts("text")}},
              {{"role", "assistant"}, {"content", parts("text")}},
              User("Hi")}}}));
  const std::string prompt = tokenizer.Decode(engine.last().tokens);
  for (const char* role : {"system", "user", "assistant"}) {
    EXPECT_THAT(prompt, testing::HasSubstr(std::string(role) + "\none\n\ntwo<|im_end|>"));
  }
}

TEST_F(ChatCompletionsTest, FieldsReachTheTurn) {
  Ask(Body({{"max_completion_tokens", 7},
            {"stop", {"a", "b"}},
            {"top_k", 3},
            {"min_p", 0.1},
            {"repetition_penalty", 1.1},
            {"presence_penalty", 0.5},
            {"logit_bias", {{"5", -100}}},
            {"temperature", 0.2},
            {"messages",
             {{{"role", "developer"},
               {"content", {{{"type", "text"}, {"text", "Be"}}, {{"type", "text"}, {"text", "brief."}}}}},
              User("Hi")}}}));
  const TurnRequest request = engine.last();
  EXPECT_EQ(request.max_tokens, 7);
  EXPECT_THAT(request.stop_strings, ElementsAre("a", "b"));
  EXPECT_EQ(request.sampling.top_k, 3);
  EXPECT_EQ(request.sampling.temperature, 0.2);
  EXPECT_THAT(request.sampling.logit_bias, SizeIs(1));
  EXPECT_TRUE(tokenizer.Decode(request.tokens).starts_with("<|im_start|>system\nBe\nbrief.<|im_end|>\n"));
  engine.AnswerLast("Yo");
}

TEST_F(ChatCompletionsTest, AcceptsHarmlessFieldsAndTreatsNullAsAbsent) {
  const Json harmless = {
      {"tools", Json::array()},
      {"tool_choice", "none"},
      {"response_format", {{"type", "text"}}},
      {"parallel_tool_calls", true},
      {"modalities", {"text"}},
      {"service_tier", "auto"},
      {"user", "u"},
      {"metadata", {{"k", "v"}}},
      {"store", false},
      {"verbosity", "medium"},
      {"reasoning_effort", nullptr},
      {"max_tokens", nullptr},
      {"n", nullptr},
      {"stop", nullptr},
      {"messages",
       {{{"role", "assistant"}, {"content", "Hm"}, {"refusal", nullptr}, {"tool_calls", nullptr}}, User("Hi")}}};
  const HttpResponse answer = Ask(Body(harmless));
  engine.AnswerLast("Yo");
  EXPECT_EQ(Whole(answer)["choices"][0]["message"]["content"], "Yo");
}

TEST_F(ChatCompletionsTest, ResponseFormatSetsTheGrammar) {
  const Json schema = {{"type", "object"}, {"properties", {{"a", {{"type", "integer"}}}}}, {"required", {"a"}}};
  Ask(Body({{"response_format", {{"type", "json_schema"}, {"json_schema", {{"name", "n"}, {"schema", schema}}}}}}));
  ASSERT_NE(engine.last().grammar, nullptr);
  GrammarMatcher matcher(engine.last().grammar);
  EXPECT_TRUE(matcher.Append(R"({"a":1})").ok());
  EXPECT_FALSE(matcher.may_continue());
}

TEST_F(ChatCompletionsTest, AcceptsAndIgnoresTheNameField) {
  for (const char* role : {"system", "user", "assistant"}) {
    const Json plain = {{"role", role}, {"content", "x"}}, last = {{"role", "user"}, {"content", "y"}};
    Json named = plain;
    named["name"] = "Ada";
    Ask(Body({{"messages", {plain, last}}}));
    const std::vector<TokenId> without = engine.last().tokens;
    Ask(Body({{"messages", {named, last}}}));
    EXPECT_EQ(engine.last().tokens, without);
  }
}

TEST_F(ChatCompletionsTest, StoredCompletionsAreNotRetrievable) {
  const std::pair<const char*, const char*> routes[] = {{"GET", "/v1/chat/completions"},
                                                        {"GET", "/v1/chat/completions/chatcmpl-1"},
                                                        {"POST", "/v1/chat/completions/chatcmpl-1"},
                                                        {"DELETE", "/v1/chat/completions/chatcmpl-1"},
                                                        {"GET", "/v1/chat/completions/chatcmpl-1/messages"}};
  for (const auto& [method, path] : routes) {
    EXPECT_EQ(ErrorOf(Call(method, path), 400)["code"], "unsupported_value") << method << path;
  }
}

TEST_F(ChatCompletionsTest, ErrorsNameTheField) {
  const auto message = [](Json fields) { return Json{{"messages", Json::array({std::move(fields)})}}; };
  const std::vector<std::tuple<Json, std::string, std::string>> cases = {
      {{{"messages", nullptr}}, "missing_required_parameter", "messages"},
      {{{"messages", Json::array()}}, "invalid_value", "messages"},
      {{{"messages", "Hi"}}, "invalid_type", "messages"},
      {message({{"content", "x"}}), "missing_required_parameter", "messages[0].role"},
      {message({{"role", "user"}}), "missing_required_parameter", "messages[0].content"},
      {message({{"role", "bishop"}, {"content", "x"}}), "invalid_value", "messages[0].role"},
      {message({{"role", "function"}, {"content", "x"}}), "unsupported_value", "messages[0].role"},
      {{{"functions", {{{"name", "f"}}}}}, "unsupported_value", "functions"},
      {message({{"role", "user"}, {"content", "x"}, {"name", 5}}), "invalid_type", "messages[0].name"},
      {message({{"role", "user"}, {"content", {{{"type", "image_url"}, {"image_url", "x"}}}}}), "unsupported_value",
       "messages[0].content[0].type"},
      {message({{"role", "user"}, {"content", {{{"type", "text"}}}}}), "missing_required_parameter",
       "messages[0].content[0].text"},
      {{{"response_format", {{"type", "xml"}}}}, "unsupported_value", "response_format.type"},
      {{{"tools", {{{"type", "function"}}}}}, "missing_required_parameter", "tools[0].function"},
      {{{"tool_choice", "required"}}, "invalid_value", "tool_choice"},
      {{{"modalities", {"audio"}}}, "unsupported_value", "modalities"},
      {{{"beam_width", 2}, {"n", 2}}, "unsupported_value", "n"},
      {{{"beam_width", 2}, {"seed", 2}}, "unsupported_value", "seed"},
      {{{"length_penalty", 2}}, "invalid_value", "length_penalty"},
      {{{"use_beam_search", true}}, "unsupported_value", "use_beam_search"},
      {{{"n", 0}}, "invalid_value", "n"},
      {{{"n", 129}}, "invalid_value", "n"},
      {{{"top_logprobs", 2}}, "invalid_value", "top_logprobs"},
      {{{"max_tokens", 0}}, "invalid_value", "max_tokens"},
      {{{"documents", {{{"text", "x"}}}}}, "unsupported_value", "documents"},
      {{{"max_tokens", -2}}, "invalid_value", "max_tokens"},
      {{{"stream_options", {{"include_usage", 1}}}}, "invalid_type", "stream_options.include_usage"},
      {{{"temperature", "hot"}}, "invalid_type", "temperature"},
      {{{"temperature", -1}}, "invalid_value", "temperature"},
  };
  for (const auto& [fields, code, param] : cases) {
    const Json error = ErrorOf(Ask(Body(fields)), 400);
    EXPECT_EQ(error["code"], code) << fields << error;
    EXPECT_EQ(error["param"], param) << fields << error;
    EXPECT_EQ(error["type"], "invalid_request_error");
  }
  const Json unknown = ErrorOf(Ask(Body({{"model", "other"}})), 404);
  EXPECT_EQ(unknown["code"], "model_not_found");
  EXPECT_THAT(unknown["message"].get<std::string>(), testing::EndsWith("Its --model-alias adds names.")) << unknown;
  EXPECT_EQ(ErrorOf(Call("POST", "/v1/chat/completions", "{"), 400)["code"], "invalid_json");
  EXPECT_EQ(engine.count(), 0u);
}

TEST_F(ChatCompletionsTest, ClientDisconnectCancelsItsTurns) {
  ChatStream stream(Ask(Body({{"n", 2}, {"stream", true}})));
  engine.Start(0);
  engine.Say(0, "a");
  ASSERT_TRUE(Eventually([&] { return engine.count() == 2; }));
  stream.Leave();
  EXPECT_TRUE(Eventually([&] {
    const std::vector<TurnId> cancelled = engine.cancelled();
    return std::count(cancelled.begin(), cancelled.end(), engine.requests()[0].turn) > 0 &&
           std::count(cancelled.begin(), cancelled.end(), engine.requests()[1].turn) > 0;
  }));
  HttpResponse whole = Ask(Body());
  whole = {};
  EXPECT_TRUE(Eventually([&] {
    const std::vector<TurnId> cancelled = engine.cancelled();
    return std::count(cancelled.begin(), cancelled.end(), engine.requests()[2].turn) > 0;
  }));
  for (size_t i = 0; i < 3; ++i) engine.End(i, FinishReason::kCancelled);
}

TEST_F(ChatCompletionsTest, FailedTurnIsAnError) {
  const HttpResponse answer = Ask(Body());
  engine.Start(0);
  engine.End(0, FinishReason::kError, Unavailable("broken"));
  const HttpResponse late = Late(answer);
  EXPECT_EQ(late.status, 503);
  EXPECT_EQ(Json::parse(late.body)["error"]["type"], "server_error");
  ChatStream stream(Ask(Body({{"stream", true}})));
  engine.Start(1);
  engine.Say(1, "Y");
  engine.End(1, FinishReason::kError, Unavailable("broken"));
  const std::vector<Json> events = stream.Events();
  EXPECT_TRUE(events.back()["error"]["message"].is_string());
  EXPECT_TRUE(stream.Ended());
}

TEST_F(ChatCompletionsTest, FullServerSendsRetryAfter) {
  engine.Refuse(Overloaded("too many turns are waiting"));
  const HttpResponse answer = Ask(Body({{"stream", true}}));
  EXPECT_EQ(ErrorOf(answer, 429)["code"], "rate_limit_exceeded");
  EXPECT_THAT(answer.headers, ::testing::Contains(std::pair<std::string, std::string>("retry-after-ms", "1500")));
}

TEST_F(ChatCompletionsTest, TableErrorsUseTheApisNames) {
  const std::string prompt(700, 'x');
  EXPECT_EQ(ErrorOf(Ask(Body({{"messages", {User(prompt)}}})), 400)["param"], "messages");
  EXPECT_EQ(ErrorOf(Post("/v1/completions", {{"prompt", prompt}}), 400)["param"], "prompt");
}

class OneTurnTest : public ChatCompletionsTest {
 protected:
  OneTurnTest() : limited_(Options(), tokenizer, chat, engine, nullptr, clock) {
    router = {};
    RegisterChatRoutes(router,
                       {.table = limited_,
                        .retry_after_ms = nullptr,
                        .run_on_worker =
                            [](const std::string&, size_t, const std::function<void()>& call) {
                              call();
                              return Status::Ok();
                            }},
                       {.version = "1", .created = 0});
  }
  static SessionTableOptions Options() {
    SessionTableOptions options = TableFixture::Options();
    options.max_turns_per_owner = 2;
    options.max_output_tokens_limit = 50;
    return options;
  }
  SessionTable limited_;
};

TEST_F(OneTurnTest, ExcessChoicesRunSequentially) {
  const HttpResponse answer = Ask(Body({{"n", 4}}));
  for (size_t i = 0; i < 4; ++i) {
    ASSERT_TRUE(Eventually([&] { return engine.count() > i; }));
    engine.Answer(i, "a");
  }
  EXPECT_THAT(Whole(answer)["choices"], SizeIs(4));
}

TEST_F(ChatCompletionsTest, RequestFailsIfOtherChoicesGetNoWorker) {
  const HttpResponse answer = Ask(Body({{"n", 2}}));
  workers = Unavailable("no worker");
  engine.Start(0);
  engine.Say(0, "a");
  ASSERT_TRUE(Eventually([&] { return !engine.cancelled().empty(); }));
  EXPECT_EQ(Late(answer).status, 503);
  engine.End(0, FinishReason::kCancelled);
}

}  // namespace
}  // namespace ringside
