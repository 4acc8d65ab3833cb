// HTTP answers that arrive after the handler has returned, over a real socket.
#include <sys/resource.h>

#include "tests/ws/transport/transport_fixture.h"

namespace ringside::testing {
namespace {

using std::chrono::milliseconds;

class TransportLateTest : public TransportTest {
 protected:
  TransportLateTest() {
    options_.io_threads = 1;
    options_.worker_threads = 2;
  }
  /// /late is answered with the LateAnswer that its request receives; /at-once before its handler has returned.
  void StartLate() {
    auto service = MakeService();
    service->router.Add("GET", "/late", [this](const HttpRequest&, const Router::Parameters&) {
      HttpResponse response;
      response.later = std::make_shared<LateAnswer>();
      response.held = std::shared_ptr<void>(this, [](TransportLateTest* test) {
        {
          std::lock_guard lock(test->seen_.mutex);
          ++test->seen_.closed;
        }
        test->seen_.changed.notify_all();
      });
      {
        std::lock_guard lock(seen_.mutex);
        answers_.push_back(response.later);
      }
      seen_.changed.notify_all();
      return response;
    });
    service->router.Add("GET", "/at-once", [](const HttpRequest&, const Router::Parameters&) {
      HttpResponse response;
      response.later = std::make_shared<LateAnswer>();
      response.headers.emplace_back("X-Early", "known at once");
      response.later->Give([] { return Whole("at once"); });
      return response;
    });
    Start(std::move(service));
  }
  static HttpResponse Whole(std::string body, int status = 200) {
    HttpResponse response;
    response.status = status;
    response.body = std::move(body);
    return response;
  }
  static std::string Request(const std::string& method = "GET", const std::string& version = "1.1") {
    return method + " /late HTTP/" + version + "\r\nHost: 127.0.0.1\r\n\r\n";
  }
  /// The pending answer of request number `index`.
  std::shared_ptr<LateAnswer> WaitAnswer(size_t index = 0) {
    std::unique_lock lock(seen_.mutex);
    seen_.changed.wait_for(lock, std::chrono::seconds(60), [&] { return answers_.size() > index; });
    return answers_.at(index);
  }
  int closed() {
    std::lock_guard lock(seen_.mutex);
    return seen_.closed;
  }

  std::vector<std::shared_ptr<LateAnswer>> answers_;
};

TEST_F(TransportLateTest, LateAnswerIsWrittenAndTheConnectionContinues) {
  StartLate();
  WireClient client(port());
  client.Send(Request());
  const auto late = WaitAnswer();
  EXPECT_EQ(closed(), 0);
  late->Give([] { return Whole("so it was", 201); });
  late->Give([] { return Whole("the second is not heard"); });
  const auto answer = client.ReadAnswer();
  ASSERT_TRUE(answer.has_value());
  EXPECT_EQ(answer->status, 201);
  EXPECT_EQ(answer->body, "so it was");
  EXPECT_EQ(answer->Header("connection"), "keep-alive");
  EXPECT_TRUE(WaitClosed(1));
  EXPECT_EQ(client.Get("/hello")->body, "hello");
  const auto at_once = client.Get("/at-once");
  EXPECT_EQ(at_once->body, "at once");
  EXPECT_EQ(at_once->Header("x-early"), "known at once") << "headers of the handler are added to the answer";
  EXPECT_EQ(client.Get("/hello")->body, "hello");
}

TEST_F(TransportLateTest, PipelinedRequestsAreAnsweredAfterwards) {
  StartLate();
  WireClient client(port());
  const std::string hello = "GET /hello HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n";
  client.Send(Request());
  const auto late = WaitAnswer();
  client.Send(hello + Request() + hello);
  late->Give([] { return Whole("first"); });
  EXPECT_EQ(client.ReadAnswer()->body, "first");
  EXPECT_EQ(client.ReadAnswer()->body, "hello");
  WaitAnswer(1)->Give([] { return Whole("third"); });
  EXPECT_EQ(client.ReadAnswer()->body, "third");
  EXPECT_EQ(client.ReadAnswer()->body, "hello");
}

TEST_F(TransportLateTest, ExcessInputStaysInTheSocketBuffer) {
  StartLate();
  WireClient client(port());
  client.Send(Request());
  const auto late = WaitAnswer();
  std::string body(100'000, 'x');
  client.Send("POST /echo/1 HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\n" + body);
  late->Give([] { return Whole("first"); });
  EXPECT_EQ(client.ReadAnswer()->body, "first");
  EXPECT_EQ(client.ReadAnswer()->body, "1||" + body);
}

TEST_F(TransportLateTest, DetectsALeavingPeer) {
  StartLate();
  {
    WireClient client(port());
    client.Send(Request());
    WaitAnswer();
  }
  EXPECT_TRUE(WaitClosed(1));
  WaitAnswer()->Give([]() -> HttpResponse { throw std::runtime_error("nobody asks for this"); });
  ExpectAlive();
}

TEST_F(TransportLateTest, Http10AndHeadRequests) {
  StartLate();
  WireClient old(port()), head(port());
  old.Send(Request("GET", "1.0"));
  WaitAnswer(0)->Give([] { return Whole("all of it"); });
  EXPECT_EQ(old.ReadAnswer()->Header("connection"), "close");
  EXPECT_TRUE(old.PeerCloses());
  head.Send(Request("HEAD"));
  WaitAnswer(1)->Give([] { return Whole("all of it"); });
  EXPECT_EQ(head.ReadAnswer(true)->Header("content-length"), "9");
  EXPECT_EQ(head.Get("/hello")->body, "hello");
}

TEST_F(TransportLateTest, FailedResponseIsAServerError) {
  StartLate();
  WireClient client(port());
  client.Send(Request());
  WaitAnswer()->Give([]() -> HttpResponse { throw std::runtime_error("no answer"); });
  const auto answer = client.ReadAnswer();
  EXPECT_EQ(answer->status, 500);
  EXPECT_EQ(ErrorCode(answer->body), "server_error");
  EXPECT_EQ(client.Get("/hello")->body, "hello");
}

TEST_F(TransportLateTest, ThousandWaitingClientsBlockNobody) {
  constexpr int kWaiting = 1'000;
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = std::min<rlim_t>(files.rlim_max, 4 * kWaiting);
  setrlimit(RLIMIT_NOFILE, &files);
  ASSERT_GT(files.rlim_cur, 2 * kWaiting + 64U);
  options_.max_connections = kWaiting + 64;
  StartLate();
  std::vector<std::unique_ptr<WireClient>> clients;
  for (int i = 0; i < kWaiting; ++i) {
    clients.push_back(std::make_unique<WireClient>(port()));
    clients.back()->Send(Request());
  }
  WaitAnswer(kWaiting - 1);
  ExpectAlive();
  for (int i = 0; i < kWaiting; ++i) WaitAnswer(i)->Give([] { return Whole("done"); });
  for (const auto& client : clients) EXPECT_EQ(client->ReadAnswer()->body, "done");
  EXPECT_TRUE(WaitClosed(kWaiting));
}

TEST_F(TransportLateTest, DrainWaitsForTheAnswerAndStopDoesNot) {
  StartLate();
  WireClient first(port()), second(port());
  first.Send(Request());
  WaitAnswer(0);
  second.Send(Request());
  WaitAnswer(1);
  while (server_->open_sockets() < 2) std::this_thread::yield();  // the handlers have returned
  server_->Drain("draining");
  WaitAnswer(0)->Give([] { return Whole("in time"); });
  const auto answer = first.ReadAnswer();
  EXPECT_EQ(answer->body, "in time");
  EXPECT_EQ(answer->Header("connection"), "close");
  EXPECT_TRUE(first.PeerCloses());
  std::thread stop([&] { server_->Stop(milliseconds(60'000)); });
  const auto refusal = second.ReadAnswer();
  ASSERT_TRUE(refusal.has_value());
  EXPECT_EQ(refusal->status, 503);
  EXPECT_NE(refusal->Header("retry-after"), "");
  EXPECT_TRUE(WaitClosed(2));
  stop.join();
}

TEST_F(TransportLateTest, StopReleasesEverything) {
  StartLate();
  WireClient client(port());
  client.Send(Request());
  WaitAnswer();
  server_->Stop(milliseconds(0));
  EXPECT_EQ(closed(), 1);
}

}  // namespace
}  // namespace ringside::testing
