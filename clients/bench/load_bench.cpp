#include <sys/resource.h>

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <fstream>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>

#include "clients/bench/bench.h"
#include "clients/bench/percentiles.h"
#include "clients/bench/workload.h"
#include "clients/wire/conversations.h"
#include "clients/wire/session_link.h"

namespace ringside::client {
namespace {

using Clock = std::chrono::steady_clock;

/// What all conversations measured; filled on the runtime's thread, read when they are done.
struct Measured {
  std::vector<double> ttft_ms, gap_ms, turn_ms, tokens_per_s;
  int64_t output_tokens = 0, input_tokens = 0, cached_tokens = 0, evicted_tokens = 0;
  int turns = 0, failures = 0, reconnects = 0;
  std::string first_failure;
};

/// Tells main when every conversation is over.
class Countdown {
 public:
  explicit Countdown(int count) : left_(count) {}
  void Done() {
    std::lock_guard lock(mutex_);
    if (--left_ == 0) over_.notify_all();
  }
  void Wait() {
    std::unique_lock lock(mutex_);
    over_.wait(lock, [this] { return left_ == 0; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable over_;
  int left_;
};

/// One conversation: says something, listens, thinks, and so on. Everything runs on the runtime's thread.
class Talker {
 public:
  Talker(IoRuntime& runtime, const ServerAccess& server, const LoadBenchOptions& options, std::string conversation, unsigned seed, Measured& measured,
         Countdown& countdown)
      : runtime_(runtime),
        load_(options),
        conversation_(std::move(conversation)),
        workload_(seed),
        measured_(measured),
        countdown_(countdown),
        turns_left_(options.turns),
        link_(runtime, {.url = server.url, .api_key = server.api_key}, [this](const LinkEvent& e) { OnEvent(e); }) {}

  void Start() { Think(); }

 private:
  void Think() {
    runtime_.After(std::chrono::milliseconds(workload_.ThinkMs(load_.think_s)), [this] { Say(); });
  }

  void Say() {
    TurnRequest turn{.conversation = conversation_,
                     .input = {{"user", workload_.Words(workload_.Length(load_.prompt_words))}},
                     .fields = {{"max_output_tokens", std::to_string(load_.max_tokens)}},
                     .request_id = MakeRequestId()};
    said_ = Clock::now();
    heard_ = false;
    link_.StartTurn(std::move(turn));
  }

  static double Ms(Clock::duration span) { return std::chrono::duration<double, std::milli>(span).count(); }

  void OnEvent(const LinkEvent& event) {
    const Clock::time_point now = Clock::now();
    if (event.kind == LinkEvent::Kind::kRetrying) ++measured_.reconnects;
    if (event.kind == LinkEvent::Kind::kText) {
      if (heard_) {
        measured_.gap_ms.push_back(Ms(now - last_));
      } else {
        measured_.ttft_ms.push_back(Ms(now - said_));
        first_ = now;
      }
      heard_ = true;
      last_ = now;
    }
    if (!event.ends()) return;
    if (event.kind == LinkEvent::Kind::kFinished && event.server.status != "failed") {
      Count(event.server.report, now);
      if (--turns_left_ > 0) return Think();
    } else {
      ++measured_.failures;
      if (measured_.first_failure.empty()) {
        measured_.first_failure = event.message.empty() ? event.server.error.message : event.message;
      }
    }
    countdown_.Done();
  }

  void Count(const TurnReport& report, Clock::time_point now) {
    ++measured_.turns;
    measured_.turn_ms.push_back(Ms(now - said_));
    measured_.output_tokens += report.output_tokens;
    measured_.input_tokens += report.input_tokens;
    measured_.cached_tokens += report.cached_tokens;
    measured_.evicted_tokens += report.tokens_evicted;
    const double decode_ms = Ms(last_ - first_);
    if (heard_ && report.output_tokens > 1 && decode_ms > 0) {
      measured_.tokens_per_s.push_back(1000.0 * static_cast<double>(report.output_tokens - 1) / decode_ms);
    }
  }

  IoRuntime& runtime_;
  const LoadBenchOptions& load_;
  const std::string conversation_;
  Workload workload_;
  Measured& measured_;
  Countdown& countdown_;
  int turns_left_;
  bool heard_ = false;
  Clock::time_point said_, first_, last_;
  SessionLink link_;
};

void AllowManySockets() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

void PrintReport(const LoadBenchOptions& options, const Measured& measured, double wall_s) {
  const double tokens_per_s = static_cast<double>(measured.output_tokens) / wall_s;
  std::printf("%d conversations, %d turns in %.1f s, %d failed, %d reconnects\n", options.conversations,
              measured.turns, wall_s, measured.failures, measured.reconnects);
  std::printf("%lld tokens out, %.1f tokens/s in all; %lld tokens in, of them %lld cached; %lld evicted\n\n",
              static_cast<long long>(measured.output_tokens), tokens_per_s,
              static_cast<long long>(measured.input_tokens), static_cast<long long>(measured.cached_tokens),
              static_cast<long long>(measured.evicted_tokens));
  std::printf("%s\n%s\n%s\n%s\n%s\n", PercentileHeading().c_str(),
              PercentileRow("time to first token, ms", measured.ttft_ms).c_str(),
              PercentileRow("between deltas, ms", measured.gap_ms).c_str(),
              PercentileRow("whole turn, ms", measured.turn_ms).c_str(),
              PercentileRow("tokens/s of one answer", measured.tokens_per_s).c_str());
  if (options.json_path.empty()) return;
  const auto spread = [](const std::vector<double>& values) {
    return nlohmann::ordered_json{
        {"p50", Percentile(values, 50)}, {"p90", Percentile(values, 90)}, {"p99", Percentile(values, 99)}};
  };
  const nlohmann::ordered_json json = {{"conversations", options.conversations},
                                       {"turns", measured.turns},
                                       {"failures", measured.failures},
                                       {"wall_s", wall_s},
                                       {"output_tokens", measured.output_tokens},
                                       {"tokens_per_s", tokens_per_s},
                                       {"input_tokens", measured.input_tokens},
                                       {"cached_tokens", measured.cached_tokens},
                                       {"ttft_ms", spread(measured.ttft_ms)},
                                       {"delta_gap_ms", spread(measured.gap_ms)},
                                       {"turn_ms", spread(measured.turn_ms)}};
  std::ofstream(options.json_path) << json.dump(2) << '\n';
}

int Complain(const std::string& sentence) {
  std::fprintf(stderr, "ringside: %s\n", sentence.c_str());
  return 1;
}

}  // namespace

int BenchLoad(const ServerAccess& server, const LoadBenchOptions& options) {
  AllowManySockets();
  const HttpClient http(server.url, server.api_key);
  std::vector<std::string> conversations;
  for (int i = 0; i < options.conversations; ++i) {
    const Outcome<std::string> made = CreateConversation(http);
    if (!made) return Complain(made.failure().message);
    conversations.push_back(*made);
  }
  Measured measured;
  Countdown countdown(options.conversations);
  double wall_s = 0;
  {
    IoRuntime runtime;
    std::vector<std::unique_ptr<Talker>> talkers;
    unsigned seed = options.seed;
    const Clock::time_point start = Clock::now();
    for (const std::string& conversation : conversations) {
      talkers.push_back(std::make_unique<Talker>(runtime, server, options, conversation, seed++, measured, countdown));
      talkers.back()->Start();
    }
    countdown.Wait();
    wall_s = std::chrono::duration<double>(Clock::now() - start).count();
  }
  for (const std::string& conversation : conversations) static_cast<void>(DeleteConversation(http, conversation));
  PrintReport(options, measured, wall_s);
  if (measured.failures > 0) return Complain("Some turns failed; the first: " + measured.first_failure);
  return 0;
}

}  // namespace ringside::client
