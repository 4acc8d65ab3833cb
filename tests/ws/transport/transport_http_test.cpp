// HTTP over a real socket: behaviour for well-behaved clients, the answer to each kind of bad request, and that the
// server survives.
#include <fmt/format.h>

#include <random>

#include "tests/ws/transport/transport_fixture.h"

namespace ringside::testing {
namespace {

using TransportHttpTest = TransportTest;

/// The status received by a client that sends a byte now and then; 0: no answer.
int AnswerToATrickle(WireClient& client) {
  std::atomic<bool> closed{false};
  std::thread trickle([&] {
    while (!closed && client.Send("x")) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  });
  const auto answer = client.ReadAnswer();
  closed = true;
  trickle.join();
  return answer ? answer->status : 0;
}

TEST_F(TransportHttpTest, AnswersAndKeepsTheConnection) {
  Start();
  WireClient client(port());
  const auto first = client.Get("/hello");
  ASSERT_TRUE(first.has_value());
  EXPECT_EQ(first->status, 200);
  EXPECT_EQ(first->body, "hello");
  EXPECT_EQ(first->Header("connection"), "keep-alive");
  const auto second = client.Get("/hello");
  ASSERT_TRUE(second.has_value());
  EXPECT_EQ(second->body, "hello");
  EXPECT_TRUE(first->Header("x-request-id").starts_with("req_"));
  EXPECT_NE(first->Header("x-request-id"), second->Header("x-request-id"));
}

TEST_F(TransportHttpTest, DecodesPathAndQueryAndReadsTheBody) {
  Start();
  WireClient client(port());
  client.Send("POST /echo/a%20b%2Fc?x=1&q=%C3%A4+%26 HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\n\r\nbody");
  EXPECT_EQ(client.ReadAnswer()->status, 404) << "an escaped slash is no part of an id";
  client.Send("POST /echo/a%20b?x=1&q=%C3%A4+%26 HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\n\r\nbody");
  EXPECT_EQ(client.ReadAnswer()->body, "a b|\xC3\xA4 &|body");
}

TEST_F(TransportHttpTest, ReadsChunkedBodies) {
  Start();
  WireClient client(port());
  client.Send("POST /echo/x HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n");
  client.Send("2\r\nde\r\n0\r\n\r\n");
  EXPECT_EQ(client.ReadAnswer()->body, "x||abcde");
}

TEST_F(TransportHttpTest, IgnoresTheExtensionsOfChunks) {
  Start();
  WireClient client(port());
  const std::string post = "POST /echo/x HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n";
  client.Send(post + "3;a=1\r\nabc\r\n2;b=\"c;\\\"d\";e\r\nde\r\n0;f\r\n\r\n");
  EXPECT_EQ(client.ReadAnswer()->body, "x||abcde");
  client.Send(post + "3;a=1\nabc\r\n0\r\n\r\n");
  EXPECT_EQ(client.ReadAnswer()->status, 400);
  EXPECT_TRUE(client.PeerCloses());
}

TEST_F(TransportHttpTest, TakenPortIsRefusedWithAdvice) {
  Start();
  options_.port = port();
  const auto second = Server::Listen(options_, MakeService(), counters_);
  ASSERT_FALSE(second.ok());
  EXPECT_NE(second.status().message().find("choose another with --port"), std::string::npos) << second.status().message();
}

TEST_F(TransportHttpTest, PathMayAllowLargerBodies) {
  options_.max_message_bytes = 1000;
  auto service = MakeService();
  service->router.AllowBody("/echo/large", 4000);
  Start(std::move(service));
  const auto post = [&](const std::string& path, size_t bytes, bool chunked) {
    WireClient client(port());
    const std::string body(bytes, 'x');
    client.Send("POST " + path + " HTTP/1.1\r\nHost: localhost\r\n" +
                (chunked ? fmt::format("Transfer-Encoding: chunked\r\n\r\n{:x}\r\n{}\r\n0\r\n\r\n", bytes, body)
                         : fmt::format("Content-Length: {}\r\n\r\n{}", bytes, body)));
    const auto answer = client.ReadAnswer();
    return answer ? answer->status : 0;
  };
  for (const bool chunked : {false, true}) {
    EXPECT_EQ(post("/echo/small", 1000, chunked), 200);
    EXPECT_EQ(post("/echo/small", 1001, chunked), 413);
    EXPECT_EQ(post("/echo/large", 4000, chunked), 200);
    EXPECT_EQ(post("/echo/large", 4001, chunked), 413);
  }
}

TEST_F(TransportHttpTest, AnswersPipelinedRequestsInOrder) {
  Start();
  WireClient client(port());
  const std::string get = " HTTP/1.1\r\nHost: localhost\r\n\r\n";
  client.Send("GET /hello" + get + "GET /healthz" + get + "GET /nothing" + get);
  EXPECT_EQ(client.ReadAnswer()->body, "hello");
  EXPECT_EQ(client.ReadAnswer()->body, "alive");
  EXPECT_EQ(client.ReadAnswer()->status, 404);
}

TEST_F(TransportHttpTest, HeadHasNoBody) {
  Start();
  WireClient client(port());
  client.Send("HEAD /hello HTTP/1.1\r\nHost: localhost\r\n\r\n");
  const auto answer = client.ReadAnswer(true);
  EXPECT_EQ(answer->status, 200);
  EXPECT_EQ(answer->Header("content-length"), "5");
  EXPECT_EQ(client.Get("/hello")->body, "hello");  // nothing was left over in between
}

TEST_F(TransportHttpTest, ClosesHttp10ConnectionsAfterTheAnswer) {
  Start();
  WireClient client(port());
  client.Send("GET /hello HTTP/1.0\r\nHost: localhost\r\n\r\n");
  EXPECT_EQ(client.ReadAnswer()->body, "hello");
  EXPECT_TRUE(client.PeerCloses());
}

TEST_F(TransportHttpTest, SendsContinueForAWaitingBody) {
  Start();
  WireClient client(port());
  client.Send("POST /echo/x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n");
  EXPECT_EQ(client.ReadAnswer()->status, 100);
  client.Send("ok");
  EXPECT_EQ(client.ReadAnswer()->body, "x||ok");
}

TEST_F(TransportHttpTest, UnknownPathsAndMethodsGetStandardErrors) {
  Start();
  WireClient client(port());
  const auto missing = client.Get("/nothing");
  EXPECT_EQ(missing->status, 404);
  EXPECT_EQ(ErrorCode(missing->body), "not_found");
  client.Send("DELETE /hello HTTP/1.1\r\nHost: localhost\r\n\r\n");
  const auto method = client.ReadAnswer();
  EXPECT_EQ(method->status, 405);
  EXPECT_EQ(method->Header("allow"), "GET");
  EXPECT_EQ(ErrorCode(method->body), "method_not_allowed");
  const auto upgrade = client.Get("/ws");
  EXPECT_EQ(upgrade->status, 426);
  EXPECT_EQ(upgrade->Header("upgrade"), "websocket");
  EXPECT_EQ(client.Upgrade("/hello")->status, 404);
}

TEST_F(TransportHttpTest, FailingHandlerFailsOneRequest) {
  Start();
  WireClient client(port());
  const auto answer = client.Get("/throw");
  EXPECT_EQ(answer->status, 500);
  EXPECT_EQ(answer->Header("x-should-retry"), "false");
  EXPECT_EQ(answer->body.find("a handler failed"), std::string::npos);
  ExpectAlive();
}

struct BadRequest {
  const char* name;
  std::string text;
  int status;
};

std::ostream& operator<<(std::ostream& out, const BadRequest& request) { return out << request.name; }

class TransportBadRequestTest : public TransportTest, public ::testing::WithParamInterface<BadRequest> {};

TEST_P(TransportBadRequestTest, IsRefusedAndTheServerSurvives) {
  options_.max_message_bytes = 1000;
  Start();
  WireClient client(port());
  client.Send(GetParam().text);
  const auto answer = client.ReadAnswer();
  ASSERT_TRUE(answer.has_value());
  EXPECT_EQ(answer->status, GetParam().status);
  EXPECT_NE(ErrorCode(answer->body), "");
  EXPECT_EQ(answer->Header("connection"), "close");
  ExpectAlive();
}

const std::string kPost = "POST /echo/x HTTP/1.1\r\nHost: localhost\r\n";

INSTANTIATE_TEST_SUITE_P(
    Kinds, TransportBadRequestTest,
    ::testing::Values(
        BadRequest{"Garbage", "\x16\x03\x01\x02 what is this?\r\n\r\n", 400},
        BadRequest{"NoHost", "GET /hello HTTP/1.1\r\n\r\n", 400},
        BadRequest{"TwoHosts", "GET /hello HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n", 400},
        BadRequest{"FutureVersion", "GET /hello HTTP/2.0\r\nHost: localhost\r\n\r\n", 400},
        BadRequest{"IdentityEncoding", kPost + "Transfer-Encoding: identity\r\n\r\n", 400},
        BadRequest{"ChunkedTwice", kPost + "Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n", 400},
        BadRequest{"OldAndChunked",
                   "POST /echo/x HTTP/1.0\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400},
        BadRequest{"ChunkedWithLength", kPost + "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n",
                   400},
        BadRequest{"TwoLengths", kPost + "Content-Length: 3\r\nContent-Length: 4\r\n\r\nabc", 400},
        BadRequest{"NegativeLength", kPost + "Content-Length: -1\r\n\r\n", 400},
        BadRequest{"HugeLength", kPost + "Content-Length: 99999999999999999999\r\n\r\n", 400},
        BadRequest{"BodyTooLong", kPost + "Content-Length: 1001\r\n\r\n" + std::string(1001, 'x'), 413},
        BadRequest{"ChunksTooLong",
                   kPost + "Transfer-Encoding: chunked\r\n\r\n3e9\r\n" + std::string(1001, 'x') + "\r\n0\r\n\r\n", 413},
        BadRequest{"BadChunkSize", kPost + "Transfer-Encoding: chunked\r\n\r\nxyz\r\n", 400},
        BadRequest{"HeadersTooLong", "GET /hello HTTP/1.1\r\nHost: localhost\r\nX: " + std::string(40'000, 'x'), 431},
        BadRequest{"PathTooLong", "GET /" + std::string(5'000, 'x') + " HTTP/1.1\r\nHost: localhost\r\n\r\n", 414},
        BadRequest{"Compressed", kPost + "Content-Encoding: gzip\r\nContent-Length: 2\r\n\r\nxx", 415},
        BadRequest{"FoldedHeader", "GET /hello HTTP/1.1\r\nHost: localhost\r\nX: a\r\n b\r\n\r\n", 400},
        BadRequest{"FoldedFirstHeader", "GET /hello HTTP/1.1\r\n\tX: a\r\nHost: localhost\r\n\r\n", 400},
        BadRequest{
            "TwoOrigins",
            "GET /hello HTTP/1.1\r\nHost: localhost\r\nOrigin: http://localhost\r\nOrigin: http://evil.example\r\n\r\n",
            400},
        BadRequest{"AbsoluteFormOfAnotherHost", "GET http://localhost:8080/hello HTTP/1.1\r\nHost: localhost\r\n\r\n",
                   400},
        BadRequest{"UnknownExpectation", kPost + "Expect: foo\r\nContent-Length: 2\r\n\r\nok", 417},
        BadRequest{"TwoExpectations", kPost + "Expect: 100-continue\r\nExpect: foo\r\nContent-Length: 2\r\n\r\nok",
                   417},
        BadRequest{"LongTrailer",
                   kPost + "Transfer-Encoding: chunked\r\n\r\n0\r\nX: " + std::string(64 << 10, 'x') + "\r\n\r\n",
                   400}),
    [](const auto& info) { return info.param.name; });

TEST_F(TransportHttpTest, RefusesBadTargets) {
  Start();
  for (const std::string target : {"/a%", "/a%2", "/a%zz", "/a%00b", "*", "hello", "http://x"}) {
    WireClient client(port());
    client.Send("GET " + target + " HTTP/1.1\r\nHost: localhost\r\n\r\n");
    const auto answer = client.ReadAnswer();
    ASSERT_TRUE(answer.has_value()) << target;
    EXPECT_EQ(answer->status, 400) << target;
  }
  WireClient client(port());
  client.Send("GET http://LOCALHOST/hello HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_EQ(client.ReadAnswer()->body, "hello");
}

TEST_F(TransportHttpTest, OutOfMemoryIsNotAClientError) {
  Start();
  WireClient client(port());
  const auto answer = client.Get("/out-of-memory");
  EXPECT_EQ(answer->status, 503);
  EXPECT_EQ(answer->Header("retry-after"), "1");
  ExpectAlive();
}

TEST_F(TransportHttpTest, ErrorsQuoteLittleOfTheRequest) {
  Start();
  WireClient client(port());
  const auto answer = client.Get("/" + std::string(3'000, 'x'));
  EXPECT_EQ(answer->status, 404);
  EXPECT_LT(answer->body.size(), 1'000u);
}

TEST_F(TransportHttpTest, AcceptsABodyOfExactlyTheLimit) {
  options_.max_message_bytes = 1000;
  Start();
  WireClient client(port());
  client.Send(kPost + "Content-Length: 1000\r\n\r\n" + std::string(1000, 'x'));
  EXPECT_EQ(client.ReadAnswer()->status, 200);
}

TEST_F(TransportHttpTest, RequestMustCompleteInTime) {
  options_.request_timeout = std::chrono::milliseconds(300);
  Start();
  WireClient client(port());
  client.Send("GET /hello HTTP/1.1\r\nHost: localhost\r\nX: ");
  EXPECT_EQ(AnswerToATrickle(client), 408);
  ExpectAlive();
}

TEST_F(TransportHttpTest, RefusesATricklingBody) {
  options_.request_timeout = std::chrono::milliseconds(500);
  Start();
  WireClient client(port());
  client.Send(kPost + "Content-Length: 1000000\r\n\r\n" + std::string(100'000, 'x'));  // this much arrived in time
  EXPECT_EQ(AnswerToATrickle(client), 408);
  ExpectAlive();
}

TEST_F(TransportHttpTest, LargeBodyDoesNotTimeOut) {
  using Clock = std::chrono::steady_clock;
  options_.request_timeout = std::chrono::milliseconds(3000);
  Start();
  const std::string piece(100'000, 'x');  // enough for more than three seconds
  int status = 0;
  for (int attempt = 0; attempt < 10 && status != 200; ++attempt) {
    WireClient client(port());
    std::string head = kPost + "Transfer-Encoding: chunked\r\n\r\n";
    const auto begun = Clock::now();
    auto last = begun;
    auto longest_pause = Clock::duration::zero();
    client.Send(head);
    while (Clock::now() - begun < options_.request_timeout * 3 / 2) {
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
      client.Send("186a0\r\n" + piece + "\r\n");
      longest_pause = std::max(longest_pause, Clock::now() - last);
      last = Clock::now();
    }
    client.Send("0\r\n\r\n");
    const auto answer = client.ReadAnswer();
    status = answer ? answer->status : 0;
    if (longest_pause < options_.request_timeout / 3)
      break;  // otherwise this machine paused, and the result is
              // meaningless
  }
  EXPECT_EQ(status, 200);
}

TEST_F(TransportHttpTest, LargeTransferDoesNotTimeOut) {
  options_.request_timeout = std::chrono::milliseconds(100);
  const std::string large(16 << 20, 'x');  // more than the kernel accepts at once
  const auto service = MakeService();
  service->router.Add("GET", "/large", [&large](const HttpRequest&, const Router::Parameters&) {
    HttpResponse response;
    response.body = large;
    return response;
  });
  Start(service);
  WireClient client(port(), 4096);
  client.Send("GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n");
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  const auto answer = client.ReadAnswer();
  ASSERT_TRUE(answer.has_value());
  EXPECT_EQ(answer->body, large);
}

TEST_F(TransportHttpTest, SilentConnectionTimesOut) {
  options_.request_timeout = std::chrono::milliseconds(200);
  Start();
  WireClient silent(port());
  EXPECT_TRUE(silent.PeerCloses());
}

TEST_F(TransportHttpTest, IdleConnectionTimesOut) {
  options_.keep_alive_timeout = std::chrono::milliseconds(200);
  Start();
  WireClient idle(port());
  EXPECT_EQ(idle.Get("/hello")->status, 200);
  EXPECT_TRUE(idle.PeerCloses());
}

TEST_F(TransportHttpTest, SurvivesRandomBytes) {
  options_.request_timeout = std::chrono::milliseconds(5000);
  Start();
  std::mt19937 random(7);
  const std::string valid = kPost + "Transfer-Encoding: chunked\r\nX: y\r\n\r\n3\r\nabc\r\n0\r\nT: u\r\n\r\n";
  for (int round = 0; round < 300; ++round) {
    std::string text = valid;
    for (int flips = static_cast<int>(random() % 5); flips >= 0; --flips) {
      text[random() % text.size()] = static_cast<char>(random());
    }
    text.resize(text.size() - random() % 20);
    WireClient client(port());
    client.Send(text);
  }
  ExpectAlive();
}

TEST_F(TransportHttpTest, ExcessConnectionsGetRetryAfter) {
  options_.max_connections = 2;
  options_.close_timeout = std::chrono::milliseconds(200);
  Start();
  WireClient first(port()), second(port());
  ASSERT_EQ(first.Upgrade("/ws")->status, 101);
  ASSERT_EQ(second.Upgrade("/ws")->status, 101);
  {
    WireClient third(port());
    const auto answer = third.Upgrade("/ws");
    ASSERT_TRUE(answer.has_value());
    EXPECT_EQ(answer->status, 503);
    EXPECT_EQ(ErrorCode(answer->body), "too_many_connections");
    EXPECT_NE(answer->Header("retry-after"), "");
    EXPECT_EQ(WireClient(port()).Get("/healthz")->status, 200);  // health checks always get through
  }
  first.SendFrame(8, "");
  ASSERT_TRUE(WaitClosed(1));
  // The place is free once the socket is, shortly after its handler was notified.
  for (int attempt = 0; attempt < 500; ++attempt) {
    WireClient next(port());
    const auto answer = next.Upgrade("/ws");
    if (answer && answer->status == 101) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  FAIL() << "a place that was given up was not given out again";
}

TEST_F(TransportHttpTest, EvictsSilentConnectionsFirst) {
  options_.max_connections = 4;
  Start();
  WireClient known(port());
  ASSERT_EQ(known.Get("/hello")->status, 200);
  WireClient socket(port());
  ASSERT_EQ(socket.Upgrade("/ws")->status, 101);
  // Many more than the limit, some with half a head.
  std::vector<std::unique_ptr<WireClient>> silent;
  for (int i = 0; i < 200; ++i) {
    silent.push_back(std::make_unique<WireClient>(port()));
    if (i % 2 == 0) silent.back()->Send("GET /hello HTTP/1.1\r\n");
  }
  EXPECT_TRUE(silent.front()->PeerCloses());
  WireClient late(port());
  const auto answer = late.Get("/hello");
  ASSERT_TRUE(answer.has_value());
  EXPECT_EQ(answer->status, 200);
  EXPECT_EQ(known.Get("/hello")->status, 200);
  socket.SendText("still there");
  EXPECT_EQ(socket.ReadText(), "still there");
}

TEST_F(TransportHttpTest, AnswersOnlyHealthWhileStarting) {
  auto starting = std::make_shared<Service>();
  starting->starting = "The model is being loaded.";
  starting->open_paths.insert("/healthz");
  starting->router.Add("GET", "/healthz", [](const HttpRequest&, const Router::Parameters&) { return HttpResponse(); });
  Start(starting);
  WireClient client(port());
  EXPECT_EQ(client.Get("/healthz")->status, 200);
  const auto refused = client.Get("/hello");
  EXPECT_EQ(refused->status, 503);
  EXPECT_EQ(refused->Header("retry-after"), "1");
  EXPECT_EQ(WireClient(port()).Upgrade("/ws")->status, 503);
  server_->Publish(MakeService());
  EXPECT_EQ(client.Get("/hello")->status, 200);
  EXPECT_EQ(client.Upgrade("/ws")->status, 101);
}

TEST_F(TransportHttpTest, PortInUseIsAnError) {
  Start();
  ServerOptions options;
  options.port = port();
  const auto second = Server::Listen(options, MakeService(), counters_);
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.status().code(), StatusCode::kIo);
  EXPECT_NE(second.status().message().find(std::to_string(port())), std::string::npos);
  options.host = "chat.example.org";
  EXPECT_EQ(Server::Listen(options, MakeService(), counters_).status().code(), StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace ringside::testing
