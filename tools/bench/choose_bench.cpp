// Benchmarks SampleTokens alone: microseconds per operation, for random logits of several vocabularies, rows and
// choices. Prints one JSON object per measurement. Operations are issued 20 at a time, so that the device time
// dominates.
//   choose_bench [--device cuda] [--vocab 49152,128256] [--rows 1,8,32,128] [--repeats 20]
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <random>

#include "kernels/backend.h"

namespace ringside {
namespace {

double Now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

struct Case {
  const char* name;
  RowSamplingParams choice;
};

void Measure(Backend& backend, Tensor logits, const Case& choice, int repeats) {
  constexpr int kAtOnce = 20;
  std::vector<RowSamplingParams> choices(static_cast<size_t>(logits.rows), choice.choice);
  std::vector<SampledToken> chosen(choices.size());
  for (size_t i = 0; i < choices.size(); ++i) {
    choices[i].uniform = static_cast<double>(i) / static_cast<double>(choices.size());
  }
  std::vector<double> seconds;
  for (int i = 0; i < repeats + 3; ++i) {
    const double begin = Now();
    for (int j = 0; j < kAtOnce; ++j) backend.SampleTokens(logits, choices, chosen);
    backend.Synchronize();
    if (i >= 3) seconds.push_back((Now() - begin) / kAtOnce);
  }
  std::sort(seconds.begin(), seconds.end());
  fmt::print("{{\"name\":\"choose\",\"how\":\"{}\",\"vocab\":{},\"rows\":{},\"us\":{:.2f},\"least\":{:.2f}}}\n",
             choice.name, logits.cols, logits.rows, seconds[seconds.size() / 2] * 1e6, seconds.front() * 1e6);
}

int Main(int argc, char** argv) {
  std::string device = "cuda";
  std::vector<int64_t> vocabularies = {49152, 128256}, rows = {1, 8, 32, 128};
  int repeats = 20;
  CLI::App app("Measures choosing tokens from logits.");
  app.add_option("--device", device);
  app.add_option("--vocab", vocabularies)->delimiter(',');
  app.add_option("--rows", rows)->delimiter(',');
  app.add_option("--repeats", repeats);
  CLI11_PARSE(app, argc, argv);
  auto backend = device == "cuda" ? MakeCudaBackend({.memory_bytes = size_t{2} << 30}) : MakeCpuBackend({});
  if (!backend.ok()) return fmt::print(stderr, "{}\n", backend.status().ToString()), 1;
  std::vector<Case> cases = {{"greedy", {.temperature = 0}},
                             {"greedy, 5 logprobs", {.temperature = 0, .logprobs = 5}},
                             {"whole", {}},
                             {"top_k 40", {.top_k = 40}},
                             {"top_p 0.9", {.top_p = 0.9}},
                             {"top_k 40, top_p 0.9, min_p 0.05", {.top_k = 40, .top_p = 0.9, .min_p = 0.05}}};
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0, 3);
  for (const int64_t vocab : vocabularies) {
    for (const int64_t n : rows) {
      std::vector<float> values(static_cast<size_t>(vocab * n));
      for (float& value : values) value = normal(random);
      const size_t bytes = values.size() * sizeof(float);
      Buffer buffer = std::move((*backend)->Allocate(bytes).value());
      (*backend)->CopyToDevice(buffer.data(), values.data(), bytes);
      (*backend)->Synchronize();
      for (const Case& one : cases) Measure(**backend, {DType::kF32, buffer.data(), n, vocab, vocab}, one, repeats);
    }
  }
  return 0;
}

}  // namespace
}  // namespace ringside

int main(int argc, char** argv) { return ringside::Main(argc, argv); }
