// HTTP answers that are streamed while they are generated, over a real socket.
#include <algorithm>

#include "tests/ws/transport/transport_fixture.h"

namespace ringside::testing {
namespace {

using std::chrono::milliseconds;

class TransportStreamTest : public TransportTest {
 protected:
  /// GET /stream answers with the entries pushed into its outbox.
  void StartStreaming(const std::string& type = "text/event-stream") {
    auto service = MakeService();
    service->router.Add("GET", "/stream", [this, type](const HttpRequest&, const Router::Parameters&) {
      HttpResponse response;
      response.content_type = type;
      response.stream = [this](std::shared_ptr<Outbox> outbox) {
        {
          std::lock_guard lock(seen_.mutex);
          seen_.outboxes.push_back(std::move(outbox));
        }
        seen_.changed.notify_all();
        return std::shared_ptr<void>(this, [](TransportStreamTest* test) {
          {
            std::lock_guard lock(test->seen_.mutex);
            ++test->seen_.closed;
          }
          test->seen_.changed.notify_all();
        });
      };
      return response;
    });
    Start(std::move(service));
  }
  static std::string Request(const std::string& method = "GET", const std::string& version = "1.1") {
    return method + " /stream HTTP/" + version + "\r\nHost: 127.0.0.1\r\n\r\n";
  }
  /// Decodes a chunked body; nothing if it has no end.
  static std::optional<std::string> Dechunk(std::string_view raw) {
    std::string body;
    for (;;) {
      const size_t line = raw.find("\r\n");
      if (line == std::string_view::npos) return std::nullopt;
      const size_t bytes = std::stoul(std::string(raw.substr(0, line)), nullptr, 16);
      raw.remove_prefix(line + 2);
      if (raw.size() < bytes + 2 || raw.substr(bytes, 2) != "\r\n") return std::nullopt;
      if (bytes == 0) return raw.size() == 2 ? std::optional(body) : std::nullopt;
      body += raw.substr(0, bytes);
      raw.remove_prefix(bytes + 2);
    }
  }
};

TEST_F(TransportStreamTest, SendsHeadThenDataThenEnd) {
  StartStreaming();
  WireClient client(port());
  client.Send(Request());
  const auto head = client.ReadAnswer(true);
  ASSERT_TRUE(head.has_value());
  EXPECT_EQ(head->status, 200);
  EXPECT_EQ(head->Header("content-type"), "text/event-stream");
  EXPECT_EQ(head->Header("transfer-encoding"), "chunked");
  EXPECT_EQ(head->Header("content-length"), "");
  EXPECT_EQ(head->Header("connection"), "close");
  const auto outbox = WaitOutbox();
  for (int i = 0; i < 100; ++i) outbox->Push("event " + std::to_string(i) + "\n\n");
  outbox->Close(Outbox::kEndOfBody, "");
  const std::optional<std::string> body = Dechunk(client.ReadToEnd());
  ASSERT_TRUE(body.has_value());
  EXPECT_TRUE(body->starts_with("event 0\n\nevent 1\n\n"));
  EXPECT_TRUE(body->ends_with("event 99\n\n"));
  EXPECT_TRUE(WaitClosed(1));
  ExpectAlive();
}

TEST_F(TransportStreamTest, TruncatedStreamHasNoTerminator) {
  StartStreaming();
  for (const uint16_t code : {uint16_t{1011}, uint16_t{1012}}) {
    WireClient client(port());
    client.Send(Request());
    const auto outbox = WaitOutbox(code - 1011);
    outbox->Push("half");
    outbox->Close(code, "");
    ASSERT_TRUE(client.ReadAnswer(true).has_value());
    EXPECT_EQ(client.ReadToEnd(), "4\r\nhalf\r\n");
    EXPECT_TRUE(WaitClosed(code - 1010));
  }
}

TEST_F(TransportStreamTest, Http10ClientReadsToTheClose) {
  StartStreaming();
  WireClient client(port());
  client.Send(Request("GET", "1.0"));
  const auto head = client.ReadAnswer(true);
  ASSERT_TRUE(head.has_value());
  EXPECT_EQ(head->Header("transfer-encoding"), "");
  const auto outbox = WaitOutbox();
  outbox->Push("all of it");
  outbox->Close(Outbox::kEndOfBody, "");
  EXPECT_EQ(client.ReadToEnd(), "all of it");
}

TEST_F(TransportStreamTest, HeadStartsNothing) {
  StartStreaming();
  WireClient client(port());
  client.Send(Request("HEAD"));
  EXPECT_EQ(client.ReadAnswer(true)->status, 200);
  EXPECT_EQ(client.Get("/hello")->body, "hello");
  EXPECT_TRUE(seen_.outboxes.empty());
}

TEST_F(TransportStreamTest, DetectsALeavingReader) {
  StartStreaming();
  {
    WireClient client(port());
    client.Send(Request());
    WaitOutbox();
  }
  EXPECT_TRUE(WaitClosed(1));
  WaitOutbox()->Push("nobody hears this");
  ExpectAlive();
}

TEST_F(TransportStreamTest, QuietStreamIsKeptAlive) {
  options_.ping_interval = milliseconds(20);
  StartStreaming();
  WireClient client(port());
  client.Send(Request());
  client.ReadAnswer(true);
  const auto outbox = WaitOutbox();
  // Three comments are three intervals of silence.
  std::string raw;
  for (int comments = 0; comments < 3;) {
    const auto more = client.ReadSome();
    ASSERT_TRUE(more.has_value());
    raw += *more;
    comments = 0;
    for (size_t at = 0; (at = raw.find(": still here", at)) != std::string::npos; ++at) ++comments;
  }
  outbox->Push("data\n\n");
  outbox->Close(Outbox::kEndOfBody, "");
  raw += client.ReadToEnd();
  const std::optional<std::string> body = Dechunk(raw);
  ASSERT_TRUE(body.has_value());
  EXPECT_TRUE(body->ends_with("data\n\n"));
}

TEST_F(TransportStreamTest, KeepAlivesAreSentInEventStreamsOnly) {
  options_.ping_interval = milliseconds(1);
  StartStreaming("application/x-ndjson");
  WireClient client(port());
  client.Send(Request());
  client.ReadAnswer(true);
  const auto outbox = WaitOutbox();
  std::this_thread::sleep_for(milliseconds(50));
  outbox->Push("{}\n");
  outbox->Close(Outbox::kEndOfBody, "");
  EXPECT_EQ(Dechunk(client.ReadToEnd()), "{}\n");
}

TEST_F(TransportStreamTest, CutsASlowReader) {
  options_.close_timeout = milliseconds(50);
  StartStreaming();
  WireClient client(port(), 4096);
  client.Send(Request());
  const auto outbox = WaitOutbox();
  // Until the peer's window, the socket's buffer and the outbox are full.
  const std::string event(256 << 10, 'x');
  bool closed = false;
  for (int i = 0; i < 1000 && !closed; ++i) {
    outbox->Push(event);
    std::lock_guard lock(seen_.mutex);
    closed = seen_.closed > 0;
  }
  EXPECT_TRUE(WaitClosed(1));
  EXPECT_EQ(Sample("ringside_ws_slow_reader_total"), "1");
  ExpectAlive();
}

TEST_F(TransportStreamTest, PausingReaderGetsEverything) {
  options_.request_timeout = options_.gone_timeout = milliseconds(100);
  options_.ping_interval = milliseconds(20);
  StartStreaming();
  WireClient client(port(), 4096);
  client.Send(Request());
  const auto outbox = WaitOutbox();
  const std::string event(128 << 10, 'x');
  for (int i = 0; i < 28; ++i) outbox->Push(event);  // more than the socket accepts, less than the outbox limit
  outbox->Close(Outbox::kEndOfBody, "");
  std::this_thread::sleep_for(milliseconds(1000));
  ASSERT_TRUE(client.ReadAnswer(true).has_value());
  const std::optional<std::string> body = Dechunk(client.ReadToEnd());
  ASSERT_TRUE(body.has_value());
  EXPECT_EQ(std::ranges::count(*body, 'x'), 28 * (128 << 10));
}

TEST_F(TransportStreamTest, StopCutsRunningStreams) {
  StartStreaming();
  WireClient client(port());
  client.Send(Request());
  client.ReadAnswer(true);
  WaitOutbox()->Push("half");
  server_->Drain(R"({"type":"ringside:server.draining"})");
  server_->Stop(milliseconds(5000));
  EXPECT_TRUE(WaitClosed(1));
  const std::string raw = client.ReadToEnd();
  EXPECT_EQ(raw, "4\r\nhalf\r\n");
}

TEST_F(TransportStreamTest, StreamThatFailsToStartIsCut) {
  auto service = MakeService();
  service->router.Add("GET", "/stream", [](const HttpRequest&, const Router::Parameters&) {
    HttpResponse response;
    response.stream = [](const std::shared_ptr<Outbox>&) -> std::shared_ptr<void> {
      throw std::runtime_error("no source");
    };
    return response;
  });
  Start(std::move(service));
  WireClient client(port());
  client.Send(Request());
  client.ReadAnswer(true);
  EXPECT_FALSE(Dechunk(client.ReadToEnd()).has_value());
  ExpectAlive();
}

}  // namespace
}  // namespace ringside::testing
