#include <sys/resource.h>

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <fstream>
#include <memory>
#include <mutex>
#include <utility>

#include "clients/bench/bench.h"
#include "clients/bench/dataset.h"
#include "clients/bench/load_report.h"
#include "clients/bench/speaker.h"
#include "clients/bench/workload.h"
#include "clients/wire/conversations.h"
#include "clients/wire/models.h"

namespace ringside::client {
namespace {

using Clock = std::chrono::steady_clock;

double Ms(Clock::duration span) { return std::chrono::duration<double, std::milli>(span).count(); }

/// Wakes main when every conversation has ended.
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

/// One simulated user: sends a message, reads the answer, thinks, and repeats. Everything but construction runs on the
/// runtime's thread.
class Talker : public std::enable_shared_from_this<Talker> {
 public:
  struct Setting {
    IoRuntime& runtime;
    const ServerAccess& server;
    const LoadBenchOptions& options;
    const Dataset& dataset;  // empty: synthetic text
    Clock::time_point begun;
    LoadRun& run;  // filled on the runtime's thread, read when all are done
    Countdown& countdown;
  };

  Talker(const Setting& setting, const SpeakerOptions& speaking, int number, unsigned seed)
      : setting_(setting), speaking_(speaking), number_(number), workload_(seed) {
    turns_ = setting.options.turns;
    if (!setting.dataset.empty()) turns_ = std::min(turns_, static_cast<int>(Recorded().size()));
  }

  /// Starts after the delay. THREAD: any.
  void Start(std::chrono::milliseconds delay) {
    After(delay, [this] {
      speaker_ = MakeSpeaker(setting_.runtime, setting_.server, speaking_, [this](const HeardEvent& e) { OnEvent(e); });
      Say();
    });
  }

 private:
  const std::vector<std::string>& Recorded() const {
    return setting_.dataset[static_cast<size_t>(number_) % setting_.dataset.size()];
  }

  /// Does nothing if this object is gone by then.
  void After(std::chrono::milliseconds delay, std::function<void()> work) {
    setting_.runtime.After(delay, [weak = weak_from_this(), work = std::move(work)] {
      if (const std::shared_ptr<Talker> self = weak.lock()) work();
    });
  }

  void Say() {
    const LoadBenchOptions& options = setting_.options;
    record_ = {.conversation = number_, .turn = turn_};
    heard_ = false;
    said_ = Clock::now();
    record_.start_s = Ms(said_ - setting_.begun) / 1000;
    After(std::chrono::milliseconds(static_cast<int64_t>(options.timeout_s * 1000)), [this, turn = turn_] {
      if (turn_ == turn) OnEvent({.ends = true, .error = "timeout", .message = "The turn took too long."});
    });
    const std::string text = setting_.dataset.empty() ? workload_.Words(workload_.Length(options.prompt_words))
                                                      : Recorded()[static_cast<size_t>(turn_)];
    speaker_->Say(text);
  }

  void OnEvent(const HeardEvent& heard) {
    if (over_) return;
    const Clock::time_point now = Clock::now();
    if (!heard.text.empty() || !heard.reasoning.empty()) {
      if (heard_) {
        record_.gaps_ms.push_back(Ms(now - last_));
      } else {
        record_.ttft_ms = Ms(now - said_);
      }
      heard_ = true;
      last_ = now;
    }
    if (!heard.ends) return;
    record_.total_ms = Ms(now - said_);
    if (!heard_) record_.ttft_ms = record_.total_ms;
    if (heard.usage) {
      record_.input_tokens = heard.usage->input;
      record_.cached_tokens = heard.usage->cached;
      record_.output_tokens = heard.usage->output;
    }
    record_.error = heard.error;
    record_.message = heard.message;
    setting_.run.turns.push_back(record_);
    ++turn_;
    if (turn_ < turns_ && heard.error.empty()) {
      return After(std::chrono::milliseconds(workload_.ThinkMs(setting_.options.think_s)), [this] { Say(); });
    }
    over_ = true;
    setting_.run.reconnects += speaker_->reconnects();
    setting_.countdown.Done();
  }

  const Setting setting_;
  const SpeakerOptions speaking_;
  const int number_;
  Workload workload_;
  int turns_ = 0, turn_ = 0;
  TurnRecord record_;
  bool heard_ = false, over_ = false;
  Clock::time_point said_, last_;
  std::unique_ptr<Speaker> speaker_;
};

void AllowManySockets() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

int Complain(const std::string& sentence) {
  std::fprintf(stderr, "ringside-bench: %s\n", sentence.c_str());
  return 1;
}

/// Conversations on our server, deleted with this object.
class Conversations {
 public:
  explicit Conversations(const ServerAccess& server) : http_(server.url, server.api_key) {}
  ~Conversations() {
    for (const std::string& id : ids_) static_cast<void>(DeleteConversation(http_, id));
  }
  Conversations(const Conversations&) = delete;
  Conversations& operator=(const Conversations&) = delete;

  Outcome<std::string> Make() {
    Outcome<std::string> made = CreateConversation(http_);
    if (made) ids_.push_back(*made);
    return made;
  }

 private:
  const HttpClient http_;
  std::vector<std::string> ids_;
};

/// Runs `count` conversations to their ends.
Outcome<LoadRun> Hold(const ServerAccess& server, const LoadBenchOptions& options, const Dataset& dataset, int count) {
  Conversations made(server);
  std::vector<SpeakerOptions> speaking;
  for (int i = 0; i < count; ++i) {
    speaking.push_back({.protocol = options.protocol,
                        .model = options.model,
                        .max_tokens = options.max_tokens,
                        .ignore_eos = options.ignore_eos});
    if (options.protocol != Protocol::kRingside) continue;
    const Outcome<std::string> id = made.Make();
    if (!id) return id.failure();
    speaking.back().conversation = *id;
  }
  LoadRun run;
  Countdown countdown(count);
  IoRuntime runtime;
  const Clock::time_point begun = Clock::now();
  const Talker::Setting setting{runtime, server, options, dataset, begun, run, countdown};
  Workload arrivals(options.seed);
  std::vector<std::shared_ptr<Talker>> talkers;
  int64_t arrival_ms = 0;
  for (int i = 0; i < count; ++i) {
    talkers.push_back(std::make_shared<Talker>(setting, speaking[static_cast<size_t>(i)], i,
                                               options.seed + static_cast<unsigned>(i)));
    // With a rate, arrivals do not depend on the progress of others; otherwise all start after a first think time.
    arrival_ms = options.rate > 0 ? arrival_ms + arrivals.ThinkMs(1 / options.rate) : arrivals.ThinkMs(options.think_s);
    talkers.back()->Start(std::chrono::milliseconds(arrival_ms));
  }
  countdown.Wait();
  run.wall_s = Ms(Clock::now() - begun) / 1000;
  return run;
}

bool WriteFile(const std::string& path, const std::string& text) {
  std::ofstream file(path);
  file << text;
  file.close();
  return file.good();
}

}  // namespace

int BenchLoad(const ServerAccess& server, const LoadBenchOptions& given) {
  AllowManySockets();
  LoadBenchOptions options = given;
  Dataset dataset;
  if (!options.dataset_path.empty()) {
    Outcome<Dataset> read = ReadDataset(options.dataset_path);
    if (!read) return Complain(read.failure().message);
    dataset = std::move(*read);
  }
  if (options.model.empty() && options.protocol != Protocol::kRingside) {
    const Outcome<ServedModel> model = GetModel(HttpClient(server.url, server.api_key));
    if (!model) return Complain(model.failure().message);
    options.model = model->name;
  }
  if (options.warm_up > 0) {
    const Outcome<LoadRun> warm = Hold(server, options, dataset, options.warm_up);
    if (!warm) return Complain(warm.failure().message);
  }
  const Outcome<LoadRun> run = Hold(server, options, dataset, options.conversations);
  if (!run) return Complain(run.failure().message);
  std::printf("%s", LoadTable(options, *run).c_str());
  if (!options.json_path.empty() && !WriteFile(options.json_path, LoadJson(options, *run))) {
    return Complain("Cannot write " + options.json_path + ".");
  }
  if (!options.svg_path.empty() && !WriteFile(options.svg_path, LoadChart(options, *run))) {
    return Complain("Cannot write " + options.svg_path + ".");
  }
  for (const TurnRecord& turn : run->turns) {
    if (!turn.error.empty()) return Complain("Some turns failed; the first: " + turn.error + ": " + turn.message);
  }
  return 0;
}

}  // namespace ringside::client
