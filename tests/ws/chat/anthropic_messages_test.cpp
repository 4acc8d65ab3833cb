#include "engine/grammar/grammar.h"
#include "tests/ws/chat/chat_fixture.h"

namespace ringside {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class AnthropicMessagesTest : public ChatTest {
 protected:
  static Json Body(Json fields = Json::object()) {
    Json body = {{"model", "tiny"}, {"max_tokens", 9}, {"messages", {User("Hi")}}};
    body.update(fields);
    return body;
  }
  HttpResponse Ask(const Json& body) { return Post("/v1/messages", body); }
};

TEST_F(AnthropicMessagesTest, NonStreamingMessage) {
  const Json blocks = {{{"type", "text"}, {"text", "Be brief."}, {"cache_control", {{"type", "ephemeral"}}}}};
  const HttpResponse answer =
      Ask(Body({{"system", blocks}, {"stop_sequences", {"zz"}}, {"metadata", {{"user_id", "u"}}}}));
  EXPECT_TRUE(tokenizer.Decode(engine.last().tokens).starts_with("<|im_start|>system\nBe brief.<|im_end|>\n"));
  EXPECT_THAT(engine.last().stop_strings, ElementsAre("zz"));
  EXPECT_EQ(engine.last().max_tokens, 9);
  engine.AnswerLast("Yo");
  const Json whole = Whole(answer);
  EXPECT_EQ(whole["type"], "message");
  EXPECT_EQ(whole["role"], "assistant");
  EXPECT_TRUE(whole["id"].get<std::string>().starts_with("msg_"));
  EXPECT_EQ(whole["content"], Json({{{"type", "text"}, {"text", "Yo"}}}));
  EXPECT_EQ(whole["stop_reason"], "end_turn");
  EXPECT_TRUE(whole["stop_sequence"].is_null());
  EXPECT_EQ(whole["usage"]["input_tokens"], static_cast<int64_t>(engine.last().tokens.size()));
  EXPECT_EQ(whole["usage"]["output_tokens"], 3);
}

TEST_F(AnthropicMessagesTest, JoinsTextBlocksWithANewline) {
  const auto block = [](const char* text) { return Json{{"type", "text"}, {"text", text}}; };
  const Json result = {{"type", "tool_result"}, {"tool_use_id", "x"}, {"content", {block("five"), block("six")}}};
  const Json call = {{"type", "tool_use"}, {"id", "x"}, {"name", "look"}, {"input", Json::object()}};
  const Json asked = Body({{"system", {block("one"), block("two")}},
                           {"messages",
                            {{{"role", "user"}, {"content", {block("three"), block("four")}}},
                             {{"role", "assistant"}, {"content", {block("a"), block("b"), call}}},
                             {{"role", "user"}, {"content", {result}}}}}});
  Ask(asked);
  const std::string prompt = tokenizer.Decode(engine.last().tokens);
  for (const char* text : {"system\none\ntwo<", "user\nthree\nfour<", "assistant\na\nb\n<tool_call>", "five\nsix"}) {
    EXPECT_THAT(prompt, HasSubstr(text));
  }
  const Json counted = Json::parse(Post("/v1/messages/count_tokens", asked).body);
  EXPECT_EQ(counted["input_tokens"], static_cast<int64_t>(engine.last().tokens.size()));
}

TEST_F(AnthropicMessagesTest, FullConversationHasItsOwnReason) {
  const HttpResponse answer = Ask(Body());
  engine.Answer(0, "Yo", FinishReason::kSessionFull);
  EXPECT_EQ(Whole(answer)["stop_reason"], "model_context_window_exceeded");
  ChatStream stream(Ask(Body({{"stream", true}})));
  engine.Answer(1, "Yo", FinishReason::kSessionFull);
  EXPECT_THAT(stream.Text(), HasSubstr(R"("stop_reason":"model_context_window_exceeded")"));
}

TEST_F(AnthropicMessagesTest, CountsCachedTokensSeparately) {
  Whole([&] {
    HttpResponse answer = Ask(Body());
    engine.AnswerLast("Yo");
    return answer;
  }());
  const auto computed = static_cast<int64_t>(engine.last().tokens.size());
  const HttpResponse answer = Ask(Body({{"messages", {User("Hi"), Assistant("Yo"), User("And?")}}}));
  engine.AnswerLast("So");
  const Json usage = Whole(answer)["usage"];
  EXPECT_EQ(usage["cache_read_input_tokens"], computed);
  EXPECT_EQ(usage["input_tokens"], static_cast<int64_t>(engine.last().tokens.size()) - computed);
}

TEST_F(AnthropicMessagesTest, StreamEventsAreInOrder) {
  ChatStream stream(Ask(Body({{"stream", true}})));
  engine.Answer(0, "Yo", FinishReason::kLength);
  const std::string text = stream.Text();
  std::vector<std::string> names;
  for (size_t at = text.find("event: "); at != std::string::npos; at = text.find("event: ", at + 1)) {
    names.push_back(text.substr(at + 7, text.find('\n', at) - at - 7));
    const size_t data = text.find("data: ", at);
    const Json event = Json::parse(text.substr(data + 6, text.find("\n\n", data) - data - 6));
    EXPECT_EQ(event["type"], names.back());
  }
  EXPECT_THAT(names, ElementsAre("message_start", "content_block_start", "ping", "content_block_delta",
                                 "content_block_delta", "content_block_stop", "message_delta", "message_stop"));
  EXPECT_THAT(text, HasSubstr(R"("delta":{"type":"text_delta","text":"Y"})"));
  EXPECT_THAT(text, HasSubstr(R"("stop_reason":"max_tokens")"));
  EXPECT_TRUE(stream.Ended());
}

TEST_F(AnthropicMessagesTest, CountsTokensWithoutGenerating) {
  Json body = Body();
  body.erase("max_tokens");
  const HttpResponse answer = Post("/v1/messages/count_tokens", body);
  EXPECT_EQ(engine.count(), 0u);
  const HttpResponse asked = Ask(Body());
  EXPECT_EQ(Json::parse(answer.body)["input_tokens"], static_cast<int64_t>(engine.last().tokens.size()));
  engine.AnswerLast("Yo");
}

TEST_F(AnthropicMessagesTest, RefusesBatchesInTheApisErrorFormat) {
  const std::string all = "/v1/messages/batches", one = all + "/msgbatch_1";
  const std::pair<const char*, std::string> asked[] = {
      {"POST", all}, {"GET", all}, {"GET", one}, {"POST", one + "/cancel"}, {"DELETE", one}, {"GET", one + "/results"}};
  for (const auto& [method, path] : asked) {
    const HttpResponse refused = Call(method, path, "{}");
    EXPECT_EQ(Json::parse(refused.body)["type"], "error") << method << path;
    const Json error = ErrorOf(refused, 400);
    EXPECT_EQ(error["type"], "invalid_request_error");
    EXPECT_THAT(error["message"].get<std::string>(), HasSubstr("batches of messages"));
    EXPECT_EQ(error["details"]["error_code"], "unsupported_value");
  }
}

TEST_F(AnthropicMessagesTest, AnOutputFormatIsASchema) {
  const Json format = {{"type", "json_schema"}, {"schema", {{"type", "integer"}}}};
  for (const Json& fields : {Json{{"output_config", {{"format", format}}}}, Json{{"output_format", format}}}) {
    Ask(Body(fields));
    ASSERT_NE(engine.last().grammar, nullptr) << fields;
    EXPECT_TRUE(GrammarMatcher(engine.last().grammar).Append("12").ok());
    EXPECT_FALSE(GrammarMatcher(engine.last().grammar).Append("x").ok());
  }
  Ask(Body({{"output_config", {{"format", nullptr}}}}));
  EXPECT_EQ(engine.last().grammar, nullptr);
}

TEST_F(AnthropicMessagesTest, AcceptsKnownFieldsWithSupportedValues) {
  const HttpResponse answer = Ask(Body({{"speed", "standard"},
                                        {"thread", false},
                                        {"mcp_servers", Json::array()},
                                        {"inference_geo", nullptr},
                                        {"diagnostics", nullptr},
                                        {"service_tier", "auto"},
                                        {"cache_control", {{"type", "ephemeral"}}}}));
  engine.AnswerLast("Yo");
  EXPECT_EQ(Whole(answer)["content"][0]["text"], "Yo");
}

// The stock client's tool runner detects by this code that it must send the whole history.
TEST_F(AnthropicMessagesTest, ThreadsHaveTheirOwnErrorCode) {
  const HttpResponse refused = Ask(Body({{"thread", {{"type", "create"}}}}));
  EXPECT_EQ(refused.status, 400);
  const Json error = Json::parse(refused.body)["error"];
  EXPECT_EQ(error["type"], "invalid_request_error");
  EXPECT_EQ(error["details"]["error_code"], "thread_unsupported_request");
}

TEST_F(AnthropicMessagesTest, ErrorsUseTheApisFormatAndNameTheField) {
  const std::vector<std::pair<Json, std::string>> cases = {
      {{{"max_tokens", nullptr}}, "max_tokens"},
      {{{"messages", nullptr}}, "messages"},
      {{{"messages", {{{"role", "tool"}, {"content", "x"}}}}}, "messages[0].role"},
      {{{"messages",
         {User("Hi"),
          {{"role", "assistant"},
           {"content", {{{"type", "tool_use"}, {"id", "x"}, {"name", "f"}, {"input", Json::object()}}}}}}}},
       "messages"},
      {{{"messages", {{{"role", "user"}, {"content", {{{"type", "image"}, {"source", "x"}}}}}}}},
       "messages[0].content[0].type"},
      {{{"tools", {{{"name", "f"}}}}}, "tools"},
      {{{"stop_sequences", {""}}}, "stop_sequences"},
      {{{"max_tokens", 0}}, "max_tokens"},
      {{{"system", 5}}, "system"},
      {{{"output_config", {{"format", {{"type", "text"}}}}}}, "output_config.format.type"},
      {{{"output_config", {{"format", {{"type", "json_schema"}}}}}}, "output_config.format.schema"},
      {{{"output_config",
         {{"format", {{"type", "json_schema"}, {"schema", {{"type", "integer"}, {"multipleOf", 2}}}}}}}},
       "output_config.format.schema.multipleOf"},
  };
  for (const auto& [fields, param] : cases) {
    const HttpResponse answer = Ask(Body(fields));
    EXPECT_EQ(answer.status, 400) << fields;
    const Json body = Json::parse(answer.body);
    EXPECT_EQ(body["type"], "error");
    EXPECT_EQ(body["error"]["type"], "invalid_request_error");
    EXPECT_THAT(body["error"]["message"].get<std::string>(), HasSubstr(param)) << fields;
  }
  EXPECT_EQ(Json::parse(Ask(Body({{"model", "other"}})).body)["error"]["type"], "not_found_error");
  engine.Refuse(Overloaded("full"));
  EXPECT_EQ(Json::parse(Ask(Body()).body)["error"]["type"], "rate_limit_error");
  EXPECT_EQ(engine.count(), 0u);
}

}  // namespace
}  // namespace ringside
