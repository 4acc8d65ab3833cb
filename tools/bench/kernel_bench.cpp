// Benchmarks the CPU backend on decoder shapes with random weights, against the read bandwidth of the same threads in
// the same run, the bound of decoding. Best and median of several rounds.
//   kernel_bench [--shape smollm2-135m|llama-1b] [--threads 1,2] [--instruction-set NAME] [--layer-type Q4_1]
//                [--head-type Q8_0] [--rounds 7] [--cpu-time]
#include <sys/mman.h>
#include <time.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "kernels/backend.h"
#include "kernels/cpu/thread_pool.h"

namespace ringside {
namespace {

/// Sizes of a decoder. Two layers of a large one are enough: they exceed every cache, too.
struct Sizes {
  int64_t layers, hidden, heads, kv_heads, head_dim, ffn, vocabulary;
  int64_t qkv() const { return (heads + 2 * kv_heads) * head_dim; }
  double macs_per_row() const {
    return static_cast<double>(layers * (qkv() * hidden + hidden * hidden + 3 * ffn * hidden));
  }
};
const std::map<std::string, Sizes> kShapes = {{"smollm2-135m", {30, 576, 9, 3, 64, 1536, 49152}},
                                              {"llama-1b", {2, 2048, 32, 8, 64, 8192, 128256}}};
Sizes sizes = kShapes.at("smollm2-135m");
bool cpu_time = false;  // count this thread's CPU time: one thread on a shared machine

double Seconds() {
  timespec t{};
  clock_gettime(cpu_time ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

struct Timing {
  double best, median;
};
Timing Measure(int rounds, const std::function<void()>& work) {
  std::vector<double> times;
  work();
  for (int i = 0; i < rounds; ++i) {
    const double start = Seconds();
    work();
    times.push_back(Seconds() - start);
  }
  std::sort(times.begin(), times.end());
  return {times.front(), times[times.size() / 2]};
}

/// Bytes per second of reading memory far larger than the caches.
double ReadBandwidth(int threads, int rounds) {
  constexpr size_t kBytes = size_t{512} << 20, kPiece = size_t{1} << 20;
  void* map = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (map == MAP_FAILED) return 0;
  madvise(map, kBytes, MADV_HUGEPAGE);
  std::memset(map, 1, kBytes);
  cpu::ThreadPool pool(threads);
  std::vector<uint64_t> sums(kBytes / kPiece);
  const Timing t = Measure(rounds, [&] {
    pool.Run(static_cast<int64_t>(sums.size()), [&](int64_t i) {
      const auto* p =
          reinterpret_cast<const uint64_t*>(static_cast<const char*>(map) + static_cast<size_t>(i) * kPiece);
      uint64_t s[8] = {};
      for (size_t j = 0; j < kPiece / 8; j += 8) {
        for (size_t k = 0; k < 8; ++k) s[k] ^= p[j + k];
      }
      sums[static_cast<size_t>(i)] = s[0] ^ s[1] ^ s[2] ^ s[3] ^ s[4] ^ s[5] ^ s[6] ^ s[7];
    });
  });
  munmap(map, kBytes);
  return kBytes / t.best;
}

Weight RandomWeight(Backend& backend, DType dtype, int64_t rows, int64_t cols) {
  std::vector<std::byte> bytes(static_cast<size_t>(StorageBytes(dtype, rows * cols)));
  std::mt19937_64 g(7);
  for (size_t i = 0; i < bytes.size(); i += 2) {
    // Every pair of bytes is a small float16 and every byte a number in E4M3, so that both are valid as scales.
    const uint16_t half = static_cast<uint16_t>((g() & 0x033f) | 0x2000);
    std::memcpy(&bytes[i], &half, 2);
  }
  return std::move(backend.LoadWeight({dtype, rows, cols, bytes}).value());
}

/// One decoder's weights, cache and activations for up to 512 rows.
class Network {
 public:
  Network(Backend& backend, DType layer_type, DType head_type, int64_t context)
      : backend_(backend),
        shape_{sizes.layers, sizes.kv_heads, sizes.head_dim, DType::kF16, 1, (context + 512 + 15) / 16} {
    for (int64_t l = 0; l < sizes.layers; ++l) {
      layers_.push_back({RandomWeight(backend, layer_type, sizes.qkv(), sizes.hidden),
                         RandomWeight(backend, layer_type, sizes.hidden, sizes.hidden),
                         RandomWeight(backend, layer_type, 2 * sizes.ffn, sizes.hidden),
                         RandomWeight(backend, layer_type, sizes.hidden, sizes.ffn)});
    }
    head_ = RandomWeight(backend, head_type, sizes.vocabulary, sizes.hidden);
    slab_ = std::move(backend.Allocate(static_cast<size_t>(shape_.slab_bytes())).value());
    hidden_.resize(512 * sizes.hidden), normed_.resize(512 * sizes.hidden), qkv_.resize(512 * sizes.qkv()),
        attended_.resize(512 * sizes.hidden);
    wide_.resize(512 * 2 * sizes.ffn), narrow_.resize(512 * sizes.ffn), logits_.resize(sizes.vocabulary),
        ones_.resize(sizes.ffn, 1.0f);
    std::mt19937 g(1);
    std::normal_distribution<float> normal;
    for (float& x : hidden_) x = normal(g);
    for (float& x : qkv_) x = normal(g);
    start_ = hidden_;
    angles_.resize(512 * sizes.head_dim / 2, 0.6f);
  }

  int64_t layer_bytes() const {
    int64_t bytes = 0;
    for (const Layer& l : layers_) {
      for (const Weight* w : {&l.qkv, &l.out, &l.gate_up, &l.down}) bytes += static_cast<int64_t>(w->data.bytes());
    }
    return bytes;
  }
  int64_t head_bytes() const { return static_cast<int64_t>(head_.data.bytes()); }

  void LinearLayers(int64_t rows) {
    for (const Layer& l : layers_) {
      Multiply(normed_, sizes.hidden, l.qkv, qkv_, sizes.qkv(), rows, false);
      Multiply(attended_, sizes.hidden, l.out, hidden_, sizes.hidden, rows, true);
      Multiply(normed_, sizes.hidden, l.gate_up, wide_, 2 * sizes.ffn, rows, false);
      Multiply(narrow_, sizes.ffn, l.down, hidden_, sizes.hidden, rows, true);
    }
  }
  void Head() { Multiply(normed_, sizes.hidden, head_, logits_, sizes.vocabulary, 1, false); }
  void AttentionLayers(int64_t rows, int64_t position) {
    for (int64_t l = 0; l < sizes.layers; ++l) Attend(l, rows, position);
  }
  /// All of a step except sampling.
  void Step(int64_t rows, int64_t position) {
    for (int64_t i = 0; i < sizes.layers; ++i) {
      const Layer& l = layers_[static_cast<size_t>(i)];
      backend_.RmsNorm(View(hidden_, rows, sizes.hidden), ones_.data(), 1e-5f, View(normed_, rows, sizes.hidden));
      Multiply(normed_, sizes.hidden, l.qkv, qkv_, sizes.qkv(), rows, false);
      Attend(i, rows, position);
      Multiply(attended_, sizes.hidden, l.out, hidden_, sizes.hidden, rows, true);
      backend_.RmsNorm(View(hidden_, rows, sizes.hidden), ones_.data(), 1e-5f, View(normed_, rows, sizes.hidden));
      Multiply(normed_, sizes.hidden, l.gate_up, wide_, 2 * sizes.ffn, rows, false);
      backend_.MultiplyActivated(View(wide_, rows, 2 * sizes.ffn), Activation::kSilu, View(narrow_, rows, sizes.ffn));
      Multiply(narrow_, sizes.ffn, l.down, hidden_, sizes.hidden, rows, true);
    }
    Head();
    std::copy_n(start_.begin(), rows * sizes.hidden, hidden_.begin());  // random weights: numbers would not stay finite
  }

 private:
  struct Layer {
    Weight qkv, out, gate_up, down;
  };

  static Tensor View(std::vector<float>& v, int64_t rows, int64_t cols) {
    return {DType::kF32, v.data(), rows, cols, cols};
  }
  void Multiply(std::vector<float>& x, int64_t k, const Weight& w, std::vector<float>& y, int64_t n, int64_t rows,
                bool add) {
    const Weight* const weights[] = {&w};
    backend_.Linear({.x = View(x, rows, k), .weights = weights, .y = View(y, rows, n), .accumulate = add});
  }
  void Attend(int64_t layer, int64_t rows, int64_t position) {
    const std::vector<int64_t> first_live(static_cast<size_t>(rows), 1);
    const AttentionSegment segment{0, rows, position, 1, first_live.data(), slab_.data()};
    backend_.Attention({.qkv = View(qkv_, rows, sizes.qkv()),
                        .out = View(attended_, rows, sizes.hidden),
                        .layer = layer,
                        .shape = shape_,
                        .heads = sizes.heads,
                        .rotary = sizes.head_dim,
                        .pairs = RopePairs::kAdjacent,
                        .angles = {angles_.data(), angles_.data(), angles_.data(), angles_.data()},
                        .scores = {.scale = 0.125f},
                        .segments = {&segment, 1}});
  }

  Backend& backend_;
  KvShape shape_;
  std::vector<Layer> layers_;
  Weight head_;
  Buffer slab_;
  std::vector<float> hidden_, start_, normed_, qkv_, attended_, wide_, narrow_, logits_, ones_, angles_;
};

DType ParseType(const std::string& name) {
  for (int i = 0; IsFileType(static_cast<DType>(i)); ++i) {
    if (Traits(static_cast<DType>(i)).name == name) return static_cast<DType>(i);
  }
  std::fprintf(stderr, "no element type %s\n", name.c_str());
  std::exit(2);
}

void Report(Network& net, int threads, int rounds, double bandwidth) {
  std::printf("read bandwidth, %d threads: %.1f GB/s\n", threads, bandwidth / 1e9);
  const auto linear = [&](int64_t rows) {
    const Timing t = Measure(rows > 8 ? std::min(rounds, 3) : rounds, [&] { net.LinearLayers(rows); });
    std::printf(
        "linear layers, %3ld rows: %8.3f ms (median %.3f), %5.1f GB/s = %3.0f %% of read, %6.1f GMAC/s, %.0f rows/s\n",
        static_cast<long>(rows), t.best * 1e3, t.median * 1e3, net.layer_bytes() / t.best / 1e9,
        100 * net.layer_bytes() / t.best / bandwidth, sizes.macs_per_row() * rows / t.best / 1e9, rows / t.best);
  };
  for (const int64_t rows : {1, 2, 4, 8, 16, 32, 64, 512}) linear(rows);
  const Timing head = Measure(rounds, [&] { net.Head(); });
  std::printf("head,            1 row : %8.3f ms (median %.3f), %5.1f GB/s = %3.0f %% of read\n", head.best * 1e3,
              head.median * 1e3, net.head_bytes() / head.best / 1e9, 100 * net.head_bytes() / head.best / bandwidth);
  for (const int64_t context : {16, 1024, 4000}) {
    const Timing t = Measure(rounds, [&] { net.AttentionLayers(1, context); });
    const double bytes = 2.0 * sizes.layers * sizes.kv_heads * sizes.head_dim * 2 * static_cast<double>(context);
    std::printf("attention, 1 row at %4ld: %8.3f ms (median %.3f), %5.1f GB/s\n", static_cast<long>(context),
                t.best * 1e3, t.median * 1e3, bytes / t.best / 1e9);
  }
  for (const int64_t at : {0, 2048}) {
    const Timing t = Measure(std::min(rounds, 3), [&] { net.AttentionLayers(512, at); });
    const double macs = 2.0 * sizes.layers * sizes.heads * sizes.head_dim * 512 * (256.5 + static_cast<double>(at));
    std::printf("attention, 512 rows at %4ld: %8.3f ms, %5.1f GMAC/s\n", static_cast<long>(at), t.best * 1e3,
                macs / t.best / 1e9);
  }
  for (const int64_t context : {16, 1024}) {
    const Timing t = Measure(3 * rounds, [&] { net.Step(1, context); });
    std::printf("step, 1 row at %4ld: %.3f ms = %.0f tokens/s (median %.0f)\n", static_cast<long>(context),
                t.best * 1e3, 1 / t.best, 1 / t.median);
  }
  const Timing t = Measure(std::min(rounds, 3), [&] { net.Step(512, 0); });
  std::printf("step, 512 rows at 0: %.1f ms = %.0f tokens/s (median %.0f)\n", t.best * 1e3, 512 / t.best,
              512 / t.median);
}

}  // namespace
}  // namespace ringside

int main(int argc, char** argv) {
  std::vector<int> threads = {1, 2};
  std::string shape = "smollm2-135m", set, layer_type = "Q4_1", head_type = "Q8_0";
  int rounds = 7;
  CLI::App app("Measures the CPU backend");
  app.add_option("--threads", threads)->delimiter(',');
  app.add_option("--instruction-set", set);
  app.add_option("--layer-type", layer_type);
  app.add_option("--head-type", head_type);
  app.add_option("--shape", shape, "llama-1b: two layers of it")->check(CLI::IsMember(ringside::kShapes));
  app.add_flag("--cpu-time", ringside::cpu_time, "Count processor time; only with --threads 1");
  app.add_option("--rounds", rounds)->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  ringside::sizes = ringside::kShapes.at(shape);
  for (const int n : threads) {
    auto backend = ringside::MakeCpuBackend({.threads = n, .instruction_set = set});
    if (!backend.ok()) return std::fprintf(stderr, "%s\n", backend.status().ToString().c_str()), 1;
    std::printf("\n%s, layers %s, head %s\n", (*backend)->Describe().c_str(), layer_type.c_str(), head_type.c_str());
    ringside::Network net(**backend, ringside::ParseType(layer_type), ringside::ParseType(head_type), 4096);
    ringside::Report(net, n, rounds, ringside::ReadBandwidth(n, rounds));
  }
  return 0;
}
