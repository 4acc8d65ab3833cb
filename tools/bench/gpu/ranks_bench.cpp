// Times collective operations of ranks on GPUs, in steps of many operations, captured as one graph after the first two;
// medians of the slowest rank. First all-reduces, by message size: our own kernels, the backend's NCCL path, its choice
// (auto), and NCCL alone, plain and on symmetric windows, without the residual addition; `ratio` is auto to the better
// of those two. Then sampling from a vocabulary sharded over ranks: gathering all logits, or exchanging only the best.
// Finally rows passed between stages on different devices, by their size in float32: back to back, and in rounds, where
// the first stage waits for a token from the last. A table, or one JSON object per line.
//   ranks_bench [--ranks 2] [--dtype bf16] [--sums 100] [--repeats 15] [--vocab 128256] [--rows 1,32] [--json]
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <barrier>
#include <chrono>
#include <cstdio>
#include <functional>
#include <random>
#include <thread>

#include "kernels/ranks/ranks.h"
#include "kernels/ranks/stream_comm.h"
#include "tools/bench/gpu/nccl_sums.h"
#include "tools/bench/must_have.h"

namespace ringside {
namespace {

struct Options {
  int ranks = 2, sums = 100, repeats = 15;
  int64_t vocab = 128256;
  std::vector<int64_t> rows = {1, 32};
  std::string dtype = "bf16";
  bool json = false;
};

double Now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

/// Ranks of this layout with one all-reduce algorithm.
class Ranks {
 public:
  Ranks(const Options& options, const RankLayout& layout, AllReduce way)
      : options_(options), together_(layout.ranks()), seconds_(static_cast<size_t>(layout.ranks())) {
    const DType dtype = options.dtype == "f16" ? DType::kF16 : DType::kBF16;
    backends_ = MustHave(MakeRanks(layout, std::chrono::seconds(30), [&](int rank, RankComms comms) {
      return MakeCudaBackend({.device = rank, .dtype = dtype, .memory_bytes = size_t{2} << 30, .all_reduce = way},
                             std::move(comms));
    }));
  }
  std::string Describe() const { return backends_.front()->Describe(); }

  /// Microseconds per operation for `times` sequential calls of issue(backend, rank, x, y) on random float32 matrices.
  using Issue = std::function<void(Backend& backend, size_t rank, Tensor x, Tensor y)>;
  double Time(int64_t rows, int64_t cols, int times, const Issue& issue) {
    std::vector<std::thread> threads;
    for (size_t rank = 0; rank < backends_.size(); ++rank) {
      threads.emplace_back([&, rank] { Measure(rank, rows, cols, times, issue); });
    }
    for (std::thread& thread : threads) thread.join();
    std::vector<double> slowest(seconds_.front());
    for (const auto& own : seconds_) {
      for (size_t i = 0; i < own.size(); ++i) slowest[i] = std::max(slowest[i], own[i]);
    }
    std::ranges::sort(slowest);
    return slowest[slowest.size() / 2] / times * 1e6;
  }

 private:
  void Measure(size_t rank, int64_t rows, int64_t cols, int times, const Issue& issue) {
    Backend& backend = *backends_[rank];
    backend.MakeCurrent();
    const auto bytes = static_cast<size_t>(rows * cols) * sizeof(float);
    const Buffer x_memory = MustHave(backend.Allocate(bytes)), y_memory = MustHave(backend.Allocate(bytes));
    std::vector<float> values(static_cast<size_t>(rows * cols));
    std::mt19937 random(static_cast<unsigned>(rank));
    for (float& value : values) value = static_cast<float>(random()) * 0x1p-40f;
    backend.CopyToDevice(x_memory.data(), values.data(), bytes);
    const Tensor x{DType::kF32, x_memory.data(), rows, cols, cols}, y{DType::kF32, y_memory.data(), rows, cols, cols};
    seconds_[rank].clear();
    for (int i = -5; i < options_.repeats; ++i) {
      for (int k = 0; k < times; ++k) issue(backend, rank, x, y);
      together_.arrive_and_wait();
      const double began = Now();
      backend.WaitFor(backend.Submit());
      if (i >= 0) seconds_[rank].push_back(Now() - began);
      together_.arrive_and_wait();
    }
    MustBeOk(backend.status());
  }

  const Options& options_;
  std::vector<std::unique_ptr<Backend>> backends_;
  std::barrier<> together_;
  std::vector<std::vector<double>> seconds_;  // by rank, by repeat
};

/// One line of a table with these columns.
void Print(const Options& options, const char* what, const std::vector<std::pair<std::string, double>>& values) {
  std::string line;
  for (const auto& [name, value] : values) {
    line += options.json ? fmt::format(",\"{}\":{:.4g}", name, value)
                         : fmt::format(" {:>14}", fmt::format("{:.4g}", value));
  }
  fmt::print("{}",
             options.json ? fmt::format("{{\"name\":\"{}\"{}}}\n", what, line) : fmt::format("{:<8}{}\n", what, line));
}
void PrintHead(const Options& options, const char* what, const std::vector<std::string>& names) {
  if (options.json) return;
  fmt::print("{:<8}", what);
  for (const std::string& name : names) fmt::print(" {:>14}", name);
  fmt::print("\n");
}

std::vector<double> TimeSums(const Options& options, AllReduce way, const std::vector<int64_t>& sizes) {
  Ranks ranks(options, {.tensor = options.ranks}, way);
  if (way == AllReduce::kAuto) fmt::print(stderr, "{}\n", ranks.Describe());
  std::vector<double> us;
  constexpr int64_t kCols = 4096;
  for (const int64_t bytes : sizes) {  // in the values' transfer type
    us.push_back(ranks.Time(bytes / 2 / kCols, kCols, options.sums,
                            [](Backend& backend, size_t, Tensor x, Tensor y) { backend.AllReduceAdd(x, y); }));
  }
  return us;
}

void MeasureSums(const Options& options) {
  std::vector<int64_t> sizes;
  for (int64_t bytes = 8 << 10; bytes <= 16 << 20; bytes *= 2) sizes.push_back(bytes);
  const std::vector<double> none(sizes.size(), 0);
  const auto own = TimeSums(options, AllReduce::kOwn, sizes), chosen = TimeSums(options, AllReduce::kAuto, sizes);
  const auto through = HasNccl() ? TimeSums(options, AllReduce::kNccl, sizes) : none;
#ifdef RINGSIDE_NCCL
  const auto plain = TimeNcclSums(options.ranks, sizes, options.sums, options.repeats, false);
  const auto windows = TimeNcclSums(options.ranks, sizes, options.sums, options.repeats, true);
#else
  const auto plain = none, windows = none;
#endif
  PrintHead(options, "sum, us", {"KiB", "own", "through NCCL", "auto", "NCCL plain", "NCCL windows", "ratio"});
  for (size_t i = 0; i < sizes.size(); ++i) {
    const double peer = windows[i] > 0 ? std::min(plain[i], windows[i]) : plain[i];
    Print(options, "sum",
          {{"kib", static_cast<double>(sizes[i] >> 10)},
           {"own_us", own[i]},
           {"through_nccl_us", through[i]},
           {"auto_us", chosen[i]},
           {"nccl_us", plain[i]},
           {"nccl_windows_us", windows[i]},
           {"ratio", peer > 0 ? chosen[i] / peer : 0}});
  }
}

void MeasureChoices(const Options& options) {
  Ranks ranks(options, {.tensor = options.ranks}, AllReduce::kOwn);
  std::vector<int64_t> borders;
  for (int r = 0; r <= options.ranks; ++r) borders.push_back(options.vocab * r / options.ranks);
  PrintHead(options, "choice, us", {"rows", "all logits", "the best"});
  for (const int64_t rows : options.rows) {
    const std::vector<RowSamplingParams> greedy(static_cast<size_t>(rows), RowSamplingParams{.temperature = 0});
    std::vector<std::vector<SampledToken>> chosen(static_cast<size_t>(options.ranks));
    for (auto& own : chosen) own.resize(greedy.size());
    constexpr int kTimes = 20;
    const double gathered =
        ranks.Time(rows, options.vocab, kTimes, [&](Backend& backend, size_t rank, Tensor x, Tensor) {
          backend.AllGatherColumns(x, borders);
          backend.SampleTokens(x, greedy, chosen[rank]);
        });
    const double best = ranks.Time(rows, options.vocab, kTimes, [&](Backend& backend, size_t rank, Tensor x, Tensor) {
      backend.SampleGreedy(x.Columns(borders[rank], borders[rank + 1] - borders[rank]), borders[rank], chosen[rank]);
    });
    Print(options, "choice", {{"rows", static_cast<double>(rows)}, {"gathered_us", gathered}, {"highest_us", best}});
  }
}

void MeasureHandOvers(const Options& options) {
  const RankLayout layout{.stages = options.ranks};
  Ranks ranks(options, layout, AllReduce::kOwn);
  const auto hand_on = [&](Backend& backend, size_t rank, Tensor x) {
    const int stage = layout.stage(static_cast<int>(rank));
    if (stage > 0) backend.ReceiveRows(x);
    if (stage + 1 < layout.stages) backend.SendRows(x);
    return stage;
  };
  PrintHead(options, "rows, us", {"KiB", "hand-over", "GB/s", "round"});
  constexpr int64_t kCols = 4096;
  for (int64_t rows = 1; rows <= 1024; rows *= 2) {
    const double us = ranks.Time(rows, kCols, options.sums,
                                 [&](Backend& backend, size_t rank, Tensor x, Tensor) { hand_on(backend, rank, x); });
    const double round = ranks.Time(rows, kCols, options.sums, [&](Backend& backend, size_t rank, Tensor x, Tensor) {
      const int stage = hand_on(backend, rank, x);
      if (stage == 0) backend.ReceiveSampledTokens(1);
      if (stage + 1 == layout.stages) backend.SendSampledTokens(1);
    });
    const auto bytes = static_cast<double>(StorageBytes(DType::kF32, rows * kCols));
    Print(options, "rows",
          {{"kib", bytes / 1024}, {"hand_over_us", us}, {"gb_per_s", bytes / us / 1e3}, {"round_us", round}});
  }
}

}  // namespace
}  // namespace ringside

int main(int argc, char** argv) {
  ringside::Options options;
  CLI::App app("Measures what ranks do together.");
  app.add_option("--ranks", options.ranks)->check(CLI::Range(2, 8));
  app.add_option("--dtype", options.dtype);
  app.add_option("--sums", options.sums)->check(CLI::Range(1, 10000));
  app.add_option("--repeats", options.repeats)->check(CLI::Range(1, 1000));
  app.add_option("--vocab", options.vocab);
  app.add_option("--rows", options.rows)->delimiter(',');
  app.add_flag("--json", options.json);
  CLI11_PARSE(app, argc, argv);
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  ringside::MeasureSums(options);
  ringside::MeasureChoices(options);
  ringside::MeasureHandOvers(options);
  return 0;
}
