#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/write.hpp>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "clients/wire/client_event.h"
#include "clients/wire/conversations.h"
#include "clients/wire/server_event.h"
#include "clients/wire/transport/server_url.h"
#include "clients/wire/transport/wire_stream.h"
#include "tests/clients/fake_server.h"

namespace ringside::client {
namespace {

namespace asio = boost::asio;
using Json = nlohmann::json;
using ::testing::HasSubstr;

TEST(ServerUrl, ParsesCommonForms) {
  struct Case {
    const char *text, *host;
    int port;
    const char* base;
  };
  for (const Case& c :
       {Case{"ws://127.0.0.1:8080", "127.0.0.1", 8080, "/v1"}, Case{"http://localhost:1/", "localhost", 1, "/v1"},
        Case{"host", "host", 8080, "/v1"}, Case{"host:99", "host", 99, "/v1"}, Case{"http://host", "host", 80, "/v1"},
        Case{"ws://[::1]:7/v1", "::1", 7, "/v1"}, Case{"ws://h:7/v1/responses", "h", 7, "/v1"},
        Case{"http://h:7/api/v1/", "h", 7, "/api/v1"}}) {
    const Outcome<ServerUrl> url = ParseServerUrl(c.text);
    ASSERT_TRUE(url.ok()) << c.text;
    EXPECT_EQ(url->host, c.host) << c.text;
    EXPECT_EQ(url->port, c.port) << c.text;
    EXPECT_EQ(url->base_path, c.base) << c.text;
  }
  EXPECT_EQ(ParseServerUrl("ws://[::1]:7")->Authority(), "[::1]:7");
}

TEST(ServerUrl, RefusesUnreachableUrls) {
  for (const char* text : {"", "ftp://h", "wsss://h", "ws://", "ws://h:0", "ws://h:65536", "ws://h:x", "ws://h:1?a=b",
                           "ws://[::1", "ws://[::1]x", "ws://user@h:1", "ws://:80"}) {
    EXPECT_FALSE(ParseServerUrl(text).ok()) << text;
  }
  EXPECT_TRUE(ParseServerUrl("wss://h")->tls);
  EXPECT_EQ(ParseServerUrl("wss://h")->port, 443);
  EXPECT_EQ(ParseServerUrl("https://h:1/v1")->port, 1);
  EXPECT_FALSE(ParseServerUrl("ws://h")->tls);
}

TEST(ClientEvent, ATurnCarriesItsFields) {
  const Json json = Json::parse(EncodeTurn({.conversation = "conv_a",
                                            .input = {{"user", "hi \"there\"\n"}},
                                            .instructions = "be brief",
                                            .fields = {{"temperature", "0.5"}, {"stop", "[\"x\"]"}, {"bad", "{"}}}));
  EXPECT_EQ(json, (Json{{"type", "response.create"},
                        {"conversation", "conv_a"},
                        {"input", "hi \"there\"\n"},
                        {"instructions", "be brief"},
                        {"temperature", 0.5},
                        {"stop", {"x"}}}));
}

TEST(ClientEvent, EmptyAndMultipleInputsAreLists) {
  EXPECT_EQ(Json::parse(EncodeTurn({.conversation = "conv_a"}))["input"], Json::array());
  const Json input =
      Json::parse(EncodeTurn({.conversation = "c", .input = {{"user", "a"}, {"assistant", "b"}}}))["input"];
  ASSERT_EQ(input.size(), 2u);
  EXPECT_EQ(input[1]["role"], "assistant");
  EXPECT_EQ(input[1]["content"], "b");
}

TEST(ClientEvent, ReplacesInvalidUtf8) {
  EXPECT_EQ(Json::parse(EncodeTurn({.conversation = "c", .input = {{"user", "a\xff"}}}))["input"], "a\xef\xbf\xbd");
}

TEST(ClientEvent, ResumeOmitsUnknownFields) {
  EXPECT_EQ(Json::parse(EncodeResume("conv_a", std::nullopt, std::nullopt, std::nullopt)),
            (Json{{"type", "ringside:session.resume"}, {"session", "conv_a"}}));
  const uint64_t epoch = 18446744073709551615u;
  const Json json = Json::parse(EncodeResume("conv_a", epoch, 0, HistoryPosition{epoch, "ab"}));
  EXPECT_EQ(json["epoch"].get<uint64_t>(), epoch);
  EXPECT_EQ(json["after"], 0);
  EXPECT_EQ(json["known"]["seq"].get<uint64_t>(), epoch);
  EXPECT_EQ(json["known"]["chain"], "ab");
}

TEST(ClientEvent, RequestIdsDiffer) { EXPECT_NE(MakeRequestId(), MakeRequestId()); }

TEST(ServerEvent, ReadsAFinishedResponse) {
  const auto event = ParseServerEvent(R"({"type":"response.incomplete","ringside":{"seq":12},"response":{"id":"resp_1",
    "status":"incomplete","incomplete_details":{"reason":"max_output_tokens"},
    "output":[{"type":"message","content":[{"type":"output_text","text":"ab"},{"type":"output_text","text":"c"}]}],
    "usage":{"input_tokens":10,"input_tokens_details":{"cached_tokens":7},"output_tokens":2},
    "ringside":{"source":"slot","tokens_reused":7,"tokens_computed":3,"tokens_evicted":1,"messages_evicted":1,
                "restore_ms":1.5,"position":12,"ttft_ms":20.5,"tokens_per_s":80}}})");
  ASSERT_TRUE(event.has_value());
  EXPECT_EQ(event->kind, ServerEvent::Kind::kFinished);
  EXPECT_EQ(event->seq, 12u);
  EXPECT_EQ(event->status, "incomplete");
  EXPECT_EQ(event->incomplete_reason, "max_output_tokens");
  EXPECT_EQ(event->text, "abc");
  EXPECT_EQ(event->report.source, "slot");
  EXPECT_EQ(event->report.input_tokens, 10);
  EXPECT_EQ(event->report.cached_tokens, 7);
  EXPECT_EQ(event->report.tokens_computed, 3);
  EXPECT_EQ(event->report.position, 12);
  EXPECT_DOUBLE_EQ(event->report.ttft_ms.value(), 20.5);
}

TEST(ServerEvent, ServerReasonPrecedesTheApis) {
  const auto event = ParseServerEvent(R"({"type":"response.incomplete","response":{"id":"resp_1","status":"incomplete",
    "incomplete_details":{"reason":"max_output_tokens"},"ringside":{"source":"slot","incomplete_reason":"repetition"}}})");
  ASSERT_TRUE(event);
  EXPECT_EQ(event->incomplete_reason, "repetition");
}

TEST(ServerEvent, WrongTypesKeepDefaults) {
  const auto event = ParseServerEvent(
      R"({"type":"response.completed","response":{"id":3,"output":{},"usage":[],"ringside":{"source":null,"position":"x"}}})");
  ASSERT_TRUE(event.has_value());
  EXPECT_EQ(event->response_id, "");
  EXPECT_EQ(event->report.position, 0);
  EXPECT_FALSE(event->seq.has_value());
}

TEST(ServerEvent, NonObjectIsNotAnEvent) {
  for (const char* text : {"", "{", "[]", "3", "{}", "{\"type\":null}", "\xff"}) {
    EXPECT_FALSE(ParseServerEvent(text).has_value()) << text;
  }
  EXPECT_FALSE(ParseServerEvent(std::string(100000, '[')).has_value());
}

TEST(ServerEvent, RunningResponseIsNotFinished) {
  EXPECT_EQ(ParseResponse(R"({"id":"resp_1","status":"in_progress"})")->kind, ServerEvent::Kind::kOther);
  EXPECT_EQ(ParseResponse(R"({"id":"resp_1","status":"cancelled"})")->kind, ServerEvent::Kind::kFinished);
}

TEST(ServerEvent, ToolCallIsReportedAsText) {
  const auto event = ParseResponse(
      R"({"id":"resp_1","status":"completed","output":[{"type":"function_call","name":"f","arguments":"{\"a\":1}"}]})");
  EXPECT_EQ(event->text, "[calls f {\"a\":1}]");
}

TEST(ServerEvent, ToolCallIsReportedIncrementally) {
  std::string told;
  for (
      const char* message :
      {R"({"type":"response.output_item.added","output_index":0,"item":{"type":"message","content":[]}})",
       R"({"type":"response.output_text.delta","delta":"Hm"})",
       R"({"type":"response.output_item.done","output_index":0,"item":{"type":"message","content":[]}})",
       R"({"type":"response.output_item.added","output_index":1,"item":{"type":"function_call","name":"f","arguments":""}})",
       R"({"type":"response.function_call_arguments.delta","output_index":1,"delta":"{\"a\""})",
       R"({"type":"response.function_call_arguments.delta","output_index":1,"delta":":1}"})",
       R"({"type":"response.function_call_arguments.done","output_index":1,"arguments":"{\"a\":1}"})",
       R"({"type":"response.output_item.done","output_index":1,"item":{"type":"function_call","name":"f","arguments":"{\"a\":1}"}})",
       R"({"type":"response.output_item.added","output_index":2,"item":{"type":"function_call","name":"g","arguments":""}})"}) {
    const auto event = ParseServerEvent(message);
    EXPECT_EQ(event->kind == ServerEvent::Kind::kDelta, !event->text.empty()) << message;
    told += event->text;
  }
  EXPECT_EQ(told, "Hm\n[calls f {\"a\":1}]\n[calls g ");
  // The snapshot for a late client decodes to the same text.
  const auto snapshot = ParseServerEvent(
      R"({"type":"ringside:session.snapshot","response_id":"r","text":"Hm","next_seq":9,"output":[
          {"type":"message","content":[{"type":"output_text","text":"Hm"}]},
          {"type":"function_call","status":"completed","name":"f","arguments":"{\"a\":1}"},
          {"type":"function_call","status":"in_progress","name":"g","arguments":""}]})");
  EXPECT_EQ(snapshot->text, told);
}

TEST(Conversations, ReadsEveryPageOfItems) {
  const FakeServer server({.on_request = [](const FakeRequest& request) -> FakeAnswer {
    EXPECT_THAT(request.target, HasSubstr("/v1/conversations/conv_a/items?"));
    EXPECT_THAT(request.target, HasSubstr("order=asc"));
    EXPECT_EQ(request.authorization, "Bearer key");
    if (request.target.find("after=msg_2") == std::string::npos) {
      return {200, R"({"data":[{"id":"msg_1","role":"user","content":[{"type":"input_text","text":"a"}]},
                               {"id":"msg_2","role":"assistant","content":"b"}],"has_more":true})"};
    }
    return {200, R"({"data":[{"id":"msg_3","role":"user","content":[]}],"has_more":false})"};
  }});
  const HttpClient http(server.url(), "key");
  const auto items = GetItems(http, "conv_a");
  ASSERT_TRUE(items.ok());
  ASSERT_EQ(items->size(), 3u);
  EXPECT_EQ((*items)[0].text, "a");
  EXPECT_EQ((*items)[1].text, "b");
  EXPECT_EQ((*items)[1].role, "assistant");
  EXPECT_EQ((*items)[2].text, "");
}

TEST(Conversations, AnswerAndToolCallsAreOneMessage) {
  const FakeServer server({.on_request = [](const FakeRequest&) -> FakeAnswer {
    return {200, R"({"data":[
        {"id":"msg_a","type":"message","status":"completed","role":"assistant","content":[{"type":"output_text","text":"Hm"}]},
        {"id":"fc_a_0","type":"function_call","status":"completed","call_id":"c","name":"f","arguments":"{}"},
        {"id":"fc_a_1","type":"function_call","status":"incomplete","call_id":"d","name":"g","arguments":"{"},
        {"id":"msg_b","type":"function_call_output","status":"completed","call_id":"c","output":"42"},
        {"id":"fc_c_0","type":"function_call","status":"completed","call_id":"e","name":"f","arguments":"{}"}],"has_more":false})"};
  }});
  const auto items = GetItems(HttpClient(server.url(), ""), "conv_a");
  ASSERT_TRUE(items.ok());
  ASSERT_EQ(items->size(), 3u);  // as the server counts them for a rewind
  EXPECT_EQ((*items)[0].text, "Hm\n[calls f {}]\n[calls g {]");
  EXPECT_FALSE((*items)[0].complete);
  EXPECT_EQ((*items)[1].role, "tool");
  EXPECT_EQ((*items)[1].text, "42");
  EXPECT_EQ((*items)[2].role, "assistant");
}

TEST(Conversations, ReasoningBelongsToItsAnswer) {
  const FakeServer server({.on_request = [](const FakeRequest&) -> FakeAnswer {
    return {200, R"({"data":[
        {"id":"rs_a","type":"reasoning","status":"completed","summary":[],"content":[{"type":"reasoning_text","text":"Hm"}]},
        {"id":"msg_a","type":"message","status":"completed","role":"assistant","content":[{"type":"output_text","text":"Yo"}]},
        {"id":"rs_b","type":"reasoning","status":"incomplete","summary":[{"type":"summary_text","text":"H"}]}],"has_more":false})"};
  }});
  const auto items = GetItems(HttpClient(server.url(), ""), "conv_a");
  ASSERT_TRUE(items.ok());
  ASSERT_EQ(items->size(), 2u);
  EXPECT_EQ((*items)[0].role, "assistant");
  EXPECT_EQ((*items)[0].text, "Yo");
  EXPECT_EQ((*items)[0].reasoning, "Hm");
  EXPECT_TRUE((*items)[0].complete);
  EXPECT_EQ((*items)[1].reasoning, "H");
  EXPECT_FALSE((*items)[1].complete);
}

TEST(Conversations, ListShowsTheServersFacts) {
  const FakeServer server({.on_request = [](const FakeRequest&) -> FakeAnswer {
    return {200, R"({"object":"list","data":[{"id":"conv_b","created_at":1700000000.5,
                     "ringside":{"messages":4,"tokens":99}},{"id":"conv_a"}],"has_more":false})"};
  }});
  const auto list = ListConversations(HttpClient(server.url(), ""), 10);
  ASSERT_TRUE(list.ok());
  ASSERT_EQ(list->size(), 2u);
  EXPECT_EQ((*list)[0].id, "conv_b");
  EXPECT_EQ((*list)[0].created_at, 1700000000);
  EXPECT_EQ((*list)[0].messages, 4);
  EXPECT_EQ((*list)[1].tokens, -1);
}

TEST(Conversations, ReadsStorageLocations) {
  const FakeServer server({.on_request = [](const FakeRequest& request) -> FakeAnswer {
    EXPECT_EQ(request.target, "/v1/conversations/conv_a");
    return {200, R"({"id":"conv_a","created_at":1,"ringside":{"items":2,"tokens":9,"position":8,"pinned":4,
                     "tokens_evicted":3,"memory_len":64,"session_len":128,"updated_at":2,"epoch":18446744073709551615,
                     "durable":true,"seq":7,"chain":"00ff","cache":"disk","active_response_id":"resp_x"}})"};
  }});
  const auto session = GetConversation(HttpClient(server.url(), ""), "conv_a");
  ASSERT_TRUE(session.ok());
  EXPECT_EQ(session->updated_at, 2);
  EXPECT_EQ(session->messages, 2);
  EXPECT_EQ(session->position, 8);
  EXPECT_EQ(session->pinned, 4);
  EXPECT_EQ(session->tokens_evicted, 3);
  EXPECT_EQ(session->memory_len, 64);
  EXPECT_EQ(session->session_len, 128);
  EXPECT_EQ(session->epoch, 18446744073709551615u);
  EXPECT_EQ(session->durable, true);
  EXPECT_EQ(session->seq, 7u);
  EXPECT_EQ(session->chain, "00ff");
  EXPECT_EQ(session->cache, "disk");
  EXPECT_EQ(session->active_response, "resp_x");
}

TEST(Conversations, TruncatedAnswerIsIncomplete) {
  const FakeServer server({.on_request = [](const FakeRequest&) -> FakeAnswer {
    return {200, R"({"data":[{"id":"a","role":"user","status":"completed","content":"x"},
                             {"id":"b","role":"assistant","status":"incomplete","content":"y"}],"has_more":false})"};
  }});
  const auto items = GetItems(HttpClient(server.url(), ""), "conv_a");
  ASSERT_TRUE(items.ok());
  EXPECT_TRUE((*items)[0].complete);
  EXPECT_FALSE((*items)[1].complete);
}

TEST(ServerEvent, ReadsHistoryAndQueuePositions) {
  const auto resumed = ParseServerEvent(
      R"({"type":"ringside:session.resumed","session":"c","session_present":true,"position":{"seq":5,"chain":"ab"}})");
  ASSERT_TRUE(resumed && resumed->history);
  EXPECT_EQ(*resumed->history, (HistoryPosition{5, "ab"}));
  const auto finished = ParseServerEvent(
      R"({"type":"response.incomplete","response":{"id":"r","status":"incomplete","ringside":{"seq":6,"chain":"cd"},
          "incomplete_details":{"reason":"interrupted"}}})");
  ASSERT_TRUE(finished && finished->history);
  EXPECT_EQ(*finished->history, (HistoryPosition{6, "cd"}));
  EXPECT_EQ(finished->incomplete_reason, "interrupted");
  EXPECT_FALSE(ParseServerEvent(R"({"type":"response.completed","response":{"ringside":{"seq":6}}})")->history);
  const auto queued = ParseServerEvent(R"({"type":"ringside:response.queued","response_id":"r","position":3})");
  EXPECT_EQ(queued->kind, ServerEvent::Kind::kQueued);
  EXPECT_EQ(queued->response_id, "r");
  EXPECT_EQ(queued->position, 3);
  EXPECT_EQ(ParseServerEvent(R"({"type":"error","error":{"retry_after_ms":250}})")->error.retry_after_ms, 250);
}

TEST(Conversations, StoreTheTitleInMetadata) {
  std::string body;
  const FakeServer server({.on_request = [&](const FakeRequest& request) -> FakeAnswer {
    body = request.body;
    return {200, R"({"id":"conv_new"})"};
  }});
  const HttpClient http(server.url(), "");
  EXPECT_EQ(*CreateConversation(http), "conv_new");
  EXPECT_EQ(Json::parse(body), Json::object());
  EXPECT_EQ(*CreateConversation(http, "Sky"), "conv_new");
  EXPECT_EQ(Json::parse(body), Json({{"metadata", {{"title", "Sky"}}}}));
}

TEST(Conversations, RenamingKeepsOtherMetadata) {
  std::string body;
  const FakeServer server({.on_request = [&](const FakeRequest& request) -> FakeAnswer {
    if (request.method == "POST") body = request.body;
    return {200, R"({"id":"conv_a","metadata":{"k":"v","title":"old"},"ringside":{"instructions":"Be kind."}})"};
  }});
  const HttpClient http(server.url(), "");
  const auto before = GetConversation(http, "conv_a");
  ASSERT_TRUE(before.ok());
  EXPECT_EQ(before->Title(), "old");
  EXPECT_EQ(before->instructions, "Be kind.");
  ASSERT_TRUE(SetTitle(http, "conv_a", "new").ok());
  EXPECT_EQ(Json::parse(body), Json({{"metadata", {{"k", "v"}, {"title", "new"}}}}));
}

TEST(WireStream, FindsTheAuthoritiesOfASystemOtherThanOpenSsls) {
  // Any certificate: this one is trusted by no one.
  constexpr char kCertificate[] = R"(-----BEGIN CERTIFICATE-----
MIIBdDCCARugAwIBAgIUdy+vhFhzBfag2bJqUFkcnr781j0wCgYIKoZIzj0EAwIw
DzENMAsGA1UEAwwEdGVzdDAgFw0yNjEyMDEwNjM4MTVaGA8yMTI2MTEwNzA2Mzgx
NVowDzENMAsGA1UEAwwEdGVzdDBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABP+x
h8KY2YIjDwlFcKkXtiLQ920eTx7tAfQ3Fp9blZe/xrMvEqOnOEK2RmCGZ7kAJ95V
VBzS35jwE0XiTpApiYejUzBRMB0GA1UdDgQWBBTctcRnwO0Lt01XX06WdyxOPSsq
ejAfBgNVHSMEGDAWgBTctcRnwO0Lt01XX06WdyxOPSsqejAPBgNVHRMBAf8EBTAD
AQH/MAoGCCqGSM49BAMCA0cAMEQCIEno9pAGtgnTGHSBn8/eu36h5hbrq9mqMe25
5WI1t+M4AiB2vypmaBjMO6wkV8GfVFGMNcI1cH93uQNmT7dSrcqe5A==
-----END CERTIFICATE-----
)";
  const std::string folder = ::testing::TempDir() + "authorities";
  std::filesystem::create_directory(folder);
  const std::string broken = folder + "/broken.pem", whole = folder + "/whole.pem", absent = folder + "/absent.pem";
  std::ofstream(broken) << "no certificate";
  std::ofstream(whole) << kCertificate;
  asio::ssl::context context(asio::ssl::context::tls_client);
  EXPECT_EQ(TrustSystem(context, "/no/such/folder", {absent, broken, whole}), whole);
  EXPECT_EQ(TrustSystem(context, "/no/such/folder", {absent, broken}), "");
  EXPECT_EQ(TrustSystem(context, folder, {whole}), "");
}

TEST(HttpClient, ReportsTheServersMessage) {
  const FakeServer server({.on_request = [](const FakeRequest&) -> FakeAnswer {
    return {404, R"({"error":{"message":"No such conversation.","code":"not_found"}})"};
  }});
  const auto answer = HttpClient(server.url(), "").Request("GET", "/conversations/conv_x");
  ASSERT_FALSE(answer.ok());
  EXPECT_EQ(answer.failure().http_status, 404);
  EXPECT_EQ(answer.failure().message, "No such conversation.");
  EXPECT_EQ(answer.failure().code, "not_found");
}

TEST(HttpClient, LargeTransferDoesNotTimeOut) {
  constexpr auto kPatience = std::chrono::seconds(3);
  asio::io_context context;
  asio::ip::tcp::acceptor acceptor(context, {asio::ip::address_v4::loopback(), 0});
  std::thread server([&] {
    asio::ip::tcp::socket socket = acceptor.accept();
    std::string request;
    asio::read_until(socket, asio::dynamic_buffer(request), "\r\n\r\n");
    asio::write(socket, asio::buffer(std::string("HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n")));
    const auto begun = std::chrono::steady_clock::now();
    for (int i = 0; i < 10; ++i) {
      std::this_thread::sleep_until(begun + (i + 1) * kPatience * 3 / 20);
      boost::system::error_code gone;
      asio::write(socket, asio::buffer("x", 1), gone);
    }
  });
  ServerUrl url;
  url.port = acceptor.local_endpoint().port();
  const auto answer = HttpClient(url, "", kPatience).Request("GET", "/models");
  server.join();
  ASSERT_TRUE(answer.ok()) << answer.failure().message;
  EXPECT_EQ(answer->body, "xxxxxxxxxx");
}

TEST(HttpClient, ReportsUnreachableServers) {
  ServerUrl url;
  {
    const FakeServer server({});
    url = server.url();
  }
  const auto answer = HttpClient(url, "").Request("GET", "/models");
  ASSERT_FALSE(answer.ok());
  EXPECT_EQ(answer.failure().http_status, 0);
  EXPECT_THAT(answer.failure().message, HasSubstr(url.Authority()));
}

}  // namespace
}  // namespace ringside::client
