// WebSockets over a real connection: behaviour for well-behaved clients, and the cost of each kind of misbehaviour.
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>

#include "tests/ws/transport/outbox_piece.h"
#include "tests/ws/transport/transport_fixture.h"

namespace ringside::testing {
namespace {

using std::chrono::milliseconds;

class TransportSocketTest : public TransportTest {
 protected:
  /// An upgraded client.
  std::unique_ptr<WireClient> Open(const std::string& headers = "", int receive_buffer_bytes = 0) {
    auto client = std::make_unique<WireClient>(port(), receive_buffer_bytes);
    const auto answer = client->Upgrade("/ws", headers);
    EXPECT_TRUE(answer.has_value());
    EXPECT_EQ(answer->status, 101);
    return client;
  }
  /// The loopback interface of this thread's private network namespace.
  static void SetLoopback(bool up) {
    const int any = socket(AF_INET, SOCK_DGRAM, 0);
    ifreq request{};
    std::strcpy(request.ifr_name, "lo");
    EXPECT_EQ(ioctl(any, SIOCGIFFLAGS, &request), 0);
    request.ifr_flags = static_cast<short>(up ? request.ifr_flags | IFF_UP : request.ifr_flags & ~IFF_UP);
    EXPECT_EQ(ioctl(any, SIOCSIFFLAGS, &request), 0);
    close(any);
  }
  std::string Closes(int code) { return Sample("ringside_ws_close_total{code=\"" + std::to_string(code) + "\"}"); }
};

TEST_F(TransportSocketTest, EchoesTextBinaryAndFragments) {
  Start();
  const auto client = Open();
  client->SendText("one");
  EXPECT_EQ(client->ReadText(), "one");
  client->SendFrame(2, "binary is the same JSON");
  EXPECT_EQ(client->ReadText(), "binary is the same JSON");
  client->SendFrame(1, "in ", false);
  client->SendFrame(9, "a ping between");
  client->SendFrame(0, "three ", false);
  client->SendFrame(0, "parts", true);
  const auto pong = client->ReadFrame();
  ASSERT_TRUE(pong.has_value());
  EXPECT_EQ(pong->opcode, 10);
  EXPECT_EQ(pong->payload, "a ping between");
  EXPECT_EQ(client->ReadText(), "in three parts");
  EXPECT_EQ(Sample("ringside_ws_connections"), "1");
}

TEST_F(TransportSocketTest, KeepsTheOrderOfManyMessages) {
  Start();
  const auto client = Open();
  for (int i = 0; i < 500; ++i) client->SendText(std::to_string(i));
  for (int i = 0; i < 500; ++i) ASSERT_EQ(client->ReadText(), std::to_string(i));
}

TEST_F(TransportSocketTest, MessagesUpToTheLimitPass) {
  options_.max_message_bytes = 100'000;
  Start();
  const auto client = Open();
  const std::string most(100'000, 'x');
  client->SendText(most);
  EXPECT_EQ(client->ReadText(), most);
}

TEST_F(TransportSocketTest, OversizedMessageClosesWith1009) {
  options_.max_message_bytes = 100'000;
  Start();
  const auto client = Open();
  std::thread sender([&] { client->SendText(std::string(8 << 20, 'x')); });
  const auto error = client->ReadText();
  ASSERT_TRUE(error.has_value());
  EXPECT_EQ(nlohmann::json::parse(*error)["type"], "error");
  EXPECT_EQ(ErrorCode(*error), "message_too_big");
  EXPECT_EQ(client->ReadClose(), 1009);
  sender.join();
  EXPECT_TRUE(WaitClosed(1));
  ExpectAlive();
}

/// The head of a client frame that announces `bytes` bytes, without them.
std::string HeadOf(int opcode, uint64_t bytes, bool fin) {
  std::string head(1, static_cast<char>((fin ? 0x80 : 0) | opcode));
  head += static_cast<char>(0x80 | 127);
  for (int shift = 56; shift >= 0; shift -= 8) head += static_cast<char>((bytes >> shift) & 255);
  return head + "\x12\x34\x56\x78";
}

TEST_F(TransportSocketTest, RefusesAnOverlongLengthBeforeItsPayload) {
  options_.max_message_bytes = 100'000;
  options_.close_timeout = milliseconds(200);
  Start();
  for (const std::string& bytes :
       {HeadOf(1, 100'001, true), HeadOf(2, uint64_t{1} << 62, true), HeadOf(1, uint64_t{1} << 40, false),
        MakeFrame(1, "the first piece ", false) + HeadOf(0, 99'990, true)}) {
    const auto client = Open();
    client->Send(bytes);
    const auto error = client->ReadText();
    ASSERT_TRUE(error.has_value());
    EXPECT_EQ(ErrorCode(*error), "message_too_big");
    EXPECT_EQ(client->ReadClose(), 1009);
  }
  EXPECT_TRUE(WaitClosed(4));
  ExpectAlive();
}

TEST_F(TransportSocketTest, ManyMessagesMayExceedTheLimitOfOne) {
  options_.max_message_bytes = 1'000;
  Start();
  const auto client = Open();
  for (int i = 0; i < 10; ++i) {
    client->SendFrame(1, std::string(500, 'a'), false);
    client->SendFrame(9, "between");
    client->SendFrame(0, std::string(500, 'b'));
    EXPECT_EQ(client->ReadText(), std::string(500, 'a') + std::string(500, 'b'));
  }
}

TEST_F(TransportSocketTest, PushesFromOtherThreadsArrive) {
  Start();
  const auto client = Open();
  const auto outbox = WaitOutbox();
  std::thread pusher([&] {
    for (int i = 0; i < 200; ++i) outbox->Push(std::to_string(i));
  });
  for (int i = 0; i < 200; ++i) ASSERT_EQ(client->ReadText(), std::to_string(i));
  pusher.join();
}

TEST_F(TransportSocketTest, HandlerClosesWithItsCodeAfterQueuedMessages) {
  Start();
  const auto client = Open();
  client->SendText("first");
  client->SendText("close 4409");
  EXPECT_EQ(client->ReadText(), "first");
  EXPECT_EQ(client->ReadClose(), 4409);
  client->SendFrame(8, "\x11\x39");
  EXPECT_TRUE(WaitClosed(1));
  EXPECT_EQ(Closes(4409), "1");
  EXPECT_EQ(Sample("ringside_ws_connections"), "0");
}

TEST_F(TransportSocketTest, AnswersThePeersCloseImmediately) {
  options_.close_timeout = milliseconds(200);
  Start();
  const auto client = Open();
  client->SendFrame(8, "\x03\xe8");  // 1000
  EXPECT_EQ(client->ReadClose(), 1000);
  // The peer keeps its end open; the handler is notified nevertheless.
  EXPECT_TRUE(WaitClosed(1));
  EXPECT_EQ(Closes(1000), "1");
}

TEST_F(TransportSocketTest, UnansweredCloseIsCut) {
  options_.close_timeout = milliseconds(200);
  Start();
  const auto client = Open();
  client->SendText("close 4409");
  EXPECT_EQ(client->ReadClose(), 4409);
  EXPECT_TRUE(client->PeerCloses());
  EXPECT_TRUE(WaitClosed(1));
}

TEST_F(TransportSocketTest, DetectsAVanishedClient) {
  Start();
  { const auto client = Open(); }
  EXPECT_TRUE(WaitClosed(1));
  EXPECT_EQ(Closes(1006), "1");
}

TEST_F(TransportSocketTest, HandlerExceptionClosesOnlyItsSocket) {
  Start();
  const auto other = Open();
  const auto client = Open();
  client->SendText("throw");
  EXPECT_EQ(client->ReadClose(), 1011);
  other->SendText("here");
  EXPECT_EQ(other->ReadText(), "here");
}

struct BadFrames {
  const char* name;
  std::string bytes;
  int code;
};
std::ostream& operator<<(std::ostream& out, const BadFrames& frames) { return out << frames.name; }

class TransportBadFramesTest : public TransportSocketTest, public ::testing::WithParamInterface<BadFrames> {};

TEST_P(TransportBadFramesTest, CloseTheSocketAndTheServerSurvives) {
  options_.close_timeout = milliseconds(500);
  Start();
  const auto client = Open();
  client->Send(GetParam().bytes);
  EXPECT_EQ(client->ReadClose(), GetParam().code);
  EXPECT_TRUE(client->PeerCloses());
  EXPECT_TRUE(WaitClosed(1));
  ExpectAlive();
}

std::string Repeat(const std::string& text, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += text;
  return all;
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, TransportBadFramesTest,
    ::testing::Values(BadFrames{"Unmasked", MakeFrame(1, "hello", true, false), 1002},
                      BadFrames{"ReservedBit", "\xc1\x80\x01\x02\x03\x04", 1002},
                      BadFrames{"ReservedOpcode", MakeFrame(3, "hello"), 1002},
                      BadFrames{"FragmentedPing", MakeFrame(9, "x", false), 1002},
                      BadFrames{"LongPing", MakeFrame(9, std::string(126, 'x')), 1002},
                      BadFrames{"StrayContinuation", MakeFrame(0, "x"), 1002},
                      BadFrames{"TextInText", MakeFrame(1, "x", false) + MakeFrame(1, "y"), 1002},
                      BadFrames{"OneByteClose", MakeFrame(8, "x"), 1002},
                      BadFrames{"ReservedCloseCode", MakeFrame(8, std::string("\x03\xed", 2)), 1002},  // 1005
                      BadFrames{"UnusedCloseCode", MakeFrame(8, "\x07\xd0"), 1002},                    // 2000
                      BadFrames{"CloseCode5000", MakeFrame(8, "\x13\x88"), 1002},
                      BadFrames{"CloseCode65535", MakeFrame(8, "\xff\xff"), 1002},
                      BadFrames{"BadUtf8InCloseReason", MakeFrame(8, "\x03\xe8ok\xff"), 1007},
                      BadFrames{"BadUtf8", MakeFrame(1, "\xff\xfe"), 1007},
                      BadFrames{"HalfCharacter", MakeFrame(1, "\xe2\x82"), 1007},
                      BadFrames{"TinyFragments", MakeFrame(1, "x", false) + Repeat(MakeFrame(0, "x", false), 20'000),
                                1008}),
    [](const auto& info) { return info.param.name; });

/// Sends the same bytes until the server closes the connection; false if it never does.
bool FloodUntilClosed(WireClient& client, const std::string& bytes) {
  const std::string block = Repeat(bytes, static_cast<int>(65536 / bytes.size()) + 1);
  for (int i = 0; i < 20'000; ++i) {
    if (!client.Send(block)) return true;
  }
  return false;
}

TEST_F(TransportSocketTest, ReassemblesSmallFramesForAnySplit) {
  Start();
  const auto client = Open();
  // Enough frames that more than the free allowance arrive in two pieces, wherever reads end.
  constexpr int kFrames = 60'000;
  const std::string piece(64, 'x');
  EXPECT_TRUE(
      client->Send(MakeFrame(1, piece, false) + Repeat(MakeFrame(0, piece, false), kFrames - 2) + MakeFrame(0, piece)));
  EXPECT_EQ(client->ReadText(), Repeat(piece, kFrames));
}

TEST_F(TransportSocketTest, RepliesInTheMessageTypeIfTheRouteAllows) {
  const std::shared_ptr<Service> service = MakeService();
  service->sockets["/ws"].answers_in_kind = true;
  Start(service);
  const auto client = Open();
  for (const int kind : {2, 1, 2}) {
    client->SendFrame(kind, "the same");
    const auto frame = client->ReadFrame();
    ASSERT_TRUE(frame.has_value());
    EXPECT_EQ(frame->opcode, kind);
    EXPECT_EQ(frame->payload, "the same");
  }
}

TEST_F(TransportSocketTest, CutsAFloodOfEmptyFrames) {
  Start();
  const auto client = Open();
  client->SendFrame(1, "x", false);
  EXPECT_TRUE(FloodUntilClosed(*client, MakeFrame(0, "", false)));
  EXPECT_TRUE(WaitClosed(1));
  EXPECT_EQ(Closes(1008), "1");
  ExpectAlive();
}

TEST_F(TransportSocketTest, CutsAFloodOfPings) {
  Start();
  const auto client = Open();
  EXPECT_TRUE(FloodUntilClosed(*client, MakeFrame(9, "")));
  EXPECT_TRUE(WaitClosed(1));
  ExpectAlive();
}

TEST_F(TransportSocketTest, CutsAFloodOfMessages) {
  options_.messages_per_second = 10;
  Start();
  const auto client = Open();
  for (int i = 0; i < 300; ++i) client->SendText("x");
  EXPECT_EQ(client->ReadClose(), 1008);
  ExpectAlive();
}

TEST_F(TransportSocketTest, PingsSilentClientsAndCutsDeadOnes) {
  options_.ping_interval = milliseconds(50);
  options_.silence_timeout = milliseconds(1000);
  Start();
  const auto alive = Open();
  const auto dead = Open();
  // The live one answers pings and is kept although the other has been closed meanwhile.
  std::atomic<bool> done{false};
  std::thread reader([&] {
    while (const auto frame = alive->ReadFrame()) {
      if (frame->opcode == 9) alive->SendFrame(10, frame->payload);
      if (frame->opcode == 1) done = true;
      if (done) return;
    }
  });
  EXPECT_TRUE(WaitClosed(1));
  EXPECT_EQ(Closes(1006), "1");
  alive->SendText("here");
  reader.join();
  EXPECT_TRUE(done);
}

TEST_F(TransportSocketTest, ClientMissingAFewPingsIsKept) {
  options_.ping_interval = milliseconds(20);
  Start();
  const auto client = Open();
  for (int pings = 0; pings < 8;) {
    const auto frame = client->ReadFrame();
    ASSERT_TRUE(frame.has_value());
    pings += frame->opcode == 9 ? 1 : 0;
  }
  client->SendText("here");
  while (const auto frame = client->ReadFrame()) {
    if (frame->opcode == 1) return;
  }
  FAIL() << "closed with " << Closes(1006);
}

TEST_F(TransportSocketTest, PausingReaderGetsEverything) {
  options_.gone_timeout = milliseconds(100);
  options_.ping_interval = milliseconds(20);
  Start();
  const auto slow = Open("", 4096);
  const auto outbox = WaitOutbox();
  const std::string text(128 << 10, 'x');
  constexpr int kMessages = 28;  // more than the socket accepts, less than the outbox limit
  for (int i = 0; i < kMessages; ++i) outbox->Push(text);
  std::this_thread::sleep_for(milliseconds(1000));
  for (int i = 0; i < kMessages; ++i) EXPECT_EQ(slow->ReadText(), text);
}

// In a private network namespace, whose only link fails.
TEST_F(TransportSocketTest, DetectsAVanishedHost) {
  options_.ping_interval = milliseconds(50);
  options_.gone_timeout = milliseconds(300);
  int refused = 0;  // why there is no such namespace; 0 = there is
  std::thread([&] {
    refused = unshare(CLONE_NEWNET) == 0 ? 0 : errno;
    if (refused != 0) return;
    SetLoopback(true);
    Start();
    const auto client = Open();
    client->SendText("here");
    EXPECT_EQ(client->ReadText(), "here");
    SetLoopback(false);
    EXPECT_TRUE(WaitClosed(1));
    EXPECT_EQ(Closes(1006), "1");
    SetLoopback(true);
    server_.reset();
  }).join();
  if (refused != 0) GTEST_SKIP() << "no network of its own: " << std::strerror(refused);
}

TEST_F(TransportSocketTest, SlowReaderIsCutAndBlocksNobody) {
  options_.close_timeout = milliseconds(200);
  Start();
  const auto slow = Open("", 4096);
  const auto outbox = WaitOutbox();
  const auto quick = Open();
  const std::string delta(32 << 10, 'd');
  // More than the kernel's buffers and the outbox hold.
  for (int i = 0; i < 2000; ++i) {
    outbox->Push(Piece::Make(delta, 7));
  }
  EXPECT_TRUE(WaitClosed(1));
  EXPECT_EQ(Closes(1013), "1");
  EXPECT_EQ(Sample("ringside_ws_slow_reader_total"), "1");
  EXPECT_EQ(outbox->queued_bytes(), 0u);
  quick->SendText("quick");
  EXPECT_EQ(quick->ReadText(), "quick");
}

TEST_F(TransportSocketTest, CatchingUpReaderLosesNothing) {
  Start();
  const auto client = Open("", 4096);
  const auto outbox = WaitOutbox();
  std::string expected;
  for (int i = 0; i < 20'000; ++i) {
    const std::string delta = std::to_string(i) + "-" + std::string(40, 'd');
    outbox->Push(Piece::Make(delta, 7));
    expected += delta;
  }
  outbox->Push("end");
  std::string received;
  for (;;) {
    const auto text = client->ReadText();
    ASSERT_TRUE(text.has_value());
    if (*text == "end") break;
    ASSERT_EQ(text->front(), '<');
    ASSERT_EQ(text->back(), '>');
    received += text->substr(1, text->size() - 2);
  }
  EXPECT_TRUE(received == expected);
}

TEST_F(TransportSocketTest, ClosesOldConnectionsWith1012UnlessBusy) {
  options_.max_connection_age = milliseconds(100);
  busy_ = true;
  Start();
  const auto client = Open();
  std::this_thread::sleep_for(milliseconds(400));
  client->SendText("an answer runs");
  EXPECT_EQ(client->ReadText(), "an answer runs");
  busy_ = false;
  EXPECT_EQ(client->ReadClose(), 1012);
}

TEST_F(TransportSocketTest, DrainAnnouncesRefusesAndEndsWith1012) {
  options_.close_timeout = milliseconds(500);
  Start();
  const auto first = Open();
  const auto second = Open();
  for (const auto& client : {first.get(), second.get()}) {  // a socket that is still opening is closed
    client->SendText("open");
    EXPECT_EQ(client->ReadText(), "open");
  }
  server_->Drain(R"({"type":"ringside:server.draining","deadline_ms":1000})");
  for (const auto& client : {first.get(), second.get()}) {
    EXPECT_EQ(nlohmann::json::parse(client->ReadText().value())["deadline_ms"], 1000);
  }
  // Running work continues.
  first->SendText("still running");
  EXPECT_EQ(first->ReadText(), "still running");
  {
    WireClient late(port());
    EXPECT_EQ(late.Upgrade("/ws")->status, 503);
    EXPECT_EQ(WireClient(port()).Get("/healthz")->status, 200);
    const auto read = WireClient(port()).Get("/hello");
    EXPECT_EQ(read->status, 200);
    EXPECT_EQ(read->Header("connection"), "close");
    WireClient work(port());
    work.Send("POST /hello HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n");
    const auto refused = work.ReadAnswer();
    EXPECT_EQ(refused->status, 503);
    EXPECT_NE(refused->Header("retry-after"), "");
  }
  // `first` answers the close; `second` never reads again and is cut.
  std::thread reader([&] {
    EXPECT_EQ(first->ReadClose(), 1012);
    first->SendFrame(8, "\x03\xf4");
    EXPECT_TRUE(first->PeerCloses());
  });
  server_->Stop(milliseconds(5000));
  reader.join();
  EXPECT_TRUE(WaitClosed(2));
  EXPECT_EQ(server_->open_sockets(), 0);
  EXPECT_EQ(Closes(1012), "2");
}

TEST_F(TransportSocketTest, IdleSocketIsClosedOnlyIfConfigured) {
  options_.idle_timeout = milliseconds(50);
  Start();
  auto idle = Open();
  EXPECT_EQ(idle->ReadClose(), 4408);
  // A running answer is not idle time, and the idle timeout starts over after it.
  busy_ = true;
  auto waiting = Open();
  const auto outbox = WaitOutbox(1);
  waiting->SendText("one");
  EXPECT_EQ(waiting->ReadText(), "one");
  std::this_thread::sleep_for(milliseconds(200));
  outbox->Push("the answer");
  EXPECT_EQ(waiting->ReadText(), "the answer");
  busy_ = false;
  EXPECT_EQ(waiting->ReadClose(), 4408);
}

TEST_F(TransportSocketTest, HandlerSeesTheRequestAndMayRefuseTheUpgrade) {
  Start();
  WireClient client(port());
  EXPECT_EQ(client.Upgrade("/ws?q=none")->status, 404);
  EXPECT_EQ(client.Upgrade("/ws?q=throw")->status, 500);
  ASSERT_EQ(client.Upgrade("/ws?q=x%20y")->status, 101);  // the connection continues after a refusal
  WaitOutbox();
  EXPECT_EQ(seen_.opened, 1);
  EXPECT_EQ(seen_.queries, std::vector<std::string>{"x y"});
}

TEST_F(TransportSocketTest, StopNotifiesEveryHandler) {
  Start();
  std::vector<std::unique_ptr<WireClient>> clients;
  for (int i = 0; i < 20; ++i) clients.push_back(Open());
  WaitOutbox(19);
  const auto outbox = WaitOutbox();
  std::atomic<bool> done{false};
  std::thread pusher([&] {
    while (!done) outbox->Push("late");
  });
  server_->Stop(milliseconds(0));
  EXPECT_TRUE(WaitClosed(20));
  done = true;
  pusher.join();
}

TEST_F(TransportSocketTest, RefusesABadHandshake) {
  Start();
  WireClient old(port());
  const auto version = old.Get("/ws",
                               "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 8\r\n"
                               "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n");
  ASSERT_TRUE(version.has_value());
  EXPECT_EQ(version->status, 426);
  WireClient keyless(port());
  const auto key = keyless.Get("/ws", "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n");
  ASSERT_TRUE(key.has_value());
  EXPECT_EQ(key->status, 400);
  for (const char* bad :
       {"c2hvcnQ=", "dGhlIHNhbXBsZSBub25jZQ", "dGhlIHNhbXBsZSBub25j!Q==", "dGhlIHNhbXBsZSBub25jZTEy"}) {
    WireClient client(port());
    const auto answer = client.Get("/ws",
                                   "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
                                   "Sec-WebSocket-Key: " +
                                       std::string(bad) + "\r\n");
    ASSERT_TRUE(answer.has_value());
    EXPECT_EQ(answer->status, 400) << bad;
  }
  ExpectAlive();
}

TEST_F(TransportSocketTest, SixtyFourClientsAtOnce) {
  Start();
  std::vector<std::thread> threads;
  std::atomic<int> right{0};
  for (int t = 0; t < 64; ++t) {
    threads.emplace_back([&, t] {
      const auto client = Open();
      for (int i = 0; i < 20; ++i) {
        const std::string text = std::to_string(t) + ":" + std::to_string(i);
        client->SendText(text);
        if (client->ReadText() == text) ++right;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(right, 64 * 20);
  EXPECT_TRUE(WaitClosed(64));
}

}  // namespace
}  // namespace ringside::testing
