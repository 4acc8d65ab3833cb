// Measures the CPU backend on the shapes of a 135-million-parameter decoder with random weights, beside the read
// bandwidth that the same threads reach in the same run: what decoding is bound by. Best and median of several rounds.
//   kernel_bench [--threads 1,2] [--instruction-set NAME] [--layer-type Q4_1] [--head-type Q8_0] [--rounds 7]
//                [--cpu-time]
#include <sys/mman.h>
#include <time.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "kernels/backend.h"
#include "kernels/cpu/thread_pool.h"

namespace ringside {
namespace {

constexpr int64_t kLayers = 30, kHidden = 576, kHeads = 9, kKvHeads = 3, kHeadDim = 64, kFfn = 1536,
                  kVocabulary = 49152;
constexpr int64_t kQkv = (kHeads + 2 * kKvHeads) * kHeadDim;
constexpr double kMacsPerRow = kLayers * (kQkv * kHidden + kHidden * kHidden + 2.0 * kFfn * kHidden + kHidden * kFfn);

bool cpu_time = false;  // count this thread's processor time: one thread on a machine that others use too

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
    // Every pair of bytes is a small float16, so that any of them may be a scale.
    const uint16_t half = static_cast<uint16_t>((g() & 0x83ff) | 0x2000);
    std::memcpy(&bytes[i], &half, 2);
  }
  return std::move(backend.LoadWeight({dtype, rows, cols, bytes}).value());
}

/// One decoder's weights, cache and activations for up to 512 rows.
class Network {
 public:
  Network(Backend& backend, DType layer_type, DType head_type, int64_t context)
      : backend_(backend), shape_{kLayers, kKvHeads, kHeadDim, DType::kF16, 1, (context + 512 + 15) / 16} {
    for (int64_t l = 0; l < kLayers; ++l) {
      layers_.push_back(
          {RandomWeight(backend, layer_type, kQkv, kHidden), RandomWeight(backend, layer_type, kHidden, kHidden),
           RandomWeight(backend, layer_type, 2 * kFfn, kHidden), RandomWeight(backend, layer_type, kHidden, kFfn)});
    }
    head_ = RandomWeight(backend, head_type, kVocabulary, kHidden);
    slab_ = std::move(backend.Allocate(static_cast<size_t>(shape_.slab_bytes())).value());
    hidden_.resize(512 * kHidden), normed_.resize(512 * kHidden), qkv_.resize(512 * kQkv),
        attended_.resize(512 * kHidden);
    wide_.resize(512 * 2 * kFfn), narrow_.resize(512 * kFfn), logits_.resize(kVocabulary), ones_.resize(kFfn, 1.0f);
    std::mt19937 g(1);
    std::normal_distribution<float> normal;
    for (float& x : hidden_) x = normal(g);
    for (float& x : qkv_) x = normal(g);
    start_ = hidden_;
    angles_.resize(512 * kHeadDim / 2, 0.6f);
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
      Multiply(normed_, kHidden, l.qkv, qkv_, kQkv, rows, false);
      Multiply(attended_, kHidden, l.out, hidden_, kHidden, rows, true);
      Multiply(normed_, kHidden, l.gate_up, wide_, 2 * kFfn, rows, false);
      Multiply(narrow_, kFfn, l.down, hidden_, kHidden, rows, true);
    }
  }
  void Head() { Multiply(normed_, kHidden, head_, logits_, kVocabulary, 1, false); }
  void AttentionLayers(int64_t rows, int64_t position) {
    for (int64_t l = 0; l < kLayers; ++l) Attend(l, rows, position);
  }
  /// Everything a step does but choosing the token.
  void Step(int64_t rows, int64_t position) {
    for (int64_t i = 0; i < kLayers; ++i) {
      const Layer& l = layers_[static_cast<size_t>(i)];
      backend_.RmsNorm(View(hidden_, rows, kHidden), ones_.data(), 1e-5f, View(normed_, rows, kHidden));
      Multiply(normed_, kHidden, l.qkv, qkv_, kQkv, rows, false);
      Attend(i, rows, position);
      Multiply(attended_, kHidden, l.out, hidden_, kHidden, rows, true);
      backend_.RmsNorm(View(hidden_, rows, kHidden), ones_.data(), 1e-5f, View(normed_, rows, kHidden));
      Multiply(normed_, kHidden, l.gate_up, wide_, 2 * kFfn, rows, false);
      backend_.MultiplyActivated(View(wide_, rows, 2 * kFfn), Activation::kSilu, View(narrow_, rows, kFfn));
      Multiply(narrow_, kFfn, l.down, hidden_, kHidden, rows, true);
    }
    Head();
    std::copy_n(start_.begin(), rows * kHidden, hidden_.begin());  // random weights: numbers would not stay finite
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
    backend_.Attention({.qkv = View(qkv_, rows, kQkv),
                        .out = View(attended_, rows, kHidden),
                        .layer = layer,
                        .shape = shape_,
                        .heads = kHeads,
                        .rotary = kHeadDim,
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
        100 * net.layer_bytes() / t.best / bandwidth, kMacsPerRow * rows / t.best / 1e9, rows / t.best);
  };
  for (const int64_t rows : {1, 2, 4, 8, 16, 32, 64, 512}) linear(rows);
  const Timing head = Measure(rounds, [&] { net.Head(); });
  std::printf("head,            1 row : %8.3f ms (median %.3f), %5.1f GB/s = %3.0f %% of read\n", head.best * 1e3,
              head.median * 1e3, net.head_bytes() / head.best / 1e9, 100 * net.head_bytes() / head.best / bandwidth);
  for (const int64_t context : {16, 1024, 4000}) {
    const Timing t = Measure(rounds, [&] { net.AttentionLayers(1, context); });
    const double bytes = 2.0 * kLayers * kKvHeads * kHeadDim * 2 * static_cast<double>(context);
    std::printf("attention, 1 row at %4ld: %8.3f ms (median %.3f), %5.1f GB/s\n", static_cast<long>(context),
                t.best * 1e3, t.median * 1e3, bytes / t.best / 1e9);
  }
  for (const int64_t at : {0, 2048}) {
    const Timing t = Measure(std::min(rounds, 3), [&] { net.AttentionLayers(512, at); });
    const double macs = 2.0 * kLayers * kHeads * kHeadDim * 512 * (256.5 + static_cast<double>(at));
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
  std::string set, layer_type = "Q4_1", head_type = "Q8_0";
  int rounds = 7;
  CLI::App app("Measures the CPU backend");
  app.add_option("--threads", threads)->delimiter(',');
  app.add_option("--instruction-set", set);
  app.add_option("--layer-type", layer_type);
  app.add_option("--head-type", head_type);
  app.add_flag("--cpu-time", ringside::cpu_time, "Count processor time; only with --threads 1");
  app.add_option("--rounds", rounds)->check(CLI::PositiveNumber);
  CLI11_PARSE(app, argc, argv);
  for (const int n : threads) {
    auto backend = ringside::MakeCpuBackend({.threads = n, .instruction_set = set});
    if (!backend.ok()) return std::fprintf(stderr, "%s\n", backend.status().ToString().c_str()), 1;
    std::printf("\n%s, layers %s, head %s\n", (*backend)->Describe().c_str(), layer_type.c_str(), head_type.c_str());
    ringside::Network net(**backend, ringside::ParseType(layer_type), ringside::ParseType(head_type), 4096);
    ringside::Report(net, n, rounds, ringside::ReadBandwidth(n, rounds));
  }
  return 0;
}
