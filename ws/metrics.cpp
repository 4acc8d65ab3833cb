#include "ws/metrics.h"

#include <prometheus/counter.h>
#include <prometheus/family.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <array>
#include <map>
#include <mutex>
#include <sstream>
#include <utility>

#include "ws/metrics_storage.h"
#include "ws/turn_rate.h"

namespace ringside {
namespace {

using prometheus::BuildCounter;
using prometheus::BuildGauge;
using prometheus::BuildHistogram;
using prometheus::Counter;
using prometheus::Family;
using prometheus::Gauge;
using prometheus::Histogram;
using prometheus::Registry;

const Histogram::BucketBoundaries kFirstTokenBuckets = {.001, .005, .01, .02, .04, .06, .08, .1, .25,
                                                        .5,   .75,  1,   2.5, 5,   7.5, 10,  20, 40};
const Histogram::BucketBoundaries kTokenBuckets = {.001, .0025, .005, .01, .025, .05, .075, .1, .15,
                                                   .2,   .3,    .4,   .5,  .75,  1,   2.5,  5};
const Histogram::BucketBoundaries kTurnBuckets = {.05, .1, .3, .5, .8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 60, 120, 240};

Counter& AddCounter(Registry& registry, const std::string& name, const std::string& help) {
  return BuildCounter().Name(name).Help(help).Register(registry).Add({});
}
Gauge& AddGauge(Registry& registry, const std::string& name, const std::string& help) {
  return BuildGauge().Name(name).Help(help).Register(registry).Add({});
}
Histogram& AddHistogram(Registry& registry, const std::string& name, const std::string& help,
                        const Histogram::BucketBoundaries& buckets) {
  return BuildHistogram().Name(name).Help(help).Register(registry).Add({}, buckets);
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
  }
  return "error";
}

/// Peers choose close codes; only known ones become a label.
std::string CloseLabel(int code) {
  constexpr std::array kKnown = {1000, 1001, 1002, 1003, 1005, 1006, 1007, 1008, 1009, 1011,
                                 1012, 1013, 4401, 4403, 4404, 4408, 4409, 4410, 4412, 4429};
  for (const int known : kKnown) {
    if (known == code) return std::to_string(code);
  }
  return "other";
}

/// Brings a counter up to a total that is kept elsewhere.
void RaiseTo(Counter& counter, uint64_t total) {
  const double more = static_cast<double>(total) - counter.Value();
  if (more > 0) counter.Increment(more);
}

/// A counter that follows a total kept elsewhere.
class Follower {
 public:
  explicit Follower(Counter& counter) : counter_(counter) {}
  void Set(uint64_t total) { RaiseTo(counter_, total); }

 private:
  Counter& counter_;
};

}  // namespace

struct Metrics::State {
  explicit State(const TransportCounters& counters) : transport(counters) {}
  void ShowTransport();

  const TransportCounters& transport;
  Registry registry;
  std::mutex mutex;  // guards the source and the followers
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
  Family<Counter>& finished =
      BuildCounter().Name("ringside_request_success_total").Help("Turns ended, by reason").Register(registry);

  Family<Counter>& resumes = BuildCounter()
                                 .Name("ringside_resumes_total")
                                 .Help("Turns that continued a conversation, by where its cache was found")
                                 .Register(registry);
  StorageMetrics storage{registry};

  Gauge& running = AddGauge(registry, "ringside_num_requests_running", "Turns in the batch");
  Gauge& waiting = AddGauge(registry, "ringside_num_requests_waiting", "Turns waiting for a slot");
  Gauge& slots = AddGauge(registry, "ringside_slots", "Slots");
  Gauge& slots_used = AddGauge(registry, "ringside_slots_used", "Slots that hold a conversation");
  Gauge& sessions = AddGauge(registry, "ringside_sessions", "Conversations kept");
  Gauge& worker_calls =
      AddGauge(registry, "ringside_worker_queue_calls", "Requests and messages that wait for a worker");
  Gauge& worker_bytes = AddGauge(registry, "ringside_worker_queue_bytes", "Bytes of these");
  Follower worker_refusals{AddCounter(registry, "ringside_worker_refused_total",
                                      "Requests and messages refused because too many waited for a worker")};
  Gauge& sockets = AddGauge(registry, "ringside_ws_connections", "Open WebSockets");

  Follower prefilled{AddCounter(registry, "ringside_prompt_tokens_prefilled_total", "Input tokens computed")};
  Follower cached{AddCounter(registry, "ringside_prompt_tokens_cached_total", "Input tokens found in a slot")};
  Follower prompt{AddCounter(registry, "ringside_prompt_tokens_total", "Input tokens, computed or found")};
  Follower generated{AddCounter(registry, "ringside_generation_tokens_total", "Tokens generated")};
  Follower evicted{AddCounter(registry, "ringside_ring_evicted_tokens_total", "Tokens that left a window")};
  Follower rebuilds{AddCounter(registry, "ringside_cache_rebuilds_total", "Caches computed anew from their tokens")};
  Follower taken{AddCounter(registry, "ringside_slots_taken_total", "Slots taken from idle conversations")};
  Follower steps{AddCounter(registry, "ringside_engine_steps_total", "Steps of the engine")};

  Follower slow_readers{
      AddCounter(registry, "ringside_ws_slow_reader_total", "WebSockets closed because they did not read")};
  Family<Counter>& closes =
      BuildCounter().Name("ringside_ws_close_total").Help("WebSockets closed, by code").Register(registry);
  Family<Counter>& responses =
      BuildCounter().Name("ringside_http_responses_total").Help("HTTP answers, by status").Register(registry);
  Family<Gauge>& model = BuildGauge().Name("ringside_model_info").Help("The model served").Register(registry);
};

Metrics::Metrics(const TransportCounters& transport) : state_(std::make_unique<State>(transport)) {
  BuildGauge()
      .Name("ringside_build_info")
      .Help("The server's version")
      .Register(state_->registry)
      .Add({{"version", RINGSIDE_VERSION}})
      .Set(1);
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
  // A turn that failed or never got a slot has found nothing.
  if (end.report.position > 0 && end.report.source != CacheSource::kNew) {
    state_->resumes.Add({{"source", CacheSourceName(end.report.source)}}).Increment();
  }
  state_->finished.Add({{"finished_reason", FinishName(end.reason)}}).Increment();
}

int64_t Metrics::RetryAfterMs(int64_t waiting, int64_t now_ns) const {
  return state_->rate.RetryAfterMs(waiting, now_ns);
}

void Metrics::State::ShowTransport() {
  const TransportCounters::Totals now = transport.totals();
  sockets.Set(static_cast<double>(now.open_websockets));
  slow_readers.Set(now.slow_readers);
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
      state_->running.Set(static_cast<double>(now.engine.turns_running));
      state_->waiting.Set(static_cast<double>(now.engine.turns_waiting));
      state_->slots.Set(static_cast<double>(now.engine.slots));
      state_->slots_used.Set(static_cast<double>(now.engine.slots_used));
      state_->sessions.Set(static_cast<double>(now.sessions.conversations));
      state_->worker_calls.Set(static_cast<double>(now.workers.calls));
      state_->worker_bytes.Set(static_cast<double>(now.workers.bytes));
      state_->worker_refusals.Set(now.workers.refused);
      state_->storage.Set(now);
      state_->prefilled.Set(now.engine.tokens_prefilled);
      state_->cached.Set(now.engine.tokens_reused);
      state_->prompt.Set(now.engine.tokens_prefilled + now.engine.tokens_reused);
      state_->generated.Set(now.engine.tokens_decoded);
      state_->evicted.Set(now.engine.tokens_evicted);
      state_->rebuilds.Set(now.engine.rebuilds);
      state_->taken.Set(now.engine.slots_taken);
      state_->steps.Set(now.engine.steps);
    }
  }
  std::ostringstream out;
  prometheus::TextSerializer().Serialize(out, state_->registry.Collect());
  return std::move(out).str();
}

namespace {

class MeasuringSink final : public TokenSink {
 public:
  MeasuringSink(std::shared_ptr<TokenSink> next, Metrics& metrics, const Clock& clock, std::function<void()> ended)
      : next_(std::move(next)),
        metrics_(metrics),
        clock_(clock),
        ended_(std::move(ended)),
        start_ns_(clock.MonotonicNs()) {}

  void OnQueued(int64_t position) override { next_->OnQueued(position); }
  void OnStart(const CacheReport& report) override { next_->OnStart(report); }

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
    next_->OnTokens(delta);
  }

  void OnEnd(const TurnEnd& end) override {
    const int64_t now_ns = clock_.MonotonicNs();
    metrics_.ObserveTurnEnd(end, Seconds(now_ns - start_ns_), now_ns);
    next_->OnEnd(end);
    next_.reset();  // before anyone is told that the turn is over
    if (ended_) ended_();
  }

 private:
  static double Seconds(int64_t ns) { return static_cast<double>(ns) * 1e-9; }

  std::shared_ptr<TokenSink> next_;
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
