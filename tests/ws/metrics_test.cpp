// The metrics under their published names, and a turn's effect on them.
#include "ws/metrics.h"

#include <gtest/gtest.h>

#include <ctime>
#include <thread>
#include <vector>

namespace ringside {
namespace {

/// The value after "\nname " in a scrape; "" if there is none.
std::string Sample(Metrics& metrics, const std::string& name) {
  const std::string text = "\n" + metrics.Scrape();
  const size_t at = text.find("\n" + name + " ");
  if (at == std::string::npos) return "";
  const size_t start = at + name.size() + 2;
  return text.substr(start, text.find('\n', start) - start);
}

class WritingSink final : public TokenSink {
 public:
  std::string calls;
  void OnQueued(int64_t position) override { calls += std::to_string(position); }
  void OnStart(const CacheReport&) override { calls += "S"; }
  void OnTokens(const TokenDelta&) override { calls += "T"; }
  void OnEnd(const TurnEnd&) override { calls += "E"; }
};

TEST(MetricsTest, MeasuresAndForwardsATurn) {
  TransportCounters transport;
  Metrics metrics{transport};
  ManualClock clock;
  clock.AdvanceMs(1000);
  const auto next = std::make_shared<WritingSink>();
  const auto sink = MakeMeasuringSink(next, metrics, clock);
  TokenDelta delta;
  delta.tokens.resize(1);
  sink->OnQueued(2);
  sink->OnStart({});
  clock.AdvanceMs(30);
  sink->OnTokens(delta);
  clock.AdvanceMs(7);
  sink->OnTokens(delta);
  clock.AdvanceMs(1);
  sink->OnTokens({});  // withheld text, without a token
  TurnEnd end;
  end.reason = FinishReason::kLength;
  end.times.queue_ms = 20;
  sink->OnEnd(end);
  EXPECT_EQ(next->calls, "2STTTE");
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

TEST(MetricsTest, RetryAfterFollowsTheTurnRate) {
  TransportCounters transport;
  Metrics metrics{transport};
  ManualClock clock;
  const auto next = std::make_shared<WritingSink>();
  EXPECT_EQ(metrics.RetryAfterMs(4, 0), 1000);  // no turn has ended yet
  for (int i = 0; i < 3; ++i) {
    clock.AdvanceMs(500);
    MakeMeasuringSink(next, metrics, clock)->OnEnd({});
  }
  EXPECT_EQ(metrics.RetryAfterMs(4, clock.MonotonicNs()), 1500);
}

TEST(MetricsTest, CountsResumesBySource) {
  TransportCounters transport;
  Metrics metrics{transport};
  ManualClock clock;
  const auto next = std::make_shared<WritingSink>();
  const std::pair<CacheSource, int> turns[] = {{CacheSource::kNew, 5},
                                               {CacheSource::kSlot, 4},
                                               {CacheSource::kHost, 3},
                                               {CacheSource::kDisk, 2},
                                               {CacheSource::kRecomputed, 1}};
  TurnEnd never_began;
  never_began.report.source = CacheSource::kSlot;
  MakeMeasuringSink(next, metrics, clock)->OnEnd(never_began);
  for (const auto& [source, count] : turns) {
    for (int i = 0; i < count; ++i) {
      TurnEnd end;
      end.report.source = source;
      end.report.position = 9;
      MakeMeasuringSink(next, metrics, clock)->OnEnd(end);
    }
  }
  EXPECT_EQ(Sample(metrics, "ringside_resumes_total{source=\"slot\"}"), "4");
  EXPECT_EQ(Sample(metrics, "ringside_resumes_total{source=\"host\"}"), "3");
  EXPECT_EQ(Sample(metrics, "ringside_resumes_total{source=\"disk\"}"), "2");
  EXPECT_EQ(Sample(metrics, "ringside_resumes_total{source=\"recomputed\"}"), "1");
  EXPECT_EQ(Sample(metrics, "ringside_resumes_total{source=\"new\"}"), "");
}

TEST(MetricsTest, ReportsRestoreWaitsBySource) {
  TransportCounters transport;
  Metrics metrics{transport};
  ManualClock clock;
  const auto next = std::make_shared<WritingSink>();
  for (const CacheSource source :
       {CacheSource::kNew, CacheSource::kSlot, CacheSource::kHost, CacheSource::kDisk, CacheSource::kRecomputed}) {
    TurnEnd end;
    end.report = {.source = source, .tokens_reused = 90, .tokens_computed = 10, .restore_ms = 30, .position = 9};
    end.times = {.queue_ms = 1000, .slot_ms = 700, .prefill_ms = 200, .others_ms = 150, .decode_ms = 80};
    end.output = {1, 2, 3};
    MakeMeasuringSink(next, metrics, clock)->OnEnd(end);
  }
  const std::pair<const char*, double> sums[] = {{"slot", 0}, {"host", .03}, {"disk", .03}, {"recomputed", .2}};
  for (const auto& [source, seconds] : sums) {
    const std::string labels = std::string("{source=\"") + source + "\"}";
    EXPECT_EQ(Sample(metrics, "ringside_session_restore_seconds_count" + labels), "1") << source;
    EXPECT_EQ(std::stod(Sample(metrics, "ringside_session_restore_seconds_sum" + labels)), seconds) << source;
  }
  EXPECT_EQ(Sample(metrics, "ringside_session_restore_seconds_count{source=\"new\"}"), "");
  EXPECT_EQ(Sample(metrics, "ringside_request_prompt_tokens_sum"), "500");
  EXPECT_EQ(Sample(metrics, "ringside_request_generation_tokens_sum"), "15");
  EXPECT_DOUBLE_EQ(std::stod(Sample(metrics, "ringside_request_prefill_time_seconds_sum")), 1);
  const std::pair<const char*, double> waits[] = {{"slot", 3.5}, {"restore", .15}, {"others", .75}, {"prompt", .25}};
  for (const auto& [cause, seconds] : waits) {
    const std::string sum = std::string("ringside_request_wait_time_seconds_sum{cause=\"") + cause + "\"}";
    EXPECT_DOUBLE_EQ(std::stod(Sample(metrics, sum)), seconds) << cause;
  }
  EXPECT_DOUBLE_EQ(std::stod(Sample(metrics, "ringside_request_decode_time_seconds_sum")), .4);
  EXPECT_DOUBLE_EQ(std::stod(Sample(metrics, "ringside_request_time_per_output_token_seconds_sum")), .2);
}

TEST(MetricsTest, EveryTurnSeriesExistsFromTheStart) {
  TransportCounters transport;
  Metrics metrics{transport};
  EXPECT_EQ(Sample(metrics, "ringside_session_restore_seconds_count{source=\"disk\"}"), "0");
  EXPECT_EQ(Sample(metrics, "ringside_resumes_total{source=\"recomputed\"}"), "0");
  EXPECT_EQ(Sample(metrics, "ringside_request_success_total{finished_reason=\"error\"}"), "0");
}

TEST(MetricsTest, ReportsProcessMetrics) {
  TransportCounters transport;
  Metrics metrics{transport};
  metrics.SetSource([] {
    MetricsSnapshot now;
    now.process = ReadProcessFigures();
    now.ready = true;
    return now;
  });
  while (std::clock() < CLOCKS_PER_SEC / 20) {
  }  // durations are reported in hundredths of a second
  EXPECT_EQ(Sample(metrics, "ringside_ready"), "1");
  EXPECT_GT(std::stod(Sample(metrics, "process_resident_memory_bytes")), 1 << 20);
  EXPECT_GE(std::stod(Sample(metrics, "process_open_fds")), 3);
  EXPECT_GE(std::stod(Sample(metrics, "process_max_fds")), std::stod(Sample(metrics, "process_open_fds")));
  EXPECT_GT(std::stod(Sample(metrics, "process_cpu_seconds_total")), 0);
  const double started = std::stod(Sample(metrics, "process_start_time_seconds"));
  EXPECT_LE(started, SystemClock::Instance().WallSeconds() + 1);
  EXPECT_GT(started, SystemClock::Instance().WallSeconds() - 86400);
}

TEST(MetricsTest, FollowsTiersJournalAndSessions) {
  TransportCounters transport;
  Metrics metrics{transport};
  MetricsSnapshot now;
  EngineStats& engine = now.engines.emplace_back().stats;
  now.tiers.host_bytes = 1 << 30;
  now.tiers.disk_objects = 3;
  now.tiers.waiting_bytes = 17;
  now.tiers.memory_bytes = 18;
  now.tiers.demoted = 4;
  now.tiers.demoted_bytes = 500;
  now.tiers.dropped = 6;
  engine.captures = 7;
  engine.written_back = 5;
  engine.tokens_shared = 21;
  engine.captured_bytes = 800;
  engine.capture_ms = 1500;
  engine.restores_host = 9;
  engine.restores_disk = 10;
  engine.fetches_late = 11;
  now.journal.commits = 12;
  now.journal.sync_ms_total = 250;
  now.journal.sync_ms_max = 125;
  now.journal.queued = 13;
  now.sessions.chains = 14;
  now.sessions.loaded = 15;
  now.sessions.interrupted = 16;
  metrics.SetSource([&] { return now; });
  const std::pair<const char*, double> samples[] = {
      {"ringside_cache_bytes{tier=\"host\"}", 1 << 30},
      {"ringside_cache_objects{tier=\"disk\"}", 3},
      {"ringside_cache_waiting_bytes", 17},
      {"ringside_cache_memory_bytes", 18},
      {"ringside_cache_spills_total{to=\"disk\"}", 4},
      {"ringside_cache_spill_bytes_total{to=\"disk\"}", 500},
      {"ringside_cache_lost_total{reason=\"room\"}", 6},
      {"ringside_cache_spills_total{to=\"host\"}", 7},
      {"ringside_cache_written_back_total", 5},
      {"ringside_prefix_tokens_shared_total", 21},
      {"ringside_cache_spill_bytes_total{to=\"host\"}", 800},
      {"ringside_cache_capture_seconds_total", 1.5},
      {"ringside_cache_restores_total{from=\"host\"}", 9},
      {"ringside_cache_restores_total{from=\"disk\"}", 10},
      {"ringside_cache_recomputed_instead_total{reason=\"late\"}", 11},
      {"ringside_journal_commits_total", 12},
      {"ringside_journal_sync_seconds_total", 0.25},
      {"ringside_journal_sync_seconds_max", 0.125},
      {"ringside_journal_queue_entries", 13},
      {"ringside_chains", 14},
      {"ringside_sessions_loaded", 15},
      {"ringside_turns_interrupted_total", 16},
  };
  for (int scrape = 0; scrape < 2; ++scrape) {  // a counter follows a total, it does not add it again
    for (const auto& [name, value] : samples) EXPECT_EQ(std::stod("0" + Sample(metrics, name)), value) << name;
  }
  now.journal.commits = 20;
  EXPECT_EQ(Sample(metrics, "ringside_journal_commits_total"), "20");
}

TEST(MetricsTest, FollowsTheEnginesFigures) {
  TransportCounters transport;
  Metrics metrics{transport};
  MetricsSnapshot now;
  EngineStats& engine = now.engines.emplace_back().stats;
  engine.slots = 8;
  engine.slots_used = 3;
  engine.kv_bytes = 4096;
  engine.kv_bytes_used = 1024;
  engine.turns_preempted_for_memory = 6;
  engine.turns_preempted = 5;
  engine.caches_dropped = 11;
  engine.turns_running = 2;
  engine.turns_waiting = 1;
  engine.tokens_prefilled = 100;
  engine.tokens_reused = 900;
  engine.tokens_decoded = 50;
  engine.tokens_evicted = 7;
  engine.tokens_drafted = 40;
  engine.drafts_accepted = 31;
  now.sessions.conversations = 4;
  metrics.SetSource([&] { return now; });
  EXPECT_EQ(Sample(metrics, "ringside_slots"), "8");
  EXPECT_EQ(Sample(metrics, "ringside_slots_used"), "3");
  EXPECT_EQ(Sample(metrics, "ringside_kv_bytes"), "4096");
  EXPECT_EQ(Sample(metrics, "ringside_kv_used_bytes"), "1024");
  EXPECT_EQ(Sample(metrics, "ringside_turns_gave_way_total"), "6");
  EXPECT_EQ(Sample(metrics, "ringside_turns_preempted_total"), "5");
  EXPECT_EQ(Sample(metrics, "ringside_caches_dropped_total"), "11");
  EXPECT_EQ(Sample(metrics, "ringside_num_requests_running"), "2");
  EXPECT_EQ(Sample(metrics, "ringside_num_requests_waiting"), "1");
  EXPECT_EQ(Sample(metrics, "ringside_sessions"), "4");
  EXPECT_EQ(Sample(metrics, "ringside_prompt_tokens_prefilled_total"), "100");
  EXPECT_EQ(Sample(metrics, "ringside_prompt_tokens_cached_total"), "900");
  EXPECT_EQ(Sample(metrics, "ringside_prompt_tokens_total"), "1000");
  EXPECT_EQ(Sample(metrics, "ringside_ring_evicted_tokens_total"), "7");
  EXPECT_EQ(Sample(metrics, "ringside_spec_decode_num_draft_tokens_total"), "40");
  EXPECT_EQ(Sample(metrics, "ringside_spec_decode_num_accepted_tokens_total"), "31");
  engine.tokens_decoded = 60;
  EXPECT_EQ(Sample(metrics, "ringside_generation_tokens_total"), "60");
  metrics.SetSource(nullptr);
  EXPECT_EQ(Sample(metrics, "ringside_generation_tokens_total"), "60");
}

TEST(MetricsTest, EveryEngineHasItsOwnFigures) {
  TransportCounters transport;
  Metrics metrics(transport, 2);
  EXPECT_EQ(Sample(metrics, "ringside_slots{engine=\"1\"}"), "0");  // present before the first values
  MetricsSnapshot now;
  now.engines.resize(2);
  now.engines[0].stats.slots = 8;
  now.engines[1].stats.slots = 9;
  now.engines[1].stats.restores_host = 3;
  now.engines[1].state = EngineState::kDrained;
  now.tiers.host_bytes = 5;
  metrics.SetSource([&] { return now; });
  EXPECT_EQ(Sample(metrics, "ringside_slots{engine=\"0\"}"), "8");
  EXPECT_EQ(Sample(metrics, "ringside_slots{engine=\"1\"}"), "9");
  EXPECT_EQ(Sample(metrics, "ringside_engine_drains{engine=\"0\"}"), "0");
  EXPECT_EQ(Sample(metrics, "ringside_engine_drains{engine=\"1\"}"), "1");
  EXPECT_EQ(Sample(metrics, "ringside_engines{state=\"serving\"}"), "1");
  EXPECT_EQ(Sample(metrics, "ringside_engines{state=\"drained\"}"), "1");
  EXPECT_EQ(Sample(metrics, "ringside_engines{state=\"failed\"}"), "0");
  now.engines[1].state = EngineState::kFailed;
  EXPECT_EQ(Sample(metrics, "ringside_engine_drains{engine=\"1\"}"), "0");
  EXPECT_EQ(Sample(metrics, "ringside_engines{state=\"draining\"}"), "0");
  EXPECT_EQ(Sample(metrics, "ringside_engines{state=\"failed\"}"), "1");
  EXPECT_EQ(Sample(metrics, "ringside_cache_restores_total{engine=\"0\",from=\"host\"}"), "0");
  EXPECT_EQ(Sample(metrics, "ringside_cache_restores_total{engine=\"1\",from=\"host\"}"), "3");
  EXPECT_EQ(Sample(metrics, "ringside_cache_bytes{tier=\"host\"}"), "5");
}

TEST(MetricsTest, CountsSocketsWithFewLabels) {
  TransportCounters transport;
  Metrics metrics{transport};
  transport.WebSocketOpened();
  transport.WebSocketOpened();
  transport.WebSocketClosed(1012);
  EXPECT_EQ(Sample(metrics, "ringside_ws_connections"), "1");
  EXPECT_EQ(Sample(metrics, "ringside_ws_close_total{code=\"1012\"}"), "1");
  for (int code = 3000; code < 3050; ++code) {
    transport.WebSocketOpened();
    transport.WebSocketClosed(code);
  }
  EXPECT_EQ(Sample(metrics, "ringside_ws_close_total{code=\"other\"}"), "50");
  EXPECT_EQ(Sample(metrics, "ringside_ws_close_total{code=\"3000\"}"), "");
  transport.HttpAnswered(404);
  EXPECT_EQ(Sample(metrics, "ringside_http_responses_total{status=\"404\"}"), "1");
}

TEST(MetricsTest, NamesTheBuildAndTheModelInPrometheusText) {
  TransportCounters transport;
  Metrics metrics{transport};
  metrics.SetModel("a \"quoted\"\nname");
  const std::string text = metrics.Scrape();
  EXPECT_NE(text.find("ringside_build_info{version=\""), std::string::npos);
  EXPECT_NE(text.find(R"(ringside_model_info{model_name="a \"quoted\"\nname"} 1)"), std::string::npos);
  EXPECT_NE(text.find("# TYPE ringside_time_to_first_token_seconds histogram"), std::string::npos);
  EXPECT_NE(text.find("# TYPE ringside_ws_connections gauge"), std::string::npos);
}

TEST(MetricsTest, ManyThreadsCountWhileOneScrapes) {
  TransportCounters transport;
  Metrics metrics{transport};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 500; ++i) {
        metrics.ObserveInterTokenLatency(0.01);
        transport.WebSocketOpened();
        transport.WebSocketClosed(1000 + i % 20);
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
