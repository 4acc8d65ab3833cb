// Names of the served model: its own, aliases, and other models' names.
#include "tests/ws/openai/routes_fixture.h"
#include "ws/fields/common_fields.h"
#include "ws/openai/models.h"

namespace ringside {
namespace {

TEST(ModelNames, AliasIsANameOrAPrefix) {
  const std::vector<std::string> aliases = {"gpt-4o", "claude-*"};
  for (const char* name : {"gpt-4o", "claude-", "claude-opus-4"}) EXPECT_TRUE(IsAlias(name, aliases)) << name;
  for (const char* name : {"gpt-4", "gpt-4o-mini", "claude", "Claude-x", ""})
    EXPECT_FALSE(IsAlias(name, aliases)) << name;
  EXPECT_TRUE(IsAlias("anything", {"*"}));
  EXPECT_FALSE(IsAlias("anything", {}));
}

class AliasedModel : public ::testing::Test, protected TableFixture {
 protected:
  AliasedModel() : TableFixture(Options()) {
    RegisterResponseRoutes(router, table);
    AddModelRoutes(router, ServedModelOf(table.options(), 1234));
  }
  static SessionTableOptions Options() {
    SessionTableOptions options = TableFixture::Options();
    options.aliases = {"gpt-4o", "claude-*"};
    options.adapters = {"claude-x"};
    return options;
  }
  HttpResponse Call(const std::string& method, const std::string& path, const Json& body = nullptr) {
    HttpRequest request;
    request.method = method;
    request.path = path;
    request.principal = "me";
    if (!body.is_null()) request.body = body.dump();
    return router.Route(request);
  }
  Router router;
};

TEST_F(AliasedModel, AnswersToAliasesUnderItsOwnName) {
  TestSocket client(table);
  for (const char* name : {"tiny", "gpt-4o", "claude-opus-4"}) {
    client.Send({{"type", "response.create"}, {"model", name}, {"input", "Hi"}});
    EXPECT_EQ(engine.last().adapter, 0) << name;
    engine.AnswerLast("Yo");
    const Json response = client.Frames().back()["response"];
    EXPECT_EQ(response["model"], "tiny");
    EXPECT_FALSE(response["ringside"].contains("ignored"));
  }
  client.Send({{"type", "response.create"}, {"model", "claude-x"}, {"input", "Hi"}});
  EXPECT_EQ(engine.last().adapter, 1) << "an adapter of that name comes first";
  client.Send({{"type", "response.create"}, {"model", "gpt-4o-mini"}, {"input", "Hi"}});
  EXPECT_EQ(Call("POST", "/v1/responses", {{"model", "gpt-4o-mini"}, {"input", "Hi"}}).status, 404);
}

TEST_F(AliasedModel, IsListedUnderFullNameAliasesOnly) {
  std::vector<std::string> names;
  const Json list = Json::parse(Call("GET", "/v1/models").body);
  for (const Json& model : list["data"]) names.push_back(model["id"]);
  EXPECT_THAT(names, ::testing::ElementsAre("tiny", "claude-x", "gpt-4o"));
  const Json alias = Json::parse(Call("GET", "/v1/models/claude-opus-4").body);
  EXPECT_EQ(alias["id"], "claude-opus-4");
  EXPECT_EQ(alias["parent"], "tiny");
  EXPECT_EQ(Call("GET", "/v1/models/gpt-5").status, 404);
}

TEST(ModelLists, OtherServersClientsFindTheStates) {
  Router router;
  AddModelRoutes(router, [] {
    return std::vector<ServedModel>{
        {.name = "own/small", .request_len = 4096, .state = "loaded", .family = "llama", .memory_bytes = 7},
        {.name = "large", .adapters = {"sql"}, .state = "loading"},
        {.name = "broken", .state = "unsupported"}};
  });
  const auto get = [&](const std::string& path) {
    return Json::parse(router.Route({.method = "GET", .path = path}).body);
  };
  EXPECT_EQ(get("/models"), get("/v1/models"));
  EXPECT_EQ(get("/models")["data"][0]["status"]["value"], "loaded");
  EXPECT_EQ(get("/models")["data"][0]["ringside"]["memory_bytes"], 7);
  const Json list = get("/api/v0/models")["data"];
  ASSERT_EQ(list.size(), 2u);
  EXPECT_EQ(list[0], Json({{"arch", "llama"},
                           {"compatibility_type", "gguf"},
                           {"id", "own/small"},
                           {"max_context_length", 4096},
                           {"object", "model"},
                           {"publisher", "own"},
                           {"quantization", ""},
                           {"state", "loaded"},
                           {"type", "llm"}}));
  EXPECT_EQ(list[1]["state"], "not-loaded");
}

}  // namespace
}  // namespace ringside
