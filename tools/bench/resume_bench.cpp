// The delay before a conversation continues: time to first token of a short turn on a long conversation whose cache is
// in its slot, in host memory, on disk (with a warm or cold page cache), or lost; and how long saving and forking block
// the engine's thread. With a real model.
//
//     resume_bench --model FILE --path /a/folder/on/the/disk [--history 2000] [--input 32] [--threads 2] [--rounds 5]
//
// Cold: before each turn the store's files are synced and dropped from the page cache (posix_fadvise), and each round
// reads a conversation that has not been read since the store was opened.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <future>
#include <random>

#include "cache/store/ram_store.h"
#include "cache/store/rocksdb_store.h"
#include "engine/engine.h"
#include "engine/model/model.h"
#include "kernels/backend.h"
#include "tools/bench/must_have.h"
#include "tools/bench/page_cache.h"

namespace ringside {
namespace {

namespace fs = std::filesystem;

struct Options {
  std::string model, path;
  int64_t history = 2000, input = 32, threads = 2, rounds = 5;
};

/// Records the time of the first token.
class FirstTokenSink final : public TokenSink {
 public:
  void OnStart(const CacheReport&) override {}
  void OnTokens(const TokenDelta&) override {
    if (first_ == Moment{}) first_ = std::chrono::steady_clock::now();
  }
  void OnEnd(const TurnEnd& end) override { end_.set_value(end); }

  TurnEnd Wait() { return end_.get_future().get(); }
  double Milliseconds() const { return 1e3 * std::chrono::duration<double>(first_ - begin_).count(); }

 private:
  using Moment = std::chrono::steady_clock::time_point;
  const Moment begin_ = std::chrono::steady_clock::now();
  Moment first_;
  std::promise<TurnEnd> end_;
};

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

/// A tokenizer without text, for ids only.
class NoText final : public Tokenizer {
 public:
  explicit NoText(int64_t vocab) : vocab_(vocab) {}
  std::optional<std::vector<TokenId>> Encode(std::span<const TextPiece>, int64_t) const override { return {}; }
  std::string_view TokenBytes(TokenId) const override { return "x"; }
  std::string_view TokenName(TokenId) const override { return "x"; }
  bool IsSpecial(TokenId) const override { return false; }
  std::optional<TokenId> FindSpecial(std::string_view) const override { return std::nullopt; }
  int64_t vocab_size() const override { return vocab_; }
  bool strips_leading_space() const override { return false; }

 private:
  int64_t vocab_;
};

class ResumeBench {
 public:
  ResumeBench(Options options, Model& model) : options_(std::move(options)), model_(model), text_(model.spec().vocab) {
    std::mt19937 random(1);
    tokens_.resize(static_cast<size_t>(options_.history + options_.input));
    for (TokenId& id : tokens_) id = static_cast<TokenId>(random() % static_cast<uint64_t>(model.spec().vocab));
  }

  void Run() {
    fs::remove_all(Store());
    Reopen();
    std::printf("time to the first token of a turn of %ld tokens on a conversation of %ld, %ld threads\n",
                options_.input, options_.history, options_.threads);
    const double recompute = Report("computed again", CacheSource::kRecomputed, [&](int64_t) { return Fresh(""); });
    Turn("base", 1, options_.history, 0);
    double slot = 0;
    {
      std::vector<double> times;
      for (int64_t i = 0; i < options_.rounds; ++i) {
        times.push_back(Timed("base", 1, CacheSource::kSlot));
        Turn("base", 1, options_.history, 0);  // rewinds to the previous state
      }
      slot = Median(times);
      std::printf("  %-44s %8.1f ms\n", "slot", slot);
    }
    Save();
    const double host = Report("host memory", CacheSource::kHost, [&](int64_t i) {
      const std::string owner = "host" + std::to_string(i);
      engine_->Fork(1, 0, "base", owner);
      return Fresh(owner);
    });
    Fork();
    engine_->Close(1);
    for (const char* name : {"warm", "cold"}) {
      for (int64_t i = 0; i < options_.rounds; ++i) engine_->Fork(0, 0, "base", name + std::to_string(i));
    }
    Save();
    Reopen();
    const double warm = Report("disk, in the page cache", CacheSource::kDisk,
                               [&](int64_t i) { return Fresh("warm" + std::to_string(i)); });
    const double cold = Report("disk, cold", CacheSource::kDisk, [&](int64_t i) {
      MakeCold(Store());
      return Fresh("cold" + std::to_string(i));
    });
    std::printf("computing again takes %.1f times as long as from host memory, %.1f and %.1f as from disk\n",
                recompute / host, recompute / warm, recompute / cold);
    std::printf("beyond the slot's %.1f ms: host %.1f, disk %.1f, cold %.1f ms\n", slot, host - slot, warm - slot,
                cold - slot);
    engine_.reset();
    tiers_.reset();
    fs::remove_all(Store());
  }

 private:
  fs::path Store() const { return fs::path(options_.path) / "resume_bench"; }

  void Reopen() {
    engine_.reset();
    tiers_.reset();
    tiers_ = std::make_unique<TieredStore>(std::make_unique<RamStore>(int64_t{4} << 30),
                                           MustHave(RocksDbStore::Open({.path = Store().string()})),
                                           TieredStoreOptions{.sweep_ms = 0});
    EngineOptions options;
    options.slots = 4;
    options.memory_len = options_.history + options_.input + 64;
    EngineStorage storage{.tiers = tiers_.get(), .fingerprint = model_.fingerprint(), .fetch_deadline_ms = 600'000};
    engine_ = MustHave(Engine::Start(model_, text_, options, storage));
  }

  struct Outcome {
    double ms = 0;
    TurnEnd end;
  };
  Outcome Turn(const std::string& owner, TimelineId timeline, int64_t tokens, int64_t max_tokens) {
    const auto sink = std::make_shared<FirstTokenSink>();
    TurnRequest request;
    request.turn = ++last_;
    request.timeline = timeline;
    request.owner = owner;
    request.continues = true;
    request.tokens.assign(tokens_.begin(), tokens_.begin() + tokens);
    request.window = {4, options_.history + options_.input + 64, Eviction::kTurn};
    request.sampling.temperature = 0;
    request.max_tokens = max_tokens;
    request.sink = sink;
    const Status accepted = engine_->Submit(std::move(request));
    if (!accepted.ok()) std::exit(1);
    Outcome outcome;
    outcome.end = sink->Wait();
    outcome.ms = max_tokens > 0 ? sink->Milliseconds() : 0;
    return outcome;
  }
  double Timed(const std::string& owner, TimelineId timeline, CacheSource source) {
    const Outcome outcome = Turn(owner, timeline, options_.history + options_.input, 1);
    const bool computed = outcome.end.report.tokens_computed == options_.input || source == CacheSource::kRecomputed;
    if (outcome.end.report.source != source || !computed) {
      std::fprintf(stderr, "it came from %s, %ld tokens computed\n", CacheSourceName(outcome.end.report.source),
                   outcome.end.report.tokens_computed);
      std::exit(1);
    }
    return outcome.ms;
  }
  /// A turn on a timeline that the engine does not know, whose cache is stored under this owner.
  Outcome Fresh(const std::string& owner) {
    const TimelineId timeline = ++last_timeline_;
    const Outcome outcome = Turn(owner, timeline, options_.history + options_.input, 1);
    engine_->Close(timeline);
    return outcome;
  }
  template <class One>
  double Report(const char* what, CacheSource source, const One& one) {
    std::vector<double> times, restores;
    for (int64_t i = 0; i < options_.rounds; ++i) {
      const Outcome outcome = one(i);
      if (outcome.end.report.source != source) {
        std::fprintf(stderr, "%s: it came from %s\n", what, CacheSourceName(outcome.end.report.source));
        std::exit(1);
      }
      times.push_back(outcome.ms);
      restores.push_back(outcome.end.report.restore_ms);
    }
    std::printf("  %-44s %8.1f ms, %.1f ms of it restoring\n", what, Median(times), Median(restores));
    return Median(times);
  }
  void Save() {
    std::promise<Status> told;
    engine_->SaveAll([&](const Status& status) { told.set_value(status); });
    if (!told.get_future().get().ok()) std::exit(1);
  }
  /// How long a fork blocks the engine's thread: for a conversation never saved, and for one saved a turn ago.
  void Fork() {
    const auto hold = [&](const char* what, const std::string& owner, TimelineId timeline) {
      Save();
      const EngineStats before = engine_->stats();
      Turn(owner, timeline, options_.history + options_.input, 1);
      engine_->Fork(timeline, 0, owner, owner + "_fork");
      Turn("", ++last_timeline_, 4, 0);  // after it
      engine_->Close(last_timeline_);
      Turn("", ++last_timeline_, 4, 0);
      engine_->Close(last_timeline_);
      const EngineStats after = engine_->stats();
      std::printf("  %-44s %8.1f ms on the engine's thread, %.1f MB copied\n", what,
                  after.capture_ms - before.capture_ms,
                  1e-6 * static_cast<double>(after.captured_bytes - before.captured_bytes));
    };
    hold("fork, never saved", "new", 1000);
    hold("fork, a turn after it was saved", "base", 1);
  }

  const Options options_;
  Model& model_;
  NoText text_;
  std::vector<TokenId> tokens_;
  std::unique_ptr<TieredStore> tiers_;
  std::unique_ptr<Engine> engine_;
  TurnId last_ = 0;
  TimelineId last_timeline_ = 100;
};

}  // namespace
}  // namespace ringside

int main(int argc, char** argv) {
  ringside::Options options;
  CLI::App app("Time to the first token by where the cache is");
  app.add_option("--model", options.model, "A GGUF file or a Hugging Face folder")->required();
  app.add_option("--path", options.path, "A folder on the disk to measure")->required();
  app.add_option("--history", options.history, "Tokens of the conversation");
  app.add_option("--input", options.input, "Tokens of the turn");
  app.add_option("--threads", options.threads, "Of the CPU backend");
  app.add_option("--rounds", options.rounds, "Runs of each; the median counts");
  CLI11_PARSE(app, argc, argv);
  std::filesystem::create_directories(options.path);
  ringside::CpuBackendOptions cpu;
  cpu.threads = static_cast<int>(options.threads);
  const auto backend = ringside::MustHave(ringside::MakeCpuBackend(cpu));
  const auto model = ringside::MustHave(ringside::Model::Load(options.model, *backend));
  ringside::ResumeBench(options, *model).Run();
  return 0;
}
