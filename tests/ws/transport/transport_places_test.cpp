// Connection places: per-owner limits, eviction, and the routes that are always answered.
#include "tests/ws/transport/transport_fixture.h"

namespace ringside::testing {
namespace {

constexpr char kHers[] = "Authorization: Bearer hers\r\n", kHis[] = "Authorization: Bearer his\r\n";

class TransportPlacesTest : public TransportTest {
 protected:
  void SetUp() override {
    options_.access.api_keys = {"hers", "his"};
    options_.max_connections = 4;
    options_.worker_threads = 4;  // one is blocked while others answer the same owner
    options_.connections_of = [](const std::string&) { return 2; };
  }
  void StartWithFigures() {
    auto service = MakeService();
    service->router.Add("GET", "/figures",
                        [](const HttpRequest&, const Router::Parameters&) { return HttpResponse(); });
    service->router.AnswerAtOnce("/figures");
    Start(std::move(service));
  }
  static std::string PartOfABody(const std::string& path) {
    return "POST " + path + " HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n";
  }
};

TEST_F(TransportPlacesTest, OneOwnerIsLimitedAndTheOtherIsServed) {
  StartWithFigures();
  WireClient first(port()), second(port());
  ASSERT_EQ(first.Upgrade("/ws", kHers)->status, 101);
  ASSERT_EQ(second.Upgrade("/ws", kHers)->status, 101);
  for (const char* path : {"/ws", "/hello"}) {
    WireClient third(port());
    const auto refused = path == std::string("/ws") ? third.Upgrade(path, kHers) : third.Get(path, kHers);
    ASSERT_TRUE(refused.has_value());
    EXPECT_EQ(refused->status, 429);
    EXPECT_EQ(ErrorCode(refused->body), "connection_limit_exceeded");
    EXPECT_NE(refused->Header("retry-after"), "");
  }
  WireClient his(port());
  EXPECT_EQ(his.Get("/hello", kHis)->status, 200);
  EXPECT_EQ(his.Upgrade("/ws", kHis)->status, 101) << "the same connection has one place";
  his.SendText("still there?");
  EXPECT_EQ(his.ReadText(), "still there?");
}

TEST_F(TransportPlacesTest, OwnersIdleConnectionIsEvictedForItsNext) {
  StartWithFigures();
  WireClient first(port()), second(port()), third(port());
  EXPECT_EQ(first.Get("/hello", kHers)->status, 200);
  EXPECT_EQ(second.Get("/hello", kHers)->status, 200);
  EXPECT_EQ(third.Get("/hello", kHers)->status, 200);
  // The one that has been idle longer from the server's view.
  const auto still = first.Get("/hello", kHers);
  EXPECT_TRUE((still ? second : first).PeerCloses());
  EXPECT_EQ((still ? first : second).Get("/hello", kHers)->status, 200);
}

TEST_F(TransportPlacesTest, ActiveRequestKeepsItsPlace) {
  StartWithFigures();
  WireClient reading(port()), answered(port());
  reading.Send(PartOfABody("/echo/x") + kHers + "\r\nhalf of it");
  answered.Send(std::string("GET /block HTTP/1.1\r\nHost: localhost\r\n") + kHers + "\r\n");
  gate_.WaitFor(1);
  // The other one was admitted first, or is about to be.
  for (;;) {
    WireClient third(port());
    if (third.Get("/hello", kHers)->status == 429) break;
  }
  gate_.Open();
  EXPECT_EQ(answered.ReadAnswer()->status, 200);
  reading.Send(std::string(990, 'x'));
  EXPECT_EQ(reading.ReadAnswer()->status, 200);
}

TEST_F(TransportPlacesTest, EvictsAnIdleSocket) {
  options_.ping_interval = std::chrono::milliseconds(20);
  StartWithFigures();
  WireClient idle(port()), busy(port());
  ASSERT_EQ(idle.Upgrade("/ws", kHers)->status, 101);
  ASSERT_EQ(busy.Upgrade("/ws", kHers)->status, 101);
  busy.SendText("block");
  gate_.WaitFor(1);
  for (;;) {
    WireClient third(port());
    if (third.Get("/hello", kHers)->status == 200) break;
  }
  EXPECT_EQ(idle.ReadClose(), 4429);
  gate_.Open();
  EXPECT_EQ(busy.ReadText(), "block");
}

TEST_F(TransportPlacesTest, SocketWithAnAnswerKeepsItsPlace) {
  options_.ping_interval = std::chrono::milliseconds(1);
  busy_ = true;
  StartWithFigures();
  WireClient first(port()), second(port());
  ASSERT_EQ(first.Upgrade("/ws", kHers)->status, 101);
  ASSERT_EQ(second.Upgrade("/ws", kHers)->status, 101);
  for (int pings = 0; pings < 20; ++pings) {
    while (first.ReadFrame()->opcode != 9) {
    }
    EXPECT_EQ(WireClient(port()).Get("/hello", kHers)->status, 429);
  }
}

TEST_F(TransportPlacesTest, AnswersProbesAndMetricsWhenFull) {
  StartWithFigures();
  std::vector<std::unique_ptr<WireClient>> taken;
  for (const char* key : {kHers, kHers, kHis, kHis}) {
    taken.push_back(std::make_unique<WireClient>(port()));
    ASSERT_EQ(taken.back()->Upgrade("/ws", key)->status, 101);
  }
  std::vector<std::unique_ptr<WireClient>> silent;
  for (int i = 0; i < 200; ++i) {
    silent.push_back(std::make_unique<WireClient>(port()));
    if (i % 2 == 0) silent.back()->Send("GET /figures HTTP/1.1\r\n");
  }
  WireClient probe(port());
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(probe.Get("/healthz")->status, 200);
    EXPECT_EQ(probe.Get("/figures", kHers)->status, 200);
    EXPECT_EQ(probe.Get("/figures")->status, 401);
    EXPECT_EQ(probe.Get("/hello", kHers)->status, 429);
  }
}

TEST_F(TransportPlacesTest, EvictsUnauthenticatedConnectionsAtAnyPoint) {
  StartWithFigures();
  std::vector<std::unique_ptr<WireClient>> clients;
  // Part of an unrequested body, a refusal that is not read, and a probe's answer that is.
  const std::vector<std::string> requests = {PartOfABody("/healthz") + "\r\nhalf", PartOfABody("/echo/x") + "\r\nhalf",
                                             "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"};
  for (int i = 0; i < 210; ++i) {
    clients.push_back(std::make_unique<WireClient>(port()));
    clients.back()->Send(requests[static_cast<size_t>(i) % requests.size()]);
  }
  ExpectAlive(kHers);
  EXPECT_EQ(WireClient(port()).Get("/healthz")->status, 200);
}

TEST_F(TransportPlacesTest, OpenPathRefusesABody) {
  StartWithFigures();
  WireClient client(port());
  client.Send("POST /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2000\r\n\r\n");
  EXPECT_EQ(client.ReadAnswer()->status, 413);
}

TEST_F(TransportPlacesTest, AddressesAreOwnersWithoutKeys) {
  options_.access.api_keys.clear();
  StartWithFigures();
  WireClient first(port()), second(port()), third(port());
  ASSERT_EQ(first.Upgrade("/ws")->status, 101);
  ASSERT_EQ(second.Upgrade("/ws")->status, 101);
  EXPECT_EQ(third.Get("/hello")->status, 429);
  EXPECT_EQ(third.Get("/healthz")->status, 200);
}

/// Every place is hers; he has none.
class FullServerTest : public TransportPlacesTest {
 protected:
  static constexpr size_t kPlaces = 4;
  static constexpr size_t kUnreadBytes = 16 << 20;  // more than the kernel's buffers hold
  static constexpr int kSmallBuffer = 4096;

  void SetUp() override {
    TransportPlacesTest::SetUp();
    options_.worker_threads = 8;
    options_.connections_of = [](const std::string&) { return kPlaces; };
    options_.eviction_patience = std::chrono::milliseconds(0);
  }
  void StartWithLargeAnswers() {
    auto service = MakeService();
    service->router.Add("GET", "/large", [](const HttpRequest&, const Router::Parameters&) {
      HttpResponse response;
      response.body = std::string(kUnreadBytes, 'x');
      return response;
    });
    service->router.Add("GET", "/stream", [this](const HttpRequest&, const Router::Parameters&) {
      HttpResponse response;
      response.content_type = "text/event-stream";
      response.stream = [this](std::shared_ptr<Outbox> outbox) {
        outbox->Push(std::string(kUnreadBytes, 'x'));
        {
          std::lock_guard lock(seen_.mutex);
          seen_.outboxes.push_back(outbox);
        }
        seen_.changed.notify_all();
        return outbox;
      };
      return response;
    });
    Start(std::move(service));
  }
  std::unique_ptr<WireClient> Her(const std::string& sent) {
    auto client = std::make_unique<WireClient>(port(), kSmallBuffer);
    client->Send(sent);
    return client;
  }
  /// Admitted, with a part of its body.
  std::unique_ptr<WireClient> HerHalf() {
    auto client = Her(PartOfABody("/echo/x") + kHers + "Expect: 100-continue\r\n\r\n");
    EXPECT_TRUE(client->ReadSome().value_or("").starts_with("HTTP/1.1 100"));
    client->Send("half of it");
    return client;
  }
  std::unique_ptr<WireClient> HerSocket() {
    auto client = std::make_unique<WireClient>(port());
    EXPECT_EQ(client->Upgrade("/ws", kHers)->status, 101);
    return client;
  }
  std::string Get(const std::string& path) {
    return "GET " + path + " HTTP/1.1\r\nHost: localhost\r\n" + kHers + "\r\n";
  }
  int HisStatus() { return WireClient(port()).Get("/hello", kHis)->status; }
  /// Repeats until one of her connections can be evicted. `meanwhile` is called between two attempts.
  void ExpectServed(const std::function<void()>& meanwhile = [] {}) {
    for (;;) {
      const int status = HisStatus();
      if (status == 200) return;
      ASSERT_EQ(status, 503);
      meanwhile();
    }
  }
};

TEST_F(FullServerTest, EvictsASocketWithoutATurn) {
  Start();
  std::vector<std::unique_ptr<WireClient>> hers;
  for (size_t i = 0; i < kPlaces; ++i) hers.push_back(HerSocket());
  ExpectServed();
  EXPECT_EQ(hers.front()->ReadClose(), 4429) << "the one that has waited longest";
  hers.back()->SendText("still there?");
  EXPECT_EQ(hers.back()->ReadText(), "still there?");
}

TEST_F(FullServerTest, EvictsASocketInsideAMessage) {
  Start();
  std::vector<std::unique_ptr<WireClient>> hers;
  for (size_t i = 0; i < kPlaces; ++i) {
    hers.push_back(HerSocket());
    hers.back()->SendFrame(1, "half of it", /*fin=*/false);
  }
  ExpectServed();
  EXPECT_EQ(hers.front()->ReadClose(), 4429);
}

TEST_F(FullServerTest, EvictsASocketThatDoesNotReadItsAnswer) {
  Start();
  std::vector<std::unique_ptr<WireClient>> hers;
  for (size_t i = 0; i < kPlaces; ++i) {
    hers.push_back(std::make_unique<WireClient>(port(), kSmallBuffer));
    ASSERT_EQ(hers.back()->Upgrade("/ws", kHers)->status, 101);
    WaitOutbox(i)->Push(std::string(kUnreadBytes, 'x'));
  }
  ExpectServed();
}

TEST_F(FullServerTest, EvictsARequestWithoutItsBody) {
  Start();
  std::vector<std::unique_ptr<WireClient>> hers;
  for (size_t i = 0; i < kPlaces; ++i) hers.push_back(HerHalf());
  ExpectServed();
}

TEST_F(FullServerTest, EvictsAnUnreadResponse) {
  StartWithLargeAnswers();
  std::vector<std::unique_ptr<WireClient>> hers;
  for (size_t i = 0; i < kPlaces; ++i) {
    hers.push_back(Her(Get("/large")));
    ASSERT_TRUE(hers.back()->ReadSome());
  }
  ExpectServed();
}

TEST_F(FullServerTest, EvictsAnUnreadStream) {
  StartWithLargeAnswers();
  std::vector<std::unique_ptr<WireClient>> hers;
  for (size_t i = 0; i < kPlaces; ++i) hers.push_back(Her(Get("/stream")));
  for (size_t i = 0; i < kPlaces; ++i) WaitOutbox(i);
  ExpectServed([&] {
    for (size_t i = 0; i < kPlaces; ++i) WaitOutbox(i)->Push("more");
  });
}

TEST_F(FullServerTest, BusyRequestsKeepTheirPlace) {
  busy_ = true;
  Start();
  const auto first = HerSocket(), second = HerSocket();
  const auto third = Her(Get("/block")), fourth = Her(Get("/block"));
  gate_.WaitFor(2);
  for (int i = 0; i < 20; ++i) EXPECT_EQ(HisStatus(), 503);
  gate_.Open();
  EXPECT_EQ(third->ReadAnswer()->status, 200);
  first->SendText("still there?");
  EXPECT_EQ(first->ReadText(), "still there?");
}

TEST_F(FullServerTest, WaitingConnectionHasAGracePeriod) {
  options_.eviction_patience = std::chrono::hours(1);
  Start();
  std::vector<std::unique_ptr<WireClient>> hers;
  for (size_t i = 0; i + 1 < kPlaces; ++i) hers.push_back(HerSocket());
  hers.push_back(HerHalf());
  for (int i = 0; i < 20; ++i) EXPECT_EQ(HisStatus(), 503);
  hers.back()->Send(std::string(990, 'x'));
  EXPECT_EQ(hers.back()->ReadAnswer()->status, 200);
}

}  // namespace
}  // namespace ringside::testing
