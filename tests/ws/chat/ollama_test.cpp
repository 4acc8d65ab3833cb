#include "tests/ws/chat/chat_fixture.h"

namespace ringside {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

class OllamaTest : public ChatTest {
 protected:
  // The objects of a stream, one per line.
  static std::vector<Json> Lines(ChatStream& stream) {
    std::vector<Json> lines;
    std::istringstream text(stream.Text());
    for (std::string line; std::getline(text, line);) lines.push_back(Json::parse(line));
    return lines;
  }
};

TEST_F(OllamaTest, StreamsAChatAsLines) {
  const HttpResponse answer = Post("/api/chat", {{"model", "tiny:latest"}, {"messages", {User("Hi")}}});
  EXPECT_EQ(answer.content_type, "application/x-ndjson");
  ChatStream stream(answer);
  engine.AnswerLast("Yo");
  const std::vector<Json> lines = Lines(stream);
  ASSERT_THAT(lines, SizeIs(3));
  EXPECT_EQ(lines[0]["message"], Json({{"role", "assistant"}, {"content", "Y"}}));
  EXPECT_EQ(lines[0]["done"], false);
  EXPECT_EQ(lines[2]["done"], true);
  EXPECT_EQ(lines[2]["done_reason"], "stop");
  EXPECT_EQ(lines[2]["prompt_eval_count"], static_cast<int64_t>(engine.last().tokens.size()));
  EXPECT_EQ(lines[2]["eval_count"], 3);
  EXPECT_EQ(lines[2]["prompt_eval_duration"], 2'000'000);
  EXPECT_EQ(lines[2]["eval_duration"], 30'000'000);
  EXPECT_EQ(lines[2]["total_duration"], 33'000'000);
  EXPECT_TRUE(stream.Ended());
}

TEST_F(OllamaTest, NonStreamingChatWithOptions) {
  const Json options = {{"num_predict", 4}, {"temperature", 0.5}, {"top_k", 3},   {"repeat_penalty", 1.2},
                        {"seed", 9},        {"stop", {"zz"}},     {"num_ctx", 8}, {"embedding_only", false}};
  const HttpResponse answer = Post("/api/chat", {{"model", "tiny"},
                                                 {"messages", {User("Hi")}},
                                                 {"stream", false},
                                                 {"options", options},
                                                 {"keep_alive", "5m"},
                                                 {"format", ""},
                                                 {"think", false},
                                                 {"tools", Json::array()}});
  const TurnRequest request = engine.last();
  EXPECT_EQ(request.max_tokens, 4);
  EXPECT_EQ(request.sampling.repetition_penalty, 1.2);
  EXPECT_EQ(request.sampling.seed, 9u);
  EXPECT_THAT(request.stop_strings, ElementsAre("zz"));
  engine.Answer(0, "Yo", FinishReason::kLength);
  const Json whole = Whole(answer);
  EXPECT_EQ(whole["message"]["content"], "Yo");
  EXPECT_EQ(whole["done_reason"], "length");
  EXPECT_EQ(whole["model"], "tiny");
}

TEST_F(OllamaTest, ReturnsLogprobsOfChosenAndTopTokens) {
  const Json ask = {{"messages", {User("Hi")}}, {"prompt", "Hi"}, {"logprobs", true}, {"top_logprobs", 2}};
  for (const auto& [path, other] : {std::pair("/api/chat", "prompt"), std::pair("/api/generate", "messages")}) {
    Json body = ask;
    body.erase(other);
    ChatStream stream(Post(path, body));
    EXPECT_EQ(engine.last().sampling.logprobs, 2);
    engine.AnswerLast("Yo");
    const std::vector<Json> lines = Lines(stream);
    ASSERT_THAT(lines, SizeIs(4));
    ASSERT_THAT(lines[0]["logprobs"], SizeIs(1));
    EXPECT_EQ(lines[0]["logprobs"][0]["token"], "Y");
    EXPECT_EQ(lines[0]["logprobs"][0]["bytes"], Json::array({89}));
    EXPECT_TRUE(lines[0]["logprobs"][0]["logprob"].is_number());
    EXPECT_THAT(lines[0]["logprobs"][0]["top_logprobs"], SizeIs(2));
    EXPECT_EQ(lines[1]["logprobs"][0]["token"], "o");
    EXPECT_EQ(lines[2]["logprobs"][0]["token"], "<|im_end|>");
    EXPECT_FALSE(lines[3].contains("logprobs"));
    body["stream"] = false;
    const HttpResponse answer = Post(path, body);
    engine.AnswerLast("Yo");
    EXPECT_EQ(Whole(answer)["logprobs"],
              Json::array({lines[0]["logprobs"][0], lines[1]["logprobs"][0], lines[2]["logprobs"][0]}));
    body["logprobs"] = false;
    body["top_logprobs"] = 0;
    const HttpResponse without = Post(path, body);
    engine.AnswerLast("Yo");
    EXPECT_FALSE(Whole(without).contains("logprobs"));
  }
}

TEST_F(OllamaTest, RefusesUnsupportedCallsInOllamasFormat) {
  const std::tuple<const char*, const char*, const char*> cases[] = {
      {"POST", "/api/create", "changes"},
      {"POST", "/api/copy", "changes"},
      {"POST", "/api/push", "changes"},
      {"DELETE", "/api/delete", "changes"},
      {"POST", "/api/blobs/sha256:00", "changes"},
  };
  for (const auto& [method, path, what] : cases) {
    const HttpResponse answer = Call(method, path, R"({"model": "tiny", "input": "Hi"})");
    EXPECT_EQ(answer.status, 400) << path;
    EXPECT_THAT(Json::parse(answer.body)["error"].get<std::string>(), HasSubstr(what)) << path;
  }
}

TEST_F(OllamaTest, GenerateUsesTheTemplateUnlessRaw) {
  HttpResponse answer = Post("/api/generate", {{"prompt", "Hi"}, {"system", "Be brief."}, {"stream", false}});
  EXPECT_TRUE(tokenizer.Decode(engine.last().tokens).starts_with("<|im_start|>system\nBe brief.<|im_end|>\n"));
  engine.AnswerLast("Yo");
  EXPECT_EQ(Whole(answer)["response"], "Yo");
  answer = Post("/api/generate", {{"prompt", "Hi"}, {"raw", true}, {"stream", false}});
  EXPECT_EQ(engine.last().tokens, Bytes("Hi"));
  engine.AnswerLast("Yo");
  EXPECT_EQ(Whole(answer)["response"], "Yo");
}

TEST_F(OllamaTest, EmptyRequestReportsTheModelLoaded) {
  for (const char* path : {"/api/generate", "/api/chat"}) {
    const Json answer = Json::parse(Post(path, {{"model", "tiny"}}).body);
    EXPECT_EQ(answer["done_reason"], "load");
    EXPECT_EQ(answer["done"], true);
  }
  EXPECT_EQ(engine.count(), 0u);
}

TEST_F(OllamaTest, ReportsModelAndServer) {
  const Json model = Json::parse(Call("GET", "/api/tags").body)["models"][0];
  EXPECT_EQ(model["name"], "tiny:latest");
  EXPECT_EQ(model["modified_at"], "1970-01-01T00:16:40.500000Z");
  const Json shown = Json::parse(Post("/api/show", {{"model", "tiny"}}).body);
  EXPECT_EQ(shown["capabilities"], Json::array({"completion", "tools"}));
  EXPECT_EQ(shown["model_info"]["ringside.context_length"], table.options().request_len());
  EXPECT_EQ(shown["model_info"]["ringside.session_len"], 2000);
  EXPECT_EQ(Post("/api/show", {{"model", "other"}}).status, 404);
  const Json loaded = Json::parse(Call("GET", "/api/ps").body)["models"][0];
  EXPECT_EQ(loaded["model"], "tiny:latest");
  EXPECT_EQ(loaded["context_length"], table.options().request_len());
}

TEST_F(OllamaTest, PullSucceedsForTheModel) {
  const HttpResponse pulled = Post("/api/pull", {{"model", "tiny"}});
  EXPECT_EQ(pulled.content_type, "application/x-ndjson");
  EXPECT_EQ(pulled.body, "{\"status\":\"success\"}\n");
  EXPECT_EQ(Json::parse(Post("/api/pull", {{"name", "tiny:latest"}, {"stream", false}}).body)["status"], "success");
  EXPECT_EQ(Post("/api/pull", {{"model", "other"}}).status, 404);
  EXPECT_EQ(Post("/api/pull", {{"model", "tiny"}, {"stream", 1}}).status, 400);
  EXPECT_EQ(Json::parse(Post("/api/generate", {{"keep_alive", 0}}).body)["done_reason"], "unload");
}

TEST_F(OllamaTest, ErrorIsOneStringThatNamesTheField) {
  const std::vector<std::tuple<std::string, Json, std::string>> cases = {
      {"/api/chat", {{"messages", {{{"role", "user"}, {"content", "x"}, {"images", {"AA=="}}}}}}, "messages[0].images"},
      {"/api/chat", {{"prompt", "x"}}, "prompt"},
      {"/api/chat", {{"messages", {User("x")}}, {"format", "xml"}}, "format"},
      {"/api/chat", {{"messages", {User("x")}}, {"format", {{"multipleOf", 2}}}}, "format.multipleOf"},
      {"/api/chat", {{"messages", {User("x")}}, {"options", {{"temperature", "hot"}}}}, "options.temperature"},
      {"/api/chat", {{"messages", {User("x")}}, {"top_logprobs", 2}}, "top_logprobs"},
      {"/api/chat", {{"messages", {User("x")}}, {"logprobs", true}, {"top_logprobs", 21}}, "top_logprobs"},
      {"/api/generate", {{"prompt", "x"}, {"suffix", "y"}}, "suffix"},
      {"/api/generate", {{"prompt", "x"}, {"images", {"AA=="}}}, "images"},
      {"/api/generate", {{"prompt", "x"}, {"options", {{"num_predict", 0}}}}, "options.num_predict"},
  };
  for (const auto& [path, body, param] : cases) {
    const HttpResponse answer = Post(path, body);
    EXPECT_EQ(answer.status, 400) << body;
    EXPECT_THAT(Json::parse(answer.body)["error"].get<std::string>(), HasSubstr(param)) << body;
  }
  EXPECT_EQ(Post("/api/chat", {{"model", "other"}}).status, 404);
}

}  // namespace
}  // namespace ringside
