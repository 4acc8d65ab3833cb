// The stateless APIs on a scripted engine: tests send requests as the transport would, and read answers as a client
// would.
#pragma once

#include "tests/ws/openai/responses_fixture.h"
#include "ws/chat/chat_routes.h"

namespace ringside {

class ChatTest : public ::testing::Test, protected TableFixture {
 protected:
  explicit ChatTest(SessionTableOptions options = TableFixture::Options(), const std::string& family = "chatml")
      : TableFixture(std::move(options), family) {
    RegisterChatRoutes(router,
                       {.table = table,
                        .retry_after_ms = [](const std::string&) { return int64_t{1500}; },
                        .run_on_worker =
                            [this](const std::string&, size_t, const std::function<void()>& call) {
                              if (workers.ok()) call();
                              return workers;
                            }},
                       {.version = "1.2", .created = 1000.5});
  }

  HttpResponse Call(std::string method, std::string path, const std::string& body = "",
                    const std::string& principal = "me") {
    HttpRequest request;
    request.method = std::move(method);
    request.path = std::move(path);
    request.body = body;
    request.principal = principal;
    return router.Route(request);
  }
  HttpResponse Post(std::string path, const Json& body, const std::string& principal = "me") {
    return Call("POST", std::move(path), body.dump(), principal);
  }
  /// The answer that has arrived by now.
  static HttpResponse Late(const HttpResponse& response) {
    EXPECT_NE(response.later, nullptr) << response.body;
    if (response.later == nullptr) return response;
    bool given = false;
    response.later->Await([&] { given = true; });
    EXPECT_TRUE(given);
    return given ? response.later->Take()() : HttpResponse{};
  }
  static Json Whole(const HttpResponse& response) {
    const HttpResponse late = Late(response);
    EXPECT_EQ(late.status, 200) << late.body;
    return Json::parse(late.body);
  }
  static Json ErrorOf(const HttpResponse& response, int status) {
    EXPECT_EQ(response.status, status) << response.body;
    EXPECT_EQ(response.later, nullptr);
    return Json::parse(response.body).value("error", Json());
  }
  static Json User(const std::string& text) { return {{"role", "user"}, {"content", text}}; }
  static Json Assistant(const std::string& text) { return {{"role", "assistant"}, {"content", text}}; }

  Status workers;
  Router router;
};

/// A streamed answer, read as by its connection.
class ChatStream {
 public:
  explicit ChatStream(HttpResponse response)
      : response_(std::move(response)), outbox_(std::make_shared<Outbox>([] {})) {
    EXPECT_EQ(response_.status, 200) << response_.body;
    EXPECT_NE(response_.stream, nullptr) << response_.body;
    if (response_.stream) source_ = response_.stream(outbox_);
  }
  /// The text received since the last call.
  std::string Text() {
    std::string all;
    while (std::optional<std::string> text = outbox_->Take()) all += *text;
    return all;
  }
  /// As Text(), parsed as the JSON of data lines; a [DONE] becomes the string "done".
  std::vector<Json> Events() {
    std::vector<Json> events;
    std::string rest = Text();
    for (size_t end = rest.find("\n\n"); !rest.empty(); end = rest.find("\n\n")) {
      EXPECT_NE(end, std::string::npos) << rest;
      const size_t data = rest.find("data: ");
      const std::string json = rest.substr(data + 6, end - data - 6);
      events.push_back(json == "[DONE]" ? Json("done") : Json::parse(json));
      rest.erase(0, end + 2);
    }
    return events;
  }
  bool Ended() {
    const auto close = outbox_->TakeClose();
    return close && close->code == Outbox::kEndOfBody;
  }
  /// The client disconnects.
  void Leave() {
    outbox_->Detach();
    source_.reset();
    response_ = {};
  }

 private:
  HttpResponse response_;
  std::shared_ptr<Outbox> outbox_;
  std::shared_ptr<void> source_;
};

}  // namespace ringside
