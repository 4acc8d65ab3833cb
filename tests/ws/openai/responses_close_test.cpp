// Ending a connection may wait for a session or for the disk, but not on the I/O threads.
#include <future>
#include <thread>

#include "tests/session/recording_sink.h"
#include "tests/ws/openai/responses_fixture.h"
#include "tests/ws/transport/transport_client.h"
#include "ws/transport/server.h"

namespace ringside {
namespace {

/// Holds its session's lock in its first event until released.
class HoldingSink final : public EventSink {
 public:
  const EventNumbers& numbers() const override { return sink_.numbers(); }
  void OnEvent(const TurnEvent& event) override {
    if (event.kind != TurnEvent::Kind::kBegun) return;
    held.set_value();
    let_go.get_future().wait();
  }
  void OnReplay(const ResponseCopies&, uint64_t) override {}
  uint64_t connection() const override { return sink_.connection(); }

  std::promise<void> held, let_go;

 private:
  RecordingSink sink_{99};
};

TEST_F(ResponsesTest, ClosedConnectionBlocksNoIoThread) {
  const std::string id = table.CreateSession({"", 0}, {}, {}, {})->id;
  auto service = std::make_shared<Service>();
  service->open_paths.insert("/healthz");
  service->router.Add("GET", "/healthz", [](const HttpRequest&, const Router::Parameters&) { return HttpResponse(); });
  service->router.AnswerAtOnce("/healthz");
  service->sockets["/v1/responses"] = ResponsesRoute(table);
  ServerOptions options;
  options.io_threads = 1;
  TransportCounters counters;
  const auto server = std::move(*Server::Listen(options, service, counters));
  auto closing = std::make_unique<testing::WireClient>(server->port());
  ASSERT_EQ(closing->Upgrade("/v1/responses")->status, 101);
  closing->SendText(Create({{"conversation", id}, {"store", false}}).dump());
  ASSERT_TRUE(Eventually([&] { return engine.count() == 1; }));
  engine.Answer(0, "Yo");  // an answer that is dropped with its connection
  const auto sink = std::make_shared<HoldingSink>();
  std::thread holding([&] {
    TurnSpec spec;
    spec.conversation = id;
    spec.input = {{ChatRole::kUser, "Hi"}};
    EXPECT_TRUE(table.StartTurn({"", 99}, spec, sink).ok());
  });
  sink->held.get_future().wait();
  closing.reset();
  while (server->open_sockets() > 0) std::this_thread::yield();
  const auto alive = testing::WireClient(server->port()).Get("/healthz");
  EXPECT_TRUE(alive && alive->status == 200);
  sink->let_go.set_value();
  holding.join();
  engine.Answer(1, "Yo");
  server->Stop(std::chrono::milliseconds(0));
}

}  // namespace
}  // namespace ringside
