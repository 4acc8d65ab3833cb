// A request that exceeds the window, and an answer that repeats itself, with each API's errors.
#include "tests/ws/chat/chat_fixture.h"

namespace ringside {
namespace {

using ::testing::HasSubstr;
using ::testing::MatchesRegex;

class OverflowTest : public ChatTest {
 protected:
  OverflowTest() : ChatTest(Options()) {}
  static SessionTableOptions Options() {
    SessionTableOptions options = TableFixture::Options();
    options.embedding_size = 4;
    return options;
  }

  // The table's window has 516 tokens, one per byte.
  const std::string long_text_ = std::string(600, 'x');
  const Json long_history_ = {User(std::string(300, 'x')), Assistant(std::string(300, 'y')), User("And?")};
};

TEST_F(OverflowTest, OpenAiOverflowMessage) {
  for (const Json& messages : {Json::array({User(long_text_)}), long_history_}) {
    const Json error = ErrorOf(Post("/v1/chat/completions", {{"model", "tiny"}, {"messages", messages}}), 400);
    EXPECT_EQ(error["code"], "context_length_exceeded");
    EXPECT_EQ(error["param"], "messages");
    EXPECT_THAT(error["message"].get<std::string>(),
                MatchesRegex("This model's maximum context length is 516 tokens\\. However, your messages resulted in "
                             "6[0-9][0-9] tokens\\. See --memory-len\\."));
  }
  for (const auto& [path, field] : {std::pair("/v1/completions", "prompt"), std::pair("/v1/embeddings", "input")}) {
    const Json error = ErrorOf(Post(path, {{"model", "tiny"}, {field, long_text_}}), 400);
    EXPECT_EQ(error["code"], "context_length_exceeded") << path;
    EXPECT_EQ(error["param"], field);
    EXPECT_THAT(error["message"].get<std::string>(),
                HasSubstr("This model's maximum context length is 516 tokens. However, your prompt resulted in 600"));
  }
  EXPECT_EQ(engine.count(), 0U);
}

TEST_F(OverflowTest, AnthropicOverflowMessage) {
  for (const Json& messages : {Json::array({User(long_text_)}), long_history_}) {
    const Json error =
        ErrorOf(Post("/v1/messages", {{"model", "tiny"}, {"max_tokens", 9}, {"messages", messages}}), 400);
    EXPECT_EQ(error["type"], "invalid_request_error");
    EXPECT_EQ(error["details"]["error_code"], "context_length_exceeded");
    EXPECT_THAT(error["message"].get<std::string>(),
                MatchesRegex("prompt is too long: 6[0-9][0-9] tokens > 516 maximum"));
  }
}

TEST_F(OverflowTest, OllamaOverflowMessage) {
  const auto ask = [&](const Json& messages, const Json& more = Json::object()) {
    Json body = {{"model", "tiny"}, {"messages", messages}, {"stream", false}};
    body.update(more);
    return Post("/api/chat", body);
  };
  const auto message = [](const HttpResponse& response) {
    EXPECT_EQ(response.status, 400);
    return Json::parse(response.body)["error"].get<std::string>();
  };
  const std::string words = "prompt too long; exceeded max context length by [0-9]+ tokens .6[0-9][0-9] of 51[26].";
  EXPECT_THAT(message(ask(Json::array({User(long_text_)}))), MatchesRegex(words));
  EXPECT_THAT(message(ask({User("Hi"), Assistant("Yo"), User(long_text_)})), MatchesRegex(words))
      << "the last message is never dropped";
  EXPECT_THAT(message(ask(long_history_, {{"truncate", false}})), MatchesRegex(words));
  EXPECT_THAT(message(Post("/api/generate", {{"model", "tiny"}, {"prompt", long_text_}})), MatchesRegex(words));
  const HttpResponse sliding = ask(long_history_);
  engine.AnswerLast("Yo");
  EXPECT_EQ(Whole(sliding)["message"]["content"], "Yo") << "history slides as theirs does";
}

TEST_F(OverflowTest, RepetitionEndsAsALimitWithItsReason) {
  const auto whole = [&](const char* path, Json body) {
    body["model"] = "tiny";
    const HttpResponse answer = Post(path, body);
    engine.Answer(engine.count() - 1, "YoYo", FinishReason::kRepetition);
    return Whole(answer);
  };
  const Json said = {{"incomplete_reason", "repetition"}};
  const Json chat = whole("/v1/chat/completions", {{"messages", {User("Hi")}}})["choices"][0];
  EXPECT_EQ(chat["finish_reason"], "length");
  EXPECT_EQ(chat["ringside"], said);
  const Json text = whole("/v1/completions", {{"prompt", "Hi"}})["choices"][0];
  EXPECT_EQ(text["finish_reason"], "length");
  EXPECT_EQ(text["ringside"], said);
  const Json message = whole("/v1/messages", {{"messages", {User("Hi")}}, {"max_tokens", 99}});
  EXPECT_EQ(message["stop_reason"], "max_tokens");
  EXPECT_EQ(message["ringside"], said);
  const Json ollama = whole("/api/chat", {{"messages", {User("Hi")}}, {"stream", false}});
  EXPECT_EQ(ollama["done_reason"], "length");
  EXPECT_EQ(ollama["ringside"], said);

  ChatStream stream(Post("/v1/messages", {{"messages", {User("Hi")}}, {"max_tokens", 99}, {"stream", true}}));
  engine.Answer(engine.count() - 1, "YoYo", FinishReason::kRepetition);
  const std::vector<Json> events = stream.Events();
  EXPECT_EQ(events[events.size() - 2]["delta"]["stop_reason"], "max_tokens");
  EXPECT_EQ(events[events.size() - 2]["ringside"], said);
}

}  // namespace
}  // namespace ringside
