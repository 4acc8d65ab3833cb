// Answers of a server that starts or stops: clients always get one, because a proxy reports an error for a connection
// that ends without any.
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "tests/ws/transport/transport_fixture.h"

namespace ringside::testing {
namespace {

using std::chrono::milliseconds;
constexpr milliseconds kLong{3'600'000}, kPatience{60'000};
constexpr char kRequest[] = "POST /echo/1 HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n";

class TransportStopTest : public TransportTest {
 protected:
  void AwaitHeld(int64_t count) const {
    while (server_->open_sockets() < count) std::this_thread::yield();
  }
  static void ExpectRefused(WireClient& client) {
    const auto refusal = client.ReadAnswer();
    ASSERT_TRUE(refusal.has_value());
    EXPECT_EQ(refusal->status, 503);
    EXPECT_NE(refusal->Header("retry-after"), "");
  }
};

TEST_F(TransportStopTest, AnswersCloseTheirConnectionsWhileEverythingIsServed) {
  Start();
  WireClient client(port());
  EXPECT_NE(client.Get("/hello")->Header("connection"), "close");
  server_->CloseAfterAnswers();
  const auto answer = client.Get("/hello");
  EXPECT_EQ(answer->status, 200);
  EXPECT_EQ(answer->Header("connection"), "close");
  EXPECT_TRUE(client.PeerCloses());
  EXPECT_EQ(WireClient(port()).Get("/hello")->status, 200);
  EXPECT_EQ(WireClient(port()).Upgrade("/ws")->status, 101);
}

TEST_F(TransportStopTest, DelayedRefusalSurvivesTheDrain) {
  options_.not_now_time = kLong;
  Start();
  server_->Drain("{}");
  EXPECT_EQ(WireClient(port()).Get("/healthz")->status, 200) << "at once";
  WireClient request(port()), upgrade(port());
  request.Send(kRequest);
  upgrade.Send(
      "GET /ws HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
      "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n");
  AwaitHeld(2);
  {
    WireClient leaves(port());
    leaves.Send(kRequest);
    AwaitHeld(3);
  }
  while (server_->open_sockets() > 2) std::this_thread::yield();  // a client that leaves is no longer blocked
  std::thread stop([&] { server_->Stop(kPatience); });
  ExpectRefused(request);
  ExpectRefused(upgrade);
  stop.join();
}

TEST_F(TransportStopTest, RefusalIsDelayed) {
  options_.not_now_time = milliseconds(1);
  Start();
  server_->Drain("{}");
  for (int i = 0; i < 3; ++i) {
    WireClient client(port());
    client.Send("POST /hello HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\n");
    ExpectRefused(client);
  }
}

TEST_F(TransportStopTest, AnswersRequestsDuringTheStop) {
  Start();
  WireClient silent(port()), half(port()), second(port());
  EXPECT_EQ(second.Get("/hello")->status, 200);
  second.Send("GET /hel");
  half.Send("POST /echo/1 HTTP/1.1\r\nHost: local");
  std::thread stop([&] { server_->Stop(kPatience); });
  std::this_thread::sleep_for(milliseconds(400));  // longer than the pause that ends a stop
  silent.Send(kRequest);
  half.Send("host\r\nContent-Length: 0\r\n\r\n");
  second.Send("lo HTTP/1.1\r\nHost: localhost\r\n\r\n");
  ExpectRefused(silent);
  ExpectRefused(half);
  EXPECT_EQ(second.ReadAnswer()->status, 200);
  stop.join();
}

}  // namespace
}  // namespace ringside::testing
