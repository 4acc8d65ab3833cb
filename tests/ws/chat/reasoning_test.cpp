// Reasoning on the stateless APIs: in whole and streamed answers, and returned in messages.
#include "tests/ws/chat/chat_fixture.h"
#include "ws/content/returned_reasoning.h"

namespace ringside {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

class ChatReasoning : public ChatTest {
 protected:
  static constexpr const char* kAnswer = "<think>\nHm\n</think>\n\nYo";
  static constexpr const char* kCall =
      "<think>\nHm\n</think>\n\n<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>";
  ChatReasoning() : ChatTest(TableFixture::Options(), "qwen3") {}
  void Sample(std::string_view sampled, FinishReason reason = FinishReason::kStop) {
    const size_t turn = engine.count() - 1;
    engine.Start(turn);
    engine.Sample(turn, sampled);
    engine.End(turn, reason);
  }
  HttpResponse Chat(const Json& fields = Json::object()) {
    Json body = {{"model", "tiny"}, {"messages", {User("Hi")}}};
    body.update(fields);
    return Post("/v1/chat/completions", body);
  }
  HttpResponse Messages(const Json& fields = Json::object()) {
    Json body = {{"model", "tiny"}, {"max_tokens", 100}, {"messages", {User("Hi")}}};
    body.update(fields);
    return Post("/v1/messages", body);
  }
  HttpResponse Ollama(const std::string& path, const Json& fields = Json::object()) {
    Json body = {{"model", "tiny"}, {"stream", false}};
    body.update(path == "/api/chat" ? Json{{"messages", {User("Hi")}}} : Json{{"prompt", "Hi"}});
    body.update(fields);
    return Post(path, body);
  }
  static Json FunctionTool() { return {{"type", "function"}, {"function", {{"name", "f"}}}}; }
};

/// Type, index and delta type of each event of a Messages stream.
std::vector<std::string> Outline(const std::vector<Json>& events) {
  std::vector<std::string> lines;
  for (const Json& event : events) {
    std::string line = event["type"];
    if (event.contains("index")) line += " " + event["index"].dump();
    if (event.contains("content_block")) line += " " + event["content_block"]["type"].get<std::string>();
    if (event["type"] == "content_block_delta") line += " " + event["delta"]["type"].get<std::string>();
    if (lines.empty() || lines.back() != line) lines.push_back(std::move(line));
  }
  return lines;
}

TEST_F(ChatReasoning, CompletionHasReasoningUnderBothNames) {
  const HttpResponse answer = Chat();
  Sample(kAnswer);
  const Json whole = Whole(answer);
  const Json& message = whole["choices"][0]["message"];
  EXPECT_EQ(message["reasoning_content"], "Hm");
  EXPECT_EQ(message["reasoning"], "Hm");
  EXPECT_EQ(message["content"], "Yo");
  const int64_t reasoning = whole["usage"]["completion_tokens_details"]["reasoning_tokens"];
  EXPECT_GT(reasoning, 2);
  EXPECT_LT(reasoning, whole["usage"]["completion_tokens"].get<int64_t>());
}

TEST_F(ChatReasoning, StreamSendsReasoningBeforeText) {
  ChatStream stream(Chat({{"stream", true}}));
  Sample(kAnswer);
  std::string thoughts, text;
  for (const Json& event : stream.Events()) {
    if (!event.is_object()) continue;
    const Json& delta = event["choices"][0]["delta"];
    if (delta.contains("reasoning_content")) {
      EXPECT_EQ(delta["reasoning_content"], delta["reasoning"]);
      EXPECT_EQ(text, "");
      thoughts += delta["reasoning_content"];
    }
    if (delta.contains("content") && delta["content"].is_string()) text += delta["content"];
  }
  EXPECT_EQ(thoughts, "Hm");
  EXPECT_EQ(text, "Yo");
  EXPECT_TRUE(stream.Ended());
}

TEST_F(ChatReasoning, OmitsUnwantedReasoning) {
  const HttpResponse answer = Chat({{"include_reasoning", false}});
  Sample(kAnswer);
  const Json message = Whole(answer)["choices"][0]["message"];
  EXPECT_FALSE(message.contains("reasoning") || message.contains("reasoning_content"));
  EXPECT_EQ(message["content"], "Yo");
  ChatStream stream(Chat({{"include_reasoning", false}, {"stream", true}}));
  Sample(kAnswer);
  const std::string text = stream.Text();
  EXPECT_THAT(text, Not(HasSubstr("reasoning_content")));
  EXPECT_THAT(text, HasSubstr(R"("content":"Y")"));
}

TEST_F(ChatReasoning, ToolCallMayFollowReasoning) {
  const HttpResponse answer = Chat({{"tools", {FunctionTool()}}});
  Sample(kCall);
  const Json choice = Whole(answer)["choices"][0];
  EXPECT_EQ(choice["message"]["reasoning_content"], "Hm");
  EXPECT_TRUE(choice["message"]["content"].is_null());
  EXPECT_EQ(choice["message"]["tool_calls"][0]["function"]["name"], "f");
  EXPECT_EQ(choice["finish_reason"], "tool_calls");
}

TEST_F(ChatReasoning, AnswerTruncatedInReasoningHasNoText) {
  const HttpResponse chat = Chat();
  Sample("<think>\nHm", FinishReason::kLength);
  const Json choice = Whole(chat)["choices"][0];
  EXPECT_EQ(choice["finish_reason"], "length");
  EXPECT_EQ(choice["message"]["content"], "");
  EXPECT_EQ(choice["message"]["reasoning_content"], "Hm");

  const HttpResponse message = Messages();
  Sample("<think>\nHm", FinishReason::kLength);
  const Json whole = Whole(message);
  EXPECT_EQ(whole["stop_reason"], "max_tokens");
  ASSERT_EQ(whole["content"].size(), 1U) << whole;
  EXPECT_EQ(whole["content"][0]["thinking"], "Hm");
  ChatStream stream(Messages({{"stream", true}}));
  Sample("<think>\nHm", FinishReason::kLength);
  EXPECT_THAT(
      Outline(stream.Events()),
      ElementsAre("message_start", "ping", "content_block_start 0 thinking", "content_block_delta 0 thinking_delta",
                  "content_block_delta 0 signature_delta", "content_block_stop 0", "message_delta", "message_stop"));
}

TEST_F(ChatReasoning, StreamHasAllTokenIdsInOrder) {
  for (const char* sampled : {kAnswer, kCall, "<think>\n\n</think>\n\nYo", "Yo"}) {
    for (const bool shown : {true, false}) {
      ChatStream stream(Chat(
          {{"stream", true}, {"return_token_ids", true}, {"tools", {FunctionTool()}}, {"include_reasoning", shown}}));
      Sample(sampled);
      std::vector<TokenId> ids;
      for (const Json& event : stream.Events()) {
        if (!event.is_object() || !event["choices"][0].contains("token_ids")) continue;
        for (const Json& id : event["choices"][0]["token_ids"]) ids.push_back(id.get<TokenId>());
      }
      EXPECT_EQ(tokenizer.Decode(ids), std::string(sampled) + "<|im_end|>") << shown;
    }
  }
}

TEST_F(ChatReasoning, EveryChoiceHasItsOwnReasoning) {
  const HttpResponse answer = Chat({{"n", 2}});
  engine.Start(0);
  engine.Sample(0, kAnswer);
  ASSERT_TRUE(Eventually([&] { return engine.count() == 2; }));
  engine.Start(1);
  engine.Sample(1, "<think>\nOh\n</think>\n\nNo");
  engine.End(0);
  engine.End(1);
  const Json choices = Whole(answer)["choices"];
  EXPECT_EQ(choices[0]["message"]["reasoning"], "Hm");
  EXPECT_EQ(choices[1]["message"]["reasoning"], "Oh");
  EXPECT_EQ(choices[1]["message"]["content"], "No");
}

TEST_F(ChatReasoning, MessageHasAThinkingBlock) {
  const HttpResponse answer = Messages();
  Sample(kAnswer);
  const Json whole = Whole(answer), content = whole["content"];
  ASSERT_EQ(content.size(), 2U) << whole;
  EXPECT_EQ(content[0]["type"], "thinking");
  EXPECT_EQ(content[0]["thinking"], "Hm");
  EXPECT_NE(content[0]["signature"], "");
  EXPECT_EQ(content[1]["text"], "Yo");
  EXPECT_GT(whole["usage"]["output_tokens_details"]["thinking_tokens"], 2);
}

TEST_F(ChatReasoning, MessageStreamNumbersItsBlocks) {
  ChatStream stream(Messages({{"stream", true}}));
  Sample(kAnswer);
  EXPECT_THAT(
      Outline(stream.Events()),
      ElementsAre("message_start", "ping", "content_block_start 0 thinking", "content_block_delta 0 thinking_delta",
                  "content_block_delta 0 signature_delta", "content_block_stop 0", "content_block_start 1 text",
                  "content_block_delta 1 text_delta", "content_block_stop 1", "message_delta", "message_stop"));
  const Json tool = {{"name", "f"}, {"input_schema", Json::object()}};
  ChatStream called(Messages({{"stream", true}, {"tools", {tool}}}));
  Sample(kCall);
  EXPECT_THAT(
      Outline(called.Events()),
      ElementsAre("message_start", "ping", "content_block_start 0 thinking", "content_block_delta 0 thinking_delta",
                  "content_block_delta 0 signature_delta", "content_block_stop 0", "content_block_start 1 tool_use",
                  "content_block_delta 1 input_json_delta", "content_block_stop 1", "message_delta", "message_stop"));
}

TEST_F(ChatReasoning, SignatureCarriesOmittedThinking) {
  const Json omitted = {{"type", "adaptive"}, {"display", "omitted"}};
  const HttpResponse answer = Messages({{"thinking", omitted}});
  Sample(kAnswer);
  const Json block = Whole(answer)["content"][0];
  EXPECT_EQ(block["thinking"], "");
  EXPECT_EQ(DecodeReasoning(block["signature"].get<std::string>()), "Hm");
  ChatStream stream(Messages({{"thinking", omitted}, {"stream", true}}));
  Sample(kAnswer);
  const std::vector<Json> events = stream.Events();
  EXPECT_THAT(Outline(events), Not(::testing::Contains("content_block_delta 0 thinking_delta")));
  EXPECT_EQ(events[3]["delta"]["signature"], block["signature"]);
}

TEST_F(ChatReasoning, OllamaSendsReasoningWithTheText) {
  for (const char* path : {"/api/chat", "/api/generate"}) {
    const bool chat = std::string_view(path) == "/api/chat";
    const HttpResponse answer = Ollama(path);
    Sample(kAnswer);
    const Json whole = Whole(answer), said = chat ? whole["message"] : whole;
    EXPECT_EQ(said["thinking"], "Hm") << path;
    EXPECT_EQ(said[chat ? "content" : "response"], "Yo") << path;
    ChatStream stream(Ollama(path, {{"stream", true}}));
    Sample(kAnswer);
    std::string lines = stream.Text(), thoughts, text;
    for (size_t end = lines.find('\n'); end != std::string::npos; end = lines.find('\n')) {
      const Json line = Json::parse(lines.substr(0, end)), part = chat ? line["message"] : line;
      thoughts += part.value("thinking", "");
      text += part.value(chat ? "content" : "response", "");
      lines.erase(0, end + 1);
    }
    EXPECT_EQ(thoughts, "Hm") << path;
    EXPECT_EQ(text, "Yo") << path;
  }
  const Json shown = Json::parse(Post("/api/show", {{"model", "tiny"}}).body);
  EXPECT_THAT(shown["capabilities"], ::testing::Contains("thinking"));
}

TEST_F(ChatReasoning, ReasoningCanBeDisabled) {
  const std::pair<const char*, Json> requests[] = {{"/v1/chat/completions", {{"reasoning_effort", "none"}}},
                                                   {"/v1/messages", {{"thinking", {{"type", "disabled"}}}}},
                                                   {"/api/chat", {{"think", false}, {"stream", false}}}};
  for (const auto& [path, fields] : requests) {
    Json body = {{"model", "tiny"}, {"messages", {User("Hi")}}, {"max_tokens", 100}};
    if (std::string_view(path) == "/api/chat") body.erase("max_tokens");
    body.update(fields);
    const HttpResponse answer = Post(path, body);
    EXPECT_THAT(tokenizer.Decode(engine.last().tokens), ::testing::EndsWith("<think>\n\n</think>\n\n")) << path;
    engine.AnswerLast("Yo");
    const Json whole = Whole(answer);
    EXPECT_FALSE(whole.contains("ringside")) << whole;
    EXPECT_THAT(whole.dump(), Not(HasSubstr("Hm")));
  }
}

TEST_F(ChatReasoning, PassesTheBudgetToTheEngine) {
  Chat({{"reasoning_budget", 7}});
  EXPECT_EQ(engine.last().reasoning_budget, 7);
  Messages({{"thinking", {{"type", "enabled"}, {"budget_tokens", 1024}}}});
  EXPECT_EQ(engine.last().reasoning_budget, 1024);
  Chat();
  EXPECT_EQ(engine.last().reasoning_budget, -1);
}

TEST_F(ChatReasoning, RefusesOversizedTemplateVariablesByField) {
  const Json large = {{"enable_thinking", std::string(100'000, 'x')}};
  EXPECT_EQ(ErrorOf(Chat({{"chat_template_kwargs", large}}), 400)["param"], "chat_template_kwargs");
}

TEST_F(ChatReasoning, AcceptsReasoningFromTheClient) {
  const std::string opaque = EncodeReasoning("Hm");
  const Json thinking = {{"type", "thinking"}, {"thinking", "Hm"}, {"signature", "x"}};
  const Json omitted = {{"type", "thinking"}, {"thinking", ""}, {"signature", opaque}};
  const Json redacted = {{"type", "redacted_thinking"}, {"data", opaque}}, text = {{"type", "text"}, {"text", "Yo"}};
  const std::pair<const char*, Json> answers[] = {
      {"/v1/chat/completions", {{"role", "assistant"}, {"content", "Yo"}, {"reasoning_content", "Hm"}}},
      {"/v1/chat/completions", {{"role", "assistant"}, {"content", "Yo"}, {"reasoning", "Hm"}}},
      {"/v1/messages", {{"role", "assistant"}, {"content", {thinking, text}}}},
      {"/v1/messages", {{"role", "assistant"}, {"content", {omitted, text}}}},
      {"/v1/messages", {{"role", "assistant"}, {"content", {redacted, text}}}},
      {"/api/chat", {{"role", "assistant"}, {"content", "Yo"}, {"thinking", "Hm"}}},
  };
  for (const auto& [path, said] : answers) {
    Json body = {{"model", "tiny"}, {"messages", {User("Hi"), said, User("More")}}};
    std::string_view(path) == "/api/chat" ? body["stream"] = false : body["max_tokens"] = 100;
    const HttpResponse answer = Post(path, body);
    ASSERT_NE(answer.later, nullptr) << answer.body;
    EXPECT_THAT(tokenizer.Decode(engine.last().tokens), HasSubstr("Yo<|im_end|>"));
    engine.AnswerLast("So");
    EXPECT_FALSE(Whole(answer).contains("ringside")) << path << said;
  }
}

TEST(ReturnedReasoning, ReadsOnlyItsOwnOpaqueText) {
  for (const std::string& text : {std::string(), std::string("Hm"), std::string("h\xC3\xA4\n\0", 5)}) {
    EXPECT_EQ(DecodeReasoning(EncodeReasoning(text)), text);
  }
  for (const char* foreign : {"", "x", "SG0=", "ringside.1:", "ringside.1:!", "ringside.1:/w==", "ringside.2:SG0="}) {
    const auto read = DecodeReasoning(foreign);
    EXPECT_TRUE(!read || read->empty()) << foreign;
  }
}

}  // namespace
}  // namespace ringside
