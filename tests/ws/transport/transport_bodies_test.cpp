// Bodies of many requests at once: how much memory they may hold together.
#include "tests/ws/transport/transport_fixture.h"
#include "ws/transport/body_budget.h"

namespace ringside::testing {
namespace {

constexpr size_t kLarge = 300'000;

class TransportBodiesTest : public TransportTest {
 protected:
  TransportBodiesTest() {
    options_.bodies_bytes = 500'000;
    options_.worker_threads = 4;  // one of them is held
  }
  std::optional<WireAnswer> Post(size_t bytes) {
    WireClient client(port());
    client.Send("POST /echo/x HTTP/1.1\r\nHost: localhost\r\nContent-Length: " + std::to_string(bytes) + "\r\n\r\n" +
                std::string(bytes, 'b'));
    return client.ReadAnswer();
  }
};

TEST_F(TransportBodiesTest, TogetherTheyAreBounded) {
  Start();
  WireClient first(port());
  first.Send("GET /block HTTP/1.1\r\nHost: localhost\r\nContent-Length: " + std::to_string(kLarge) + "\r\n\r\n" +
             std::string(kLarge, 'a'));
  gate_.WaitFor(1);  // the whole body is there
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

TEST_F(TransportBodiesTest, WhatIsAnnouncedAndDoesNotComeTakesNothing) {
  Start();
  WireClient announcing(port());
  announcing.Send("POST /echo/x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4000000\r\n\r\nabc");
  EXPECT_EQ(Post(400'000).value().status, 200);
}

}  // namespace
}  // namespace ringside::testing
