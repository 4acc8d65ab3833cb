// Slow work delays only its own client: the I/O threads continue, and workers are left for others.
#include "base/request_watch.h"
#include "tests/patience.h"
#include "tests/ws/transport/transport_fixture.h"

namespace ringside::testing {
namespace {

class TransportWorkersTest : public TransportTest {
 protected:
  TransportWorkersTest() {
    options_.io_threads = 1;
    options_.worker_threads = 2;
  }
  std::unique_ptr<WireClient> Open() {
    auto client = std::make_unique<WireClient>(port());
    const auto answer = client->Upgrade("/ws");
    EXPECT_TRUE(answer && answer->status == 101);
    return client;
  }
};

const std::string kBlock = "GET /block HTTP/1.1\r\nHost: localhost\r\n\r\n";

TEST_F(TransportWorkersTest, AnswersHealthWhileHandlersBlock) {
  Start();
  WireClient first(port()), second(port()), third(port());
  for (WireClient* client : {&first, &second, &third}) client->Send(kBlock);
  gate_.WaitFor(2);  // both workers
  EXPECT_EQ(WireClient(port()).Get("/healthz")->body, "alive");
  gate_.Open();
  for (WireClient* client : {&first, &second, &third}) EXPECT_EQ(client->ReadAnswer()->status, 200);
}

TEST_F(TransportWorkersTest, LongWorkDetectsClientDisconnect) {
  auto service = MakeService();
  std::atomic<bool> begun = false;
  std::promise<bool> left_at_first, left_at_last;
  service->router.Add("GET", "/long", [&](const HttpRequest&, const Router::Parameters&) {
    left_at_first.set_value(RequestWatch::ClientLeft());
    begun = true;
    const auto deadline = std::chrono::steady_clock::now() + Patience();
    while (!RequestWatch::ClientLeft() && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
    left_at_last.set_value(RequestWatch::ClientLeft());
    return HttpResponse();
  });
  Start(std::move(service));
  {
    WireClient client(port());
    client.Send("GET /long HTTP/1.1\r\nHost: localhost\r\n\r\n");
    while (!begun) std::this_thread::yield();
  }
  EXPECT_FALSE(left_at_first.get_future().get());
  EXPECT_TRUE(left_at_last.get_future().get());
  EXPECT_FALSE(RequestWatch::ClientLeft()) << "this thread works on no request";
  ExpectAlive();
}

TEST_F(TransportWorkersTest, SlowMessageDoesNotBlockOthers) {
  Start();
  const auto slow = Open(), other = Open();
  slow->SendText("block");
  gate_.WaitFor(1);
  slow->SendText("behind it");
  other->SendText("here");
  EXPECT_EQ(other->ReadText(), "here");
  EXPECT_EQ(WireClient(port()).Get("/hello")->body, "hello");
  // Pushed messages are sent, and pings answered, before the handler has finished.
  WaitOutbox(0)->Push("a delta");
  EXPECT_EQ(slow->ReadText(), "a delta");
  slow->SendFrame(9, "still there?");
  const auto pong = slow->ReadFrame();
  ASSERT_TRUE(pong.has_value());
  EXPECT_EQ(pong->opcode, 10);
  gate_.Open();
  EXPECT_EQ(slow->ReadText(), "block");
  EXPECT_EQ(slow->ReadText(), "behind it");
}

TEST_F(TransportWorkersTest, BusyClientLeavesAWorkerToOthers) {
  options_.access.api_keys = {"greedy", "modest"};
  Start();
  const std::string greedy = "Authorization: Bearer greedy\r\n", modest = "Authorization: Bearer modest\r\n";
  std::vector<std::unique_ptr<WireClient>> clients;
  for (int i = 0; i < 8; ++i) {
    clients.push_back(std::make_unique<WireClient>(port()));
    clients.back()->Send("GET /block HTTP/1.1\r\nHost: localhost\r\n" + greedy + "\r\n");
  }
  gate_.WaitFor(1);
  EXPECT_EQ(WireClient(port()).Get("/hello", modest)->body, "hello");
  gate_.Open();
  for (const auto& client : clients) EXPECT_EQ(client->ReadAnswer()->status, 200);
}

TEST_F(TransportWorkersTest, ExcessMessagesStayInTheSocketBuffer) {
  options_.max_message_bytes = 1'000;
  options_.messages_per_second = 100'000;
  Start();
  const auto client = Open();
  client->SendText("block");
  gate_.WaitFor(1);
  std::thread sender([&] {
    for (int i = 0; i < 5'000; ++i) client->SendText(std::to_string(i));
  });
  EXPECT_EQ(WireClient(port()).Get("/healthz")->body, "alive");
  gate_.Open();
  EXPECT_EQ(client->ReadText(), "block");
  for (int i = 0; i < 5'000; ++i) ASSERT_EQ(client->ReadText(), std::to_string(i));
  sender.join();
}

TEST_F(TransportWorkersTest, HandlerLearnsOfTheEndAfterItsLastMessage) {
  Start();
  {
    const auto client = Open();
    client->SendText("block");
    gate_.WaitFor(1);
  }
  // The peer is gone, and its message is still being processed.
  while (counters_.totals().open_websockets > 0) std::this_thread::yield();
  {
    std::lock_guard lock(seen_.mutex);
    EXPECT_EQ(seen_.closed, 0);
  }
  gate_.Open();
  EXPECT_TRUE(WaitClosed(1));
}

// Some messages must never be answered with an error, and only the handler knows which: they wait for a worker.
TEST_F(TransportWorkersTest, MessageWithoutAWorkerIsQueued) {
  Start();
  const auto client = Open();
  for (const char* name : {"one", "another"}) {
    ASSERT_TRUE(server_->RunOnWorker(name, 0, [this] { gate_.Pass(); }).ok());
  }
  gate_.WaitFor(2);
  for (int i = 0; server_->RunOnWorker("filler " + std::to_string(i), 0, [] {}).ok();) ++i;
  const uint64_t refused = server_->workers().refused;
  client->SendText("first");
  client->SendText("second");
  while (server_->workers().refused == refused) std::this_thread::yield();
  gate_.Open();
  EXPECT_EQ(client->ReadText(), "first");
  EXPECT_EQ(client->ReadText(), "second");
}

TEST_F(TransportWorkersTest, StopWaitsForRunningWorkAndNotifiesHandlers) {
  Start();
  const auto first = Open(), second = Open(), third = Open();
  WaitOutbox(2);  // the third socket is open, too
  for (const auto& client : {first.get(), second.get(), third.get()}) client->SendText("block");
  gate_.WaitFor(2);
  std::thread opener([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    gate_.Open();
  });
  server_->Stop(std::chrono::milliseconds(0));
  opener.join();
  EXPECT_TRUE(WaitClosed(3));
}

// After a stop no handler may be called any more: the objects it uses are gone.
TEST_F(TransportWorkersTest, StopNotifiesAHandlerWhosePeerLeftDuringAMessage) {
  Start();
  auto client = Open();
  client->SendText("block");
  gate_.WaitFor(1);
  client.reset();
  while (counters_.totals().open_websockets > 0) std::this_thread::yield();
  std::thread opener([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    gate_.Open();
  });
  server_->Stop(std::chrono::milliseconds(0));
  opener.join();
  std::lock_guard lock(seen_.mutex);
  EXPECT_EQ(seen_.closed, 1);
}

TEST_F(TransportWorkersTest, AnswersPingsOnceAnIoThreadIsFree) {
  Start();
  const auto ping = [this] {
    auto alive = std::make_shared<std::promise<void>>();
    server_->Ping([alive] { alive->set_value(); });
    return alive->get_future();
  };
  ping().wait();
  server_->Ping([this] { gate_.Pass(); });
  gate_.WaitFor(1);
  const std::future<void> waiting = ping();
  EXPECT_NE(waiting.wait_for(std::chrono::milliseconds(0)), std::future_status::ready) << "the only io thread is stuck";
  gate_.Open();
  waiting.wait();
}

}  // namespace
}  // namespace ringside::testing
