// Loads and unloads on request, in a server with two models: llama.cpp's paths, Ollama's requests without a prompt, and
// hostile bodies; and that every face reads a body's model and defaults from one parse.
#include "ws/chat/model_changes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "session/model_source.h"
#include "tests/ws/chat/chat_fixture.h"

namespace ringside {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// "tiny", the default, "large", and "gone", whose file was deleted.
class ThreeModels : public ModelSource {
 public:
  Result<std::string> Resolve(std::string_view asked, std::string_view param) const override {
    const std::string name = asked.empty() ? "tiny" : std::string(asked);
    if (name == "broken") return InvalidArgument("no shape", std::string(param), "model_unsupported");
    if (name != "tiny" && name != "large") return NotFound("no such model", std::string(param), "model_not_found");
    return name;
  }
  Result<SessionModel> Open(const std::string& name) override {
    SessionModel model{TableFixture::Options(), std::make_shared<ByteTokenizer>(), nullptr};
    model.options.model_name = name;
    model.options.max_output_tokens_limit = 7;
    model.chat = std::make_shared<ChatTemplate>(std::move(ChatTemplate::Named("chatml").value()));
    return model;
  }
};

class ModelChangesTest : public ::testing::Test, private ThreeModels, protected TableFixture {
 protected:
  ModelChangesTest() : TableFixture(WithModels(this)) {
    RegisterChatRoutes(router,
                       {.table = table,
                        .retry_after_ms = [](const std::string&) { return int64_t{1500}; },
                        .run_on_worker =
                            [](const std::string&, size_t, const std::function<void()>& call) {
                              call();
                              return Status::Ok();
                            },
                        .models =
                            [] {
                              return std::vector<ServedModel>{{.name = "gone", .state = "loaded"},
                                                              {.name = "left", .state = "unloaded"}};
                            },
                        .change_model =
                            [this](ModelChange change, const std::string& name, auto done) {
                              changes.push_back((change == ModelChange::kLoad ? "load " : "unload ") + name);
                              dones.push_back(std::move(done));
                            }},
                       {.version = "1.2", .created = 1000.5});
  }
  HttpResponse Send(const std::string& path, const std::string& body, Scopes scopes = Scopes::All()) {
    HttpRequest request{.method = "POST", .path = path, .body = body, .principal = "me", .scopes = scopes};
    return router.Route(request);
  }
  /// The answer of a request that waits, after the last change has ended so.
  HttpResponse End(const HttpResponse& response, const Status& status) {
    EXPECT_NE(response.later, nullptr) << response.body;
    if (response.later == nullptr || dones.empty()) return response;
    bool given = false;
    response.later->Await([&] { given = true; });
    EXPECT_FALSE(given);
    dones.back()(status);
    EXPECT_TRUE(given);
    return response.later->Take()();
  }
  static std::string CodeOf(const HttpResponse& response) {
    EXPECT_EQ(response.later, nullptr);
    return Json::parse(response.body)["error"]["code"];
  }

  Router router;
  std::vector<std::string> changes;
  std::vector<std::function<void(const Status&)>> dones;

 private:
  static SessionTableOptions WithModels(ModelSource* models) {
    SessionTableOptions options = Options();
    options.model_name = "tiny";
    options.models = models;
    return options;
  }
};

TEST_F(ModelChangesTest, AnswersWhenTheChangeHasEnded) {
  HttpResponse answer = End(Send("/models/load", R"({"model": "large"})"), {});
  EXPECT_EQ(answer.status, 200);
  EXPECT_EQ(answer.body, R"({"success":true,"model":"large","status":{"value":"loaded"}})");
  answer = End(Send("/models/unload", R"({"model": "large"})"), {});
  EXPECT_EQ(answer.body, R"({"success":true,"model":"large","status":{"value":"unloaded"}})");
  answer = End(Send("/models/unload", R"({"model": "tiny"})"),
               Status(StatusCode::kBusy, "turns run", "model", "model_in_use"));
  EXPECT_EQ(answer.status, 409);
  EXPECT_EQ(Json::parse(answer.body)["error"]["code"], "model_in_use");
  EXPECT_THAT(changes, ElementsAre("load large", "unload large", "unload tiny"));
}

TEST_F(ModelChangesTest, RequiresTheScopeAdmin) {
  for (const char* path : {"/models/load", "/models/unload"}) {
    const HttpResponse answer = Send(path, R"({"model": "large"})", Scopes::Chat());
    EXPECT_EQ(answer.status, 404);
    EXPECT_THAT(answer.body, HasSubstr("There is nothing at POST"));
  }
  EXPECT_THAT(changes, IsEmpty());
}

TEST_F(ModelChangesTest, RefusesHostileBodies) {
  const std::tuple<const char*, int, const char*> cases[] = {
      {"", 400, "invalid_json"},
      {"{\"model\"", 400, "invalid_json"},
      {"[]", 400, "invalid_type"},
      {"{}", 400, "missing_required_parameter"},
      {R"({"model": ""})", 400, "missing_required_parameter"},
      {R"({"model": null})", 400, "missing_required_parameter"},
      {R"({"model": ["large"]})", 400, "invalid_type"},
      {R"({"model": 5})", 400, "invalid_type"},
      {R"({"model": "../large"})", 404, "model_not_found"},
      {R"({"model": "large\u0000"})", 404, "model_not_found"},
      {R"({"model": "broken"})", 400, "model_unsupported"},
  };
  for (const auto& [body, status, code] : cases) {
    for (const char* path : {"/models/load", "/models/unload"}) {
      const HttpResponse answer = Send(path, body);
      EXPECT_EQ(answer.status, status) << path << body;
      EXPECT_EQ(CodeOf(answer), code) << path << body;
    }
  }
  EXPECT_EQ(Send("/models/load", R"({"model": ")" + std::string(1 << 20, 'x') + "\"}").status, 404);
  EXPECT_THAT(changes, IsEmpty());
}

TEST_F(ModelChangesTest, LoadedModelWithoutAFileCanBeUnloaded) {
  EXPECT_EQ(CodeOf(Send("/models/load", R"({"model": "gone"})")), "model_not_found");
  EXPECT_EQ(CodeOf(Send("/models/unload", R"({"model": "left"})")), "model_not_found");
  EXPECT_EQ(End(Send("/models/unload", R"({"model": "gone"})"), {}).status, 200);
  EXPECT_THAT(changes, ElementsAre("unload gone"));
}

TEST_F(ModelChangesTest, ReportsIgnoredFields) {
  const HttpResponse waiting = Send("/models/load", R"({"model": "large", "extra": 1})");
  const auto header =
      std::ranges::find(waiting.headers, "X-Ringside-Ignored", &std::pair<std::string, std::string>::first);
  ASSERT_NE(header, waiting.headers.end());
  EXPECT_EQ(header->second, "extra");
}

TEST_F(ModelChangesTest, OllamaLoadsAndUnloadsWithoutAPrompt) {
  for (const char* path : {"/api/generate", "/api/chat"}) {
    changes.clear();
    Json answer = Json::parse(End(Send(path, R"({"model": "large"})"), {}).body);
    EXPECT_EQ(answer["done_reason"], "load");
    for (const char* none : {"0", "\"0\"", "\"0s\"", "0.0"}) {
      answer = Json::parse(End(Send(path, std::string(R"({"model": "large", "keep_alive": )") + none + "}"), {}).body);
      EXPECT_EQ(answer["done_reason"], "unload") << none;
      EXPECT_EQ(answer["model"], "large");
    }
    EXPECT_THAT(changes, ElementsAre("load large", "unload large", "unload large", "unload large", "unload large"));
    End(Send(path, R"({"model": "large", "keep_alive": "5m"})"), {});
    EXPECT_EQ(changes.back(), "load large");
    const HttpResponse busy = End(Send(path, R"({"model": "large", "keep_alive": 0})"),
                                  Status(StatusCode::kBusy, "turns run", "model", "model_in_use"));
    EXPECT_EQ(busy.status, 409);
    EXPECT_THAT(Json::parse(busy.body)["error"].get<std::string>(), HasSubstr("turns run"));
  }
}

TEST_F(ModelChangesTest, OllamaUnloadsForAdminsOnly) {
  const Scopes chat = Scopes::Chat();
  Json answer = Json::parse(Send("/api/generate", R"({"model": "large"})", chat).body);
  EXPECT_EQ(answer["done_reason"], "load");  // the first turn will
  EXPECT_FALSE(answer.contains("ringside"));
  answer = Json::parse(Send("/api/generate", R"({"model": "large", "keep_alive": 0})", chat).body);
  EXPECT_EQ(answer["ringside"]["ignored"], Json({"keep_alive"}));
  EXPECT_THAT(changes, IsEmpty());
}

TEST_F(ModelChangesTest, EveryFaceReadsItsModelFromTheBody) {
  const std::pair<const char*, const char*> faces[] = {
      {"/v1/chat/completions", R"("messages": [{"role": "user", "content": "Hi"}], "max_tokens": 99)"},
      {"/v1/completions", R"("prompt": "Hi", "max_tokens": 99)"},
      {"/v1/messages", R"("messages": [{"role": "user", "content": "Hi"}], "max_tokens": 99)"},
      {"/api/chat", R"("messages": [{"role": "user", "content": "Hi"}], "options": {"num_predict": 99})"},
      {"/api/generate", R"("prompt": "Hi", "options": {"num_predict": 99})"},
  };
  for (const auto& [path, fields] : faces) {
    const size_t before = engine.count();
    const HttpResponse held = Send(path, std::string("{\"model\": \"large\", ") + fields + "}");
    ASSERT_EQ(engine.count(), before + 1) << path;
    EXPECT_EQ(engine.last().model, "large") << path;
    EXPECT_EQ(engine.last().max_tokens, 7) << path;  // that model's limit
    engine.AnswerLast("Yo");
    for (const char* body : {"", "{\"model\": \"large\"", "[]", R"({"model": "none"})"}) {
      const HttpResponse refused = Send(path, body);
      EXPECT_GE(refused.status, 400) << path << body;
      EXPECT_EQ(Json::parse(refused.body).contains("error"), true) << path << body;
    }
    EXPECT_EQ(engine.count(), before + 1) << path;
  }
}

}  // namespace
}  // namespace ringside
