// The total memory of concurrent request bodies.
#include <algorithm>
#include <thread>

#include "tests/ws/transport/transport_fixture.h"
#include "ws/transport/limits/body_budget.h"

namespace ringside::testing {
namespace {

constexpr size_t kLarge = 300'000;

class TransportBodiesTest : public TransportTest {
 protected:
  TransportBodiesTest() {
    options_.bodies_bytes = 500'000;
    options_.worker_threads = 4;  // one is blocked
  }
  std::optional<WireAnswer> Post(size_t bytes) {
    WireClient client(port());
    client.Send("POST /echo/x HTTP/1.1\r\nHost: localhost\r\nContent-Length: " + std::to_string(bytes) + "\r\n\r\n" +
                std::string(bytes, 'b'));
    return client.ReadAnswer();
  }
};

TEST_F(TransportBodiesTest, BoundsAllBodiesTogether) {
  Start();
  WireClient first(port());
  first.Send("GET /block HTTP/1.1\r\nHost: localhost\r\nContent-Length: " + std::to_string(kLarge) + "\r\n\r\n" +
             std::string(kLarge, 'a'));
  gate_.WaitFor(1);  // the whole body has arrived
  const auto refused = Post(kLarge + BodyShare::kFreeBytes);
  ASSERT_TRUE(refused.has_value());
  EXPECT_EQ(refused->status, 503);
  EXPECT_EQ(ErrorCode(refused->body), "unavailable");
  EXPECT_NE(refused->Header("retry-after"), "");
  WireClient chunked(port());
  std::string pieces = "POST /echo/x HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n";
  for (size_t sent = 0; sent < 2 * kLarge; sent += 0x8000) pieces += "8000\r\n" + std::string(0x8000, 'c') + "\r\n";
  chunked.Send(pieces + "0\r\n\r\n");
  EXPECT_EQ(chunked.ReadAnswer().value().status, 503);
  EXPECT_EQ(Post(10'000).value().status, 200) << "what most requests have goes on";
  EXPECT_EQ(Post(200'000).value().status, 200) << "there is room for it";
  gate_.Open();
  EXPECT_EQ(first.ReadAnswer().value().status, 200);
  EXPECT_EQ(Post(kLarge + BodyShare::kFreeBytes).value().status, 200) << "what was answered holds nothing any more";
}

TEST_F(TransportBodiesTest, OneOwnerGetsAtMostHalf) {
  options_.access.api_keys = {"hers", "his"};
  Start();
  const auto request = [](const std::string& key, size_t bytes) {
    return "GET /block HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " + key +
           "\r\nContent-Length: " + std::to_string(bytes + BodyShare::kFreeBytes) + "\r\n\r\n" +
           std::string(bytes + BodyShare::kFreeBytes, 'a');
  };
  WireClient first(port()), second(port()), his(port());
  first.Send(request("hers", 240'000));
  gate_.WaitFor(1);
  second.Send(request("hers", 20'000));
  EXPECT_EQ(second.ReadAnswer()->status, 503);
  his.Send(request("his", 240'000));
  gate_.WaitFor(2);
  gate_.Open();
  EXPECT_EQ(his.ReadAnswer()->status, 200);
}

TEST_F(TransportBodiesTest, BoundsUnreadResponses) {
  constexpr size_t kAnswer = 16 << 20;  // more than the kernel buffers for a socket
  options_.answers_bytes = 3 * kAnswer;
  auto service = MakeService();
  service->router.Add("GET", "/large", [](const HttpRequest&, const Router::Parameters&) {
    HttpResponse response;
    response.body = std::string(kAnswer, 'x');
    return response;
  });
  Start(std::move(service));
  std::vector<std::unique_ptr<WireClient>> readers;
  size_t whole = 0, refused = 0;
  for (int i = 0; i < 8; ++i) {
    readers.push_back(std::make_unique<WireClient>(port(), /*receive_buffer_bytes=*/4096));
    readers.back()->Send("GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n");
    const std::string head = readers.back()->ReadSome().value();
    whole += head.starts_with("HTTP/1.1 200") ? 1 : 0;
    refused += head.starts_with("HTTP/1.1 503") ? 1 : 0;
  }
  EXPECT_EQ(whole, 3U);
  EXPECT_EQ(refused, 5U);
  ExpectAlive();
  readers.clear();
  for (;;) {  // until the server has noticed that they are gone
    const auto answer = WireClient(port()).Get("/large");
    if (answer && answer->status == 200) break;
  }
}

TEST_F(TransportBodiesTest, BoundsQueuedMessagesOfAllSockets) {
  options_.max_message_bytes = 300'000;
  options_.worker_threads = 5;
  Start();
  std::vector<std::unique_ptr<WireClient>> sockets;
  size_t closed = 0;
  for (int i = 0; i < 4; ++i) {
    sockets.push_back(std::make_unique<WireClient>(port()));
    ASSERT_EQ(sockets.back()->Upgrade("/ws")->status, 101);
    sockets.back()->SendText("block");
  }
  gate_.WaitFor(4);
  for (const auto& socket : sockets) socket->SendText(std::string(250'000, 'm'));
  // Each counts 186 kB, so two fit; the other two are closed while these wait.
  while (std::ranges::count_if(sockets, [](const auto& socket) { return socket->HasInput(); }) < 2) {
    std::this_thread::yield();
  }
  gate_.Open();
  for (const auto& socket : sockets) {
    std::string last;
    while (const auto text = socket->ReadText()) {
      last = *text;
      if (last.size() == 250'000) break;
    }
    closed += last.size() == 250'000 ? 0 : 1;
  }
  EXPECT_GE(closed, 2U);
  ExpectAlive();
}

TEST_F(TransportBodiesTest, AServiceHasItsOwnLimit) {
  options_.max_message_bytes = 100'000;
  Start();
  EXPECT_EQ(Post(150'000)->status, 413);
  auto service = MakeService();
  service->max_message_bytes = 300'000;
  server_->Publish(std::move(service));
  EXPECT_EQ(Post(300'000)->status, 200);
  EXPECT_EQ(ErrorCode(Post(300'001)->body), "request_too_large");
  WireClient socket(port());
  ASSERT_EQ(socket.Upgrade("/ws")->status, 101);
  socket.SendText(std::string(300'000, 'm'));
  EXPECT_EQ(socket.ReadText(), std::string(300'000, 'm'));
  socket.SendText(std::string(300'001, 'm'));
  EXPECT_EQ(ErrorCode(socket.ReadText().value()), "message_too_big");
  EXPECT_EQ(socket.ReadClose(), 1009);
  ExpectAlive();
}

TEST_F(TransportBodiesTest, AnnouncedBytesReserveNothing) {
  Start();
  WireClient announcing(port());
  announcing.Send("POST /echo/x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4000000\r\n\r\nabc");
  EXPECT_EQ(Post(400'000).value().status, 200);
}

}  // namespace
}  // namespace ringside::testing
