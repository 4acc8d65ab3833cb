// Benchmarks the operations of a decoder layer one by one through the CUDA backend, on random weights and caches larger
// than the L2 cache: microseconds per operation and the read rate of its weights or keys and values. A chain of one
// operation is one CUDA graph; capture time is excluded.
//   cuda_kernel_bench [--models smollm2,llama-8b] [--linear-rows 1,32] [--rows 1,32] [--contexts 1024]
//                     [--chunks 512] [--onto 0,4096] [--fp8-cache] [--quantization int8|fp8 | --weights Q4_K|FP8]
//   cuda_kernel_bench --mixers qwen3.6-27b,qwen3.6-35b-a3b [--mixer-rows 1,32] [--mixer-chunks 8192]
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <functional>
#include <random>
#include <span>

#include "kernels/backend.h"
#include "kernels/formats/row_quantization.h"
#include "kernels/random_weights.h"

namespace ringside {
namespace {

struct Shape {
  std::string name;
  int64_t hidden, ffn, heads, kv_heads, head_dim, vocab;
  bool gated;
  // Of latent attention: values are the first `latent` dimensions of the keys; projections per head into and out of the
  // latent space have `plain` inputs and `value` outputs.
  int64_t latent = 0, plain = 0, value = 0;
};
const Shape kShapes[] = {{"smollm2", 576, 1536, 9, 3, 64, 49152, true},
                         {"gpt2", 1024, 4096, 16, 16, 64, 50257, false},
                         {"llama-1b", 2048, 8192, 32, 8, 64, 128256, true},
                         {"llama-8b", 4096, 14336, 32, 8, 128, 128256, true},
                         {"llama-70b", 8192, 28672, 64, 8, 128, 128256, true},
                         {"qwen3.6-27b", 5120, 17408, 24, 4, 256, 248320, true},
                         {"gemma4-full", 5376, 21504, 32, 4, 512, 262144, true},
                         {"glm-4.7-flash", 2048, 10240, 20, 1, 576, 154880, true, 512, 192, 256},
                         {"kimi-k2", 7168, 18432, 64, 1, 576, 163840, true, 512, 128, 128},
                         {"deepseek-v3", 7168, 18432, 128, 1, 576, 129280, true, 512, 128, 128}};

struct MixerShape {
  std::string name;
  RecurrenceShape sizes;
};
const MixerShape kMixers[] = {{"qwen3.6-27b", {Mixer::kDeltaNet, 16, 48, 128, 128, 4}},
                              {"qwen3.6-35b-a3b", {Mixer::kDeltaNet, 16, 32, 128, 128, 4}},
                              {"granite-4-small", {Mixer::kMamba2, 1, 128, 128, 64, 4}},
                              {"kimi-linear", {Mixer::kKda, 32, 32, 128, 128, 4}},
                              {"lfm2-1.2b", {.mixer = Mixer::kConvolution, .kernel = 3, .width = 2048}}};

constexpr int64_t kColdBytes = int64_t{200} << 20;  // bytes a chain reads before it reuses any
constexpr int kRounds = 5;

double Now() {
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

class KernelBench {
 public:
  /// `file`: element type of the loaded weights.
  KernelBench(Backend& backend, const Shape& shape, DType cache, DType file, int64_t noise_bytes)
      : backend_(backend), shape_(shape), cache_(cache), file_(file) {
    static std::vector<uint64_t> noise;
    const size_t words = static_cast<size_t>(noise_bytes) / 8 + 1;
    std::mt19937_64 random(noise.size() + 1);
    noise.reserve(words);
    // Sign and mantissa are random, magnitudes 1/64 to 1/32.
    while (noise.size() < words) noise.push_back((random() & 0x807f807f807f807fu) | 0x3c803c803c803c80u);
    noise_ = noise;
    if (IsQuantized(file) && !in_e4m3()) blocks_ = RandomBlocks(file, shape.vocab * shape.hidden);
  }

  void Linears(int64_t rows) {
    const Shape& s = shape_;
    fmt::print("{} rows {}:", s.name, rows);
    const int64_t kv = s.kv_heads * s.head_dim, queries = s.heads * s.head_dim;
    double sum = 0;
    sum += Linear("qkv", rows, s.hidden, {queries, kv, kv}, Before::kNorm, false);
    sum += Linear("o", rows, queries, {s.hidden}, Before::kNothing, true);
    if (s.gated) {
      sum += Linear("gate-up", rows, s.hidden, {s.ffn, s.ffn}, Before::kNorm, false, true);
    } else {
      sum += Linear("fc", rows, s.hidden, {s.ffn}, Before::kNorm, false, true);
    }
    sum += Linear("down", rows, s.ffn, {s.hidden}, Before::kNothing, true);
    fmt::print(" | sum {:.1f}", sum);
    if (rows <= 32) Linear("head", rows, s.hidden, {s.vocab}, Before::kNorm, false);
    fmt::print(" record {:.2f}\n", record_);
  }

  /// The projections of latent attention into the latent space, with the rotated columns, and out of it.
  void Heads(int64_t rows) {
    const Shape& s = shape_;
    fmt::print("{} heads, rows {}:", s.name, rows);
    const double in = Head("into the latent", rows, s.latent, s.plain, s.head_dim - s.latent),
                 out = Head("out of it", rows, s.value, s.latent, 0);
    fmt::print(" | sum {:.1f}\n", in + out);
  }

  /// `batch` sequences of `rows` new tokens each, after `context` old ones.
  void Attention(int64_t batch, int64_t rows, int64_t context) {
    const Shape& s = shape_;
    KvShape kv{1, s.kv_heads, s.head_dim, cache_, 1, (context + rows + 15) / 16};
    kv.latent_dim = s.latent;
    const int64_t halves = s.latent > 0 ? 1 : 2, value_dim = kv.ValueDim(s.head_dim);
    const int64_t read = batch * (context + rows) * halves * s.kv_heads * s.head_dim * kv.element_bytes();
    kv.layers = std::clamp<int64_t>(4 * kColdBytes / read, 4, 32);
    const int64_t calls = (23 / kv.layers + 1) * kv.layers;  // enough to make the graph launch negligible
    const int64_t width = (s.heads + halves * s.kv_heads) * s.head_dim, columns = s.heads * value_dim;
    const int64_t all = batch * rows, rotary = s.latent > 0 ? s.head_dim - s.latent : s.head_dim;
    const Buffer slabs = Noise(batch * kv.slab_bytes()), qkv = Noise(2 * all * width), out = Noise(2 * all * width);
    std::vector<int64_t> first_live(static_cast<size_t>(rows), 4);
    std::vector<AttentionSegment> segments;
    for (int64_t b = 0; b < batch; ++b) {
      segments.push_back(
          {b * rows, rows, context, 4, first_live.data(), static_cast<std::byte*>(slabs.data()) + b * kv.slab_bytes()});
    }
    const std::vector<float> angles(static_cast<size_t>(all * rotary / 2), 0.6f);
    const auto chain = [&] {
      ++step_;
      for (int64_t i = 0; i < calls; ++i) {
        backend_.Attention({.qkv = {DType::kBF16, qkv.data(), all, width, width},
                            .out = {DType::kBF16, out.data(), all, columns, columns},
                            .layer = i % kv.layers,
                            .shape = kv,
                            .heads = s.heads,
                            .rotary = rotary,
                            .first_rotary = s.latent,
                            .pairs = RopePairs::kHalves,
                            .angles = {angles.data(), angles.data(), angles.data(), angles.data()},
                            .scores = {.scale = 0.1f},
                            .segments = segments,
                            .step = step_});
      }
    };
    const double us = Measure(chain, calls, all);
    const double flops = 2.0 * static_cast<double>(s.heads * (s.head_dim + value_dim) * all) *
                         (static_cast<double>(context) + static_cast<double>(rows) / 2);
    if (rows == 1) {
      fmt::print("{} attention {} @ {}: {:.2f} us, {:.2f} TB/s, {:.0f} TFLOP/s\n", s.name, batch, context, us,
                 static_cast<double>(read) / us / 1e6, flops / us / 1e6);
    } else {
      fmt::print("{} attention {} onto {}: {:.1f} us, {:.0f} TFLOP/s\n", s.name, rows, context, us, flops / us / 1e6);
    }
  }

  /// A recurrent mixer: `batch` sequences of `rows` new tokens each. Sequences of one row are anywhere in a chunk.
  void Mix(const MixerShape& mixer, int64_t batch, int64_t rows) {
    const RecurrenceShape& sizes = mixer.sizes;
    const int64_t all = batch * rows, channels = sizes.channels(), decays = sizes.decays(), heads = sizes.value_heads;
    KvShape kv{1, 1, 64, cache_, 1, 1};
    kv.state = sizes.StateOf(1);
    const int64_t read = batch * kv.state.boundary_bytes;
    kv.state = sizes.StateOf(std::clamp<int64_t>(kColdBytes / std::max<int64_t>(read, 1), 4, 64));
    kv.state.slots = 2;
    const int64_t calls = kv.state.layers, out_columns = sizes.values() > 0 ? sizes.values() : channels;
    const Buffer slabs = Noise(batch * kv.slab_bytes()), x = Noise(2 * all * (channels + decays + heads)),
                 mixed = Noise(4 * all * std::max<int64_t>(sizes.mixed_columns(), 1)),
                 out = Noise(2 * all * out_columns), vectors = Noise(4 * (sizes.kernel * channels + 2 * decays));
    const int64_t first_rate = sizes.kernel * channels;
    std::vector<float> rates(static_cast<size_t>(2 * decays), -0.1f);
    const auto* weights = static_cast<const float*>(vectors.data());
    backend_.CopyToDevice(const_cast<float*>(weights) + first_rate, rates.data(), rates.size() * sizeof(float));
    backend_.Synchronize();
    std::vector<AttentionSegment> segments;
    std::vector<std::vector<StateWrite>> writes(static_cast<size_t>(batch));
    double bytes = 0;  // least traffic: states, tails, rows
    for (int64_t b = 0; b < batch; ++b) {
      const int64_t position = rows > 1 ? 0 : 5 * StateShape::kChunk + (31 + 17 * b) % StateShape::kChunk,
                    end = position + rows, last = StateShape::BoundaryBefore(end),
                    boundary = StateShape::BoundaryBefore(position);
      if (last > boundary) writes[static_cast<size_t>(b)].push_back({last, 1});
      segments.push_back({.first_row = b * rows,
                          .rows = rows,
                          .position = position,
                          .slab = static_cast<std::byte*>(slabs.data()) + b * kv.slab_bytes(),
                          .state_slot = boundary == 0 ? -1 : 0,
                          .state_writes = writes[static_cast<size_t>(b)]});
      const int64_t tail = sizes.keys() + sizes.values() + decays;
      bytes += 4.0 * static_cast<double>((boundary > 0 ? sizes.state_floats() : 0) + (position - boundary) * tail +
                                         (last > boundary ? sizes.state_floats() : 0));
    }
    bytes += static_cast<double>(all) * (2.0 * static_cast<double>(channels + out_columns));
    const Tensor inputs{DType::kBF16, x.data(), all, channels + decays + heads, channels + decays + heads};
    const auto chain = [&] {
      ++step_;
      for (int64_t layer = 0; layer < calls; ++layer) {
        backend_.Recur({.sizes = sizes,
                        .weights = {.convolution = weights,
                                    .rate_bias = weights + first_rate,
                                    .rate = weights + first_rate + decays},
                        .x = inputs.Columns(0, channels),
                        .rates = inputs.Columns(channels, decays),
                        .betas = inputs.Columns(channels + decays, heads),
                        .mixed = {DType::kF32, mixed.data(), all, sizes.mixed_columns(), sizes.mixed_columns()},
                        .out = {DType::kBF16, out.data(), all, out_columns, out_columns},
                        .layer = layer,
                        .shape = kv,
                        .segments = segments,
                        .step = step_});
      }
    };
    const double us = Measure(chain, calls, all);
    fmt::print("{} {} x {} rows: {:.2f} us, {:.2f} TB/s\n", mixer.name, batch, rows, us, bytes / us / 1e6);
  }

 private:
  enum class Before { kNothing, kNorm };

  bool in_e4m3() const { return file_ == DType::kScaledE4M3; }
  /// Bytes of a weight in the file, without the scales of E4M3 blocks.
  int64_t FileBytes(int64_t elements) const {
    if (in_e4m3()) return elements;
    return StorageBytes(IsQuantized(file_) ? file_ : backend_.weight_dtype(), elements);
  }

  /// Blocks with random integers and float16 scales of about 2^-6 (super-blocks: 2^-10).
  static std::vector<std::byte> RandomBlocks(DType file, int64_t elements) {
    std::vector<std::byte> out(static_cast<size_t>(StorageBytes(file, elements)));
    std::mt19937 random(3);
    for (std::byte& b : out) b = static_cast<std::byte>(random() % 255 + (random() & 1));
    if (file == DType::kQ8_0) std::ranges::replace(out, std::byte{0x80}, std::byte{0x81});
    const auto block = static_cast<size_t>(Traits(file).block_bytes);
    const bool minimum = file == DType::kQ4_1 || file == DType::kQ5_1 || file == DType::kQ4_K || file == DType::kQ5_K;
    const auto high = static_cast<std::byte>(Traits(file).block_elements == 256 ? 0x14 : 0x24);
    for (size_t at = 0; at < out.size(); at += block) {
      const size_t scale = file == DType::kQ6_K ? block - 2 : 0;
      out[at + scale + 1] = high;
      if (minimum) out[at + 3] = high;
    }
    return out;
  }
  Buffer Noise(int64_t bytes) {
    Buffer out = std::move(backend_.Allocate(static_cast<size_t>(bytes)).value());
    const auto most = static_cast<int64_t>(noise_.size() * 8);
    for (int64_t at = 0; at < bytes; at += most) {
      backend_.CopyToDevice(static_cast<std::byte*>(out.data()) + at, noise_.data(),
                            static_cast<size_t>(std::min(most, bytes - at)));
    }
    backend_.Synchronize();
    return out;
  }

  double Linear(const char* name, int64_t rows, int64_t k, const std::vector<int64_t>& outputs, Before before, bool sum,
                bool activation = false) {
    int64_t total = 0;
    for (const int64_t n : outputs) total += n;
    const int64_t bytes = FileBytes(total * k), copies = std::clamp<int64_t>(kColdBytes / bytes, 1, 64),
                  calls = std::max<int64_t>(copies, 16);
    std::vector<std::byte> e4m3;
    if (in_e4m3()) e4m3 = RandomE4M3Blocks({.whole_cols = k, .rows = {{0, std::ranges::max(outputs)}}, .cols = k});
    const auto* from_file = reinterpret_cast<const std::byte*>(noise_.data());
    if (IsQuantized(file_)) from_file = in_e4m3() ? e4m3.data() : blocks_.data();
    std::vector<std::vector<Weight>> weights(static_cast<size_t>(copies));
    for (auto& group : weights) {
      for (const int64_t n : outputs) {
        group.push_back(std::move(
            backend_.LoadWeight({file_, n, k, {from_file, static_cast<size_t>(StorageBytes(file_, n * k))}}).value()));
      }
    }
    const DType out = sum || name[0] == 'h' ? DType::kF32 : DType::kBF16;
    const Buffer stream = Noise(4 * rows * k), vector = Noise(4 * (total + k)), normed = Noise(2 * rows * k),
                 y = Noise(4 * rows * total), half = Noise(2 * rows * total);
    const Tensor x{DType::kBF16, normed.data(), rows, k, k}, to{out, y.data(), rows, total, total};
    const auto* ones = static_cast<const float*>(vector.data());
    const auto chain = [&] {
      for (int64_t i = 0; i < calls; ++i) {
        std::vector<const Weight*> group;
        for (const Weight& w : weights[static_cast<size_t>(i % copies)]) group.push_back(&w);
        const Tensor from{DType::kF32, stream.data(), rows, k, k};
        if (before == Before::kNorm) backend_.RmsNorm(from, ones, 1e-5f, x);
        backend_.Linear({x, group, shape_.gated ? nullptr : ones, to, sum});
        if (activation && shape_.gated)
          backend_.MultiplyActivated(to, Activation::kSilu, {DType::kBF16, half.data(), rows, total / 2, total / 2});
        if (activation && !shape_.gated) backend_.Activate(to, Activation::kGeluTanh);
      }
    };
    const double us = Measure(chain, calls, rows);
    if (rows > 256) {
      fmt::print("  {} {:.1f} ({:.0f} TF)", name, us, 2.0 * static_cast<double>(rows * total * k) / us / 1e6);
    } else {
      fmt::print("  {} {:.2f} ({:.2f})", name, us, static_cast<double>(bytes) / us / 1e6);
    }
    return us;
  }

  double Head(const char* name, int64_t rows, int64_t outputs, int64_t k, int64_t carried) {
    const int64_t heads = shape_.heads, weights = heads * outputs * k, x_cols = heads * (k + carried),
                  y_cols = heads * (outputs + carried);
    const int64_t copies = std::clamp<int64_t>(kColdBytes / (2 * weights), 1, 64);
    std::vector<Weight> all;
    for (int64_t i = 0; i < copies; ++i) {
      all.push_back(std::move(backend_
                                  .LoadWeight({DType::kBF16, heads * outputs, k,
                                               std::as_bytes(noise_).first(static_cast<size_t>(2 * weights))})
                                  .value()));
    }
    const Buffer x = Noise(2 * rows * x_cols), y = Noise(2 * rows * y_cols);
    const auto chain = [&] {
      for (int64_t i = 0; i < copies; ++i) {
        backend_.LinearHeads({.x = {DType::kBF16, x.data(), rows, x_cols, x_cols},
                              .weight = &all[static_cast<size_t>(i)],
                              .heads = heads,
                              .carried = carried,
                              .y = {DType::kBF16, y.data(), rows, y_cols, y_cols}});
      }
    };
    const double us = Measure(chain, copies, rows);
    fmt::print("  {} {:.2f} ({:.2f} TB/s, {:.0f} TF)", name, us, static_cast<double>(2 * weights) / us / 1e6,
               2.0 * static_cast<double>(rows * weights) / us / 1e6);
    return us;
  }

  /// Microseconds per call: the median over rounds, after two that warm up and capture. Large row counts are launched
  /// directly, not as a graph: then launch time is included.
  double Measure(const std::function<void()>& chain, int64_t calls, int64_t rows) {
    std::vector<double> times;
    for (int i = 0; i < kRounds + 3; ++i) {
      const double begin = Now();
      chain();
      const double recorded = Now();
      record_ = (recorded - begin) / static_cast<double>(calls);
      backend_.Synchronize();
      if (i >= 3) times.push_back(Now() - (rows > 64 ? begin : recorded));
    }
    std::sort(times.begin(), times.end());
    return times[times.size() / 2] / static_cast<double>(calls);
  }

  Backend& backend_;
  const Shape& shape_;
  const DType cache_;
  const DType file_;
  std::span<const uint64_t> noise_;
  std::vector<std::byte> blocks_;
  uint64_t step_ = 0;
  double record_ = 0;  // microseconds to capture one call of the last chain
};

int Main(int argc, char** argv) {
  std::vector<std::string> models = {"smollm2", "llama-8b"};
  std::string quantization = "none", weights = "BF16";
  std::vector<int64_t> rows, contexts = {1024}, chunks, onto = {0}, many;
  std::vector<std::string> mixers;
  std::vector<int64_t> mixer_rows = {1, 8, 32, 128}, mixer_chunks = {2048, 8192};
  bool fp8 = false;
  CLI::App app("Measures the operations of a decoder layer on a CUDA device.");
  app.add_option("--models", models)->delimiter(',');
  app.add_option("--rows", rows, "decode: one row of each of so many sequences")->delimiter(',');
  app.add_option("--contexts", contexts)->delimiter(',');
  app.add_option("--chunks", chunks, "prefill: so many rows of one sequence")->delimiter(',');
  app.add_option("--onto", onto)->delimiter(',');
  app.add_option("--linear-rows", many, "linear layers alone; of latent attention, those with a matrix per head")
      ->delimiter(',');
  app.add_option("--mixers", mixers, "recurrent mixers")->delimiter(',');
  app.add_option("--mixer-rows", mixer_rows, "decode: one row of each of this number of sequences")->delimiter(',');
  app.add_option("--mixer-chunks", mixer_chunks, "prefill: this number of rows of one sequence")->delimiter(',');
  app.add_flag("--fp8-cache", fp8, "keys and values in E4M3, not in bfloat16");
  app.add_option("--quantization", quantization)->check(CLI::IsMember({"file", "none", "int8", "fp8"}));
  app.add_option("--weights", weights, "what the file has: BF16, Q8_0, Q4_0 ... Q6_K, FP8 (E4M3 with block scales)");
  CLI11_PARSE(app, argc, argv);
  auto file = DType::kF32;
  while (file <= DType::kQ6_K && Traits(file).name != weights) file = static_cast<DType>(static_cast<int>(file) + 1);
  if (weights == "FP8") file = DType::kScaledE4M3;
  if (file > DType::kQ6_K && weights != "FP8") return fmt::print(stderr, "no type {}\n", weights), 2;
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  auto backend = MakeCudaBackend({.quantization = QuantizationNamed(quantization), .memory_bytes = size_t{24} << 30});
  if (!backend.ok()) return fmt::print(stderr, "{}\n", backend.status().ToString()), 1;
  for (const MixerShape& mixer : kMixers) {
    if (std::ranges::count(mixers, mixer.name) == 0) continue;
    KernelBench bench(**backend, kShapes[0], DType::kBF16, DType::kF32, int64_t{16} << 20);
    for (const int64_t n : mixer_rows) bench.Mix(mixer, n, 1);
    for (const int64_t n : mixer_chunks) bench.Mix(mixer, 1, n);
  }
  if (!mixers.empty()) return 0;
  for (const std::string& model : models) {
    const auto* shape =
        std::find_if(std::begin(kShapes), std::end(kShapes), [&](const Shape& s) { return s.name == model; });
    if (shape == std::end(kShapes)) return fmt::print(stderr, "no model {}\n", model), 2;
    KernelBench bench(**backend, *shape, fp8 ? DType::kF8E4M3 : DType::kBF16, file,
                      many.empty() || shape->latent > 0 ? int64_t{64} << 20 : 2 * shape->vocab * shape->hidden);
    for (const int64_t n : rows) {
      for (const int64_t context : contexts) bench.Attention(n, 1, context);
    }
    for (const int64_t chunk : chunks) {
      for (const int64_t context : onto) bench.Attention(1, chunk, context);
    }
    for (const int64_t n : many) shape->latent > 0 ? bench.Heads(n) : bench.Linears(n);
  }
  return 0;
}

}  // namespace
}  // namespace ringside

int main(int argc, char** argv) { return ringside::Main(argc, argv); }
