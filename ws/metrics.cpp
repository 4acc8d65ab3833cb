#include "ws/metrics.h"

#include <algorithm>
#include <array>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "engine/forwarding_sink.h"
#include "ws/metric_registry.h"
#include "ws/metrics_figures.h"
#include "ws/metrics_models.h"
#include "ws/turn_rate.h"

namespace ringside {
namespace {

const std::vector<double> kFirstTokenBuckets = {.001, .005, .01, .02, .04, .06, .08, .1, .25,
                                                .5,   .75,  1,   2.5, 5,   7.5, 10,  20, 40};
const std::vector<double> kTokenBuckets = {.001, .0025, .005, .01, .025, .05, .075, .1, .15,
                                           .2,   .3,    .4,   .5,  .75,  1,   2.5,  5};
// From an empty slot to the recomputation of a long conversation.
const std::vector<double> kRestoreBuckets = {.0005, .001, .0025, .005, .01, .025, .05, .1,
                                             .25,   .5,   1,     2.5,  5,   10,   30,  60};
const std::vector<double> kLengthBuckets = {1,    2,    5,     10,    20,    50,     100,    200,    500,    1000,
                                            2000, 5000, 10000, 20000, 50000, 100000, 200000, 500000, 1000000};
const std::vector<double> kTurnBuckets = {.05, .1, .3, .5, .8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 60, 120, 240};

Counter& AddCounter(MetricRegistry& registry, const std::string& name, const std::string& help) {
  return registry.AddCounters(name, help).Add({});
}
Gauge& AddGauge(MetricRegistry& registry, const std::string& name, const std::string& help) {
  return registry.AddGauges(name, help).Add({});
}
Histogram& AddHistogram(MetricRegistry& registry, const std::string& name, const std::string& help,
                        const std::vector<double>& buckets) {
  return registry.AddHistograms(name, help).Add({}, buckets);
}

const char* FinishName(FinishReason reason) {
  switch (reason) {
    case FinishReason::kStop:
      return "stop";
    case FinishReason::kLength:
      return "length";
    case FinishReason::kSessionFull:
      return "session_full";
    case FinishReason::kCancelled:
      return "cancelled";
    case FinishReason::kError:
      return "error";
    case FinishReason::kRepetition:
      return "repetition";
  }
  return "error";
}

/// Peers choose close codes: only known ones become a label.
std::string CloseLabel(int code) {
  constexpr std::array kKnown = {1000, 1001, 1002, 1003, 1005, 1006, 1007, 1008, 1009, 1011,
                                 1012, 1013, 4401, 4403, 4404, 4408, 4409, 4410, 4412, 4429};
  for (const int known : kKnown) {
    if (known == code) return std::to_string(code);
  }
  return "other";
}

/// Raises a counter to a total kept elsewhere.
void RaiseTo(Counter& counter, uint64_t total) {
  const double more = static_cast<double>(total) - counter.Value();
  if (more > 0) counter.Increment(more);
}

/// Possible sources of a continued conversation's cache.
constexpr std::array kSources = {CacheSource::kSlot, CacheSource::kHost, CacheSource::kDisk, CacheSource::kRecomputed};

/// Time a turn waited for its earlier cache.
double RestoreSeconds(const TurnEnd& end) {
  switch (end.report.source) {
    case CacheSource::kHost:
    case CacheSource::kDisk:
      return end.report.restore_ms * 1e-3;
    case CacheSource::kRecomputed:
      return end.times.prefill_ms * 1e-3;
    default:
      return 0;
  }
}

}  // namespace

struct Metrics::State {
  State(const TransportCounters& counters, size_t engines) : transport(counters), figures(registry, engines) {
    // Creates all label values, so that rates start at zero and turns need no lookup.
    for (const CacheSource source : kSources) {
      const MetricLabels labels = {{"source", CacheSourceName(source)}};
      by_source.emplace(source, Resume{resumes.Add(labels), restores.Add(labels, kRestoreBuckets)});
    }
    for (const FinishReason reason : {FinishReason::kStop, FinishReason::kLength, FinishReason::kSessionFull,
                                      FinishReason::kCancelled, FinishReason::kError, FinishReason::kRepetition}) {
      finished.Add({{"finished_reason", FinishName(reason)}});
    }
  }
  void ShowTransport();

  const TransportCounters& transport;
  MetricRegistry registry;
  std::mutex mutex;  // guards `source` and the metrics read from it
  TurnRate rate;
  std::function<MetricsSnapshot()> source;

  Histogram& first_token = AddHistogram(registry, "ringside_time_to_first_token_seconds",
                                        "Time from the start of a turn to its first token", kFirstTokenBuckets);
  Histogram& inter_token = AddHistogram(registry, "ringside_inter_token_latency_seconds",
                                        "Time between two tokens of an answer", kTokenBuckets);
  Histogram& turn = AddHistogram(registry, "ringside_e2e_request_latency_seconds",
                                 "Time from the start of a turn to its end", kTurnBuckets);
  Histogram& queue = AddHistogram(registry, "ringside_request_queue_time_seconds",
                                  "Time from the start of a turn to its first step", kTurnBuckets);
  MetricFamily<Histogram>& waits =
      registry.AddHistograms("ringside_request_wait_time_seconds",
                             "What a turn waited for before its first token: a slot, its stored cache, steps "
                             "that computed others' prompts, "
                             "and those that computed its own");
  Histogram& waited_slot = waits.Add({{"cause", "slot"}}, kTurnBuckets);
  Histogram& waited_restore = waits.Add({{"cause", "restore"}}, kTurnBuckets);
  Histogram& waited_others = waits.Add({{"cause", "others"}}, kTurnBuckets);
  Histogram& waited_prompt = waits.Add({{"cause", "prompt"}}, kTurnBuckets);
  Histogram& prefill = AddHistogram(registry, "ringside_request_prefill_time_seconds",
                                    "Time from a turn's first step to its first token", kTurnBuckets);
  Histogram& decode = AddHistogram(registry, "ringside_request_decode_time_seconds",
                                   "Time from the first token of a turn to its end", kTurnBuckets);
  Histogram& per_token = AddHistogram(registry, "ringside_request_time_per_output_token_seconds",
                                      "Mean time between the tokens of a turn's answer", kTokenBuckets);
  Histogram& prompt_tokens = AddHistogram(registry, "ringside_request_prompt_tokens",
                                          "Tokens before a turn's answer, computed or found", kLengthBuckets);
  Histogram& answer_tokens =
      AddHistogram(registry, "ringside_request_generation_tokens", "Tokens of a turn's answer", kLengthBuckets);
  MetricFamily<Counter>& finished = registry.AddCounters("ringside_request_success_total", "Turns ended, by reason");

  MetricFamily<Counter>& resumes = registry.AddCounters(
      "ringside_resumes_total", "Turns that continued a conversation, by where its cache was found");
  MetricFamily<Histogram>& restores = registry.AddHistograms(
      "ringside_session_restore_seconds",
      "Time for which a turn waited for the cache of the conversation that it continued: none where that was "
      "in a slot, the copy from host memory or disk, or the prefill that computed it anew");
  struct Resume {
    Counter& count;
    Histogram& seconds;
  };
  std::map<CacheSource, Resume> by_source;  // indexed by kSources
  FollowedFigures figures;
  ModelFigures models{registry};
  Gauge& sockets = AddGauge(registry, "ringside_ws_connections", "Open WebSockets");
  Counter& slow_readers =
      AddCounter(registry, "ringside_ws_slow_reader_total", "WebSockets closed because they did not read");
  MetricFamily<Counter>& closes = registry.AddCounters("ringside_ws_close_total", "WebSockets closed, by code");
  MetricFamily<Counter>& responses = registry.AddCounters("ringside_http_responses_total", "HTTP answers, by status");
  MetricFamily<Gauge>& model = registry.AddGauges("ringside_model_info", "The model served");
};

Metrics::Metrics(const TransportCounters& transport, size_t engines)
    : state_(std::make_unique<State>(transport, engines)) {
  state_->registry.AddGauges("ringside_build_info", "The server's version").Add({{"version", RINGSIDE_VERSION}}).Set(1);
}
Metrics::~Metrics() = default;

void Metrics::SetModel(const std::string& name) { state_->model.Add({{"model_name", name}}).Set(1); }

void Metrics::SetSource(std::function<MetricsSnapshot()> source) {
  std::lock_guard lock(state_->mutex);
  state_->source = std::move(source);
}

void Metrics::ObserveTimeToFirstToken(double seconds) { state_->first_token.Observe(seconds); }
void Metrics::ObserveInterTokenLatency(double seconds) { state_->inter_token.Observe(seconds); }
void Metrics::ObserveTurnEnd(const TurnEnd& end, double seconds, int64_t now_ns) {
  state_->rate.OnEnd(now_ns);
  state_->turn.Observe(seconds);
  state_->queue.Observe(end.times.queue_ms * 1e-3);
  state_->finished.Add({{"finished_reason", FinishName(end.reason)}}).Increment();
  if (end.report.position == 0) return;  // failed or never got a slot: nothing found, nothing computed
  state_->prompt_tokens.Observe(static_cast<double>(end.report.tokens_reused + end.report.tokens_computed));
  if (const auto resumed = state_->by_source.find(end.report.source); resumed != state_->by_source.end()) {
    resumed->second.count.Increment();
    resumed->second.seconds.Observe(RestoreSeconds(end));
  }
  if (end.output.empty()) return;
  state_->prefill.Observe(end.times.prefill_ms * 1e-3);
  state_->waited_slot.Observe(end.times.slot_ms * 1e-3);
  state_->waited_restore.Observe(end.report.restore_ms * 1e-3);
  state_->waited_others.Observe(end.times.others_ms * 1e-3);
  state_->waited_prompt.Observe(std::max(end.times.prefill_ms - end.times.others_ms, 0.0) * 1e-3);
  state_->decode.Observe(end.times.decode_ms * 1e-3);
  state_->answer_tokens.Observe(static_cast<double>(end.output.size()));
  if (end.output.size() > 1) {
    state_->per_token.Observe(end.times.decode_ms * 1e-3 / static_cast<double>(end.output.size() - 1));
  }
}

int64_t Metrics::RetryAfterMs(int64_t waiting, int64_t now_ns) const {
  return state_->rate.RetryAfterMs(waiting, now_ns);
}

void Metrics::State::ShowTransport() {
  const TransportCounters::Totals now = transport.totals();
  sockets.Set(static_cast<double>(now.open_websockets));
  RaiseTo(slow_readers, now.slow_readers);
  std::map<std::string, uint64_t> by_label;
  for (const auto& [code, count] : now.closes_by_code) by_label[CloseLabel(code)] += count;
  for (const auto& [label, count] : by_label) RaiseTo(closes.Add({{"code", label}}), count);
  for (const auto& [status, count] : now.http_answers_by_status) {
    RaiseTo(responses.Add({{"status", std::to_string(status)}}), count);
  }
}

std::string Metrics::Scrape() {
  {
    std::lock_guard lock(state_->mutex);
    state_->ShowTransport();
    if (state_->source) {
      const MetricsSnapshot now = state_->source();
      state_->figures.Set(now);
      state_->models.Set(now.models);
    }
  }
  return state_->registry.Text();
}

namespace {

class MeasuringSink final : public ForwardingSink {
 public:
  MeasuringSink(std::shared_ptr<TokenSink> next, Metrics& metrics, const Clock& clock, std::function<void()> ended)
      : ForwardingSink(std::move(next)),
        metrics_(metrics),
        clock_(clock),
        ended_(std::move(ended)),
        start_ns_(clock.MonotonicNs()) {}

  void OnTokens(const TokenDelta& delta) override {
    const int64_t now_ns = clock_.MonotonicNs();
    if (!delta.tokens.empty()) {
      if (last_token_ns_ == 0) {
        metrics_.ObserveTimeToFirstToken(Seconds(now_ns - start_ns_));
      } else {
        metrics_.ObserveInterTokenLatency(Seconds(now_ns - last_token_ns_));
      }
      last_token_ns_ = now_ns;
    }
    ForwardingSink::OnTokens(delta);
  }

  void OnEnd(const TurnEnd& end) override {
    const int64_t now_ns = clock_.MonotonicNs();
    metrics_.ObserveTurnEnd(end, Seconds(now_ns - start_ns_), now_ns);
    ForwardingSink::OnEnd(end);
    Release();  // released before anyone learns that the turn is over
    if (ended_) ended_();
  }

 private:
  static double Seconds(int64_t ns) { return static_cast<double>(ns) * 1e-9; }

  Metrics& metrics_;
  const Clock& clock_;
  const std::function<void()> ended_;
  const int64_t start_ns_;
  int64_t last_token_ns_ = 0;
};

}  // namespace

std::shared_ptr<TokenSink> MakeMeasuringSink(std::shared_ptr<TokenSink> next, Metrics& metrics, const Clock& clock,
                                             std::function<void()> ended) {
  return std::make_shared<MeasuringSink>(std::move(next), metrics, clock, std::move(ended));
}

}  // namespace ringside
