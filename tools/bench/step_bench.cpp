// Benchmarks forward passes on any device: decode steps of a batch of conversations at given contexts, prefill of whole
// prompts, an append onto a long context. Decode steps end in tokens sampled on the device (greedy; top_p 0.9), or in
// all logits on the host; ahead: each is launched before the tokens of the previous one are known. Mixed steps decode
// and also compute prompt rows. Wall time per step, including results on the host; one JSON object per measurement,
// median and spread.
//   step_bench --model PATH [--device cuda] [--dtype bf16] [--batches 1,8,32] [--contexts 1024,4096]
//              [--prefill 512,2048] [--append 64] [--steps 64] [--repeats 5] [--deterministic] [--only-ahead]
//              [--mixed 256,2048 --prompts 1,8] [--quantization none|int8|fp8] [--kv-cache-dtype fp8] [--chunk N]
//              [--ranks N [--all-reduce auto|own|nccl]] [--stages N] [--load-format dummy] [--growing]
//              [--resident TOKENS --memory-len N] [--memory-utilization 0.9] [--shared TOKENS]
// Of several processes started by mpirun each has an equal number of ranks; the first one measures. With --growing
// caches get memory as the measured steps need it, as in the engine; otherwise all of it before. With --resident it
// prints the number of conversations with that many tokens that fit in free memory, and exits. With --shared the
// first tokens of all conversations are copies, which attention reads once.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <random>

#include "base/check.h"
#include "base/limits.h"
#include "cache/kv_pool.h"
#include "engine/engine.h"
#include "engine/model/model.h"
#include "engine/slot_plan.h"
#include "kernels/backend.h"
#include "kernels/formats/row_quantization.h"
#include "kernels/ranks/process_devices.h"
#include "kernels/ranks/processes.h"
#include "kernels/ranks/ranks.h"
#include "tests/cache/whole_cache.h"
#include "tools/bench/must_have.h"

namespace ringside {
namespace {

struct Options {
  std::string model, device = "cuda", dtype = "bf16", cache, quantization = "file", all_reduce = "auto",
                     load_format = "auto";
  std::vector<int64_t> batches = {1, 8, 32}, contexts = {1024, 4096}, prefill = {512, 2048}, append, mixed,
                       prompts = {1};
  int64_t steps = 64, chunk = 0;
  int repeats = 5, ranks = 1, stages = 1;
  bool deterministic = false, only_ahead = false, growing = false;
  double memory_utilization = 0.9;
  int64_t resident = 0, memory_len = 32768, shared = 0;
};

double Now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

class StepBench {
 public:
  StepBench(const Options& options, Model& model) : options_(options), model_(model) {
    std::mt19937 random(1);
    for (int i = 0; i < 65536; ++i) {
      ids_.push_back(static_cast<TokenId>(random() % static_cast<uint64_t>(model.spec().vocab)));
    }
  }

  void Run() {
    if (options_.resident > 0) return Resident();
    for (const int64_t tokens : options_.prefill) Prefill(tokens);
    for (const int64_t context : options_.contexts) {
      for (const int64_t tokens : options_.append) Append(context, tokens);
      for (const int64_t batch : options_.batches) {
        Decode(batch, context);
        for (const int64_t rows : options_.mixed) {
          for (const int64_t prompts : options_.prompts) Mixed(batch, context, rows, prompts);
        }
      }
    }
  }

 private:
  void Resident() {
    const auto free = model_.memory().free_bytes();
    if (!free || !MakePool(options_.memory_len, 2048, static_cast<int64_t>(*free))) return;
    const RingWindow window{kPinned, options_.memory_len, Eviction::kToken};
    int64_t conversations = 0;
    const double begin = Now();
    for (KvCache* cache = pool_->Lend(window);
         cache != nullptr && pool_->Grow(cache, pool_->BytesFor(window, options_.resident)).ok();
         cache = pool_->Lend(window)) {
      ++conversations;
    }
    fmt::print(
        "{{\"name\":\"resident\",\"model\":\"{}\",\"tokens\":{},\"memory_len\":{},\"conversations\":{},\"whole_slabs\":"
        "{},"
        "\"gib\":{:.2f},\"ms_to_ask\":{:.1f}}}\n",
        model_.spec().name, options_.resident, options_.memory_len, conversations,
        pool_->memory_bytes() / pool_->shape().slab_bytes(),
        static_cast<double>(pool_->memory_bytes()) / (int64_t{1} << 30), (Now() - begin) * 1e3);
  }

  bool MakePool(int64_t room, int64_t slots, int64_t memory_bytes = 0) {
    const ModelSpec& spec = model_.spec();
    const int64_t limit = spec.learned_positions ? spec.trained_context : INT64_MAX;
    if (room > limit) return false;
    pool_.reset();
    const DType type = options_.cache == "fp8" ? DType::kF8E4M3 : options_.dtype == "f16" ? DType::kF16 : DType::kBF16;
    const EngineOptions options{
        .memory_len = room, .pinned_max = kPinned, .prefill_chunk = limits::kMaxFullRingChunkTokens, .kv_dtype = type};
    auto pool = KvPool::Make(model_.memory(), CacheShape(model_.shape(), options), slots, memory_bytes);
    if (!pool.ok()) fmt::print(stderr, "{}\n", pool.status().ToString());
    if (pool.ok()) pool_ = std::make_unique<KvPool>(std::move(*pool));
    room_ = room;
    return pool_ != nullptr;
  }
  RingWindow Window() const { return {kPinned, room_, Eviction::kToken}; }
  KvCache* Acquire() { return LendWhole(*pool_, Window()); }
  /// With memory for `tokens` tokens plus readahead: 64, as in the engine.
  void Grow(KvCache* cache, int64_t tokens) {
    MustBeOk(pool_->Grow(cache, pool_->BytesFor(Window(), tokens), pool_->BytesFor(Window(), kPinned + 64)));
  }

  // Chunk after chunk, each launched before the previous one is done; with `choose` the last row samples a token and
  // the host waits for it.
  void Feed(KvCache* cache, int64_t first, int64_t count, bool choose) {
    const RowSamplingParams greedy{.temperature = 0};
    SampledToken chosen;
    for (int64_t at = 0; at < count; at += options_.chunk) {
      const int64_t n = std::min(options_.chunk, count - at);
      const bool last = choose && at + n == count;
      const StepPart part{cache,
                          std::span(ids_).subspan(static_cast<size_t>((first + at) % 32768), static_cast<size_t>(n)),
                          last ? StepPart::Logits::kLast : StepPart::Logits::kNone};
      model_.Begin({&part, 1}, std::span(&greedy, last ? 1 : 0));
      if (at > 0) model_.Finish({});
    }
    model_.Finish(std::span(&chosen, choose ? 1 : 0));
  }

  void Report(const char* name, int64_t batch, int64_t context, int64_t tokens, std::vector<double> seconds) {
    std::sort(seconds.begin(), seconds.end());
    fmt::print(
        "{{\"name\":\"{}\",\"model\":\"{}\",\"batch\":{},\"context\":{},\"tokens\":{},\"ms\":{:.4f},\"least\":{:.4f},"
        "\"most\":{:.4f}}}\n",
        name, model_.spec().name, batch, context, tokens, seconds[seconds.size() / 2] * 1e3, seconds.front() * 1e3,
        seconds.back() * 1e3);
  }

  void Prefill(int64_t tokens) {
    if (!MakePool(tokens + 16, 1)) return;
    std::vector<double> seconds;
    for (int i = -kWarm; i < options_.repeats; ++i) {
      KvCache* cache = Acquire();
      const double begin = Now();
      Feed(cache, 0, tokens, true);
      if (i >= 0) seconds.push_back(Now() - begin);
      pool_->Release(cache);
    }
    Report("prefill", 1, 0, tokens, seconds);
  }

  void Append(int64_t context, int64_t tokens) {
    if (!MakePool(context + (options_.repeats + kWarm) * tokens + 16, 1)) return;
    KvCache* cache = Acquire();
    Feed(cache, 0, context, false);
    std::vector<double> seconds;
    for (int i = -kWarm; i < options_.repeats; ++i) {
      const double begin = Now();
      Feed(cache, context + (i + kWarm) * tokens, tokens, true);
      if (i >= 0) seconds.push_back(Now() - begin);
    }
    Report("append", 1, context, tokens, seconds);
  }

  // Caches with `context` tokens. A step's time does not depend on the content, so one is filled and copied. But rows
  // with the same tokens select the same experts: for a mixture every conversation gets different ones. Recurrent state
  // is not copied.
  std::vector<KvCache*> Filled(int64_t batch, int64_t context) {
    std::vector<KvCache*> caches;
    for (int64_t b = 0; b < batch; ++b) caches.push_back(options_.growing ? pool_->Lend(Window()) : Acquire());
    for (KvCache* cache : caches) Grow(cache, context);
    const bool each = model_.spec().experts > 0 || model_.spec().recurrent();
    const int64_t shared = model_.spec().recurrent() ? 0 : std::min(options_.shared, context);
    for (size_t b = 0; b < caches.size(); ++b) {
      KvCache& cache = *caches[b];
      if (b == 0 || (each && shared == 0)) {
        Feed(&cache, static_cast<int64_t>(b) * 4099, context, false);
        continue;
      }
      const int64_t copied = shared > 0 ? shared : context;
      model_.memory().CopyOnDevice(cache.slab(), caches[0]->slab(),
                                   static_cast<size_t>(cache.shape().HeldBytes(copied, kPinned)));
      if (shared == 0) {
        MustBeOk(cache.Restore(context, kPinned, {}, {}));  // as from a snapshot: rows of its own
        continue;
      }
      cache.Adopt(*caches[0], shared);
      if (context > shared) Feed(&cache, static_cast<int64_t>(b) * 4099, context - shared, false);
    }
    return caches;
  }

  // Steps of `batch` conversations that decode at a context, plus `rows` rows of `prompts` new ones, from their first
  // token on; each prompt samples a token, too.
  void Mixed(int64_t batch, int64_t context, int64_t rows, int64_t prompts) {
    const int64_t each = rows / prompts;
    if (each == 0 || !MakePool(std::max(context, each) + options_.repeats + kWarm + 16, batch + prompts)) return;
    const std::vector<KvCache*> caches = Filled(batch, context);
    const std::vector<RowSamplingParams> choices(static_cast<size_t>(batch + prompts),
                                                 RowSamplingParams{.temperature = 0});
    std::vector<SampledToken> chosen(choices.size());
    std::vector<double> seconds;
    for (int i = -kWarm; i < options_.repeats; ++i) {
      std::vector<StepPart> parts;
      for (KvCache* cache : caches) parts.push_back({cache, std::span(ids_).subspan(parts.size(), 1)});
      for (int64_t p = 0; p < prompts; ++p) {
        parts.push_back({Acquire(), std::span(ids_).subspan(static_cast<size_t>(p * each), static_cast<size_t>(each))});
      }
      const double begin = Now();
      model_.Begin(parts, choices);
      model_.Finish(chosen);
      if (i >= 0) seconds.push_back(Now() - begin);
      for (size_t p = caches.size(); p < parts.size(); ++p) pool_->Release(parts[p].cache);
    }
    Report(fmt::format("mixed_{}_prompts", prompts).c_str(), batch, context, rows, seconds);
  }

  void Decode(int64_t batch, int64_t context) {
    const int64_t warm = kWarm, steps = options_.steps / 2;
    if (!MakePool(context + 3 * steps + 4 * warm + 16, batch)) return;
    const std::vector<KvCache*> caches = Filled(batch, context - steps);
    std::vector<float> logits(static_cast<size_t>(batch * model_.spec().vocab));
    std::vector<SampledToken> chosen(static_cast<size_t>(batch));
    struct Mode {
      const char* name;
      double temperature;
      bool to_host, ahead;
    };
    for (const Mode& mode : {Mode{"decode", 0, false, false}, Mode{"decode_ahead", 0, false, true},
                             Mode{"decode_top_p", 1, false, false}, Mode{"decode_logits", 0, true, false}}) {
      if (mode.ahead ? !model_.backend().runs_ahead() : options_.only_ahead) continue;
      std::vector<double> seconds;
      double last = Now();
      for (int64_t step = 0; step < warm + steps; ++step) {
        std::vector<StepPart> parts;
        std::vector<RowSamplingParams> choices;
        std::vector<TokenId> ids;
        const bool unseen = mode.ahead && step > 0;  // the tokens of the previous step, which is still in flight
        for (int64_t b = 0; b < batch; ++b) {
          ids.push_back(unseen ? static_cast<TokenId>(~b)
                               : ids_[static_cast<size_t>(40000 + step * batch + b) % 65536]);
          choices.push_back({.temperature = mode.temperature,
                             .top_p = 0.9,
                             .uniform = std::fmod(static_cast<double>(step * batch + b) * 0.618, 1.0)});
        }
        for (size_t b = 0; b < ids.size(); ++b) {
          Grow(caches[b], caches[b]->ring().next() + 1);
          parts.push_back({caches[b], std::span(ids).subspan(b, 1), StepPart::Logits::kLast});
        }
        if (mode.to_host) {
          model_.Forward(parts, logits);
        } else {
          model_.Begin(parts, choices);
          if (unseen || !mode.ahead) model_.Finish(chosen);
        }
        const double now = Now();
        if (step >= warm) seconds.push_back(now - last);
        last = now;
      }
      if (mode.ahead) model_.Finish(chosen);
      Report(mode.name, batch, context, 1, seconds);
    }
  }

  static constexpr int64_t kPinned = 4;
  static constexpr int kWarm = 5;  // steps until every graph is captured: two submissions, each on its second run
  const Options& options_;
  Model& model_;
  std::unique_ptr<KvPool> pool_;
  int64_t room_ = 0;
  std::vector<TokenId> ids_;
};

/// Measures, in the first process; the others execute its calls.
void Run(Options options, Processes& processes) {
  const AllReduce all_reduce = options.all_reduce == "own"    ? AllReduce::kOwn
                               : options.all_reduce == "nccl" ? AllReduce::kNccl
                                                              : AllReduce::kAuto;
  const RankLayout layout{.tensor = options.ranks, .stages = options.stages};
  const int each = layout.ranks() / processes.count();
  CHECK_EQ(each * processes.count(), layout.ranks());
  int first = 0;
  if (options.device == "cuda" && processes.count() > 1) {
    first = MustHave(AssignDevices(processes, Processes::kMaxChannels - 1, 0, each));
  }
  const auto devices =
      MustHave(MakeRanks(processes.MakeComms(0, layout, processes.timeout()), [&](int rank, RankComms comms) {
        return options.device == "cuda" ? MakeCudaBackend({.device = first + rank,
                                                           .dtype = options.dtype == "f16" ? DType::kF16 : DType::kBF16,
                                                           .quantization = QuantizationNamed(options.quantization),
                                                           .keeps_blocks = options.quantization != "none",
                                                           .memory_utilization = options.memory_utilization,
                                                           .deterministic = options.deterministic,
                                                           .all_reduce = all_reduce},
                                                          std::move(comms))
                                        : MakeCpuBackend({}, std::move(comms));
      }));
  std::vector<Backend*> ranks;
  for (const auto& device : devices) ranks.push_back(device.get());
  const double began = Now();
  const LoadFormat format = options.load_format == "dummy" ? LoadFormat::kDummy : LoadFormat::kAuto;
  if (processes.number() > 0) return MustBeOk(Model::Follow(options.model, ranks, options.stages, format, processes));
  const std::unique_ptr<Model> model =
      MustHave(processes.count() > 1 ? Model::Load(options.model, ranks, options.stages, format, processes)
                                     : Model::Load(options.model, ranks, options.stages, format));
  fmt::print(stderr, "loaded in {:.1f} s\n", Now() - began);
  fmt::print(stderr, "{}: {}\n", model->spec().name, model->memory().Describe());
  if (options.chunk == 0) options.chunk = GpuPrefillChunk(model->spec(), limits::kMaxPrefillChunkTokens);
  MustBeOk(model->Reserve(std::max<int64_t>(options.chunk, 256)));
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  StepBench(options, *model).Run();
}

int Main(int argc, char** argv) {
  Options options;
  CLI::App app("Measures decode steps, prefill and appends of a model on a device.");
  app.add_option("--model", options.model)->required();
  app.add_option("--device", options.device);
  app.add_option("--dtype", options.dtype);
  app.add_option("--kv-cache-dtype", options.cache, "As --dtype if absent")->check(CLI::IsMember({"fp8"}));
  app.add_option("--quantization", options.quantization)->check(CLI::IsMember({"file", "none", "int8", "fp8"}));
  app.add_option("--batches", options.batches)->delimiter(',');
  app.add_option("--contexts", options.contexts)->delimiter(',');
  app.add_option("--prefill", options.prefill)->delimiter(',');
  app.add_option("--append", options.append)->delimiter(',');
  app.add_option("--mixed", options.mixed, "Prompt rows of steps that also decode")->delimiter(',');
  app.add_option("--prompts", options.prompts, "Prompts that those rows belong to")->delimiter(',');
  app.add_option("--ranks", options.ranks, "Devices that share every layer")->check(CLI::Range(1, 8));
  app.add_option("--stages", options.stages, "Stages of layers, of so many devices each")->check(CLI::Range(1, 64));
  app.add_option("--all-reduce", options.all_reduce)->check(CLI::IsMember({"auto", "own", "nccl"}));
  app.add_option("--load-format", options.load_format)->check(CLI::IsMember({"auto", "dummy"}));
  app.add_option("--steps", options.steps)->check(CLI::Range(2, 4096));
  app.add_option("--chunk", options.chunk, "Rows of a prompt in a step; as the server on a GPU if absent");
  app.add_option("--repeats", options.repeats)->check(CLI::Range(1, 1000));
  app.add_flag("--deterministic", options.deterministic);
  app.add_option("--memory-utilization", options.memory_utilization, "Of a GPU's free memory")
      ->check(CLI::Range(0.1, 1.0));
  app.add_flag("--growing", options.growing, "Memory of caches comes as steps need it");
  app.add_option("--resident", options.resident, "Tokens of conversations to be counted");
  app.add_option("--memory-len", options.memory_len, "Their window");
  app.add_option("--shared", options.shared, "First tokens that conversations share in decode and mixed steps");
  app.add_flag("--only-ahead", options.only_ahead,
               "of decode steps, those begun before the tokens of the last are known");
  CLI11_PARSE(app, argc, argv);
  const auto processes = MustHave(Processes::Join(std::chrono::seconds(30)));
  Run(options, *processes);
  return processes->Leave().ok() ? 0 : 1;
}

}  // namespace
}  // namespace ringside

int main(int argc, char** argv) { return ringside::Main(argc, argv); }
