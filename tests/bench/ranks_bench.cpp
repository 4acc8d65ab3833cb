// How long the sum over all ranks takes, by size of the message, in steps of many of them: of which all but the first
// two are one graph each. Wall time of a sum, the slowest rank's; one JSON object a size, median and spread.
//   ranks_bench [--ranks 2] [--dtype bf16] [--sums 100] [--repeats 15]
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <barrier>
#include <chrono>
#include <cstdio>
#include <random>
#include <thread>

#include "kernels/ranks.h"
#include "tests/bench/must_have.h"

namespace ringside {
namespace {

struct Options {
  int ranks = 2, sums = 100, repeats = 15;
  std::string dtype = "bf16";
};

double Now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

class RanksBench {
 public:
  explicit RanksBench(const Options& options)
      : options_(options), together_(options.ranks), seconds_(static_cast<size_t>(options.ranks)) {
    const DType dtype = options.dtype == "f16" ? DType::kF16 : DType::kBF16;
    backends_ = MustHave(MakeRanks({.tensor = options.ranks}, std::chrono::seconds(30), [&](int rank, RankComms comms) {
      return MakeCudaBackend({.device = rank, .dtype = dtype, .memory_bytes = size_t{2} << 30}, std::move(comms));
    }));
  }

  void Run() {
    for (int64_t bytes = 4096; bytes <= 16 << 20; bytes *= 2) {
      std::vector<std::thread> threads;
      for (size_t rank = 0; rank < backends_.size(); ++rank) {
        threads.emplace_back([this, rank, bytes] { Measure(rank, bytes); });
      }
      for (std::thread& thread : threads) thread.join();
      std::vector<double> slowest;
      for (size_t i = 0; i < seconds_.front().size(); ++i) {
        double most = 0;
        for (const auto& own : seconds_) most = std::max(most, own[i]);
        slowest.push_back(most / options_.sums * 1e6);
      }
      std::ranges::sort(slowest);
      fmt::print("{{\"ranks\":{},\"bytes\":{},\"us\":{:.2f},\"min\":{:.2f},\"max\":{:.2f}}}\n", options_.ranks, bytes,
                 slowest[slowest.size() / 2], slowest.front(), slowest.back());
    }
  }

 private:
  // The bytes of a message are those of its values in the type in which they travel.
  void Measure(size_t rank, int64_t bytes) {
    Backend& backend = *backends_[rank];
    backend.UseOnThisThread();
    const int64_t cols = 2048, rows = bytes / 2 / cols;
    const Buffer x_memory = MustHave(backend.Allocate(static_cast<size_t>(2 * bytes)));
    const Buffer y_memory = MustHave(backend.Allocate(static_cast<size_t>(2 * bytes)));
    std::vector<float> values(static_cast<size_t>(rows * cols));
    std::mt19937 random(static_cast<unsigned>(rank));
    for (float& value : values) value = std::normal_distribution<float>(0, 1e-3f)(random);
    backend.CopyToDevice(x_memory.data(), values.data(), values.size() * sizeof(float));
    const Tensor x{DType::kF32, x_memory.data(), rows, cols, cols}, y{DType::kF32, y_memory.data(), rows, cols, cols};
    seconds_[rank].clear();
    for (int i = -5; i < options_.repeats; ++i) {
      for (int k = 0; k < options_.sums; ++k) backend.AddAllRanks(x, y);
      together_.arrive_and_wait();
      const double began = Now();
      backend.WaitFor(backend.Submit());
      if (i >= 0) seconds_[rank].push_back(Now() - began);
      together_.arrive_and_wait();
    }
  }

  const Options& options_;
  std::vector<std::unique_ptr<Backend>> backends_;
  std::barrier<> together_;
  std::vector<std::vector<double>> seconds_;  // of each rank, of each repeat
};

}  // namespace
}  // namespace ringside

int main(int argc, char** argv) {
  ringside::Options options;
  CLI::App app("Measures the sum over all ranks.");
  app.add_option("--ranks", options.ranks)->check(CLI::Range(1, 8));
  app.add_option("--dtype", options.dtype);
  app.add_option("--sums", options.sums)->check(CLI::Range(1, 10000));
  app.add_option("--repeats", options.repeats)->check(CLI::Range(1, 1000));
  CLI11_PARSE(app, argc, argv);
  ringside::RanksBench(options).Run();
  return 0;
}
