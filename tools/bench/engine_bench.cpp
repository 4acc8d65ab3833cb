// Benchmarks the engine on a real model: decode and prefill tokens per second at given contexts and threads, the
// memory's read bandwidth in the same run, the total rate of several conversations, and that of conversations with a
// shared prefix, which attention reads once or from every copy. Prints one JSON object per measurement.
//   engine_bench --model FILE [--threads N] [--contexts 16,1024] [--prefill 512] [--decode 64] [--repeats 3]
//                [--conversations 1,4,16] [--instruction-set NAME] [--long TOKENS --memory-len N]
//                [--shared 8,16 --shared-context 3000]
#include <fmt/format.h>
#include <sys/mman.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <mutex>
#include <random>
#include <thread>

#include "cache/kv_pool.h"
#include "engine/engine.h"
#include "engine/model/model.h"
#include "engine/slot_plan.h"
#include "kernels/backend.h"
#include "tests/cache/whole_cache.h"

namespace ringside {
namespace {

struct Options {
  std::string model, instruction_set;
  int threads = 1;
  std::vector<int64_t> contexts = {16, 1024}, conversations, shared;
  int64_t prefill = 512, decode = 64, long_tokens = 0, memory_len = 1024, shared_context = 3000;
  int repeats = 3;
};

double Now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// Bytes per second that `threads` threads read from a block larger than any cache: the best of five passes.
double ReadBandwidth(int threads) {
  constexpr size_t kBytes = size_t{1} << 30;
  void* block = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (block == MAP_FAILED) return 0;
  madvise(block, kBytes, MADV_HUGEPAGE);
  std::memset(block, 1, kBytes);
  std::atomic<uint64_t> sink{0};
  double best = 1e9;
  for (int pass = 0; pass < 5; ++pass) {
    const double begin = Now();
    std::vector<std::thread> readers;
    for (int t = 0; t < threads; ++t) {
      readers.emplace_back([&, t] {
        const auto* words = static_cast<const uint64_t*>(block) + kBytes / 8 / threads * t;
        uint64_t sums[16] = {};
        for (size_t i = 0; i < kBytes / 8 / threads; i += 16) {
          for (size_t lane = 0; lane < 16; ++lane) sums[lane] += words[i + lane];
        }
        for (const uint64_t sum : sums) sink += sum;
      });
    }
    for (auto& reader : readers) reader.join();
    best = std::min(best, Now() - begin);
  }
  munmap(block, kBytes);
  return static_cast<double>(kBytes) / best;
}

std::vector<TokenId> RandomTokens(int64_t n, int64_t vocab, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<TokenId> tokens(static_cast<size_t>(n));
  for (auto& id : tokens) id = static_cast<TokenId>(random() % static_cast<uint64_t>(vocab));
  return tokens;
}

class Bench {
 public:
  /// `tokenizer`: null if the options request no conversations.
  Bench(const Options& options, Model& model, const Tokenizer* tokenizer)
      : options_(options), model_(model), tokenizer_(tokenizer) {}

  void Run() {
    const double bandwidth = ReadBandwidth(options_.threads);
    fmt::print("{{\"name\":\"read_bandwidth\",\"threads\":{},\"gb_per_s\":{:.2f}}}\n", options_.threads,
               bandwidth / 1e9);
    Prefill();
    for (const int64_t context : options_.contexts) Decode(context, bandwidth);
    for (const int64_t n : options_.conversations) Conversations(n);
    for (const int64_t n : options_.shared) SharedPrefix(n);
    if (options_.long_tokens > 0) LongConversation();
  }

 private:
  KvPool MakePool(int64_t memory_len, int64_t chunk, int64_t slots = 1) {
    const EngineOptions options{.memory_len = memory_len, .pinned_max = kPinned, .prefill_chunk = chunk};
    auto pool = KvPool::Make(model_.backend(), CacheShape(model_.shape(), options), slots);
    if (!pool.ok()) {
      fmt::print(stderr, "{}\n", pool.status().ToString());
      std::exit(1);
    }
    return std::move(*pool);
  }

  void Feed(KvCache& cache, std::span<const TokenId> tokens, int64_t chunk) {
    logits_.resize(static_cast<size_t>(model_.spec().vocab));
    while (!tokens.empty()) {
      const auto n = std::min<size_t>(static_cast<size_t>(chunk), tokens.size());
      const bool last = n == tokens.size();
      const StepPart part{&cache, tokens.first(n), last ? StepPart::Logits::kLast : StepPart::Logits::kNone};
      model_.Forward({&part, 1}, last ? std::span<float>(logits_) : std::span<float>());
      tokens = tokens.subspan(n);
    }
  }

  void Prefill() {
    constexpr int64_t kChunk = 256;
    KvPool pool = MakePool(options_.prefill + 16, kChunk);
    const auto tokens = RandomTokens(options_.prefill, model_.spec().vocab, 1);
    std::vector<double> rates;
    for (int i = 0; i <= options_.repeats; ++i) {
      KvCache* cache = LendWhole(pool, {4, options_.prefill + 16, Eviction::kToken});
      const double begin = Now();
      Feed(*cache, tokens, kChunk);
      if (i > 0) rates.push_back(static_cast<double>(options_.prefill) / (Now() - begin));
      pool.Release(cache);
    }
    fmt::print("{{\"name\":\"prefill\",\"threads\":{},\"context\":{},\"tokens_per_s\":{:.1f}}}\n", options_.threads,
               options_.prefill, Median(rates));
  }

  void Decode(int64_t context, double bandwidth) {
    const int64_t room = context + options_.decode + 16;
    KvPool pool = MakePool(room, 256);
    const auto tokens = RandomTokens(context + options_.decode, model_.spec().vocab, 2);
    std::vector<double> rates;
    for (int i = 0; i <= options_.repeats; ++i) {
      KvCache* cache = LendWhole(pool, {4, room, Eviction::kToken});
      Feed(*cache, std::span(tokens).first(static_cast<size_t>(context)), 256);
      const double begin = Now();
      for (int64_t t = 0; t < options_.decode; ++t) {
        Feed(*cache, std::span(tokens).subspan(static_cast<size_t>(context + t), 1), 1);
      }
      if (i > 0) rates.push_back(static_cast<double>(options_.decode) / (Now() - begin));
      pool.Release(cache);
    }
    const ModelSpec& spec = model_.spec();
    const double kv_bytes = static_cast<double>(2 * spec.attention_layers() * spec.kv_heads * spec.head_dim * 2) *
                            static_cast<double>(context + options_.decode / 2);
    const double bytes = static_cast<double>(model_.weight_bytes()) + kv_bytes;
    const double rate = Median(rates);
    fmt::print(
        "{{\"name\":\"decode\",\"threads\":{},\"context\":{},\"tokens_per_s\":{:.1f},\"gb_per_s\":{:.2f},"
        "\"of_bandwidth\":{:.3f}}}\n",
        options_.threads, context, rate, rate * bytes / 1e9, rate * bytes / bandwidth);
  }

  class CountingSink final : public TokenSink {
   public:
    explicit CountingSink(std::function<void()> ended) : ended_(std::move(ended)) {}
    void OnStart(const CacheReport&) override {}
    void OnTokens(const TokenDelta&) override {}
    void OnEnd(const TurnEnd&) override { ended_(); }

   private:
    std::function<void()> ended_;
  };

  // Tokens per second of `n` concurrent conversations through the engine, 64 tokens each after 32 of input.
  void Conversations(int64_t n) {
    EngineOptions engine_options;
    engine_options.slots = n;
    engine_options.memory_len = 256;
    auto engine = Engine::Start(model_, *tokenizer_, engine_options);
    if (!engine.ok()) return;
    std::mutex mutex;
    std::condition_variable changed;
    std::vector<double> rates;
    for (int repeat = 0; repeat <= options_.repeats; ++repeat) {
      int64_t running = n;
      const double begin = Now();
      for (int64_t i = 0; i < n; ++i) {
        TurnRequest turn;
        turn.turn = turn.timeline = static_cast<uint64_t>(repeat * 1000 + i + 1);
        turn.tokens = RandomTokens(32, model_.spec().vocab, static_cast<uint32_t>(i));
        turn.window = {4, 256, Eviction::kTurn};
        turn.sampling.temperature = 0;
        turn.max_tokens = options_.decode;
        turn.sink = std::make_shared<CountingSink>([&] {
          std::lock_guard lock(mutex);
          --running;
          changed.notify_one();
        });
        if (!(*engine)->Submit(std::move(turn)).ok()) return;
      }
      std::unique_lock lock(mutex);
      changed.wait(lock, [&] { return running == 0; });
      if (repeat > 0) rates.push_back(static_cast<double>(n * options_.decode) / (Now() - begin));
    }
    fmt::print("{{\"name\":\"conversations\",\"threads\":{},\"active\":{},\"tokens_per_s\":{:.1f}}}\n",
               options_.threads, n, Median(rates));
  }

  // Tokens per second of `n` conversations that decode behind a common prefix, copied from the first one; with the
  // prefix in one group, or as if every copy came from a snapshot of its own.
  void SharedPrefix(int64_t n) {
    const int64_t context = options_.shared_context, room = context + options_.decode + 16;
    const RingWindow window{4, room, Eviction::kToken};
    KvPool pool = MakePool(room, 256, n + 1);
    const auto tokens = RandomTokens(context, model_.spec().vocab, 4);
    KvCache* donor = LendWhole(pool, window);
    Feed(*donor, tokens, 256);
    double rates[2] = {};
    for (const bool grouped : {false, true}) {
      std::vector<double> measured;
      for (int i = 0; i <= options_.repeats; ++i) {
        std::vector<KvCache*> caches;
        for (int64_t c = 0; c < n; ++c) {
          KvCache* cache = caches.emplace_back(LendWhole(pool, window));
          model_.memory().CopyOnDevice(cache->slab(), donor->slab(),
                                       static_cast<size_t>(cache->shape().HeldBytes(context, window.pinned)));
          if (grouped) {
            cache->Adopt(*donor, context);
          } else if (!cache->Restore(context, window.pinned, {}, {}).ok()) {
            std::exit(1);
          }
        }
        std::vector<float> logits(static_cast<size_t>(n * model_.spec().vocab));
        const double begin = Now();
        for (int64_t t = 0; t < options_.decode; ++t) {
          std::vector<StepPart> parts;
          for (KvCache* cache : caches) {
            parts.push_back(
                {cache, std::span(tokens).subspan(parts.size() + static_cast<size_t>(t), 1), StepPart::Logits::kLast});
          }
          model_.Forward(parts, logits);
        }
        if (i > 0) measured.push_back(static_cast<double>(n * options_.decode) / (Now() - begin));
        for (KvCache* cache : caches) pool.Release(cache);
      }
      rates[grouped ? 1 : 0] = Median(measured);
    }
    fmt::print(
        "{{\"name\":\"shared_prefix\",\"threads\":{},\"active\":{},\"context\":{},\"copies_tokens_per_s\":{:.1f},"
        "\"tokens_per_s\":{:.1f}}}\n",
        options_.threads, n, context, rates[0], rates[1]);
  }

  static int64_t ResidentBytes() {
    std::ifstream statm("/proc/self/statm");
    int64_t total = 0, resident = 0;
    statm >> total >> resident;
    return resident * 4096;
  }

  // Step time and resident memory along one conversation of many windows.
  void LongConversation() {
    KvPool pool = MakePool(options_.memory_len, 64);
    KvCache* cache = LendWhole(pool, {kPinned, options_.memory_len, Eviction::kTurn});
    const auto tokens = RandomTokens(options_.long_tokens, model_.spec().vocab, 3);
    constexpr int64_t kReport = 2000;
    for (int64_t at = 0; at < options_.long_tokens; at += kReport) {
      const auto block = std::span(tokens).subspan(static_cast<size_t>(at),
                                                   static_cast<size_t>(std::min(kReport, options_.long_tokens - at)));
      cache->ring().AddMessageStart(at);
      Feed(*cache, block.first(block.size() - 100), 64);
      std::vector<double> steps;
      for (const TokenId& id : block.last(100)) {
        const double begin = Now();
        Feed(*cache, {&id, 1}, 1);
        steps.push_back(Now() - begin);
      }
      fmt::print(
          "{{\"name\":\"long\",\"threads\":{},\"position\":{},\"memory_len\":{},\"step_ms\":{:.3f},\"resident_mb\":{:."
          "1f}}}\n",
          options_.threads, cache->ring().next(), options_.memory_len, Median(steps) * 1e3,
          static_cast<double>(ResidentBytes()) / 1e6);
    }
    pool.Release(cache);
  }

  static constexpr int64_t kPinned = 16;
  const Options& options_;
  Model& model_;
  const Tokenizer* tokenizer_;
  std::vector<float> logits_;
};

int Main(int argc, char** argv) {
  Options options;
  CLI::App app("Measures decode, prefill and conversations of the engine.");
  app.add_option("--model", options.model)->required();
  app.add_option("--threads", options.threads);
  app.add_option("--contexts", options.contexts)->delimiter(',');
  app.add_option("--conversations", options.conversations)->delimiter(',');
  app.add_option("--shared", options.shared)->delimiter(',');
  app.add_option("--shared-context", options.shared_context);
  app.add_option("--prefill", options.prefill);
  app.add_option("--decode", options.decode);
  app.add_option("--repeats", options.repeats);
  app.add_option("--instruction-set", options.instruction_set);
  app.add_option("--long", options.long_tokens);
  app.add_option("--memory-len", options.memory_len);
  CLI11_PARSE(app, argc, argv);
  auto backend = MakeCpuBackend({options.threads, options.instruction_set});
  if (!backend.ok()) return fmt::print(stderr, "{}\n", backend.status().ToString()), 1;
  auto model = Model::Load(options.model, **backend);
  if (!model.ok()) return fmt::print(stderr, "{}\n", model.status().ToString()), 1;
  std::unique_ptr<Tokenizer> tokenizer;
  if (!options.conversations.empty()) {
    auto made = MakeTokenizer((*model)->tokenizer_data());
    if (!made.ok()) return fmt::print(stderr, "{}\n", made.status().ToString()), 1;
    tokenizer = std::move(*made);
  }
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  Bench(options, **model, tokenizer.get()).Run();
  return 0;
}

}  // namespace
}  // namespace ringside

int main(int argc, char** argv) { return ringside::Main(argc, argv); }
