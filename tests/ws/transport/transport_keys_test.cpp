// A server with a keys file: the routes that each scope permits, and connections whose key is revoked.
#include <filesystem>

#include "tests/ws/transport/transport_fixture.h"
#include "ws/access/key_editor.h"
#include "ws/transport/limits/failed_keys.h"

namespace ringside::testing {
namespace {

class TransportKeysTest : public TransportTest {
 protected:
  void SetUp() override {
    const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
    path_ = (std::filesystem::temp_directory_path() /
             ("ringside_transport_" + std::string(test->name()) + std::to_string(getpid()) + ".json"))
                .string();
    alice_ = MakeKey("alice", Scopes::Chat(), 1, 0);
    bob_ = MakeKey("bob", Scopes::Chat() | Scopes::Metrics(), 1, 0);
    monitor_ = MakeKey("monitor", Scopes::Metrics(), 1, 0);
    Edit([&](KeysFile& file) { file.keys = {alice_.stored, bob_.stored, monitor_.stored}; });
    keys_ = std::move(*KeyTable::Open(path_));
    options_.access.keys = keys_.get();
    options_.access.tickets = &tickets_;
    auto service = MakeService();
    service->router.Add(
        "GET", "/figures", [](const HttpRequest&, const Router::Parameters&) { return HttpResponse(); },
        Scopes::Metrics());
    service->router.Add("GET", "/late", [this](const HttpRequest&, const Router::Parameters&) {
      HttpResponse response;
      response.later = std::make_shared<LateAnswer>();
      ++asked_;
      return response;
    });
    service->router.Add("GET", "/stream", [](const HttpRequest&, const Router::Parameters&) {
      HttpResponse response;
      response.stream = [](const std::shared_ptr<Outbox>& outbox) {
        outbox->Push("data: one\n\n");
        return outbox;
      };
      return response;
    });
    Start(std::move(service));
  }
  void TearDown() override {
    server_.reset();  // before the keys
    std::filesystem::remove(path_);
    std::filesystem::remove(path_ + ".lock");
  }

  void Edit(const std::function<void(KeysFile&)>& change) {
    const Status edited = EditKeysFile(path_, [&](KeysFile& file) {
      change(file);
      return Status::Ok();
    });
    ASSERT_TRUE(edited.ok()) << edited.ToString();
  }
  void Revoke(const NewKey& key) {
    Edit([&](KeysFile& file) {
      std::erase_if(file.keys, [&](const StoredKey& entry) { return entry.id == key.stored.id; });
    });
    ASSERT_TRUE(keys_->Reload(true).value());
    server_->CloseRevoked();
  }
  static std::string Header(const NewKey& key) { return "Authorization: Bearer " + key.text + "\r\n"; }

  std::string path_;
  NewKey alice_, bob_, monitor_;
  std::unique_ptr<KeyTable> keys_;
  TicketBox tickets_;
  std::atomic<int> asked_{0};
};

TEST_F(TransportKeysTest, ScopeOpensItsRoutesAndHidesOthers) {
  EXPECT_EQ(WireClient(port()).Get("/who", Header(alice_))->body, "owner:alice");
  EXPECT_EQ(WireClient(port()).Get("/who", "x-api-key: " + alice_.text + "\r\n")->body, "owner:alice");
  EXPECT_EQ(WireClient(port()).Get("/figures", Header(bob_))->status, 200);
  EXPECT_EQ(WireClient(port()).Get("/figures", Header(monitor_))->status, 200);
  const auto hidden = WireClient(port()).Get("/figures", Header(alice_));
  const auto nothing = WireClient(port()).Get("/nothing", Header(alice_));
  EXPECT_EQ(hidden->status, 404);
  std::string expected = nothing->body;
  expected.replace(expected.find("/nothing"), 8, "/figures");
  EXPECT_EQ(hidden->body, expected);
  for (const char* path : {"/ws", "/nothing"}) {
    EXPECT_EQ(WireClient(port()).Get(path, Header(monitor_))->status, 404) << path << ": no hint to ask for an upgrade";
    EXPECT_EQ(WireClient(port()).Upgrade(path, Header(monitor_))->status, 404) << path;
  }
  EXPECT_EQ(WireClient(port()).Get("/figures")->status, 401);
}

TEST_F(TransportKeysTest, RevokingAKeyClosesItsConnections) {
  WireClient hers(port()), his(port()), late(port()), stream(port()), kept(port());
  EXPECT_EQ(hers.Upgrade("/ws", Header(alice_))->status, 101);
  EXPECT_EQ(his.Upgrade("/ws", Header(bob_))->status, 101);
  EXPECT_EQ(kept.Get("/hello", Header(alice_))->status, 200);
  const std::string rest = " HTTP/1.1\r\nHost: localhost\r\n" + Header(alice_) + "\r\n";
  late.Send("GET /late" + rest);
  stream.Send("GET /stream" + rest);
  std::string streamed;
  while (streamed.find("data: one") == std::string::npos) streamed += stream.ReadSome().value();
  WaitOutbox(1);
  while (server_->open_sockets() < 4) std::this_thread::yield();
  Revoke(alice_);
  EXPECT_EQ(hers.ReadClose(), 4401);
  const auto answer = late.ReadAnswer();
  ASSERT_TRUE(answer.has_value());
  EXPECT_EQ(answer->status, 401);
  EXPECT_EQ(stream.ReadToEnd().find("\r\n0\r\n"), std::string::npos) << "cut, not ended";
  EXPECT_EQ(kept.Get("/hello", Header(alice_))->status, 401) << "on a connection that was let in before";
  his.SendText("still there?");
  EXPECT_EQ(his.ReadText(), "still there?");
}

TEST_F(TransportKeysTest, KeyExpiringDuringTheBodyIsRefused) {
  WireClient slow(port());
  slow.Send("POST /echo/x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 8\r\n" + Header(alice_) + "\r\nhalf");
  EXPECT_EQ(WireClient(port()).Get("/who", Header(alice_))->status, 200);
  Revoke(alice_);
  slow.Send("half");
  const auto answer = slow.ReadAnswer();
  ASSERT_TRUE(answer.has_value());
  EXPECT_EQ(answer->status, 401);
  EXPECT_EQ(ErrorCode(answer->body), "invalid_api_key");
}

TEST_F(TransportKeysTest, SocketRechecksItsKeyForEachMessage) {
  WireClient socket(port());
  ASSERT_EQ(socket.Upgrade("/ws", Header(alice_))->status, 101);
  socket.SendText("one");
  EXPECT_EQ(socket.ReadText(), "one");
  Edit([&](KeysFile& file) { file.keys = {bob_.stored}; });
  ASSERT_TRUE(keys_->Reload(true).value());
  socket.SendText("two");
  EXPECT_EQ(socket.ReadClose(), 4401) << "before anything looks through the sockets";
}

TEST_F(TransportKeysTest, LosingAScopeClosesItsConnections) {
  WireClient socket(port()), kept(port()), late(port());
  ASSERT_EQ(socket.Upgrade("/ws", Header(bob_))->status, 101);
  EXPECT_EQ(kept.Get("/figures", Header(bob_))->status, 200);
  late.Send("GET /late HTTP/1.1\r\nHost: localhost\r\n" + Header(bob_) + "\r\n");
  while (server_->open_sockets() < 2) std::this_thread::yield();
  bob_.stored.scopes = Scopes::Chat();
  Edit([&](KeysFile& file) { file.keys = {bob_.stored}; });
  ASSERT_TRUE(keys_->Reload(true).value());
  server_->CloseRevoked();
  EXPECT_EQ(late.ReadAnswer()->status, 401) << "it was admitted with both scopes";
  EXPECT_EQ(kept.Get("/figures", Header(bob_))->status, 404);
  socket.SendText("still there?");
  EXPECT_EQ(socket.ReadText(), "still there?") << "it needs the scope that is left";
  bob_.stored.scopes = Scopes::Metrics();
  Edit([&](KeysFile& file) { file.keys = {bob_.stored}; });
  ASSERT_TRUE(keys_->Reload(true).value());
  server_->CloseRevoked();
  EXPECT_EQ(socket.ReadClose(), 4401);
}

TEST_F(TransportKeysTest, TicketExpiresWithItsKey) {
  const std::string of_alice = tickets_.Issue({"owner:alice", Scopes::Chat(), alice_.stored.id}, 60).value();
  const std::string of_bob = tickets_.Issue({"owner:bob", Scopes::Chat(), bob_.stored.id}, 60).value();
  Revoke(alice_);
  EXPECT_EQ(WireClient(port()).Upgrade("/ws?ticket=" + of_alice)->status, 401);
  EXPECT_EQ(WireClient(port()).Upgrade("/ws?ticket=" + of_bob)->status, 101);
  const std::string another = tickets_.Issue({"owner:bob", Scopes::Chat(), bob_.stored.id}, 60).value();
  bob_.stored.scopes = Scopes::Metrics();
  Edit([&](KeysFile& file) { file.keys = {bob_.stored}; });
  ASSERT_TRUE(keys_->Reload(true).value());
  EXPECT_EQ(WireClient(port()).Upgrade("/ws", "Authorization: Bearer " + another + "\r\n")->status, 401);
}

TEST_F(TransportKeysTest, RefusesTwoKeys) {
  const std::string hers = Header(alice_), his = "x-api-key: " + bob_.text + "\r\n";
  const auto refused = WireClient(port()).Get("/who", hers + his);
  EXPECT_EQ(refused->status, 400);
  EXPECT_EQ(ErrorCode(refused->body), "conflicting_credentials");
  EXPECT_EQ(WireClient(port()).Get("/who", hers + "x-api-key: " + alice_.text + "\r\n")->body, "owner:alice");
  const std::string ticket = tickets_.Issue({"owner:bob", Scopes::Chat(), bob_.stored.id}, 60).value();
  EXPECT_EQ(WireClient(port()).Upgrade("/ws?ticket=" + ticket, hers)->status, 400);
  EXPECT_EQ(WireClient(port()).Upgrade("/ws?ticket=a&ticket=b", hers)->status, 400);
  const std::string offered = "Sec-WebSocket-Protocol: realtime, " + std::string(kKeySubprotocol);
  EXPECT_EQ(WireClient(port()).Upgrade("/ws", hers + offered + bob_.text + "\r\n")->status, 400);
  EXPECT_EQ(WireClient(port()).Upgrade("/ws", hers + offered + alice_.text + "\r\n")->status, 101);
}

TEST_F(TransportKeysTest, DelaysAnswersToWrongKeysOnly) {
  // The burst and a few more, which are delayed; every request is answered.
  std::vector<std::unique_ptr<WireClient>> wrong;
  for (int64_t i = 0; i < FailedKeys::kBurst + 4; ++i) {
    wrong.push_back(std::make_unique<WireClient>(port()));
    wrong.back()->Send("GET /who HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer wrong\r\n\r\n");
    EXPECT_EQ(WireClient(port()).Get("/who", Header(alice_))->status, 200);
  }
  for (const auto& client : wrong) EXPECT_EQ(client->ReadAnswer()->status, 401);
}

}  // namespace
}  // namespace ringside::testing
