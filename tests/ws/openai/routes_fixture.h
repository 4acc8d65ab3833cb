// The routes of conversations and responses on a scripted engine: tests send requests as the transport would.
#pragma once

#include "tests/ws/openai/responses_fixture.h"
#include "ws/openai/conversations.h"

namespace ringside {

class RoutesTest : public ResponsesTest {
 protected:
  explicit RoutesTest(const std::string& family = "chatml") : ResponsesTest(family) {
    RegisterConversationRoutes(router, table);
    RegisterResponseRoutes(router, table);
  }
  HttpResponse Call(std::string method, std::string path, Json body = nullptr, std::string principal = "me",
                    std::vector<std::pair<std::string, std::string>> headers = {}) {
    HttpRequest request;
    request.headers = std::move(headers);
    request.method = std::move(method);
    if (const size_t query = path.find('?'); query != std::string::npos) {
      std::string rest = path.substr(query + 1);
      path.resize(query);
      while (!rest.empty()) {
        const size_t end = std::min(rest.find('&'), rest.size());
        const size_t equals = rest.find('=');
        request.query.emplace_back(rest.substr(0, equals), rest.substr(equals + 1, end - equals - 1));
        rest.erase(0, std::min(end + 1, rest.size()));
      }
    }
    request.path = std::move(path);
    if (!body.is_null()) request.body = body.is_string() ? body.get<std::string>() : body.dump();
    request.principal = std::move(principal);
    return router.Route(request);
  }
  /// The answer to a waiting request, if it has arrived; otherwise status 0.
  static HttpResponse Come(const HttpResponse& waiting) {
    HttpResponse answer;
    answer.status = 0;
    EXPECT_NE(waiting.later, nullptr) << waiting.body;
    if (waiting.later == nullptr) return answer;
    const auto given = std::make_shared<bool>(false);
    waiting.later->Await([given] { *given = true; });
    return *given ? waiting.later->Take()() : answer;
  }
  Json Ok(const HttpResponse& response) {
    if (response.later != nullptr) return Ok(Come(response));
    EXPECT_EQ(response.status, 200) << response.body;
    return Json::parse(response.body);
  }
  void Fails(const HttpResponse& response, int status, const std::string& code, const Json& param) {
    EXPECT_EQ(response.status, status) << response.body;
    const Json error = Json::parse(response.body)["error"];
    EXPECT_EQ(error["code"], code) << error;
    EXPECT_EQ(error["param"], param) << error;
    EXPECT_TRUE(error["message"].is_string() && error["type"].is_string());
  }
  static Json Message(const std::string& role, const std::string& text) {
    return {{"type", "message"}, {"role", role}, {"content", text}};
  }

  Router router;
};

/// A streaming HTTP answer, read as by its connection: events as JSON, from data lines.
class StreamedAnswer {
 public:
  explicit StreamedAnswer(const HttpResponse& response) : outbox(std::make_shared<Outbox>([] {})) {
    EXPECT_EQ(response.status, 200) << response.body;
    EXPECT_EQ(response.content_type, "text/event-stream");
    EXPECT_TRUE(response.stream != nullptr);
    if (response.stream) source = response.stream(outbox);
  }

  /// The events since the last call.
  std::vector<Json> Events() {
    std::vector<Json> events;
    while (std::optional<std::string> text = outbox->Take()) {
      EXPECT_TRUE(text->ends_with("\n\n")) << *text;
      EXPECT_FALSE(done) << "after the end: " << *text;
      const size_t data = text->find("data: ");
      done = *text == "data: [DONE]\n\n";
      if (done || data == std::string::npos) continue;
      events.push_back(Json::parse(text->substr(data + 6)));
      EXPECT_EQ(text->substr(0, data), "event: " + events.back()["type"].get<std::string>() + "\n");
    }
    return events;
  }

  std::shared_ptr<Outbox> outbox;
  std::shared_ptr<void> source;
  bool done = false;  // [DONE] has arrived
};

}  // namespace ringside
