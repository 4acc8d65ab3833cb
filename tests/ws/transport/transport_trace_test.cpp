// A request's trace: read from its header, returned in the answer, logged.
#include "base/log.h"
#include "tests/ws/transport/transport_fixture.h"

namespace ringside::testing {
namespace {

const std::string kTrace = "4bf92f3577b34da6a3ce929d0e0e4736";
const std::string kHeader = "traceparent: 00-" + kTrace + "-00f067aa0ba902b7-01\r\n";

using TransportTraceTest = TransportTest;

bool Names(const WireAnswer& answer, const std::string& trace) {
  return answer.Header("traceparent").starts_with("00-" + trace + "-");
}

TEST_F(TransportTraceTest, EveryResponseNamesItsTraceAndSpan) {
  Start();
  WireClient client(port());
  for (const char* path : {"/hello", "/nothing", "/throw"}) {
    const auto answer = client.Get(path, kHeader);
    ASSERT_TRUE(answer.has_value());
    const std::string told = answer->Header("traceparent"), id = answer->Header("x-request-id");
    ASSERT_EQ(told.size(), 55u) << told;
    EXPECT_TRUE(Names(*answer, kTrace)) << told;
    EXPECT_EQ(told.substr(36, 16), id.substr(id.size() - 16)) << "the request's id ends with the id of its part";
    EXPECT_TRUE(told.ends_with("-01"));
  }
}

TEST_F(TransportTraceTest, RequestWithoutATraceStartsOne) {
  Start();
  WireClient client(port());
  const auto first = client.Get("/hello"), second = client.Get("/hello");
  ASSERT_TRUE(first && second);
  EXPECT_EQ(first->Header("traceparent").substr(3, 32), first->Header("x-request-id").substr(4));
  EXPECT_TRUE(first->Header("traceparent").ends_with("-00"));
  EXPECT_NE(first->Header("traceparent"), second->Header("traceparent"));
  // The previous request's trace does not carry over.
  ASSERT_TRUE(Names(*client.Get("/hello", kHeader), kTrace));
  EXPECT_FALSE(Names(*client.Get("/hello"), kTrace));
}

TEST_F(TransportTraceTest, IgnoresABadHeaderWithoutEchoingIt) {
  Start();
  WireClient client(port());
  const std::string good = kHeader.substr(0, kHeader.size() - 2);
  const std::vector<std::string> bad = {kHeader + kHeader,
                                        good + "-more\r\n",
                                        good + ", " + good.substr(13) + "\r\n",
                                        "traceparent:\r\n",
                                        "traceparent: 00-" + std::string(32, '0') + "-00f067aa0ba902b7-01\r\n",
                                        "traceparent: 00-" + kTrace + "-0000000000000000-01\r\n",
                                        "traceparent: ff" + kHeader.substr(15),
                                        "traceparent: 00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01\r\n",
                                        "traceparent: " + std::string(8000, 'a') + "\r\n",
                                        "traceparent: \"\\u0000{}<script>\r\n"};
  for (const std::string& lines : bad) {
    const auto answer = client.Get("/hello", lines);
    ASSERT_TRUE(answer.has_value()) << lines;
    EXPECT_EQ(answer->status, 200) << lines;
    EXPECT_EQ(answer->Header("traceparent").size(), 55u);
    EXPECT_FALSE(Names(*answer, kTrace)) << lines;
    EXPECT_EQ(answer->head.find("script"), std::string::npos);
  }
}

TEST_F(TransportTraceTest, UpgradeReportsTheTraceAndPassesItToTheHandler) {
  auto service = MakeService();
  std::promise<TraceContext> given;
  service->sockets["/traced"] = {.open = [&](const HttpRequest& request, std::shared_ptr<Outbox> outbox) {
    given.set_value(request.trace);
    return OpenEcho(request, std::move(outbox));
  }};
  Start(std::move(service));
  WireClient client(port());
  const auto upgrade = client.Upgrade("/traced", kHeader);
  ASSERT_TRUE(upgrade.has_value());
  EXPECT_EQ(upgrade->status, 101);
  EXPECT_TRUE(Names(*upgrade, kTrace)) << upgrade->head;
  EXPECT_EQ(Traceparent(given.get_future().get()), upgrade->Header("traceparent"));
}

TEST_F(TransportTraceTest, RequestLogNamesItsTraceWithoutContent) {
  Start();
  ConfigureLog(LogLevel::kDebug, LogFormat::kJson);
  ::testing::internal::CaptureStderr();
  WireClient client(port());
  EXPECT_EQ(client.Get("/throw", kHeader)->status, 500);
  WireClient socket(port());
  ASSERT_EQ(socket.Upgrade("/ws", kHeader)->status, 101);
  socket.SendText("throw");
  EXPECT_EQ(socket.ReadClose(), 1011);
  const std::string log = ::testing::internal::GetCapturedStderr();
  ConfigureLog(LogLevel::kInfo, LogFormat::kText);
  int types = 0;
  for (size_t at = 0; at < log.size(); at = log.find('\n', at) + 1) {
    const auto line = nlohmann::json::parse(log.substr(at, log.find('\n', at) - at));
    EXPECT_EQ(line.value("trace_id", ""), kTrace) << line;
    types += line.value("msg", "").ends_with(": std::runtime_error") ? 1 : 0;
  }
  EXPECT_EQ(types, 2) << log;
  EXPECT_EQ(log.find("a handler failed"), std::string::npos);
  EXPECT_EQ(log.find("a face failed"), std::string::npos);
}

}  // namespace
}  // namespace ringside::testing
