// The figures under their published names, and what a turn adds to them.
#include "ws/metrics.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace ringside {
namespace {

/// The value behind "\nname " in a scrape; "" if there is none.
std::string Sample(Metrics& metrics, const std::string& name) {
  const std::string text = "\n" + metrics.Scrape();
  const size_t at = text.find("\n" + name + " ");
  if (at == std::string::npos) return "";
  const size_t start = at + name.size() + 2;
  return text.substr(start, text.find('\n', start) - start);
}

class RecordingSink final : public TokenSink {
 public:
  std::string calls;
  void OnStart(const CacheReport&) override { calls += "S"; }
  void OnTokens(const TokenDelta&) override { calls += "T"; }
  void OnEnd(const TurnEnd&) override { calls += "E"; }
};

TEST(MetricsTest, ATurnIsMeasuredAndPassedOn) {
  Metrics metrics;
  ManualClock clock;
  clock.AdvanceMs(1000);
  const auto next = std::make_shared<RecordingSink>();
  const auto sink = MakeMeasuringSink(next, metrics, clock);
  TokenDelta delta;
  delta.tokens.resize(1);
  sink->OnStart({});
  clock.AdvanceMs(30);
  sink->OnTokens(delta);
  clock.AdvanceMs(7);
  sink->OnTokens(delta);
  clock.AdvanceMs(1);
  sink->OnTokens({});  // text that was held back, no token
  TurnEnd end;
  end.reason = FinishReason::kLength;
  end.times.queue_ms = 20;
  sink->OnEnd(end);
  EXPECT_EQ(next->calls, "STTTE");
  EXPECT_EQ(Sample(metrics, "ringside_time_to_first_token_seconds_count"), "1");
  EXPECT_EQ(std::stod(Sample(metrics, "ringside_time_to_first_token_seconds_sum")), 0.03);
  EXPECT_EQ(Sample(metrics, "ringside_inter_token_latency_seconds_count"), "1");
  EXPECT_EQ(std::stod(Sample(metrics, "ringside_inter_token_latency_seconds_sum")), 0.007);
  EXPECT_EQ(Sample(metrics, "ringside_inter_token_latency_seconds_bucket{le=\"0.005\"}"), "0");
  EXPECT_EQ(Sample(metrics, "ringside_inter_token_latency_seconds_bucket{le=\"0.01\"}"), "1");
  EXPECT_EQ(std::stod(Sample(metrics, "ringside_e2e_request_latency_seconds_sum")), 0.038);
  EXPECT_EQ(std::stod(Sample(metrics, "ringside_request_queue_time_seconds_sum")), 0.02);
  EXPECT_EQ(Sample(metrics, "ringside_request_success_total{finished_reason=\"length\"}"), "1");
}

TEST(MetricsTest, FollowsTheEnginesFigures) {
  Metrics metrics;
  MetricsSnapshot now;
  now.engine.slots = 8;
  now.engine.slots_used = 3;
  now.engine.turns_running = 2;
  now.engine.turns_waiting = 1;
  now.engine.tokens_prefilled = 100;
  now.engine.tokens_reused = 900;
  now.engine.tokens_decoded = 50;
  now.engine.tokens_evicted = 7;
  now.sessions = 4;
  metrics.SetSource([&] { return now; });
  EXPECT_EQ(Sample(metrics, "ringside_slots_total"), "8");
  EXPECT_EQ(Sample(metrics, "ringside_slots_used"), "3");
  EXPECT_EQ(Sample(metrics, "ringside_num_requests_running"), "2");
  EXPECT_EQ(Sample(metrics, "ringside_num_requests_waiting"), "1");
  EXPECT_EQ(Sample(metrics, "ringside_sessions"), "4");
  EXPECT_EQ(Sample(metrics, "ringside_prompt_tokens_prefilled_total"), "100");
  EXPECT_EQ(Sample(metrics, "ringside_prompt_tokens_cached_total"), "900");
  EXPECT_EQ(Sample(metrics, "ringside_prompt_tokens_total"), "1000");
  EXPECT_EQ(Sample(metrics, "ringside_ring_evicted_tokens_total"), "7");
  now.engine.tokens_decoded = 60;
  EXPECT_EQ(Sample(metrics, "ringside_generation_tokens_total"), "60");
  metrics.SetSource(nullptr);
  EXPECT_EQ(Sample(metrics, "ringside_generation_tokens_total"), "60");
}

TEST(MetricsTest, CountsSocketsAndKeepsLabelsFew) {
  Metrics metrics;
  metrics.WebSocketOpened();
  metrics.WebSocketOpened();
  metrics.WebSocketClosed(1012);
  EXPECT_EQ(Sample(metrics, "ringside_ws_connections"), "1");
  EXPECT_EQ(Sample(metrics, "ringside_ws_close_total{code=\"1012\"}"), "1");
  for (int code = 3000; code < 3050; ++code) {
    metrics.WebSocketOpened();
    metrics.WebSocketClosed(code);
  }
  EXPECT_EQ(Sample(metrics, "ringside_ws_close_total{code=\"other\"}"), "50");
  EXPECT_EQ(Sample(metrics, "ringside_ws_close_total{code=\"3000\"}"), "");
  metrics.HttpResponded(404);
  EXPECT_EQ(Sample(metrics, "ringside_http_responses_total{status=\"404\"}"), "1");
}

TEST(MetricsTest, NamesTheBuildAndTheModelInPrometheusText) {
  Metrics metrics;
  metrics.SetModel("a \"quoted\"\nname");
  const std::string text = metrics.Scrape();
  EXPECT_NE(text.find("ringside_build_info{version=\""), std::string::npos);
  EXPECT_NE(text.find(R"(ringside_model_info{model_name="a \"quoted\"\nname"} 1)"), std::string::npos);
  EXPECT_NE(text.find("# TYPE ringside_time_to_first_token_seconds histogram"), std::string::npos);
  EXPECT_NE(text.find("# TYPE ringside_ws_connections gauge"), std::string::npos);
}

TEST(MetricsTest, ManyThreadsCountWhileOneScrapes) {
  Metrics metrics;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 500; ++i) {
        metrics.ObserveInterTokenLatency(0.01);
        metrics.WebSocketOpened();
        metrics.WebSocketClosed(1000 + i % 20);
      }
    });
  }
  for (int i = 0; i < 20; ++i) EXPECT_FALSE(metrics.Scrape().empty());
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(Sample(metrics, "ringside_inter_token_latency_seconds_count"), "2000");
  EXPECT_EQ(Sample(metrics, "ringside_ws_connections"), "0");
}

}  // namespace
}  // namespace ringside
