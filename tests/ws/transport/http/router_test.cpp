// Routing, the mapping of errors to HTTP, and HTTP formatting.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "ws/health.h"
#include "ws/openai/models.h"
#include "ws/transport/http/http.h"
#include "ws/transport/http/http_text.h"

namespace ringside {
namespace {

HttpResponse Ask(const Router& router, const std::string& method, const std::string& path) {
  HttpRequest request;
  request.method = method;
  request.path = path;
  return router.Route(request);
}

std::string HeaderOf(const HttpResponse& response, const std::string& name) {
  for (const auto& [key, value] : response.headers) {
    if (key == name) return value;
  }
  return "";
}

Router::Handler Join(const std::string& name) {
  return [name](const HttpRequest&, const Router::Parameters& values) {
    HttpResponse response;
    response.body = name;
    for (const std::string& value : values) response.body += "," + value;
    return response;
  };
}

TEST(RouterTest, FindsTheHandlerAndItsParameters) {
  Router router;
  router.Add("GET", "/", Join("root"));
  router.Add("GET", "/things", Join("list"));
  router.Add("POST", "/things", Join("make"));
  router.Add("GET", "/things/count", Join("count"));
  router.Add("GET", "/things/{id}", Join("get"));
  router.Add("GET", "/things/{id}/parts/{part}", Join("part"));
  EXPECT_EQ(Ask(router, "GET", "/").body, "root");
  EXPECT_EQ(Ask(router, "GET", "/things").body, "list");
  EXPECT_EQ(Ask(router, "POST", "/things").body, "make");
  EXPECT_EQ(Ask(router, "GET", "/things/count").body, "count");  // the first match, in the order of Add
  EXPECT_EQ(Ask(router, "GET", "/things/a b").body, "get,a b");
  EXPECT_EQ(Ask(router, "GET", "/things/x/parts/y").body, "part,x,y");
  EXPECT_EQ(Ask(router, "HEAD", "/things").body, "list");
}

TEST(RouterTest, NamesThePathThatAWrongBaseUrlMisses) {
  Router router;
  router.Add("POST", "/v1/chat/completions", Join("chat"));
  router.Add("POST", "/api/chat", Join("ollama"));
  router.Add("POST", "/v1/admin", Join("admin"), Scopes::Admin());
  router.Add("POST", "/v1/things/import", Join("import"), Scopes::Admin());
  router.Add("POST", "/v1/things/{id}", Join("post"));
  const auto message = [&](const std::string& method, const std::string& path) {
    HttpRequest request;
    request.method = method;
    request.path = path;
    request.scopes = Scopes::Chat();
    return nlohmann::json::parse(router.Route(request).body)["error"]["message"].get<std::string>();
  };
  EXPECT_EQ(message("POST", "/chat/completions"),
            "There is nothing at POST /chat/completions. Check the base URL: /v1/chat/completions exists.");
  EXPECT_EQ(message("POST", "/v1/v1/chat/completions"),
            "There is nothing at POST /v1/v1/chat/completions. Check the base URL: /v1/chat/completions exists.");
  EXPECT_EQ(message("POST", "/v1/api/chat"),
            "There is nothing at POST /v1/api/chat. Check the base URL: /api/chat exists.");
  EXPECT_EQ(message("GET", "/chat/completions"), "There is nothing at GET /chat/completions.");
  // Not for this key.
  EXPECT_EQ(message("POST", "/admin"), "There is nothing at POST /admin.");
  EXPECT_EQ(message("POST", "/things/import"), "There is nothing at POST /things/import.");
}

TEST(RouterTest, AnswersReadsAndListedRoutesWhileDraining) {
  Router router;
  router.Add("POST", "/things/import", Join("import"));
  router.Add("GET", "/things/{id}", Join("get"));
  router.Add("POST", "/things/{id}", Join("post"));
  router.Add("POST", "/things/{id}/cancel", Join("cancel"));
  router.AnswerWhileDraining("POST", "/things/{id}/cancel");
  const auto answered = [&](const std::string& method, const std::string& path) {
    HttpRequest request;
    request.method = method;
    request.path = path;
    return router.IsAnsweredWhileDraining(request);
  };
  EXPECT_TRUE(answered("GET", "/things/a"));
  EXPECT_TRUE(answered("HEAD", "/things/a"));
  EXPECT_TRUE(answered("GET", "/nothing"));  // with 404
  EXPECT_TRUE(answered("POST", "/things/a/cancel"));
  EXPECT_FALSE(answered("DELETE", "/things/a/cancel"));
  EXPECT_FALSE(answered("POST", "/things/a"));
  EXPECT_FALSE(answered("POST", "/things/import"));
  EXPECT_FALSE(answered("POST", "/nothing"));
}

TEST(RouterTest, RouteIsHiddenWithoutItsScope) {
  Router router;
  router.Add("POST", "/things/all", Join("admin"), Scopes::Admin());
  router.Add("GET", "/things/{id}", Join("get"));
  router.Add("POST", "/things/{id}", Join("post"));
  router.Add("GET", "/figures", Join("figures"), Scopes::Metrics());
  router.AllowBody("/things/all", 1000);
  const auto ask = [&](const std::string& method, const std::string& path, Scopes scopes) {
    HttpRequest request;
    request.method = method;
    request.path = path;
    request.scopes = scopes;
    EXPECT_EQ(router.BodyLimit(request, 10), path == "/things/all" && scopes.Has(Scopes::Admin()) ? 1000 : 10);
    return router.Route(request);
  };
  EXPECT_EQ(ask("POST", "/things/all", Scopes::All()).body, "admin");
  for (const char* method : {"POST", "GET"}) {
    const HttpResponse hidden = ask(method, "/things/all", Scopes::Chat());
    EXPECT_EQ(hidden.status, 404) << "a verb, not an id";
    EXPECT_NE(hidden.body.find(std::string("There is nothing at ") + method + " /things/all."), std::string::npos);
  }
  EXPECT_EQ(ask("POST", "/things/other", Scopes::Chat()).body, "post,other");
  EXPECT_EQ(ask("GET", "/figures", Scopes::Metrics()).body, "figures");
  for (const Scopes scopes : {Scopes(), Scopes::Chat(), Scopes::Chat() | Scopes::Admin()}) {
    const HttpResponse hidden = ask("GET", "/figures", scopes), none = ask("GET", "/nothing", scopes);
    EXPECT_EQ(hidden.status, 404);
    EXPECT_EQ(hidden.headers, none.headers);
    EXPECT_EQ(ask("POST", "/figures", scopes).status, 404) << "no Allow tells of it";
  }
  EXPECT_EQ(ask("GET", "/things/x", Scopes::Metrics()).status, 404);
  EXPECT_EQ(ask("DELETE", "/things/x", Scopes::Metrics()).status, 404);
  EXPECT_EQ(router.Describe(), (std::vector<std::string>{"POST /things/all admin", "GET /things/{id} chat",
                                                         "POST /things/{id} chat", "GET /figures metrics"}));
}

TEST(RouterTest, RefusesUnknownInput) {
  Router router;
  router.Add("GET", "/things/{id}", Join("get"));
  router.Add("DELETE", "/things/{id}", Join("delete"));
  for (const char* path : {"/", "/thing/x", "/things", "/things/", "/things/x/", "/things/x/y", "//things/x", ""}) {
    EXPECT_EQ(Ask(router, "GET", path).status, 404) << path;
  }
  const HttpResponse response = Ask(router, "PATCH", "/things/x");
  EXPECT_EQ(response.status, 405);
  EXPECT_EQ(HeaderOf(response, "Allow"), "GET, DELETE");
}

TEST(RouterTest, FindsQueryParametersAndHeaders) {
  HttpRequest request;
  request.query = {{"a", "1"}, {"b", ""}, {"a", "2"}};
  request.headers = {{"host", "x"}};
  EXPECT_EQ(request.Query("a"), "1");
  EXPECT_EQ(request.Query("c"), "");
  EXPECT_EQ(request.Header("host"), "x");
  EXPECT_EQ(request.Header("origin"), "");
}

TEST(ErrorMapTest, EveryCodeHasAWireName) {
  const std::pair<StatusCode, int> expected[] = {
      {StatusCode::kInvalidArgument, 400}, {StatusCode::kNotFound, 404},  {StatusCode::kBusy, 409},
      {StatusCode::kOverloaded, 429},      {StatusCode::kCancelled, 409}, {StatusCode::kCorruption, 500},
      {StatusCode::kMismatch, 409},        {StatusCode::kIo, 500},        {StatusCode::kUnavailable, 503}};
  for (const auto& [code, http_status] : expected) {
    const WireError wire = MapStatus(Status(code, "m"));
    EXPECT_EQ(wire.http_status, http_status) << StatusCodeName(code);
    EXPECT_NE(wire.type, "");
    EXPECT_NE(wire.code, "");
  }
}

TEST(ErrorMapTest, ReasonSetsCodeAndMayChangeStatus) {
  EXPECT_EQ(MapStatus(InvalidArgument("m", "input", "context_length_exceeded")).code, "context_length_exceeded");
  EXPECT_EQ(MapStatus(InvalidArgument("m", "input", "context_length_exceeded")).http_status, 400);
  EXPECT_EQ(MapStatus(NotFound("m", "", "previous_response_not_found")).http_status, 400);
  EXPECT_EQ(MapStatus(NotFound("m", "model", "model_not_found")).http_status, 404);
  EXPECT_EQ(MapStatus(InvalidArgument("m", "", "invalid_api_key")).http_status, 401);
}

TEST(RouterTest, PathWordsAreNotIds) {
  Router router;
  router.Add("POST", "/things/import", [](const HttpRequest&, const Router::Parameters&) { return HttpResponse(); });
  router.Add("GET", "/things/{id}", [](const HttpRequest&, const Router::Parameters&) { return HttpResponse(); });
  EXPECT_EQ(Ask(router, "POST", "/things/import").status, 200);
  EXPECT_EQ(Ask(router, "GET", "/things/x").status, 200);
  const HttpResponse refused = Ask(router, "GET", "/things/import");
  EXPECT_EQ(refused.status, 405);
  EXPECT_EQ(HeaderOf(refused, "Allow"), "POST");
}

TEST(ErrorMapTest, RevealsNoHostDetails) {
  const std::string path = "journal: /var/lib/secret/000012.log: No space left on device";
  EXPECT_EQ(ErrorResponse(IoError(path)).status, 500);
  EXPECT_EQ(ErrorResponse(IoError(path)).body.find("secret"), std::string::npos);
  EXPECT_EQ(ErrorResponse(Corruption(path)).body.find("secret"), std::string::npos);
  const Status failed(StatusCode::kIo, "The disk has failed.", "", "storage_failed");
  EXPECT_EQ(ErrorResponse(failed).status, 503);
  EXPECT_EQ(nlohmann::json::parse(ErrorResponse(failed).body)["error"]["message"], "The disk has failed.");
}

TEST(ErrorMapTest, LimitsQuotedInput) {
  const WireError wire = MapStatus(InvalidArgument(std::string(4 << 20, 'm'), std::string(4 << 20, 'p')));
  EXPECT_LT(wire.message.size() + wire.param.size(), 1'000u);
  // A character is not cut in two.
  const std::string characters = MapStatus(InvalidArgument("x" +
                                                           [] {
                                                             std::string text;
                                                             for (int i = 0; i < 1000; ++i) text += "\xC3\xA4";
                                                             return text;
                                                           }()))
                                     .message;
  EXPECT_EQ(nlohmann::json(characters).dump().find("\xEF\xBF\xBD"), std::string::npos);
}

TEST(ErrorMapTest, BodiesHaveTheStandardFormat) {
  const HttpResponse response = ErrorResponse(InvalidArgument("No \"x\" \xff here", "input"));
  const auto error = nlohmann::json::parse(response.body)["error"];
  EXPECT_EQ(error["type"], "invalid_request_error");
  EXPECT_EQ(error["param"], "input");
  EXPECT_EQ(error["code"], "invalid_value");
  EXPECT_NE(error["message"].get<std::string>().find("No \"x\""), std::string::npos);
  EXPECT_TRUE(nlohmann::json::parse(ErrorResponse(Unavailable("m")).body)["error"]["param"].is_null());
}

TEST(ErrorMapTest, ReportsWhetherARetryHelps) {
  EXPECT_EQ(HeaderOf(ErrorResponse(Overloaded("m")), "Retry-After"), "1");
  EXPECT_EQ(HeaderOf(ErrorResponse(Unavailable("m")), "Retry-After"), "1");
  const HttpResponse later = ErrorResponse(Overloaded("m"), 2'001);
  EXPECT_EQ(HeaderOf(later, "Retry-After"), "3");
  EXPECT_EQ(HeaderOf(later, "retry-after-ms"), "2001");
  EXPECT_EQ(HeaderOf(ErrorResponse(InvalidArgument("m"), 2'001), "Retry-After"), "");
  const Status full(StatusCode::kUnavailable, "m", "", "storage_full");
  EXPECT_EQ(ErrorResponse(full).status, 507);
  EXPECT_EQ(HeaderOf(ErrorResponse(full), "Retry-After"), "1");
  const Status taken(StatusCode::kBusy, "m", "", "superseded");
  EXPECT_EQ(ErrorResponse(taken).status, 409);
  EXPECT_EQ(HeaderOf(ErrorResponse(taken), "Retry-After"), "");
  EXPECT_EQ(HeaderOf(ErrorResponse(taken), "x-should-retry"), "false");
  const Status damaged(StatusCode::kCorruption, "m", "conversation", "session_damaged");
  EXPECT_EQ(ErrorResponse(damaged).status, 500);
  EXPECT_EQ(HeaderOf(ErrorResponse(damaged), "x-should-retry"), "false");
  EXPECT_EQ(HeaderOf(ErrorResponse(Status(StatusCode::kBusy, "m")), "Retry-After"), "1");
  EXPECT_EQ(HeaderOf(ErrorResponse(Mismatch("m")), "x-should-retry"), "false");
  EXPECT_EQ(HeaderOf(ErrorResponse(IoError("m")), "x-should-retry"), "false");
  EXPECT_TRUE(ErrorResponse(InvalidArgument("m")).headers.empty());
}

TEST(HttpTextTest, ParsesTargets) {
  const auto target = ParseTarget("/a%20b/c?x=1&y=%26+z&flag&&empty=#fragment");
  ASSERT_TRUE(target.has_value());
  EXPECT_EQ(target->path, "/a b/c");
  using Pair = std::pair<std::string, std::string>;
  EXPECT_EQ(target->query, std::vector<Pair>({{"x", "1"}, {"y", "& z"}, {"flag", ""}, {"empty", ""}}));
  EXPECT_EQ(ParseTarget("/a+b")->path, "/a+b");
  EXPECT_EQ(ParseTarget("http://host:1/p?q=1")->path, "/p");
  for (const char* bad : {"", "a", "*", "/%", "/%4", "/%zz", "/%00", "/?a=%0", "http://host"}) {
    EXPECT_FALSE(ParseTarget(bad).has_value()) << bad;
  }
}

TEST(HttpTextTest, AmbiguousEscapesMatchNoRoute) {
  for (const char* written : {"/v1%2fmodels", "/v1%2Fmodels", "/v1%5cmodels", "/%2e%2e/a", "/a%252fb", "/a%0d%0ab",
                              "/%761/models", "/a%7fb"}) {
    EXPECT_EQ(ParseTarget(written)->path, written);
  }
  EXPECT_EQ(ParseTarget("/a%3ab%C3%A4%20")->path, "/a:b\xC3\xA4 ");
  for (const char* bad : {"/%", "/a%2", "/%2%66", "/%00", "/%u002f", "/%-1"}) {
    EXPECT_FALSE(ParseTarget(bad).has_value()) << bad;
  }
}

TEST(HttpTextTest, DisablesProxyBufferingForStreams) {
  HttpResponse stream, lines, whole;
  stream.content_type = "text/event-stream";
  stream.stream = [](const std::shared_ptr<Outbox>& outbox) { return outbox; };
  lines.content_type = "application/x-ndjson";
  for (const HttpResponse& response : {stream, lines}) {
    const std::string head = WriteHead(response, {.body = AnswerStyle::Body::kChunks});
    EXPECT_NE(head.find("X-Accel-Buffering: no\r\n"), std::string::npos);
    EXPECT_NE(head.find("Cache-Control: no-cache, no-store\r\n"), std::string::npos);
  }
  EXPECT_EQ(WriteHead(whole, {}).find("X-Accel-Buffering"), std::string::npos);
  EXPECT_NE(WriteHead(whole, {}).find("Cache-Control: no-store\r\n"), std::string::npos);
}

TEST(HttpTextTest, PreventsHeaderInjection) {
  HttpResponse response;
  response.headers = {{"X-Good", "1"}, {"X-Bad", "1\r\nSet-Cookie: a"}};
  response.body = "b";
  const std::string text = WriteAnswer(response, {.request_id = "r"});
  EXPECT_NE(text.find("X-Good: 1\r\n"), std::string::npos);
  EXPECT_EQ(text.find("Set-Cookie"), std::string::npos);
  EXPECT_TRUE(text.ends_with("\r\n\r\nb"));
}

TEST(ModelsTest, ListsTheModel) {
  Router router;
  SamplingParams sampling;
  sampling.top_p = 0.9;
  AddModelRoutes(router, {"owner/name", 1234, 4096, sampling, 64, {}, 9999, 4092, 256});
  const auto list = nlohmann::json::parse(Ask(router, "GET", "/v1/models").body);
  EXPECT_EQ(list["object"], "list");
  ASSERT_EQ(list["data"].size(), 1u);
  EXPECT_EQ(list["data"][0]["id"], "owner/name");
  EXPECT_EQ(list["data"][0]["object"], "model");
  EXPECT_EQ(list["data"][0]["created"], 1234);
  EXPECT_EQ(list["data"][0]["max_model_len"], 4096);
  EXPECT_EQ(list["data"][0]["max_input_tokens"], 4096);
  EXPECT_EQ(list["data"][0]["ringside"]["session_len"], 9999);
  EXPECT_EQ(list["data"][0]["ringside"]["max_request_bytes"], 4 << 20);
  EXPECT_EQ(list["data"][0]["defaults"]["top_p"], 0.9);
  EXPECT_EQ(list["data"][0]["defaults"]["max_output_tokens"], 64);
  EXPECT_EQ(nlohmann::json::parse(Ask(router, "GET", "/v1/models/owner/name").body), list["data"][0]);
  EXPECT_EQ(nlohmann::json::parse(Ask(router, "GET", "/v1/models/owner%2Fname").body), list["data"][0]);
  EXPECT_EQ(Ask(router, "GET", "/v1/models/owner%5Cname").status, 404);
  const HttpResponse missing = Ask(router, "GET", "/v1/models/other");
  EXPECT_EQ(missing.status, 404);
  EXPECT_EQ(nlohmann::json::parse(missing.body)["error"]["code"], "model_not_found");
}

TEST(HealthTest, IsLiveImmediatelyAndReadyWhenSet) {
  Health health("loading");
  Service service;
  AddHealthRoutes(service, health);
  std::string trouble;
  const auto ready = [&] { return Ask(service.router, "GET", "/readyz").status; };
  for (const char* path : {"/healthz", "/livez", "/v2/health/live"}) {
    EXPECT_EQ(Ask(service.router, "GET", path).status, 200) << path;
    EXPECT_TRUE(service.open_paths.contains(path));
  }
  EXPECT_EQ(ready(), 503);
  EXPECT_EQ(nlohmann::json::parse(Ask(service.router, "GET", "/health").body)["reason"], "loading");
  health.SetReady([&] { return trouble; });
  for (const char* path : {"/readyz", "/health", "/v2/health/ready"}) {
    EXPECT_EQ(Ask(service.router, "GET", path).status, 200) << path;
  }
  trouble = "the disk is full";
  EXPECT_EQ(ready(), 503);
  EXPECT_EQ(health.NotReadyReason(), trouble);
  trouble.clear();
  EXPECT_EQ(ready(), 200);
  EXPECT_EQ(Ask(service.router, "GET", "/readyz").body, R"({"status":"ok"})");
  health.SetStored({.conversations = 3, .chains = 1, .damaged = 2, .checked = true});
  EXPECT_EQ(
      nlohmann::json::parse(Ask(service.router, "GET", "/readyz").body),
      nlohmann::json::parse(R"({"status":"ok","stored":{"conversations":3,"chains":1,"damaged":2,"checked":true}})"));
  health.SetNotReady("stopping");
  EXPECT_EQ(ready(), 503);
  EXPECT_EQ(health.NotReadyReason(), "stopping");
}

}  // namespace
}  // namespace ringside
