// Mixtures of experts against naive loops in double, on every kind of device: selected experts, their weights, and that
// a row's result does not depend on other rows where that is promised. On CUDA also with block-quantized weights.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <numeric>

#include "tests/kernels/devices.h"
#include "tests/kernels/formats/block_quant_values.h"

namespace ringside::testing {
namespace {

constexpr int64_t kExperts = 9;

/// Sizes for one type of experts: not multiples of a kernel's tile.
struct Sizes {
  std::optional<DType> blocks;  // block type of the weights; else they are rounded to the activations' type
  int64_t hidden, inner, shared;
};
Sizes SizesOf(const std::string& device) {
  for (const DType type : kBlockTypes) {
    if (device.find(fmt::format("_{}", Traits(type).name)) == std::string::npos) continue;
    if (Traits(type).block_elements == 256) return {type, 512, 256, 768};
    return {type, 160, 96, 224};
  }
  return {std::nullopt, 136, 72, 104};
}

struct Matrix {
  std::vector<float> values;
  Weight weight;

  Matrix(Backend& backend, std::optional<DType> blocks, int64_t rows, int64_t cols, uint32_t seed) {
    const float size = 1.7f / std::sqrt(static_cast<float>(cols));
    if (blocks) {
      const RandomWeight random = MakeBlockQuant(*blocks, rows, cols, seed);
      values.assign(random.values.begin(), random.values.end());
      weight = std::move(backend.LoadWeight(random.host()).value());
      EXPECT_TRUE(HasGroupScales(weight.dtype));
    } else {
      values = RandomFloats(static_cast<size_t>(rows * cols), seed, size);
      for (float& x : values) x = Rounded(backend.activation_dtype(), x);
      weight = std::move(
          backend.LoadWeight({DType::kF32, rows, cols, std::as_bytes(std::span(std::as_const(values)))}).value());
    }
    backend.Synchronize();
  }
};

double Activated(double gate, double up, Activation activation) {
  if (activation == Activation::kSilu) return gate / (1 + std::exp(-gate)) * up;
  const double g = std::min(gate, 7.0), u = std::clamp(up, -7.0, 7.0);
  return g / (1 + std::exp(-1.702 * g)) * (u + 1);
}

/// One expert with gate and up separate or combined, with or without biases.
struct TestExpert {
  int64_t hidden, inner;
  std::vector<Weight> in_weights;
  Matrix out;
  std::vector<float> in_values, in_bias, out_bias;
  DeviceFloats in_bias_there, out_bias_there;

  TestExpert(Backend& backend, const Sizes& sizes, bool shared, bool biases, uint32_t seed)
      : hidden(sizes.hidden),
        inner(shared ? sizes.shared : sizes.inner),
        out(backend, sizes.blocks, hidden, inner, seed),
        in_bias(RandomFloats(biases ? static_cast<size_t>(2 * inner) : 0, seed + 1)),
        out_bias(RandomFloats(biases ? static_cast<size_t>(hidden) : 0, seed + 2)),
        in_bias_there(backend, in_bias),
        out_bias_there(backend, out_bias) {
    const bool apart = seed % 20 == 0;
    for (int i = 0; i < (apart ? 2 : 1); ++i) {
      Matrix matrix(backend, sizes.blocks, apart ? inner : 2 * inner, hidden, seed + 3 + static_cast<uint32_t>(i));
      in_values.insert(in_values.end(), matrix.values.begin(), matrix.values.end());
      in_weights.push_back(std::move(matrix.weight));
    }
  }
  Expert Args() const {
    return {in_weights, in_bias.empty() ? nullptr : in_bias_there.data(), &out.weight,
            out_bias.empty() ? nullptr : out_bias_there.data()};
  }
  /// Its MLP of one row.
  std::vector<double> Of(const float* x, Activation activation) const {
    const auto n = static_cast<size_t>(inner), d = static_cast<size_t>(hidden);
    std::vector<double> both(2 * n), mid(n), y(d);
    for (size_t i = 0; i < 2 * n; ++i) {
      both[i] = in_bias.empty() ? 0 : in_bias[i];
      for (size_t k = 0; k < d; ++k) both[i] += static_cast<double>(in_values[i * d + k]) * x[k];
    }
    for (size_t i = 0; i < n; ++i) mid[i] = Activated(both[i], both[n + i], activation);
    for (size_t c = 0; c < d; ++c) {
      y[c] = out_bias.empty() ? 0 : out_bias[c];
      for (size_t k = 0; k < n; ++k) y[c] += out.values[c * n + k] * mid[k];
    }
    return y;
  }
};

/// The weight of each expert for a row with these logits.
std::vector<double> Weights(std::span<const float> logits, int64_t used, bool normalised, bool shared) {
  const size_t among = logits.size() - (shared ? 1 : 0);
  std::vector<size_t> order(among);
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::stable_sort(order, [&](size_t a, size_t b) { return logits[a] > logits[b]; });
  std::vector<double> weights(logits.size(), 0.0);
  double sum = 0;
  for (size_t i = 0; i < among; ++i) {
    if (!normalised || i < static_cast<size_t>(used)) sum += std::exp(static_cast<double>(logits[order[i]]));
  }
  for (size_t i = 0; i < static_cast<size_t>(used); ++i) weights[order[i]] = std::exp(logits[order[i]]) / sum;
  if (shared) weights[among] = 1 / (1 + std::exp(-static_cast<double>(logits[among])));
  return weights;
}

/// Experts on a device, input rows, and each expert's output for each row.
class ExpertsTest : public DeviceTest, public ::testing::WithParamInterface<std::string> {
 protected:
  static constexpr int64_t kMaxRows = 90;

  void SetUp() override { SetUpWith(SizesOf(GetParam())); }
  void SetUpWith(const Sizes& sizes) {
    Use(GetParam());
    if (IsSkipped()) return;
    hidden_ = sizes.hidden;
    for (int64_t e = 0; e < kExperts; ++e) {  // the last may be the shared one, which is wider
      Sizes own = sizes;
      if (GetParam().ends_with("_mixed") && e % 3 == 1) own.blocks = DType::kQ6_K;
      experts_.emplace_back(*backend_, own, e + 1 == kExperts, e % 2 == 0, static_cast<uint32_t>(10 * e));
    }
    for (const TestExpert& expert : experts_) args_.push_back(expert.Args());
    placed_ = std::move(backend_->PackExperts(args_).value());
    x_ = RandomFloats(static_cast<size_t>(kMaxRows * hidden_), 7);
    for (float& x : x_) x = Rounded(type_, x);
    router_ = RandomFloats(kMaxRows * kExperts, 8, 2);
    router_[1] = router_[0] = router_[2];  // equal ones: the first
  }
  std::vector<std::vector<double>> AllOf(Activation activation) const {
    std::vector<std::vector<double>> of;
    for (int64_t i = 0; i < kMaxRows * kExperts; ++i) {
      of.push_back(
          experts_[static_cast<size_t>(i % kExperts)].Of(&x_[static_cast<size_t>(i / kExperts * hidden_)], activation));
    }
    return of;
  }
  /// y + the experts' outputs for rows [first, first + rows), where y is 0.5.
  std::vector<float> Run(ExpertsArgs args, int64_t first, int64_t rows) {
    args.experts = args_, args.packed = placed_.data();
    return RunRouted(args, router_, first, rows);
  }
  std::vector<float> RunRouted(ExpertsArgs args, const std::vector<float>& logits, int64_t first, int64_t rows) {
    const auto part = [&](const std::vector<float>& from, int64_t cols) {
      return std::vector<float>(from.begin() + first * cols, from.begin() + (first + rows) * cols);
    };
    const auto experts = static_cast<int64_t>(args.experts.size());
    const DeviceMatrix x(*backend_, type_, rows, hidden_, part(x_, hidden_)),
        router(*backend_, DType::kF32, rows, experts, part(logits, experts)),
        y(*backend_, DType::kF32, rows, hidden_, std::vector<float>(static_cast<size_t>(rows * hidden_), 0.5f));
    args.x = x.tensor(), args.router = router.tensor(), args.y = y.tensor();
    backend_->Experts(args);
    return y.Get();
  }
  void ExpectRight(const ExpertsArgs& args, const std::vector<std::vector<double>>& of, int64_t rows) {
    Compare(Run(args, 0, rows), args, router_, kExperts, of, rows);
  }
  /// With more than kExperts experts, those of the usual width are repeated.
  static size_t SameAs(size_t expert, size_t experts) { return experts == kExperts ? expert : expert % (kExperts - 1); }
  /// `of`: the output of each of kExperts for each row.
  void Compare(const std::vector<float>& got, const ExpertsArgs& args, std::span<const float> logits, size_t experts,
               const std::vector<std::vector<double>>& of, int64_t rows) {
    double error = 0, size = 0;
    for (int64_t r = 0; r < rows; ++r) {
      const auto row = static_cast<size_t>(r);
      const auto weights = Weights(logits.subspan(row * experts, experts), args.top_k, args.normalised, args.shared);
      for (size_t c = 0; c < static_cast<size_t>(hidden_); ++c) {
        double want = 0.5;
        for (size_t e = 0; e < experts; ++e) want += weights[e] * of[row * kExperts + SameAs(e, experts)][c];
        error += std::pow(got[row * static_cast<size_t>(hidden_) + c] - want, 2), size += want * want;
      }
    }
    // Block-quantized weights add roundings: the scales of each of the three products, and their results.
    const double roundings = experts_.front().out.weight.dtype == type_ || type_ == DType::kF32 ? 2 : 4;
    EXPECT_LT(std::sqrt(error / size), roundings * Rounding(type_))
        << fmt::format("{} rows, {} of {} experts each, normalised {}, shared {}", rows, args.top_k, experts,
                       args.normalised, args.shared);
  }

  std::deque<TestExpert> experts_;
  std::vector<Expert> args_;
  Buffer placed_;
  std::vector<float> x_, router_;
  int64_t hidden_ = 0;
};
INSTANTIATE_TEST_SUITE_P(All, ExpertsTest,
                         ::testing::Values("cpu", "cuda_bf16", "cuda_f16", "cuda_bf16_fixed", "cuda_bf16_Q4_0",
                                           "cuda_f16_Q5_1", "cuda_bf16_Q8_0", "cuda_f16_Q4_K", "cuda_bf16_Q5_K",
                                           "cuda_f16_Q6_K", "cuda_bf16_Q2_K", "cuda_f16_Q3_K", "cuda_bf16_MXFP4",
                                           "cuda_f16_IQ4_NL", "cuda_bf16_Q4_K_mixed", "cuda_bf16_Q4_K_fixed",
                                           "cuda_f16_Q8_0_fixed"),
                         [](const auto& info) { return info.param; });

TEST_P(ExpertsTest, MatchNaiveLoopsForEverySelection) {
  const auto of = AllOf(Activation::kSilu);
  for (const int64_t used : {1, 2, 8}) {
    for (const bool normalised : {false, true}) {
      for (const bool shared : {false, true}) {
        for (const int64_t rows : {int64_t{1}, int64_t{7}, int64_t{16}, int64_t{17}, int64_t{40}, kMaxRows}) {
          ExpectRight({.top_k = used, .normalised = normalised, .shared = shared}, of, rows);
        }
      }
    }
  }
}

/// On a GPU, with more inputs than a K tile, and outputs shared by several blocks.
class WideExpertsTest : public ExpertsTest {
 protected:
  void SetUp() override {
    Sizes sizes = SizesOf(GetParam());
    sizes.hidden = 2304, sizes.inner = 512, sizes.shared = 768;
    SetUpWith(sizes);
  }
};
INSTANTIATE_TEST_SUITE_P(All, WideExpertsTest,
                         ::testing::Values("cuda_bf16", "cuda_bf16_Q8_0", "cuda_f16_Q4_K", "cuda_bf16_Q5_K",
                                           "cuda_bf16_Q6_K", "cuda_f16_Q2_K", "cuda_bf16_Q3_K", "cuda_f16_MXFP4",
                                           "cuda_bf16_IQ4_XS"),
                         [](const auto& info) { return info.param; });

TEST_P(WideExpertsTest, MatchNaiveLoops) {
  const auto of = AllOf(Activation::kSilu);
  for (const bool shared : {false, true}) {
    for (const int64_t rows : {int64_t{1}, int64_t{6}, int64_t{16}, int64_t{33}, kMaxRows}) {
      ExpectRight({.top_k = 3, .normalised = true, .shared = shared}, of, rows);
    }
  }
}

TEST_P(ExpertsTest, SelectsAmongManyExperts) {
  const auto of = AllOf(Activation::kSilu);
  for (const int64_t experts : {129, 300, 1024}) {
    std::vector<Expert> many;
    for (int64_t e = 0; e < experts; ++e)
      many.push_back(args_[SameAs(static_cast<size_t>(e), static_cast<size_t>(experts))]);
    const Buffer placed = std::move(backend_->PackExperts(many).value());
    const std::vector<float> logits = RandomFloats(static_cast<size_t>(20 * experts), 9, 2);
    for (const int64_t rows : {1, 6, 20}) {
      const ExpertsArgs args{.experts = many, .packed = placed.data(), .top_k = 6, .normalised = true};
      const auto got = RunRouted(args, logits, 0, rows);
      Compare(got, args, logits, static_cast<size_t>(experts), of, rows);
    }
  }
}

TEST_P(ExpertsTest, ClampWhatTheyMultiply) {
  for (float& x : x_) x *= 4;  // so that some values are clamped
  const auto of = AllOf(Activation::kClampedSilu);
  for (const int64_t rows : {int64_t{3}, kMaxRows}) {
    ExpectRight({.top_k = 3, .normalised = true, .activation = Activation::kClampedSilu}, of, rows);
  }
}

TEST_P(ExpertsTest, RowIsIndependentOfTheBatch) {
  if (!HasFixedOrder(GetParam())) GTEST_SKIP() << "not promised";
  const ExpertsArgs args{.top_k = 2, .normalised = true, .shared = true};
  const std::vector<float> together = Run(args, 0, kMaxRows);
  for (const int64_t row : {0, 5, 16, 63, 89}) {
    const auto first = together.begin() + row * hidden_;
    EXPECT_EQ(Run(args, row, 1), std::vector<float>(first, first + hidden_)) << row;
  }
}

/// The weights of a row's experts: the output of expert e is 1 in column e and 0 in all others.
std::vector<float> RoutedWeights(const std::vector<float>& logits, const ExpertsArgs& routing) {
  const auto backend = std::move(MakeCpuBackend({}).value());
  const auto count = static_cast<int64_t>(logits.size());
  const std::vector<float> zeros(static_cast<size_t>(2 * count), 0.0f);
  std::vector<Weight> in;
  in.push_back(std::move(backend->LoadWeight({DType::kF32, 2, count, std::as_bytes(std::span(zeros))}).value()));
  const auto half = std::span(zeros).first(logits.size());
  const Weight out = std::move(backend->LoadWeight({DType::kF32, count, 1, std::as_bytes(half)}).value());
  std::deque<DeviceFloats> biases;
  ExpertsArgs args = routing;
  std::vector<Expert> experts;
  for (size_t e = 0; e < logits.size(); ++e) {
    std::vector<float> column(half.begin(), half.end());
    column[e] = 1;
    experts.push_back({in, nullptr, &out, biases.emplace_back(*backend, column).data()});
  }
  const DeviceMatrix x(*backend, DType::kF32, 1, count, {half.begin(), half.end()}),
      router(*backend, DType::kF32, 1, count, logits), y(*backend, DType::kF32, 1, count, {half.begin(), half.end()});
  args.experts = experts, args.x = x.tensor(), args.router = router.tensor(), args.y = y.tensor();
  backend->Experts(args);
  return y.Get();
}

void ExpectWeights(const std::vector<float>& logits, const ExpertsArgs& routing, const std::vector<double>& want) {
  const std::vector<float> got = RoutedWeights(logits, routing);
  for (size_t e = 0; e < want.size(); ++e) EXPECT_NEAR(got[e], want[e], 1e-6) << "expert " << e;
}

TEST(CpuExperts, RouteByTraits) {
  const std::vector<float> logits = {2, 1, 0, -1, 0.5f, -2};
  const auto sigmoid = [](double x) { return 1 / (1 + std::exp(-x)); };
  ExpectWeights(logits, {.top_k = 2, .traits = {.sigmoid = true}}, {sigmoid(2), sigmoid(1), 0, 0, 0, 0});
  const double sum = sigmoid(2) + sigmoid(1);
  ExpectWeights(logits, {.top_k = 2, .normalised = true, .traits = {.sigmoid = true, .scale = 2.5f}},
                {2.5 * sigmoid(2) / sum, 2.5 * sigmoid(1) / sum, 0, 0, 0, 0});
  // The correction selects; it is no part of the weight.
  const std::vector<float> correction = {-1, 0, 0, 0, 0, 2};
  ExpectWeights(logits, {.top_k = 2, .traits = {.sigmoid = true, .correction = correction.data()}},
                {0, sigmoid(1), 0, 0, 0, sigmoid(-2)});
  double all = 0;
  for (const float logit : logits) all += std::exp(static_cast<double>(logit));
  ExpectWeights(logits, {.top_k = 2, .traits = {.correction = correction.data()}},
                {0, std::exp(1) / all, 0, 0, 0, std::exp(-2) / all});
  // Groups (0, 1, 2) and (3, 4, 5): with a correction the second has the larger sum of two.
  const std::vector<float> second = {0, 0, 0, 1, 1, 0};
  ExpectWeights(logits,
                {.top_k = 2, .traits = {.sigmoid = true, .groups = 2, .groups_used = 1, .correction = second.data()}},
                {0, 0, 0, sigmoid(-1), sigmoid(0.5), 0});
  // By their highest choice the first has.
  ExpectWeights(logits, {.top_k = 1, .traits = {.groups = 2, .groups_used = 1, .group_highest = true}},
                {std::exp(2) / all, 0, 0, 0, 0, 0});
  ExpectWeights({1, 1, 0, 1.1f, -9, -9}, {.top_k = 1, .traits = {.sigmoid = true, .groups = 2, .groups_used = 1}},
                {sigmoid(1), 0, 0, 0, 0, 0});
  ExpectWeights({1, 1, 0, 1.1f, -9, -9},
                {.top_k = 1, .traits = {.sigmoid = true, .groups = 2, .groups_used = 1, .group_highest = true}},
                {0, 0, 0, sigmoid(1.1f), 0, 0});
  const std::vector<float> scales = {3, 1, 1, 1, 1, 1};
  ExpectWeights(logits, {.top_k = 2, .normalised = true, .traits = {.sigmoid = true, .scales = scales.data()}},
                {3 * sigmoid(2) / sum, sigmoid(1) / sum, 0, 0, 0, 0});
  // The second expert is selected without the first; only logits near the selected one count.
  ExpectWeights({2, 1.9f, 0, -1, 1.7f, -2}, {.top_k = 2, .traits = {.margin = 0.06f}},
                {1 / (1 + std::exp(-0.1)), 1, 0, 0, 0, 0});
  // Equal choices: the lower index.
  ExpectWeights({0, 0, 0, 0, 0, 0}, {.top_k = 2, .traits = {.sigmoid = true}}, {0.5, 0.5, 0, 0, 0, 0});
}

TEST(CpuExperts, SameBitsForAnyThreads) {
  // Enough rows and columns for several blocks.
  constexpr int64_t kRows = 60, kHidden = 2048;
  const std::vector<float> x = RandomFloats(kRows * kHidden, 7), router = RandomFloats(kRows * 4, 8, 2);
  std::vector<float> of_one;
  for (const int threads : {1, 3}) {
    const auto backend = std::move(MakeCpuBackend({.threads = threads}).value());
    std::deque<TestExpert> experts;
    std::vector<Expert> args;
    for (uint32_t e = 0; e < 4; ++e) {
      experts.emplace_back(*backend, Sizes{std::nullopt, kHidden, 64, 64}, false, true, 10 * e);
      args.push_back(experts.back().Args());
    }
    const DeviceMatrix in(*backend, DType::kF32, kRows, kHidden, x), logits(*backend, DType::kF32, kRows, 4, router),
        y(*backend, DType::kF32, kRows, kHidden, std::vector<float>(kRows * kHidden, 0.5f));
    backend->Experts({.x = in.tensor(),
                      .router = logits.tensor(),
                      .experts = args,
                      .top_k = 3,
                      .normalised = true,
                      .y = y.tensor()});
    if (threads == 1) of_one = y.Get();
    EXPECT_EQ(y.Get(), of_one) << threads;
  }
}

}  // namespace
}  // namespace ringside::testing
