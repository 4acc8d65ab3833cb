// Benchmarks copies of caches between a device and host memory, on any device: spill and restore alone and alongside
// decoding conversations, and the time to first token of a turn on a restored cache, against a recomputed one. With
// --path also the way to that folder's disk and back, beside a plain file's rate. Wall time, medians; one JSON object
// per measurement.
//   restore_bench --model PATH [--device cuda] [--dtype bf16] [--tokens 1024,4096] [--turn 64] [--beside 8]
//                 [--repeats 5] [--kv-cache-dtype fp8] [--ranks N] [--load-format dummy] [--memory-utilization 0.9]
//                 [--path FOLDER] [--no-recompute]
// With ranks each has its heads' part of a cache, on its own link.
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <random>

#include "base/check.h"
#include "cache/host_arena.h"
#include "cache/kv_pool.h"
#include "cache/store/ram_store.h"
#include "cache/store/rocksdb_store.h"
#include "engine/model/model.h"
#include "engine/slot_plan.h"
#include "kernels/backend.h"
#include "kernels/ranks/ranks.h"
#include "tests/cache/whole_cache.h"
#include "tools/bench/must_have.h"
#include "tools/bench/page_cache.h"
#include "tools/bench/store_calls.h"

namespace ringside {
namespace {

struct Options {
  std::string model, device = "cuda", dtype = "bf16", cache, load_format = "auto", path;
  bool no_recompute = false;
  std::vector<int64_t> tokens = {1024, 4096};
  int64_t turn = 64, beside = 8, chunk = 2048;
  int repeats = 5, ranks = 1;
  double memory_utilization = 0.9;
};

double Now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }
double Median(std::vector<double> seconds) {
  std::sort(seconds.begin(), seconds.end());
  return seconds.empty() ? 0 : seconds[seconds.size() / 2];
}

class RestoreBench {
 public:
  RestoreBench(const Options& options, Model& model) : options_(options), model_(model), device_(model.memory()) {
    std::mt19937 random(1);
    const int64_t longest = *std::max_element(options.tokens.begin(), options.tokens.end());
    for (int64_t i = 0; i < std::max<int64_t>(65536, longest + 2 * options.turn); ++i) {
      ids_.push_back(static_cast<TokenId>(random() % static_cast<uint64_t>(model.spec().vocab)));
    }
    logits_.resize(static_cast<size_t>((options.beside + 1) * model.spec().vocab));
  }

  void Run() {
    for (const int64_t tokens : options_.tokens) Measure(tokens);
  }

 private:
  static constexpr int64_t kPinned = 4, kSteps = 200;

  bool MakePool(int64_t tokens) {
    const ModelSpec& spec = model_.spec();
    window_ = {kPinned, tokens + options_.turn + kSteps * 8, Eviction::kToken};
    pool_.reset();
    if (spec.learned_positions && window_.memory_len + kPinned > spec.trained_context) return false;  // does not fit
    const EngineOptions engine{.memory_len = window_.memory_len,
                               .pinned_max = kPinned,
                               .prefill_chunk = options_.chunk,
                               .kv_dtype = options_.cache == "fp8"   ? DType::kF8E4M3
                                           : options_.dtype == "f16" ? DType::kF16
                                                                     : DType::kBF16};
    auto pool = KvPool::Make(device_, CacheShape(model_.shape(), engine), 2 + options_.beside);
    if (!pool.ok()) return fmt::print(stderr, "{}\n", pool.status().ToString()), false;
    pool_ = std::make_unique<KvPool>(std::move(*pool));
    return true;
  }
  void Feed(KvCache* cache, int64_t first, int64_t count) {
    for (int64_t at = 0; at < count; at += options_.chunk) {
      const int64_t n = std::min(options_.chunk, count - at);
      const StepPart part{cache, std::span(ids_).subspan(static_cast<size_t>(first + at), static_cast<size_t>(n)),
                          at + n == count ? StepPart::Logits::kLast : StepPart::Logits::kNone};
      model_.Forward({&part, 1}, at + n == count ? std::span(logits_).first(static_cast<size_t>(model_.spec().vocab))
                                                 : std::span<float>());
    }
  }
  void Report(const char* name, int64_t tokens, double seconds, double bytes = 0, const std::string& more = "") {
    fmt::print("{{\"name\":\"{}\",\"model\":\"{}\",\"tokens\":{},\"ms\":{:.3f}", name, model_.spec().name, tokens,
               seconds * 1e3);
    if (bytes > 0) fmt::print(",\"mib\":{:.1f},\"gb_per_s\":{:.2f}", bytes / (1 << 20), bytes / seconds * 1e-9);
    fmt::print("{}}}\n", more);
  }
  // One step of the concurrent conversations; returns its seconds.
  double DecodeStep() {
    std::vector<StepPart> parts;
    for (size_t i = 0; i < others_.size(); ++i) {
      parts.push_back({others_[i], std::span(ids_).subspan(40000 + i + static_cast<size_t>(steps_ % 1000), 1),
                       StepPart::Logits::kLast});
    }
    ++steps_;
    const double begin = Now();
    model_.Forward(parts, std::span(logits_).first(others_.size() * static_cast<size_t>(model_.spec().vocab)));
    return Now() - begin;
  }

  void Measure(int64_t tokens) {
    if (!MakePool(tokens)) return;
    KvCache* kept = LendWhole(*pool_, window_);
    HostArena arena;
    arena.Start(device_, static_cast<size_t>(SnapshotChunkBytes(kept->shape(), device_)),
                static_cast<size_t>(2 * kept->shape().slab_bytes()));
    arena.Wait();
    others_.clear();
    for (int64_t i = 0; i < options_.beside; ++i) {
      others_.push_back(LendWhole(*pool_, window_));
      Feed(others_.back(), 100 * i, std::min<int64_t>(tokens, 1024));
    }
    Feed(kept, 0, tokens);
    const std::vector<int32_t> ids(ids_.begin(), ids_.begin() + tokens);
    Snapshot snapshot;
    std::vector<double> spills, begins;
    for (int i = 0; i <= options_.repeats; ++i) {
      kept->set_snapshot(0);
      const double begin = Now();
      PendingCapture pending = Snapshot::BeginCapture(*kept, device_, {}, ids, 0);
      begins.push_back(Now() - begin);
      snapshot = Snapshot::FinishCapture(std::move(pending), device_);
      if (i > 0) spills.push_back(Now() - begin);
    }
    const auto bytes = static_cast<double>(snapshot.chunk_bytes());
    Report("spill", tokens, Median(spills), bytes, fmt::format(",\"begin_ms\":{:.3f}", Median(begins) * 1e3));
    RestoreAlone(tokens, snapshot, bytes);
    if (options_.beside > 0) RestoreBeside(tokens, snapshot, bytes);
    FirstToken(tokens, snapshot);
    if (!options_.path.empty()) Disk(tokens, *kept, ids, bytes);
  }

  // Captured, stored and flushed durably; then fetched by a reopened store with a cold page cache, and restored.
  void Disk(int64_t tokens, KvCache& kept, const std::vector<int32_t>& ids, double bytes) {
    RocksDbStoreOptions disk;
    disk.path = options_.path + "/restore_bench";
    std::filesystem::remove_all(disk.path);
    const auto open = [&] {
      return std::make_unique<TieredStore>(std::make_unique<RamStore>(int64_t{16} << 30),
                                           MustHave(RocksDbStore::Open(disk)), TieredStoreOptions{.sweep_ms = 0});
    };
    auto tiers = open();
    Snapshot snapshot = Snapshot::FinishCapture(Snapshot::BeginCapture(kept, device_, {}, ids, 0), device_);
    double begin = Now();
    MustBeOk(Wait([&](auto done) { MustBeOk(tiers->Store("kept", std::move(snapshot), done)); }));
    MustBeOk(Wait([&](auto done) { tiers->Flush(done); }));
    Report("disk_write", tokens, Now() - begin, bytes);
    std::vector<double> reads;
    for (int i = 0; i < options_.repeats; ++i) {
      tiers.reset();
      tiers = open();
      MakeCold(disk.path);
      begin = Now();
      const FetchedSnapshot fetched = MustHave(Fetch(*tiers, "kept"));
      reads.push_back(Now() - begin);
      KvCache* cache = LendWhole(*pool_, window_);
      MustBeOk(fetched.snapshot.Restore(*cache, device_, {}));
      pool_->Release(cache);
    }
    Report("disk_read", tokens, Median(reads), bytes);
    tiers.reset();
    std::filesystem::remove_all(disk.path);
    PlainFile(tokens, static_cast<size_t>(bytes));
  }

  // Writes and reads one plain file of this size.
  void PlainFile(int64_t tokens, size_t bytes) {
    constexpr size_t kPiece = size_t{1} << 20;
    std::vector<uint32_t> piece(kPiece / 4);
    std::mt19937 random(2);
    for (uint32_t& word : piece) word = random();
    const std::string name = options_.path + "/restore_bench_file";
    double begin = Now();
    int fd = open(name.c_str(), O_RDWR | O_CREAT | O_TRUNC, 0600);
    CHECK_GE(fd, 0);
    for (size_t at = 0; at < bytes; at += kPiece) CHECK_EQ(write(fd, piece.data(), kPiece), ssize_t{kPiece});
    fdatasync(fd);
    Report("file_write", tokens, Now() - begin, static_cast<double>(bytes));
    posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    lseek(fd, 0, SEEK_SET);
    begin = Now();
    while (read(fd, piece.data(), kPiece) > 0) continue;
    Report("file_read", tokens, Now() - begin, static_cast<double>(bytes));
    close(fd);
    std::filesystem::remove(name);
  }

  void RestoreAlone(int64_t tokens, const Snapshot& snapshot, double bytes) {
    std::vector<double> restores, begins;
    for (int i = 0; i <= options_.repeats; ++i) {
      KvCache* cache = LendWhole(*pool_, window_);
      const double begin = Now();
      const auto pending = snapshot.BeginRestore(*cache, device_, {});
      begins.push_back(Now() - begin);
      device_.WaitForCopy(pending->ticket);
      if (i > 0) restores.push_back(Now() - begin);
      pool_->Release(cache);
    }
    Report("restore", tokens, Median(restores), bytes, fmt::format(",\"begin_ms\":{:.3f}", Median(begins) * 1e3));
  }

  void RestoreBeside(int64_t tokens, const Snapshot& snapshot, double bytes) {
    std::vector<double> restores, quiet, beside;
    for (int i = 0; i < 24; ++i) {
      const double seconds = DecodeStep();
      if (i >= 8) quiet.push_back(seconds);
    }
    for (int i = 0; i < options_.repeats; ++i) {
      KvCache* cache = LendWhole(*pool_, window_);
      const double begin = Now();
      const auto pending = snapshot.BeginRestore(*cache, device_, {});
      while (!device_.CopyDone(pending->ticket)) beside.push_back(DecodeStep());
      restores.push_back(Now() - begin);
      pool_->Release(cache);
    }
    Report("restore_beside", tokens, Median(restores), bytes,
           fmt::format(",\"sessions\":{},\"step_ms\":{:.3f},\"step_alone_ms\":{:.3f}", options_.beside,
                       Median(beside) * 1e3, Median(quiet) * 1e3));
  }

  void FirstToken(int64_t tokens, const Snapshot& snapshot) {
    std::vector<double> restored, computed, kept;
    for (int i = 0; i <= options_.repeats; ++i) {
      KvCache* cache = LendWhole(*pool_, window_);
      double begin = Now();
      const auto pending = snapshot.BeginRestore(*cache, device_, {});
      Feed(cache, tokens, options_.turn);
      if (i > 0) restored.push_back(Now() - begin);
      device_.WaitForCopy(pending->ticket);
      begin = Now();
      Feed(cache, tokens + options_.turn, options_.turn);
      if (i > 0) kept.push_back(Now() - begin);
      pool_->Release(cache);
      if (options_.no_recompute) continue;
      cache = LendWhole(*pool_, window_);
      begin = Now();
      Feed(cache, 0, tokens + options_.turn);
      if (i > 0) computed.push_back(Now() - begin);
      pool_->Release(cache);
    }
    Report("first_token_kept", tokens, Median(kept));
    Report("first_token_restored", tokens, Median(restored));
    if (options_.no_recompute) return;
    Report("first_token_computed", tokens, Median(computed), 0,
           fmt::format(",\"times\":{:.2f}", Median(computed) / Median(restored)));
  }

  const Options& options_;
  Model& model_;
  SlabMemory& device_;
  RingWindow window_;
  std::unique_ptr<KvPool> pool_;
  std::vector<KvCache*> others_;
  std::vector<TokenId> ids_;
  std::vector<float> logits_;
  int64_t steps_ = 0;
};

int Main(int argc, char** argv) {
  Options options;
  CLI::App app("Measures spill and restore of caches on a device.");
  app.add_option("--model", options.model)->required();
  app.add_option("--device", options.device);
  app.add_option("--dtype", options.dtype);
  app.add_option("--kv-cache-dtype", options.cache, "As --dtype if absent")->check(CLI::IsMember({"fp8"}));
  app.add_option("--tokens", options.tokens)->delimiter(',');
  app.add_option("--turn", options.turn);
  app.add_option("--beside", options.beside);
  app.add_option("--chunk", options.chunk);
  app.add_option("--repeats", options.repeats);
  app.add_option("--ranks", options.ranks, "Devices that share the model")->check(CLI::Range(1, 8));
  app.add_option("--memory-utilization", options.memory_utilization, "Of a GPU's free memory")
      ->check(CLI::Range(0.1, 1.0));
  app.add_option("--path", options.path, "A folder on the disk to measure");
  app.add_flag("--no-recompute", options.no_recompute, "Without first tokens after a whole recomputation");
  app.add_option("--load-format", options.load_format)->check(CLI::IsMember({"auto", "dummy"}));
  CLI11_PARSE(app, argc, argv);
  const auto devices =
      MustHave(MakeRanks({.tensor = options.ranks}, std::chrono::seconds(30), [&](int rank, RankComms comms) {
        return options.device == "cuda" ? MakeCudaBackend({.device = rank,
                                                           .dtype = options.dtype == "f16" ? DType::kF16 : DType::kBF16,
                                                           .memory_utilization = options.memory_utilization},
                                                          std::move(comms))
                                        : MakeCpuBackend({}, std::move(comms));
      }));
  std::vector<Backend*> ranks;
  for (const auto& device : devices) ranks.push_back(device.get());
  const std::unique_ptr<Model> model = MustHave(
      Model::Load(options.model, ranks, 1, options.load_format == "dummy" ? LoadFormat::kDummy : LoadFormat::kAuto));
  MustBeOk(model->Reserve(options.chunk));
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  RestoreBench(options, *model).Run();
  return 0;
}

}  // namespace
}  // namespace ringside

int main(int argc, char** argv) { return ringside::Main(argc, argv); }
