// Measures the cost of a turn outside the network: sessions with histories of several lengths answer turns of 32 tokens
// on an engine whose network computes nothing. Prints one JSON object per length, in milliseconds: the whole turn from
// StartTurn to its last event, and StartTurn alone, which the caller waits for. With --path there is a journal in a new
// folder for each length, and the turn is complete: every token is synced to that disk before it is delivered.
//   turn_bench [--tokens 5000,500000] [--turns 200] [--path FOLDER]
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <deque>
#include <future>

#include "base/check.h"
#include "engine/engine.h"
#include "engine/model/network.h"
#include "kernels/backend.h"
#include "session/event_sink.h"
#include "session/journal/journal.h"
#include "session/table/session_table.h"
#include "tests/session/scripted_engine.h"
#include "tools/bench/must_have.h"

namespace ringside {
namespace {

constexpr int64_t kItemTokens = 100, kAnswerTokens = 32, kMemoryLen = 1024, kSessionLen = int64_t{1} << 20;

double NowMs() {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Writes no rows and always samples the same letter.
class NoNetwork final : public Network {
 public:
  explicit NoNetwork(Backend& backend) : backend_(backend) {}

  SlabMemory& memory() const override { return backend_; }
  NetworkShape shape() const override {
    return {.layers = 1, .kv_heads = 1, .head_dim = 2, .vocab = ByteTokenizer().vocab_size()};
  }
  bool runs_ahead() const override { return false; }
  void BeginDeferred(std::span<const StepPart> parts) override {
    for (const StepPart& part : parts) part.cache->ring().Append(static_cast<int64_t>(part.tokens.size()));
  }
  void Choose(std::span<const RowSamplingParams>) override {}
  void Finish(std::span<SampledToken> chosen) override {
    for (SampledToken& one : chosen) one = {.id = 'x'};
  }

 private:
  Backend& backend_;
};

class EndSink : public EventSink {
 public:
  const EventNumbers& numbers() const override { return numbers_; }
  void OnReplay(const ResponseCopies&, uint64_t) override {}
  void OnEvent(const TurnEvent& event) override {
    if (event.kind == TurnEvent::Kind::kEnded) ended_.set_value(event.response);
  }
  uint64_t connection() const override { return 1; }
  /// The finished response.
  std::shared_ptr<const Response> Wait() { return ended_.get_future().get(); }

 private:
  const EventNumbers numbers_;
  std::promise<std::shared_ptr<const Response>> ended_;
};

class DirectEngine final : public TurnEngine {
 public:
  explicit DirectEngine(Engine& engine) : engine_(engine) {}
  Status CheckWait(const TurnRequest& request) override { return engine_.CheckWait(request); }
  Status Submit(TurnRequest request) override { return engine_.Submit(std::move(request)); }
  void Cancel(TurnId turn) override { engine_.Cancel(turn); }
  void Close(TimelineId timeline) override { engine_.Close(timeline); }
  void Park(TimelineId timeline) override { engine_.Park(timeline); }
  void Fork(TimelineId from, TimelineId to, const std::string& from_owner, const std::string& to_owner) override {
    engine_.Fork(from, to, from_owner, to_owner);
  }
  void Erase(TimelineId timeline, const std::string& owner) override { engine_.Erase(timeline, owner, nullptr); }
  void Prefetch(const std::string& owner) override { engine_.Prefetch(owner); }
  std::optional<CacheSource> Where(const std::string& owner) const override { return engine_.Where(owner); }

 private:
  Engine& engine_;
};

class Bench {
 public:
  /// `path`: of the journal; "" = none.
  explicit Bench(const std::string& path)
      : journal_(path.empty() ? nullptr : MustHave(Journal::Open({.path = path}))),
        backend_(MustHave(MakeCpuBackend({.threads = 1}))),
        network_(*backend_),
        chat_(MustHave(ChatTemplate::Named("chatml"))),
        engine_(MustHave(Engine::Start(network_, tokenizer_,
                                       {.slots = 2,
                                        .memory_len = kMemoryLen,
                                        .session_len = kSessionLen,
                                        .prefill_chunk = 512,
                                        .step_tokens = 512}))),
        direct_(*engine_),
        table_(TableOptions(), tokenizer_, chat_, direct_, journal_.get()) {
    MustBeOk(table_.Open());
  }

  void Measure(int64_t tokens, int turns) {
    const std::string id = MustHave(table_.CreateSession(me_, {}, {}, {})).id;
    const NewItem item{ChatRole::kUser, std::string(kItemTokens, 'a')};
    TurnSpec fill;
    fill.conversation = id;
    fill.warm_up = true;
    fill.truncates = true;
    fill.input.assign(static_cast<size_t>(tokens / (kItemTokens + 8)), item);
    (void)Turn(std::move(fill));
    std::vector<double> all, begin;
    for (int i = 0; i < turns; ++i) {
      TurnSpec spec;
      spec.conversation = id;
      spec.input = {{ChatRole::kUser, "Go on."}};
      spec.max_output_tokens = kAnswerTokens;
      spec.sampling.temperature = 0;
      const auto [whole, started] = Turn(std::move(spec));
      all.push_back(whole);
      begin.push_back(started);
    }
    std::sort(all.begin(), all.end());
    std::sort(begin.begin(), begin.end());
    const auto middle = static_cast<size_t>(turns / 2);
    table_.Flush();
    fmt::print(
        "{{\"name\":\"turn\",\"journal\":{},\"history\":{},\"turn_ms\":{:.3f},\"start_ms\":{:.3f},\"least_ms\":{:.3f}}}"
        "\n",
        journal_ != nullptr, tokens, all[middle], begin[middle], all.front());
  }

 private:
  static SessionTableOptions TableOptions() {
    SessionTableOptions options;
    options.memory_len = kMemoryLen;
    options.session_len = kSessionLen;
    return options;
  }
  std::pair<double, double> Turn(TurnSpec spec) {
    const auto sink = std::make_shared<EndSink>();
    const double begin = NowMs();
    (void)MustHave(table_.StartTurn(me_, std::move(spec), sink));
    const double started = NowMs();
    const std::shared_ptr<const Response> response = sink->Wait();
    const double end = NowMs();
    MustBeOk(response->error);
    CHECK_EQ(response->output_tokens, response->warm_up ? 0 : kAnswerTokens);
    return {end - begin, started - begin};
  }

  const Caller me_{"bench", 1};
  const ByteTokenizer tokenizer_;
  const std::unique_ptr<Journal> journal_;
  std::unique_ptr<Backend> backend_;
  NoNetwork network_;
  const ChatTemplate chat_;
  std::unique_ptr<Engine> engine_;
  DirectEngine direct_;
  SessionTable table_;
};

int Main(int argc, char** argv) {
  std::vector<int64_t> tokens = {5000, 500'000};
  int turns = 200;
  std::string path;
  CLI::App app("Measures turns behind long histories.");
  app.add_option("--tokens", tokens)->delimiter(',');
  app.add_option("--turns", turns)->check(CLI::PositiveNumber);
  app.add_option("--path", path);
  CLI11_PARSE(app, argc, argv);
  for (const int64_t length : tokens) {
    Bench(path.empty() ? "" : fmt::format("{}/{}", path, length)).Measure(length, turns);
  }
  return 0;
}

}  // namespace
}  // namespace ringside

int main(int argc, char** argv) { return ringside::Main(argc, argv); }
