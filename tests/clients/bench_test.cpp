// Parts of the load client: encoding and decoding of each protocol, recorded conversations, figures and charts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "clients/bench/bench_options.h"
#include "clients/bench/dataset.h"
#include "clients/bench/line_chart.h"
#include "clients/bench/load_report.h"
#include "clients/bench/protocol.h"
#include "clients/bench/sse_reader.h"

namespace ringside::client {
namespace {

using Json = nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(BenchOptions, ReadsBothMeasurements) {
  ::setenv("RINGSIDE_API_KEY", "envkey", 1);
  const BenchOptions load = ParseBenchOptions({"load", "--url", "ws://h:9", "--protocol", "chat", "-n", "3"});
  EXPECT_EQ(load.verb, BenchOptions::Verb::kLoad);
  EXPECT_EQ(load.server.url.port, 9);
  EXPECT_EQ(load.server.api_key, "envkey");
  EXPECT_EQ(load.load.protocol, Protocol::kChat);
  EXPECT_EQ(load.load.conversations, 3);
  const BenchOptions append = ParseBenchOptions({"append", "--rounds", "2", "--api-key", "flagkey"});
  EXPECT_EQ(append.verb, BenchOptions::Verb::kAppend);
  EXPECT_EQ(append.server.api_key, "flagkey");
  EXPECT_EQ(append.append.rounds, 2);
  ::unsetenv("RINGSIDE_API_KEY");
}

TEST(BenchOptions, BadOptionsExitWith2AndAMessage) {
  for (const std::vector<std::string>& args : std::vector<std::vector<std::string>>{
           {}, {"walk"}, {"append", "--rounds", "0"}, {"load", "--protocol", "x"}, {"load", "--url", "ftp://h"}}) {
    const BenchOptions options = ParseBenchOptions(args);
    EXPECT_EQ(options.verb, BenchOptions::Verb::kNone);
    EXPECT_EQ(options.outcome.exit_code, 2);
    EXPECT_FALSE(options.outcome.to_stderr.empty());
  }
  EXPECT_THAT(ParseBenchOptions({"load", "--help"}).outcome.to_stdout, HasSubstr("--protocol"));
}

TEST(SseReader, EventsAreIndependentOfChunks) {
  const std::string stream =
      ": a comment\n\nevent: x\ndata: {\"a\":1}\n\ndata:two\r\ndata: lines\r\n\r\nid: 3\n\ndata: [DONE]\n\ndata: cut";
  for (size_t piece = 1; piece <= stream.size(); ++piece) {
    SseReader reader;
    std::vector<std::string> events;
    for (size_t at = 0; at < stream.size(); at += piece) {
      for (std::string& event : reader.Push(std::string_view(stream).substr(at, piece))) events.push_back(event);
    }
    EXPECT_THAT(events, ElementsAre("{\"a\":1}", "two\nlines", "[DONE]")) << piece;
  }
}

TEST(Protocol, ChatSendsTheWholeHistory) {
  const TalkState state{.model = "m", .history = {{"user", "a"}, {"assistant", "b"}}, .max_tokens = 5};
  const Json chat = Json::parse(EncodeTurn(Protocol::kChat, state, "c"));
  EXPECT_EQ(chat["messages"].size(), 3u);
  EXPECT_EQ(chat["messages"][1]["content"], "b");
  EXPECT_EQ(chat["messages"][2], Json({{"role", "user"}, {"content", "c"}}));
  EXPECT_EQ(chat["max_tokens"], 5);
  EXPECT_EQ(chat["stream"], true);
  EXPECT_EQ(chat["stream_options"]["include_usage"], true);
  EXPECT_EQ(Json::parse(EncodeTurn(Protocol::kCompletions, state, "c"))["prompt"],
            "User: a\nAssistant: b\nUser: c\nAssistant:");
}

TEST(Protocol, ResponsesSendOnlyNewInputAndThePreviousId) {
  TalkState state{.model = "m", .history = {{"user", "a"}}, .max_tokens = 5, .ignore_eos = true};
  Json json = Json::parse(EncodeTurn(Protocol::kResponsesWs, state, "c"));
  EXPECT_EQ(json, Json({{"type", "response.create"},
                        {"model", "m"},
                        {"input", "c"},
                        {"max_output_tokens", 5},
                        {"ignore_eos", true}}));
  state.previous_response_id = "resp_1";
  json = Json::parse(EncodeTurn(Protocol::kResponsesHttp, state, "c"));
  EXPECT_EQ(json["previous_response_id"], "resp_1");
  EXPECT_EQ(json["stream"], true);
}

TEST(Protocol, ReadsAnAnswer) {
  EXPECT_EQ(ReadEvent(Protocol::kChat, R"({"choices":[{"delta":{"role":"assistant","content":"Hi"}}]})").text, "Hi");
  EXPECT_EQ(ReadEvent(Protocol::kCompletions, R"({"choices":[{"text":"Hi"}]})").text, "Hi");
  const HeardEvent usage = ReadEvent(Protocol::kChat, R"({"choices":[],"usage":{"prompt_tokens":9,"completion_tokens":2,
                           "prompt_tokens_details":{"cached_tokens":7}}})");
  ASSERT_TRUE(usage.usage);
  EXPECT_EQ(usage.usage->input, 9);
  EXPECT_EQ(usage.usage->cached, 7);
  EXPECT_EQ(usage.usage->output, 2);
  EXPECT_FALSE(usage.ends);
  EXPECT_TRUE(ReadEvent(Protocol::kChat, "[DONE]").ends);
  EXPECT_EQ(ReadEvent(Protocol::kResponsesWs, R"({"type":"response.output_text.delta","delta":"Hi"})").text, "Hi");
  const HeardEvent end = ReadEvent(Protocol::kResponsesHttp,
                                   R"({"type":"response.incomplete","response":{"id":"resp_1","usage":{"input_tokens":9,
                                    "input_tokens_details":{"cached_tokens":7},"output_tokens":2}}})");
  EXPECT_TRUE(end.ends && end.error.empty());
  EXPECT_EQ(end.response_id, "resp_1");
  EXPECT_EQ(end.usage->cached, 7);
}

TEST(Protocol, ReasoningIsOutputButNotText) {
  const std::pair<Protocol, const char*> events[] = {
      {Protocol::kChat, R"({"choices":[{"delta":{"reasoning":"Hm","reasoning_content":"Hm"}}]})"},
      {Protocol::kChat, R"({"choices":[{"delta":{"reasoning_content":"Hm"}}]})"},
      {Protocol::kResponsesHttp, R"({"type":"response.reasoning_text.delta","delta":"Hm"})"}};
  for (const auto& [protocol, event] : events) {
    EXPECT_EQ(ReadEvent(protocol, event).reasoning, "Hm") << event;
    EXPECT_EQ(ReadEvent(protocol, event).text, "") << event;
  }
}

TEST(Protocol, ClassifiesErrors) {
  EXPECT_EQ(ReadEvent(Protocol::kChat, R"({"error":{"message":"no","type":"server_error"}})").error, "server_error");
  EXPECT_EQ(ReadEvent(Protocol::kResponsesWs, R"({"type":"error","error":{"code":"rate_limit_exceeded"}})").error,
            "rate_limit_exceeded");
  EXPECT_EQ(ReadEvent(Protocol::kResponsesWs, R"({"type":"response.failed","response":{}})").error, "failed");
  EXPECT_EQ(ReadEvent(Protocol::kResponsesWs,
                      R"({"type":"response.incomplete","response":{"incomplete_details":{"reason":"interrupted"}}})")
                .error,
            "interrupted");
  EXPECT_EQ(ReadEvent(Protocol::kChat, "nonsense").error, "unreadable");
  EXPECT_EQ(ReadRefusal(429, R"({"error":{"message":"Too many."}})").error, "http_429");
  EXPECT_EQ(ReadRefusal(429, R"({"error":{"message":"Too many."}})").message, "Too many.");
  EXPECT_EQ(ReadRefusal(502, "<html>").message, "HTTP 502");
  for (const char* odd : {"1", "[]", "{}", R"({"choices":[1]})", R"({"choices":[{"delta":1}],"usage":2})"}) {
    for (const std::string& name : ProtocolNames()) (void)ReadEvent(*ProtocolNamed(name), odd);
  }
}

TEST(Dataset, ReadsBothFormats) {
  const auto read = ParseDataset(R"([
      {"id":"x","conversations":[{"from":"human","value":"a"},{"from":"gpt","value":"b"},{"from":"human","value":"c"}]},
      {"conversations":[{"from":"gpt","value":"only the model speaks"}]}, 5,
      {"messages":[{"role":"system","content":"s"},{"role":"user","content":"d"},{"role":"user","content":["e"]}]}])");
  ASSERT_TRUE(read.ok());
  EXPECT_THAT(*read, ElementsAre(ElementsAre("a", "c"), ElementsAre("d")));
  for (const char* bad : {"", "{}", "[]", "[1]", R"([{"conversations":[]}])"})
    EXPECT_FALSE(ParseDataset(bad).ok()) << bad;
  EXPECT_THAT(ReadDataset("/no/such/file").failure().message, HasSubstr("/no/such/file"));
}

LoadRun SomeRun() {
  LoadRun run;
  run.wall_s = 10;
  for (int i = 0; i < 20; ++i) {
    run.turns.push_back({.conversation = i / 4,
                         .turn = i % 4,
                         .start_s = i * 0.5,
                         .ttft_ms = 10.0 + i,
                         .total_ms = 100,
                         .gaps_ms = {1, 2},
                         .input_tokens = 100,
                         .cached_tokens = 80,
                         .output_tokens = 3});
  }
  run.turns.push_back({.conversation = 5, .error = "http_429", .message = "Too many."});
  return run;
}

TEST(LoadReport, CountsTurnsAndErrors) {
  const LoadBenchOptions options{.protocol = Protocol::kChat, .conversations = 6};
  const Json json = Json::parse(LoadJson(options, SomeRun()));
  EXPECT_EQ(json["protocol"], "chat");
  EXPECT_EQ(json["turns"], 20);
  EXPECT_EQ(json["failures"], 1);
  EXPECT_EQ(json["errors"], Json({{"http_429", 1}}));
  EXPECT_EQ(json["ttft_ms"], Json({{"p50", 19.0}, {"p90", 27.0}, {"p99", 29.0}}));
  EXPECT_EQ(json["itl_ms"]["p50"], 1.0);
  EXPECT_EQ(json["e2e_ms"]["p99"], 100.0);
  EXPECT_EQ(json["cached_ratio"], 0.8);
  EXPECT_EQ(json["tokens_per_s"], 6.0);
  ASSERT_EQ(json["records"].size(), 21u);
  EXPECT_EQ(json["records"][3]["turn"], 3);
  EXPECT_EQ(json["records"][20]["error"]["kind"], "http_429");
  const std::string table = LoadTable(options, SomeRun());
  EXPECT_THAT(table, HasSubstr("error http_429: 1\n"));
  EXPECT_THAT(table, HasSubstr("(80.0 %)"));
}

TEST(LoadReport, EmptyReportIsDrawn) {
  for (const LoadRun& run : {SomeRun(), LoadRun{.wall_s = 1}}) {
    const std::string svg = LoadChart({.rate = 2}, run);
    EXPECT_THAT(svg, ::testing::StartsWith("<svg "));
    EXPECT_THAT(svg, ::testing::EndsWith("</svg>\n"));
    EXPECT_THAT(svg, HasSubstr("2 arrivals/s"));
    EXPECT_EQ(svg.find("nan"), std::string::npos);
    EXPECT_EQ(svg.find("inf"), std::string::npos);
  }
}

TEST(LineChart, DrawsEachLineWithinItsPanel) {
  const std::string svg = DrawCharts("a < b & c", {{"y", "x", {{"p50", {{0, 1}, {10, 5}}}, {"p99", {{0, 9}}}}}});
  EXPECT_THAT(svg, HasSubstr("a &lt; b &amp; c"));
  EXPECT_THAT(svg, HasSubstr(">p50</text>"));
  EXPECT_THAT(svg, HasSubstr(">p99</text>"));
  size_t lines = 0;
  for (size_t at = svg.find("<polyline"); at != std::string::npos; at = svg.find("<polyline", at + 1)) ++lines;
  EXPECT_EQ(lines, 2u);
}

}  // namespace
}  // namespace ringside::client
