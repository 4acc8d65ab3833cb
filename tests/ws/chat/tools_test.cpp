// Tools on the stateless APIs: calls in each API's format, and a returned history with calls.
#include "engine/grammar/grammar.h"
#include "tests/ws/chat/chat_fixture.h"

namespace ringside {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

const Json kSchema = {{"type", "object"}, {"properties", {{"city", {{"type", "string"}}}}}};
const Json kFunction = {{"name", "weather"}, {"description", "d"}, {"parameters", kSchema}};
const Json kTool = {{"type", "function"}, {"function", kFunction}};
const std::string kCall = "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Bonn\"}}\n</tool_call>";
const std::string kLine =
    R"({"type": "function", "function": {"name": "weather", "description": "d", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}})";

class ChatTools : public ChatTest {
 protected:
  ChatTools()
      : ChatTest([] {
          SessionTableOptions options = TableFixture::Options();
          options.session_len = 9000;
          options.memory_len = 4000;
          options.pinned_max = 1024;
          return options;
        }()) {}

  HttpResponse Chat(const Json& messages, Json fields = Json::object()) {
    Json body = {{"model", "tiny"}, {"messages", messages}, {"tools", {kTool}}};
    body.update(fields);
    return Post("/v1/chat/completions", body);
  }
  HttpResponse Anthropic(const Json& messages, Json fields = Json::object()) {
    Json body = {{"model", "tiny"},
                 {"max_tokens", 99},
                 {"messages", messages},
                 {"tools", {{{"name", "weather"}, {"description", "d"}, {"input_schema", kSchema}}}}};
    body.update(fields);
    return Post("/v1/messages", body);
  }
  HttpResponse Ollama(const Json& messages, bool stream) {
    return Post("/api/chat", {{"model", "tiny"}, {"messages", messages}, {"tools", {kTool}}, {"stream", stream}});
  }
  const Json kHi = Json::array({User("Hi")});
  std::string Prompt() { return tokenizer.Decode(engine.last().tokens); }
  /// Asserts that the engine's last turn continued the previous one.
  void ExpectContinued() {
    const std::vector<TurnRequest> requests = engine.requests();
    ASSERT_GE(requests.size(), 2u);
    EXPECT_EQ(requests[requests.size() - 1].timeline, requests[requests.size() - 2].timeline);
    EXPECT_THAT(Prompt(),
                HasSubstr(kCall + "<|im_end|>\n<|im_start|>user\n<tool_response>\n12\n</tool_response><|im_end|>\n"));
  }
};

TEST_F(ChatTools, CompletionWithCallsRoundTrips) {
  const HttpResponse answer = Chat(kHi);
  EXPECT_THAT(Prompt(), HasSubstr("<tools>\n" + kLine + "\n</tools>"));
  engine.AnswerLast("Hm\n" + kCall);
  const Json choice = Whole(answer)["choices"][0];
  EXPECT_EQ(choice["finish_reason"], "tool_calls");
  Json message = choice["message"];
  EXPECT_EQ(message["content"], "Hm");
  ASSERT_THAT(message["tool_calls"], SizeIs(1));
  const Json call = message["tool_calls"][0];
  EXPECT_EQ(call["type"], "function");
  EXPECT_EQ(call["function"], Json({{"name", "weather"}, {"arguments", "{\"city\": \"Bonn\"}"}}));
  // The received call is sent back.
  const Json result = {{"role", "tool"}, {"tool_call_id", call["id"]}, {"name", "weather"}, {"content", "12"}};
  const HttpResponse next = Chat({User("Hi"), message, result});
  ExpectContinued();
  engine.AnswerLast("It is 12.");
  const Json whole = Whole(next);
  EXPECT_EQ(whole["choices"][0]["finish_reason"], "stop");
  EXPECT_FALSE(whole["choices"][0]["message"].contains("tool_calls"));
  EXPECT_GT(whole["usage"]["prompt_tokens_details"]["cached_tokens"], 0);
}

TEST_F(ChatTools, CustomToolCallCarriesItsInput) {
  const Json run = {{"type", "custom"}, {"custom", {{"name", "run"}, {"description", "d"}}}};
  const std::string written =
      "<tool_call>\n{\"name\": \"custom.run\", \"arguments\": {\"input\": \"a\\nb\"}}\n</tool_call>";
  const Json expected = {{"name", "run"}, {"input", "a\nb"}};
  const HttpResponse answer = Chat(kHi, {{"tools", {kTool, run, {{"type", "web_search"}}}}});
  engine.AnswerLast(written);
  const Json whole = Whole(answer);
  EXPECT_EQ(whole["ringside"]["ignored"], Json::array({"tools[2].web_search"}));
  const Json message = whole["choices"][0]["message"];
  EXPECT_EQ(message["tool_calls"][0]["type"], "custom");
  EXPECT_EQ(message["tool_calls"][0]["custom"], expected);
  const Json result = {{"role", "tool"}, {"tool_call_id", message["tool_calls"][0]["id"]}, {"content", "12"}};
  Chat({User("Hi"), message, result}, {{"tools", {kTool, run}}});
  EXPECT_THAT(Prompt(), HasSubstr(written + "<|im_end|>"));
  ChatStream stream(Chat(kHi, {{"tools", {run}}, {"stream", true}}));
  engine.AnswerLast(written);
  std::string name, input;
  for (const Json& event : stream.Events()) {
    if (event == "done" || !event["choices"][0]["delta"].contains("tool_calls")) continue;
    const Json& part = event["choices"][0]["delta"]["tool_calls"][0]["custom"];
    name += part.value("name", "");
    input += part.value("input", "");
  }
  EXPECT_EQ(name, "run");
  EXPECT_EQ(input, "a\nb");
}

TEST_F(ChatTools, ToolCallAloneHasNoContent) {
  const HttpResponse answer = Chat(kHi);
  engine.AnswerLast(kCall);
  const Json message = Whole(answer)["choices"][0]["message"];
  EXPECT_TRUE(message["content"].is_null());
  Chat({User("Hi"), message, {{"role", "tool"}, {"tool_call_id", "x"}, {"content", "12"}}});
  ExpectContinued();
}

TEST_F(ChatTools, StreamsToolCalls) {
  ChatStream stream(Chat(kHi, {{"stream", true}}));
  engine.Start(0);
  engine.SayAtOnce(0, kCall.substr(0, 60));
  engine.SayAtOnce(0, kCall.substr(60) + "\n" + kCall);
  engine.End(0);
  const std::vector<Json> events = stream.Events();
  EXPECT_EQ(events.front()["choices"][0]["delta"], Json({{"role", "assistant"}, {"content", nullptr}}));
  std::vector<std::string> arguments(2), names(2), ids(2);
  for (const Json& event : events) {
    if (event == "done" || !event["choices"][0]["delta"].contains("tool_calls")) continue;
    const Json& part = event["choices"][0]["delta"]["tool_calls"][0];
    const size_t index = part["index"];
    arguments[index] += part["function"]["arguments"].get<std::string>();
    names[index] += part["function"].value("name", "");
    ids[index] += part.value("id", "");
  }
  EXPECT_THAT(arguments, ElementsAre("{\"city\": \"Bonn\"}", "{\"city\": \"Bonn\"}"));
  EXPECT_THAT(names, ElementsAre("weather", "weather"));
  EXPECT_NE(ids[0], ids[1]);
  EXPECT_EQ(events[events.size() - 2]["choices"][0]["finish_reason"], "tool_calls");
}

TEST_F(ChatTools, StreamedTokenIdsIncludeCalls) {
  ChatStream stream(Chat(kHi, {{"stream", true}, {"return_token_ids", true}}));
  engine.AnswerLast("Hm\n" + kCall);
  std::string said;
  for (const Json& event : stream.Events()) {
    if (event == "done" || !event["choices"][0].contains("token_ids")) continue;
    for (const TokenId id : event["choices"][0]["token_ids"]) said += tokenizer.TokenName(id);
  }
  EXPECT_EQ(said, "Hm\n" + kCall + "<|im_end|>");
}

TEST_F(ChatTools, TruncatedCallIsReportedPartially) {
  const HttpResponse answer = Chat(kHi);
  engine.Answer(0, kCall.substr(0, kCall.find(": \"Bonn")), FinishReason::kLength);
  const Json choice = Whole(answer)["choices"][0];
  EXPECT_EQ(choice["finish_reason"], "length");
  EXPECT_EQ(choice["message"]["tool_calls"][0]["function"]["arguments"], "{\"city\"");
}

TEST_F(ChatTools, TruncatedCallRoundTrips) {
  const std::string cut = "{\"city\": \"Bo ";
  const HttpResponse first = Chat(kHi);
  engine.Answer(0, kCall.substr(0, kCall.find('{')) + R"({"name": "weather", "arguments": )" + cut,
                FinishReason::kLength);
  Json message = Whole(first)["choices"][0]["message"];
  EXPECT_EQ(message["tool_calls"][0]["function"]["arguments"], cut);
  Json history = kHi;
  history.push_back(message);
  history.push_back({{"role", "tool"}, {"tool_call_id", message["tool_calls"][0]["id"]}, {"content", "cut"}});
  const HttpResponse second = Chat(history);
  EXPECT_THAT(Prompt(), HasSubstr("\"arguments\": " + cut + "<|im_end|>\n"));
  EXPECT_GT(engine.last().tokens.size(), 0u);
  engine.AnswerLast("Oh");
  EXPECT_EQ(Whole(second)["choices"][0]["message"]["content"], "Oh");
  // Only the last call of a message may be incomplete.
  message["tool_calls"].push_back(message["tool_calls"][0]);
  EXPECT_EQ(ErrorOf(Chat(Json::array({kHi[0], message})), 400)["param"], "messages[1].tool_calls[1].function");
}

TEST_F(ChatTools, CallErrorsNameTheField) {
  const auto with = [](const Json& call) { return Json{{"role", "assistant"}, {"tool_calls", Json::array({call})}}; };
  const auto function = [](const Json& name, const Json& arguments) {
    return Json{{"id", "c"}, {"type", "function"}, {"function", {{"name", name}, {"arguments", arguments}}}};
  };
  const std::pair<Json, const char*> cases[] = {
      {with(function("a b", "{}")), "messages[0].tool_calls[0].function.name"},
      {with(function("f", "{}}")), "messages[0].tool_calls[0].function.arguments"},
      {with(function("f", "\"x\"")), "messages[0].tool_calls[0].function.arguments"},
      {with({{"type", "computer"}}), "messages[0].tool_calls[0].type"},
      {with({{"type", "custom"}}), "messages[0].tool_calls[0].custom"},
      {with({{"type", "custom"}, {"custom", {{"name", "f"}}}}), "messages[0].tool_calls[0].custom.input"},
      {with({{"type", "function"}}), "messages[0].tool_calls[0].function"},
      {with(5), "messages[0].tool_calls[0]"},
      {{{"role", "user"}, {"content", "x"}, {"tool_calls", {function("f", "{}")}}}, "messages[0].tool_calls"},
      {{{"role", "tool"}, {"content", "x"}, {"tool_call_id", ""}}, "messages[0].tool_call_id"}};
  for (const auto& [message, param] : cases)
    EXPECT_EQ(ErrorOf(Chat(Json::array({message})), 400)["param"], param) << message;
  Json odd = kTool;
  odd["function"]["parameters"]["properties"]["city"]["if"] = true;
  odd["function"]["strict"] = true;
  EXPECT_EQ(ErrorOf(Chat(kHi, {{"tools", {odd}}}), 400)["param"], "tools[0].function.parameters.properties.city.if");
  EXPECT_EQ(engine.count(), 0u);
}

TEST_F(ChatTools, AnthropicBlocksRoundTrip) {
  const HttpResponse answer = Anthropic(kHi);
  EXPECT_THAT(Prompt(), HasSubstr("<tools>\n" + kLine + "\n</tools>"));
  engine.AnswerLast("Hm\n" + kCall);
  const Json whole = Whole(answer);
  EXPECT_EQ(whole["stop_reason"], "tool_use");
  ASSERT_THAT(whole["content"], SizeIs(2));
  EXPECT_EQ(whole["content"][0], Json({{"type", "text"}, {"text", "Hm"}}));
  const Json call = whole["content"][1];
  EXPECT_EQ(call["type"], "tool_use");
  EXPECT_EQ(call["input"], Json({{"city", "Bonn"}}));
  const Json result = {
      {"type", "tool_result"}, {"tool_use_id", call["id"]}, {"content", {{{"type", "text"}, {"text", "12"}}}}};
  const HttpResponse next = Anthropic(
      {User("Hi"), {{"role", "assistant"}, {"content", whole["content"]}}, {{"role", "user"}, {"content", {result}}}});
  ExpectContinued();
  engine.AnswerLast("So.");
  EXPECT_GT(Whole(next)["usage"]["cache_read_input_tokens"], 0);
  // Text after results is a separate message.
  Anthropic({User("Hi"), {{"role", "user"}, {"content", {result, {{"type", "text"}, {"text", "And?"}}}}}});
  EXPECT_THAT(Prompt(), HasSubstr("12\n</tool_response><|im_end|>\n<|im_start|>user\nAnd?<|im_end|>\n"));
}

TEST_F(ChatTools, StreamsAnthropicToolCalls) {
  ChatStream stream(Anthropic(kHi, {{"stream", true}, {"tool_choice", {{"type", "any"}}}}));
  GrammarMatcher matcher(engine.last().grammar);
  EXPECT_FALSE(matcher.Append("H").ok());
  engine.Start(0);
  engine.SayAtOnce(0, kCall);
  engine.End(0);
  std::vector<std::string> types;
  Json events = Json::array();
  std::string text = stream.Text();
  for (size_t at = text.find("data: "); at != std::string::npos; at = text.find("data: ", at + 1)) {
    events.push_back(Json::parse(text.substr(at + 6, text.find("\n\n", at) - at - 6)));
    types.push_back(events.back()["type"]);
  }
  EXPECT_THAT(types, ElementsAre("message_start", "ping", "content_block_start", "content_block_delta",
                                 "content_block_stop", "message_delta", "message_stop"));
  EXPECT_EQ(events[2]["index"], 0);
  EXPECT_EQ(events[2]["content_block"]["name"], "weather");
  EXPECT_EQ(events[3]["delta"], Json({{"type", "input_json_delta"}, {"partial_json", "{\"city\": \"Bonn\"}"}}));
  EXPECT_EQ(events[5]["delta"]["stop_reason"], "tool_use");
}

TEST_F(ChatTools, AnthropicErrorsNameTheField) {
  const auto fails = [&](const Json& messages, Json fields, const std::string& param) {
    const HttpResponse answer = Anthropic(messages, std::move(fields));
    EXPECT_EQ(answer.status, 400);
    EXPECT_THAT(answer.body, HasSubstr(param));
  };
  const auto blocks = [](const char* role, Json block) {
    return Json::array({{{"role", role}, {"content", Json::array({block})}}});
  };
  fails(blocks("user", {{"type", "tool_use"}, {"id", "c"}, {"name", "f"}, {"input", Json::object()}}), Json::object(),
        "messages[0].content[0].type");
  fails(blocks("assistant", {{"type", "tool_use"}, {"id", "c"}, {"name", "f"}, {"input", "x"}}), Json::object(),
        "messages[0].content[0].input");
  fails(blocks("user", {{"type", "tool_result"}, {"content", "x"}}), Json::object(),
        "messages[0].content[0].tool_use_id");
  fails(kHi, {{"tool_choice", {{"type", "tool"}}}}, "tool_choice.name");
  fails(kHi, {{"tool_choice", {{"type", "all"}}}}, "tool_choice.type");
  fails(kHi,
        {{"tools", {{{"type", "web_search_20250305"}, {"name", "web_search"}}}}, {"tool_choice", {{"type", "any"}}}},
        "tool_choice");
  EXPECT_EQ(engine.count(), 0u);
}

TEST_F(ChatTools, SkipsAndReportsAnthropicServerTools) {
  const HttpResponse answer = Anthropic(
      kHi, {{"tools",
             {{{"type", "web_search_20250305"}, {"name", "web_search"}, {"max_uses", 5}},
              {{"name", "weather"}, {"description", "d"}, {"input_schema", kSchema}, {"defer_loading", true}}}}});
  EXPECT_THAT(Prompt(), HasSubstr("<tools>\n" + kLine + "\n</tools>"));
  engine.AnswerLast("Hm");
  EXPECT_EQ(Whole(answer)["ringside"]["ignored"],
            Json::array({"tools[0].web_search_20250305", "tools[1].defer_loading"}));
}

TEST_F(ChatTools, OllamaReturnsCallsWholeAndStreamed) {
  const HttpResponse answer = Ollama(kHi, false);
  engine.AnswerLast(kCall);
  const Json message = Whole(answer)["message"];
  EXPECT_EQ(message["tool_calls"], Json({{{"function", {{"name", "weather"}, {"arguments", {{"city", "Bonn"}}}}}}}));
  ChatStream stream(
      Ollama({User("Hi"), message, {{"role", "tool"}, {"content", "12"}, {"tool_name", "weather"}}}, true));
  ExpectContinued();
  engine.Start(1);
  engine.SayAtOnce(1, "Hm");
  engine.SayAtOnce(1, "\n" + kCall);
  engine.End(1);
  std::vector<Json> lines;
  std::string text = stream.Text();
  for (size_t end = text.find('\n'); end != std::string::npos; end = text.find('\n')) {
    lines.push_back(Json::parse(text.substr(0, end)));
    text.erase(0, end + 1);
  }
  ASSERT_THAT(lines, SizeIs(3));
  EXPECT_EQ(lines[0]["message"]["content"], "Hm");
  EXPECT_EQ(lines[1]["message"]["tool_calls"], message["tool_calls"]);
  EXPECT_EQ(lines[2]["done"], true);
}

}  // namespace
}  // namespace ringside
