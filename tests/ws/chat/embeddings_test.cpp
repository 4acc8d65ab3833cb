// POST /v1/embeddings and Ollama's two routes: the engine requests, and the returned means.
#include <cstring>

#include "base/base64.h"
#include "tests/ws/chat/chat_fixture.h"

namespace ringside {
namespace {

using ::testing::HasSubstr;

SessionTableOptions ThreeNumbers() {
  SessionTableOptions options = TableFixture::Options();
  options.embedding_size = 3;
  return options;
}

class EmbeddingsTest : public ChatTest {
 protected:
  EmbeddingsTest() : ChatTest(ThreeNumbers()) {}
  HttpResponse Ask(Json fields) {
    Json body = {{"model", "tiny"}};
    body.update(fields);
    return Post("/v1/embeddings", body);
  }
  static Json Ollama(const HttpResponse& response, int status) {
    EXPECT_EQ(response.status, status) << response.body;
    return Json::parse(response.body)["error"];
  }
};

TEST_F(EmbeddingsTest, EmbeddingIsAUnitVector) {
  const HttpResponse answer = Ask({{"input", "Bees"}, {"user", "me"}, {"encoding_format", "float"}, {"dimensions", 3}});
  EXPECT_EQ(engine.last().tokens, Bytes("Bees"));
  EXPECT_TRUE(engine.last().embedded);
  EXPECT_EQ(engine.last().max_tokens, 0);
  EXPECT_FALSE(engine.last().scored);
  engine.Embed(0, {3, 0, -4});
  const Json whole = Whole(answer);
  EXPECT_EQ(whole["object"], "list");
  EXPECT_EQ(whole["model"], "tiny");
  EXPECT_EQ(whole["usage"], Json({{"prompt_tokens", 4}, {"total_tokens", 4}}));
  EXPECT_EQ(whole["data"][0]["object"], "embedding");
  const auto vector = whole["data"][0]["embedding"].get<std::vector<float>>();
  EXPECT_EQ(vector, (std::vector<float>{0.6F, 0, -0.8F})) << "each reads back as the float that it was";
}

TEST_F(EmbeddingsTest, ReturnsBase64) {
  const HttpResponse answer = Ask({{"input", "Bees"}, {"encoding_format", "base64"}});
  engine.Embed(0, {0, 0, 7});
  const auto bytes = DecodeBase64(Whole(answer)["data"][0]["embedding"].get<std::string>());
  ASSERT_TRUE(bytes && bytes->size() == 3 * sizeof(float));
  float vector[3];
  std::memcpy(vector, bytes->data(), sizeof(vector));
  EXPECT_EQ(vector[0], 0);
  EXPECT_EQ(vector[2], 1);
}

TEST_F(EmbeddingsTest, AcceptsEveryInputFormInOrder) {
  const HttpResponse answer = Ask({{"input", {"one", "three"}}});
  ASSERT_EQ(engine.count(), 2u);
  engine.Embed(1, {0, 1, 0});
  engine.Embed(0, {1, 0, 0});
  const Json whole = Whole(answer);
  EXPECT_EQ(whole["data"][0]["embedding"][0], 1);
  EXPECT_EQ(whole["data"][1]["embedding"][1], 1);
  EXPECT_EQ(whole["data"][1]["index"], 1);
  EXPECT_EQ(whole["usage"]["total_tokens"], 8);
  (void)Ask({{"input", {72, 105}}});
  EXPECT_EQ(engine.last().tokens, Bytes("Hi"));
  (void)Ask({{"input", {{72, 105}, {72}}}});
  EXPECT_EQ(engine.last().tokens, Bytes("H"));
}

TEST_F(EmbeddingsTest, LimitsConcurrentTexts) {
  std::vector<std::string> texts;
  for (int i = 0; i < 200; ++i) texts.push_back("text " + std::to_string(i));
  const HttpResponse answer = Ask({{"input", texts}});
  EXPECT_LT(engine.count(), 200u);
  for (size_t i = 0; i < 200; ++i) {
    ASSERT_TRUE(Eventually([&] { return engine.count() > i; })) << i;
    engine.Embed(i, {static_cast<float>(i + 1), 0, 0});
  }
  EXPECT_EQ(Whole(answer)["data"].size(), 200u);
}

TEST_F(EmbeddingsTest, KeepsNoEmbeddings) {
  const HttpResponse answer = Ask({{"input", "Bees make honey"}});
  engine.Embed(0, {1, 0, 0});
  (void)Whole(answer);
  const std::string owner = engine.last().owner;
  // The same text again, and a prompt with the same prefix: each is computed separately.
  (void)Ask({{"input", "Bees make honey"}});
  (void)Post("/v1/completions", {{"model", "tiny"}, {"prompt", "Bees make honey and"}});
  EXPECT_TRUE(engine.forks().empty());
  EXPECT_THAT(engine.erased(), ::testing::Contains(owner)) << "its cache is given up";
}

TEST_F(EmbeddingsTest, ErrorsNameTheInvalidField) {
  const std::tuple<Json, const char*, const char*> cases[] = {
      {{{"input", "a"}, {"dimensions", 4}}, "dimensions", "3 dimensions"},
      {{{"input", "a"}, {"dimensions", 0}}, "dimensions", ""},
      {{{"input", "a"}, {"encoding_format", "int8"}}, "encoding_format", "'base64'"},
      {{{"input", ""}}, "input", "empty"},
      {{{"input", Json::array()}}, "input", "input"},
      {{{"input", {{{"type", "text"}}}}}, "input[0]", "string"},
      {{{"input", 7}}, "input", "string"},
      {{{"input", {1 << 30}}}, "input", "Unknown token"},
      {Json::object(), "input", "input"},
      {{{"input", std::vector<std::string>(2049, "a")}}, "input", "2048"},
      {{{"input", std::string(3000, 'a')}}, "input", "tokens"},
  };
  for (const auto& [fields, param, words] : cases) {
    const Json error = ErrorOf(Ask(fields), 400);
    EXPECT_EQ(error["param"], param) << error;
    EXPECT_THAT(error["message"].get<std::string>(), HasSubstr(words));
  }
  EXPECT_EQ(engine.count(), 0u);
  EXPECT_EQ(ErrorOf(Ask({{"model", "other"}, {"input", "a"}}), 404)["code"], "model_not_found");
}

TEST_F(EmbeddingsTest, FailureBecomesTheResponse) {
  const HttpResponse answer = Ask({{"input", {"a", "b"}}});
  engine.Start(0);
  engine.End(0, FinishReason::kError, Unavailable("gone"));
  const HttpResponse late = Late(answer);
  EXPECT_EQ(late.status, 503);
}

TEST_F(EmbeddingsTest, ServesOllamaEmbeddings) {
  const HttpResponse both =
      Post("/api/embed",
           {{"model", "tiny:latest"}, {"input", {"a", "bc"}}, {"keep_alive", "5m"}, {"options", {{"num_ctx", 8}}}});
  engine.Embed(0, {2, 0, 0});
  engine.Embed(1, {0, 2, 0});
  const Json whole = Whole(both);
  EXPECT_EQ(whole["model"], "tiny");
  EXPECT_EQ(whole["embeddings"], Json::array({{1.0, 0.0, 0.0}, {0.0, 1.0, 0.0}}));
  EXPECT_EQ(whole["prompt_eval_count"], 3);
  EXPECT_GE(whole["total_duration"].get<int64_t>(), 0);
  const HttpResponse one = Post("/api/embeddings", {{"model", "tiny"}, {"prompt", "a"}});
  engine.Embed(2, {0, 0, 5});
  EXPECT_EQ(Whole(one)["embedding"], Json::array({0.0, 0.0, 1.0}));

  EXPECT_THAT(Ollama(Post("/api/embed", {{"model", "tiny"}}), 400).get<std::string>(), HasSubstr("input"));
  EXPECT_THAT(Ollama(Post("/api/embeddings", {{"model", "tiny"}, {"input", "a"}}), 400).get<std::string>(),
              HasSubstr("prompt"));
  EXPECT_EQ(Post("/api/embed", {{"model", "other"}, {"input", "a"}}).status, 404);
  EXPECT_THAT(Json::parse(Post("/api/show", {{"model", "tiny"}}).body)["capabilities"],
              ::testing::Contains("embedding"));
}

TEST_F(EmbeddingsTest, OllamaInputIsTruncatedByDefault) {
  const std::string text(5000, 'a');
  (void)Post("/api/embed", {{"model", "tiny"}, {"input", text}});
  EXPECT_EQ(std::ssize(engine.last().tokens), table.options().memory_len);
  EXPECT_EQ(Post("/api/embed", {{"model", "tiny"}, {"input", text}, {"truncate", false}}).status, 400);
}

using WithoutEmbeddingsTest = ChatTest;

TEST_F(WithoutEmbeddingsTest, EncoderModelHasNoEmbeddings) {
  const Json error = ErrorOf(Post("/v1/embeddings", {{"model", "tiny"}, {"input", "a"}}), 400);
  EXPECT_EQ(error["code"], "unsupported_value");
  EXPECT_THAT(error["message"].get<std::string>(), HasSubstr("embeddings of this model"));
  for (const auto& [path, field] : {std::pair{"/api/embed", "input"}, std::pair{"/api/embeddings", "prompt"}}) {
    const HttpResponse refused = Post(path, {{"model", "tiny"}, {field, "a"}});
    EXPECT_EQ(refused.status, 400);
    EXPECT_THAT(Json::parse(refused.body)["error"].get<std::string>(), HasSubstr("embeddings of this model"));
  }
}

}  // namespace
}  // namespace ringside
