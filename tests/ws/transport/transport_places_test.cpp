// Places for connections: what one owner may take, what gives way, and what is always answered.
#include "tests/ws/transport/transport_fixture.h"

namespace ringside::testing {
namespace {

constexpr char kHers[] = "Authorization: Bearer hers\r\n", kHis[] = "Authorization: Bearer his\r\n";

class TransportPlacesTest : public TransportTest {
 protected:
  void SetUp() override {
    options_.access.api_keys = {"hers", "his"};
    options_.max_connections = 4;
    options_.worker_threads = 4;  // one is held while others answer the same owner
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

TEST_F(TransportPlacesTest, OneOwnerTakesItsShareAndTheOtherIsServed) {
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
  ExpectAlive(kHis);
}

TEST_F(TransportPlacesTest, AKeptAliveConnectionGivesWayToTheNextOfItsOwner) {
  StartWithFigures();
  WireClient first(port()), second(port()), third(port());
  EXPECT_EQ(first.Get("/hello", kHers)->status, 200);
  EXPECT_EQ(second.Get("/hello", kHers)->status, 200);
  EXPECT_EQ(third.Get("/hello", kHers)->status, 200);
  EXPECT_TRUE(first.PeerCloses());
  EXPECT_EQ(second.Get("/hello", kHers)->status, 200);
}

TEST_F(TransportPlacesTest, ARequestThatIsReadOrAnsweredKeepsItsPlace) {
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

TEST_F(TransportPlacesTest, ASocketThatHasNothingToDoGivesWay) {
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

TEST_F(TransportPlacesTest, ASocketWithAnAnswerDoesNotGiveWay) {
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

TEST_F(TransportPlacesTest, ProbesAndFiguresAreAnsweredWhenAllPlacesAreTaken) {
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

TEST_F(TransportPlacesTest, WhoWasNotAdmittedGivesWayInWhateverPartOfARequest) {
  StartWithFigures();
  std::vector<std::unique_ptr<WireClient>> clients;
  // Part of a body that no one asked for, a refusal that is not read, and an answer to a probe that is.
  const std::vector<std::string> requests = {PartOfABody("/healthz") + "\r\nhalf", PartOfABody("/echo/x") + "\r\nhalf",
                                             "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"};
  for (int i = 0; i < 210; ++i) {
    clients.push_back(std::make_unique<WireClient>(port()));
    clients.back()->Send(requests[static_cast<size_t>(i) % requests.size()]);
  }
  ExpectAlive(kHers);
  EXPECT_EQ(WireClient(port()).Get("/healthz")->status, 200);
}

TEST_F(TransportPlacesTest, AnOpenPathHasNoUseForABody) {
  StartWithFigures();
  WireClient client(port());
  client.Send("POST /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2000\r\n\r\n");
  EXPECT_EQ(client.ReadAnswer()->status, 413);
}

TEST_F(TransportPlacesTest, WithoutKeysAddressesAreOwners) {
  options_.access.api_keys.clear();
  StartWithFigures();
  WireClient first(port()), second(port()), third(port());
  ASSERT_EQ(first.Upgrade("/ws")->status, 101);
  ASSERT_EQ(second.Upgrade("/ws")->status, 101);
  EXPECT_EQ(third.Get("/hello")->status, 429);
  EXPECT_EQ(third.Get("/healthz")->status, 200);
}

}  // namespace
}  // namespace ringside::testing
