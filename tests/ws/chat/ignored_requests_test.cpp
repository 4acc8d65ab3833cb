// Fields without effect on the stateless APIs: ignored and reported, refused under --strict-requests.
#include "tests/ws/chat/chat_fixture.h"

namespace ringside {
namespace {

using ::testing::Contains;
using ::testing::Pair;

struct Ignoring {
  const char* path;
  Json fields;
  Json names;  // reported
};

Json Messages() { return Json::array({{{"role", "user"}, {"content", "Hi"}}}); }

/// Requests of the chat APIs, and their ignored fields.
std::vector<Ignoring> ChatCases() {
  const char *chat = "/v1/chat/completions", *text = "/v1/completions";
  const Json thought = {{"role", "assistant"}, {"content", "Yo"}, {"reasoning_content", "hm"}};
  const Json details = {{"role", "assistant"}, {"content", "Yo"}, {"reasoning_details", {{{"text", "hm"}}}}};
  return {
      {chat, {{"tempreature", 1}}, {"tempreature"}},
      {chat, {{"tempreature", nullptr}}, nullptr},
      {chat, {{"verbosity", "low"}, {"reasoning_effort", "high"}}, {"verbosity", "reasoning_effort"}},
      {chat,
       {{"service_tier", "flex"}, {"prompt_cache_retention", "year"}},
       {"service_tier", "prompt_cache_retention"}},
      {chat,
       {{"stream_options", {{"x", 1}, {"include_obfuscation", true}}}},
       {"stream_options.x", "stream_options.include_obfuscation"}},
      {chat, {{"chat_template_kwargs", {{"enable_thinking", false}}}}, {"chat_template_kwargs.enable_thinking"}},
      {chat, {{"usage", {{"include", true}}}, {"cache_prompt", true}}, {"usage", "cache_prompt"}},
      {chat, {{"metadata", {{"a", 1}, {"b", "x"}}}}, {"metadata"}},
      {chat, {{"user", 5}}, {"user"}},
      {chat, {{"web_search_options", Json::object()}}, {"web_search_options"}},
      {chat, {{"prediction", {{"type", "content"}}}, {"audio", {{"voice", "ash"}}}}, {"prediction", "audio"}},
      {chat, {{"max_tokens", 100000}}, {"max_tokens"}},
      {chat, {{"max_tokens", nullptr}, {"max_completion_tokens", 65536}}, {"max_completion_tokens"}},
      {chat, {{"max_tokens", -1}}, nullptr},
      {chat, {{"messages", {Messages()[0], thought, Messages()[0]}}}, nullptr},
      {chat, {{"messages", {Messages()[0], details, Messages()[0]}}}, {"messages[1].reasoning_details"}},
      {chat,
       {{"messages", {Messages()[0], thought, {{"role", "user"}, {"content", "x"}, {"reasoning", "y"}}}}},
       {"messages[2].reasoning"}},
      {chat, {{"reasoning_budget", 5}}, {"reasoning_budget"}},
      {chat, {{"messages", {{{"role", "user"}, {"content", "x"}, {"mood", 1}}}}}, {"messages[0].mood"}},
      {chat, {{"response_format", {{"type", "text"}, {"x", 1}}}}, {"response_format.x"}},
      {text, {{"prompt", "a"}, {"store", true}, {"x", 1}}, {"store", "x"}},
      {text, {{"prompt", "a"}, {"max_tokens", 99999}}, {"max_tokens"}},
      {"/v1/messages", {{"thinking", {{"type", "adaptive"}}}}, nullptr},
      {"/v1/messages", {{"thinking", {{"type", "disabled"}}}}, nullptr},
      {"/v1/messages",
       {{"thinking", {{"type", "enabled"}, {"budget_tokens", 1024}}}},
       {"thinking", "thinking.budget_tokens"}},
      {"/v1/messages", {{"output_config", {{"effort", "high"}}}}, {"output_config.effort"}},
      {"/v1/messages", {{"mcp_servers", {1}}, {"speed", "fast"}}, {"mcp_servers", "speed"}},
      {"/v1/messages", {{"frequency_penalty", 1}, {"max_tokens", 64000}}, {"frequency_penalty", "max_tokens"}},
      {"/api/chat",
       {{"think", true}, {"options", {{"warmth", 1}, {"mirostat", 2}}}},
       {"options.warmth", "options.mirostat", "think"}},
      {"/api/chat", {{"options", {{"num_predict", 99999}}}}, {"options.num_predict"}},
  };
}

class IgnoredRequests : public ChatTest {
 protected:
  explicit IgnoredRequests(bool strict = false) : ChatTest(Options(strict)) {}
  static SessionTableOptions Options(bool strict) {
    SessionTableOptions options = TableFixture::Options();
    options.strict_requests = strict;
    options.max_output_tokens_limit = 50;
    return options;
  }
  static Json BodyOf(const Ignoring& request) {
    Json body = {{"model", "tiny"}};
    if (!request.fields.contains("prompt")) body["messages"] = Messages();
    if (std::string_view(request.path) == "/v1/messages") body["max_tokens"] = 5;
    if (std::string_view(request.path) == "/api/chat") body["stream"] = false;
    body.update(request.fields);
    return body;
  }
  static std::string Joined(const Json& names) {
    std::string all;
    for (const Json& name : names) all += (all.empty() ? "" : ", ") + name.get<std::string>();
    return all;
  }
};

class StrictRequests : public IgnoredRequests {
 protected:
  StrictRequests() : IgnoredRequests(true) {}
};

TEST_F(IgnoredRequests, AreReportedInBodyAndHeader) {
  for (const Ignoring& request : ChatCases()) {
    const HttpResponse answer = Post(request.path, BodyOf(request));
    engine.AnswerLast("Yo");
    const Json whole = Whole(answer);
    if (request.names.is_null()) {
      EXPECT_FALSE(whole.contains("ringside")) << whole;
      EXPECT_TRUE(answer.headers.empty()) << request.fields;
      continue;
    }
    Json names = whole["ringside"]["ignored"], expected = request.names;
    EXPECT_THAT(answer.headers, Contains(Pair("X-Ringside-Ignored", Joined(names)))) << request.fields;
    std::sort(names.begin(), names.end());
    std::sort(expected.begin(), expected.end());
    EXPECT_EQ(names, expected) << request.path << request.fields;
  }
}

TEST_F(IgnoredRequests, CapsTokenLimitsAtTheServers) {
  const char* chat = "/v1/chat/completions";
  for (const int64_t asked : {int64_t{51}, int64_t{65536}, INT64_MAX, int64_t{-1}}) {
    const HttpResponse answer = Post(chat, BodyOf({chat, {{"max_tokens", asked}}, {}}));
    EXPECT_EQ(engine.last().max_tokens, 50) << asked;
    engine.AnswerLast("Yo");
  }
}

TEST_F(IgnoredRequests, StreamReportsThemAtItsEnd) {
  for (const char* path : {"/v1/chat/completions", "/v1/completions"}) {
    Json body = {{"model", "tiny"}, {"stream", true}, {"colour", "red"}};
    std::string_view(path) == "/v1/completions" ? body["prompt"] = "a" : body["messages"] = Messages();
    HttpResponse answer = Post(path, body);
    EXPECT_THAT(answer.headers, Contains(Pair("X-Ringside-Ignored", "colour")));
    ChatStream stream(std::move(answer));
    engine.AnswerLast("Yo");
    const std::vector<Json> events = stream.Events();
    ASSERT_GE(events.size(), 2u);
    const Json& last = events[events.size() - 2];
    EXPECT_EQ(last["choices"][0]["finish_reason"], "stop");
    EXPECT_EQ(last["ringside"]["ignored"], Json::array({"colour"}));
  }
}

TEST_F(IgnoredRequests, AnthropicSystemMessagesKeepTheirPositions) {
  Json body = BodyOf({"/v1/messages", Json::object(), {}});
  body["messages"] = {Messages()[0], {{"role", "system"}, {"content", {{{"type", "text"}, {"text", "Be brief."}}}}}};
  const HttpResponse answer = Post("/v1/messages", body);
  EXPECT_TRUE(tokenizer.Decode(engine.last().tokens).ends_with("system\nBe brief.<|im_end|>\n<|im_start|>assistant\n"));
  engine.AnswerLast("Yo");
}

TEST_F(IgnoredRequests, DropsOpaqueThinkingOfOtherServers) {
  Json body = BodyOf({"/v1/messages", Json::object(), {}});
  body["messages"] = {Messages()[0],
                      {{"role", "assistant"},
                       {"content",
                        {{{"type", "thinking"}, {"thinking", "hm"}, {"signature", "x"}},
                         {{"type", "redacted_thinking"}, {"data", "x"}},
                         {{"type", "text"}, {"text", "Yo"}}}}},
                      Messages()[0]};
  const HttpResponse answer = Post("/v1/messages", body);
  const std::string prompt = tokenizer.Decode(engine.last().tokens);
  EXPECT_NE(prompt.find("assistant\nYo<|im_end|>"), std::string::npos) << prompt;
  engine.AnswerLast("Yo");
  EXPECT_EQ(Whole(answer)["ringside"]["ignored"], Json::array({"messages[1].content[1].redacted_thinking"}));
}

TEST_F(IgnoredRequests, ReturnedRefusalsAreText) {
  const char* chat = "/v1/chat/completions";
  for (const Json& said : {Json{{"role", "assistant"}, {"content", nullptr}, {"refusal", "No."}},
                           Json{{"role", "assistant"}, {"content", {{{"type", "refusal"}, {"refusal", "No."}}}}}}) {
    const HttpResponse answer = Post(chat, BodyOf({chat, {{"messages", {Messages()[0], said, Messages()[0]}}}, {}}));
    ASSERT_NE(answer.later, nullptr) << answer.body;
    EXPECT_NE(tokenizer.Decode(engine.last().tokens).find("assistant\nNo.<|im_end|>"), std::string::npos);
    engine.AnswerLast("Yo");
  }
}

TEST_F(StrictRequests, AreRefusedByName) {
  for (const Ignoring& request : ChatCases()) {
    const HttpResponse answer = Post(request.path, BodyOf(request));
    if (request.names.is_null()) {
      EXPECT_EQ(answer.status, 200) << answer.body;
      engine.AnswerLast("Yo");
      continue;
    }
    EXPECT_EQ(answer.status, 400) << request.path << request.fields;
    EXPECT_TRUE(answer.headers.empty() || answer.headers[0].first != "X-Ringside-Ignored");
  }
  EXPECT_EQ(ErrorOf(Post("/v1/chat/completions", BodyOf(ChatCases()[0])), 400)["code"], "unknown_parameter");
}

}  // namespace
}  // namespace ringside
