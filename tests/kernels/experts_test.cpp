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
  if (device.find("_e4m3") != std::string::npos) return {DType::kScaledE4M3, 288, 160, 224};
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
  if (activation == Activation::kReluSquared) return std::pow(std::max(gate, 0.0), 2) * up;
  if (activation == Activation::kSilu) return gate / (1 + std::exp(-gate)) * up;
  const double g = std::min(gate, 7.0), u = std::clamp(up, -7.0, 7.0);
  return g / (1 + std::exp(-1.702 * g)) * (u + 1);
}

/// One expert with gate and up separate or combined, or without a gate; with or without biases.
struct TestExpert {
  bool gated;
  int64_t hidden, inner;
  std::vector<Weight> in_weights;
  Matrix out;
  std::vector<float> in_values, in_bias, out_bias;
  DeviceFloats in_bias_there, out_bias_there;

  TestExpert(Backend& backend, const Sizes& sizes, bool shared, bool biases, uint32_t seed, bool has_gate = true)
      : gated(has_gate),
        hidden(sizes.hidden),
        inner(shared ? sizes.shared : sizes.inner),
        out(backend, sizes.blocks, hidden, inner, seed),
        in_bias(RandomFloats(biases ? static_cast<size_t>(in_rows()) : 0, seed + 1)),
        out_bias(RandomFloats(biases ? static_cast<size_t>(hidden) : 0, seed + 2)),
        in_bias_there(backend, in_bias),
        out_bias_there(backend, out_bias) {
    const bool apart = gated && seed % 20 == 0;
    for (int i = 0; i < (apart ? 2 : 1); ++i) {
      Matrix matrix(backend, sizes.blocks, apart ? inner : in_rows(), hidden, seed + 3 + static_cast<uint32_t>(i));
      in_values.insert(in_values.end(), matrix.values.begin(), matrix.values.end());
      in_weights.push_back(std::move(matrix.weight));
    }
  }
  int64_t in_rows() const { return gated ? 2 * inner : inner; }
  Expert Args() const {
    return {in_weights, in_bias.empty() ? nullptr : in_bias_there.data(), &out.weight,
            out_bias.empty() ? nullptr : out_bias_there.data()};
  }
  /// Its MLP of one row.
  std::vector<double> Of(const float* x, Activation activation) const {
    const auto n = static_cast<size_t>(inner), d = static_cast<size_t>(hidden);
    std::vector<double> both(static_cast<size_t>(in_rows())), mid(n), y(d);
    for (size_t i = 0; i < both.size(); ++i) {
      both[i] = in_bias.empty() ? 0 : in_bias[i];
      for (size_t k = 0; k < d; ++k) both[i] += static_cast<double>(in_values[i * d + k]) * x[k];
    }
    for (size_t i = 0; i < n; ++i) mid[i] = Activated(both[i], gated ? both[n + i] : 1.0, activation);
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
    Load(sizes, /*gated=*/true);
  }
  void Load(const Sizes& sizes, bool gated) {
    args_.clear(), experts_.clear();
    hidden_ = sizes.hidden;
    for (int64_t e = 0; e < kExperts; ++e) {  // the last may be the shared one, which is wider
      Sizes own = sizes;
      if (GetParam().ends_with("_mixed") && e % 3 == 1) own.blocks = DType::kQ6_K;
      experts_.emplace_back(*backend_, own, e + 1 == kExperts, e % 2 == 0, static_cast<uint32_t>(10 * e), gated);
    }
    for (const TestExpert& expert : experts_) args_.push_back(expert.Args());
    placed_ = std::move(backend_->PackExperts(args_).value());
    x_ = RandomFloats(static_cast<size_t>(kMaxRows * hidden_), 7);
    for (float& x : x_) x = Rounded(type_, x);
    router_ = RandomFloats(kMaxRows * kExperts, 8, 2);
    router_[1] = router_[0] = router_[2];  // equal ones: the first
  }
  std::vector<std::vector<double>> AllOf(Activation activation, int64_t rows = kMaxRows) const {
    std::vector<std::vector<double>> of;
    for (int64_t i = 0; i < rows * kExperts; ++i) {
      of.push_back(
          experts_[static_cast<size_t>(i % kExperts)].Of(&x_[static_cast<size_t>(i / kExperts * hidden_)], activation));
    }
    return of;
  }
  /// The experts' outputs for rows [first, first + rows), added to 0.5 if they accumulate.
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
        double want = args.accumulate ? 0.5 : 0;
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
                                           "cuda_f16_Q8_0_fixed", "cuda_bf16_e4m3", "cuda_f16_e4m3",
                                           "cuda_bf16_e4m3_fixed"),
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
                                           "cuda_bf16_IQ4_XS", "cuda_bf16_e4m3"),
                         [](const auto& info) { return info.param; });

TEST_P(WideExpertsTest, MatchNaiveLoops) {
  const auto of = AllOf(Activation::kSilu);
  for (const bool shared : {false, true}) {
    for (const int64_t rows : {int64_t{1}, int64_t{6}, int64_t{16}, int64_t{33}, kMaxRows}) {
      ExpectRight({.top_k = 3, .normalised = true, .shared = shared}, of, rows);
    }
  }
}

/// Experts of one width, a multiple of a GPU's K tile: a single row has special kernels.
class RowExpertsTest : public ExpertsTest {
 protected:
  void SetUp() override {
    Sizes sizes = SizesOf(GetParam());
    sizes.hidden = 800 / (sizes.blocks ? Traits(*sizes.blocks).block_elements : 16) *
                   (sizes.blocks ? Traits(*sizes.blocks).block_elements : 16);
    sizes.inner = sizes.shared = 512;
    SetUpWith(sizes);
  }
};
INSTANTIATE_TEST_SUITE_P(All, RowExpertsTest,
                         ::testing::Values("cpu", "cuda_bf16", "cuda_f16_Q4_0", "cuda_f16_Q4_K", "cuda_bf16_Q4_K",
                                           "cuda_bf16_Q5_K", "cuda_bf16_Q6_K", "cuda_f16_Q2_K", "cuda_bf16_Q3_K",
                                           "cuda_f16_MXFP4", "cuda_bf16_Q8_0", "cuda_bf16_Q4_K_mixed",
                                           "cuda_bf16_Q4_K_fixed"),
                         [](const auto& info) { return info.param; });

TEST_P(RowExpertsTest, MatchNaiveLoops) {
  const auto of = AllOf(Activation::kSilu, 2);
  for (const bool shared : {false, true}) {
    for (const bool accumulate : {false, true}) {
      for (const int64_t used : {1, 3, 8}) {
        for (const bool normalised : {false, true}) {
          const ExpertsArgs args{.top_k = used, .normalised = normalised, .shared = shared, .accumulate = accumulate};
          for (int round = 0; round < 3; ++round) ExpectRight(args, of, 1);  // the third is a graph replay
          ExpectRight(args, of, 2);
        }
      }
    }
  }
}

TEST_P(RowExpertsTest, RoutesByTraits) {
  const std::vector<float> correction = RandomFloats(kExperts, 3, 0.3f);
  const DeviceFloats there(*backend_, correction);
  const ExpertsArgs args{
      .top_k = 3,
      .normalised = true,
      .traits = {.sigmoid = true, .groups = 3, .groups_used = 2, .scale = 1.5f, .correction = there.data()}};
  // Several rows are routed by another kernel.
  const std::vector<float> together = Run(args, 0, 20);
  for (int64_t row = 0; row < 20; ++row) {
    const std::vector<float> alone = Run(args, row, 1);
    double error = 0, size = 0;
    for (int64_t c = 0; c < hidden_; ++c) {
      const double want = together[At(row, hidden_, c)];
      error += std::pow(alone[static_cast<size_t>(c)] - want, 2), size += want * want;
    }
    EXPECT_LT(std::sqrt(error / size), 8 * Rounding(type_)) << "row " << row;
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

TEST_P(ExpertsTest, WithoutAGate) {
  Load(SizesOf(GetParam()), /*gated=*/false);
  for (const Activation activation : {Activation::kReluSquared, Activation::kSilu}) {
    const auto of = AllOf(activation);
    for (const int64_t rows : {int64_t{1}, int64_t{7}, int64_t{17}, kMaxRows}) {
      ExpectRight({.top_k = 3, .normalised = true, .shared = true, .activation = activation}, of, rows);
    }
  }
}

// The matrices of GPU kernels start at multiples of 16 bytes.
TEST_P(ExpertsTest, OfAnyWidth) {
  if (SizesOf(GetParam()).blocks) GTEST_SKIP() << "whole blocks";
  for (const bool gated : {true, false}) {
    Load({std::nullopt, 24, 12, 20}, gated);
    const auto of = AllOf(Activation::kSilu);
    for (const int64_t rows : {int64_t{1}, int64_t{7}, kMaxRows}) {
      SCOPED_TRACE(gated ? "gated" : "without a gate");
      ExpectRight({.top_k = 3, .normalised = true, .shared = true}, of, rows);
    }
  }
}

TEST_P(ExpertsTest, ReplaceTheOutput) {
  const auto of = AllOf(Activation::kSilu);
  for (const int64_t rows : {int64_t{1}, int64_t{17}, kMaxRows}) {
    ExpectRight({.top_k = 3, .normalised = true, .accumulate = false}, of, rows);
  }
}

// A weight of the input is not a weight of the output, because the activation is not linear.
TEST_P(ExpertsTest, WeighTheirInputs) {
  const ExpertsArgs args{.top_k = 2, .traits = {.sigmoid = true, .scales_input = true}};
  for (const int64_t rows : {int64_t{1}, int64_t{6}, kMaxRows}) {
    const std::vector<float> got = Run(args, 0, rows);
    double error = 0, size = 0;
    for (int64_t r = 0; r < rows; ++r) {
      std::vector<size_t> order(kExperts);
      std::iota(order.begin(), order.end(), size_t{0});
      const float* logits = &router_[static_cast<size_t>(r * kExperts)];
      std::ranges::stable_sort(order, [&](size_t a, size_t b) { return logits[a] > logits[b]; });
      std::vector<double> want(static_cast<size_t>(hidden_), 0.5);
      for (size_t i = 0; i < 2; ++i) {
        const auto weight = static_cast<float>(1 / (1 + std::exp(-double{logits[order[i]]})));
        std::vector<float> x(x_.begin() + r * hidden_, x_.begin() + (r + 1) * hidden_);
        for (float& v : x) v *= weight;
        const std::vector<double> out = experts_[order[i]].Of(x.data(), Activation::kSilu);
        for (size_t c = 0; c < want.size(); ++c) want[c] += out[c];
      }
      for (size_t c = 0; c < want.size(); ++c) {
        error += std::pow(got[At(r, hidden_, static_cast<int64_t>(c))] - want[c], 2), size += want[c] * want[c];
      }
    }
    EXPECT_LT(std::sqrt(error / size), 4 * Rounding(type_)) << rows << " rows";
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
  for (const RouterTraits& traits :
       {RouterTraits{}, RouterTraits{.sigmoid = true, .groups = 2, .groups_used = 1, .scale = 2}}) {
    const ExpertsArgs args{.top_k = 2, .normalised = true, .shared = true, .traits = traits};
    const std::vector<float> together = Run(args, 0, kMaxRows);
    for (const int64_t row : {0, 5, 16, 63, 89}) {
      const auto first = together.begin() + row * hidden_;
      EXPECT_EQ(Run(args, row, 1), std::vector<float>(first, first + hidden_)) << row;
    }
  }
}

/// Routing alone, on a device.
class ExpertRouting : public DeviceTest, public ::testing::WithParamInterface<std::string> {
 protected:
  void SetUp() override { Use(GetParam()); }

  /// A vector on the device.
  const float* Place(const std::vector<float>& values) { return vectors_.emplace_back(*backend_, values).data(); }
  /// The weights of some rows' experts, [rows, experts]: the output of expert e is 1 in column e and 0 in all others.
  std::vector<float> RoutedWeights(Backend& backend, const std::vector<float>& logits, int64_t count,
                                   const ExpertsArgs& routing) {
    const int64_t rows = std::ssize(logits) / count, hidden = (count + 7) / 8 * 8;
    const std::vector<float> zeros(static_cast<size_t>(2 * hidden), 0.0f),
        none(static_cast<size_t>(rows * hidden), 0.0f);
    const auto load = [&](int64_t outputs, int64_t inputs) {
      const auto values = std::span(zeros).first(static_cast<size_t>(outputs * inputs));
      return std::move(backend.LoadWeight({DType::kF32, outputs, inputs, std::as_bytes(values)}).value());
    };
    std::vector<Weight> in;
    in.push_back(load(2, hidden));
    const Weight out = load(hidden, 1);
    std::deque<DeviceFloats> biases;
    std::vector<Expert> experts;
    for (int64_t e = 0; e < count; ++e) {
      std::vector<float> column(static_cast<size_t>(hidden), 0.0f);
      column[static_cast<size_t>(e)] = 1;
      experts.push_back({in, nullptr, &out, biases.emplace_back(backend, column).data()});
    }
    const Buffer packed = std::move(backend.PackExperts(experts).value());
    const DeviceMatrix x(backend, backend.activation_dtype(), rows, hidden, none),
        router(backend, DType::kF32, rows, count, logits), y(backend, DType::kF32, rows, hidden, none);
    ExpertsArgs args = routing;
    args.experts = experts, args.packed = packed.data();
    args.x = x.tensor(), args.router = router.tensor(), args.y = y.tensor();
    backend.Experts(args);
    std::vector<float> weights;
    const std::vector<float> all = y.Get();
    for (int64_t r = 0; r < rows; ++r) {
      weights.insert(weights.end(), all.begin() + r * hidden, all.begin() + r * hidden + count);
    }
    return weights;
  }
  /// For a single row, and for enough equal ones that a GPU routes them by another kernel.
  void ExpectWeights(const std::vector<float>& logits, const ExpertsArgs& routing, const std::vector<double>& want) {
    for (const size_t rows : {1, 20}) {
      std::vector<float> repeated;
      for (size_t r = 0; r < rows; ++r) repeated.insert(repeated.end(), logits.begin(), logits.end());
      const std::vector<float> got = RoutedWeights(*backend_, repeated, std::ssize(logits), routing);
      for (size_t i = 0; i < got.size(); ++i) {
        EXPECT_NEAR(got[i], want[i % want.size()], 1e-6) << "row " << i / want.size() << ", expert " << i % want.size();
      }
    }
  }

  std::deque<DeviceFloats> vectors_;
};
INSTANTIATE_TEST_SUITE_P(All, ExpertRouting, ::testing::Values("cpu", "cuda_bf16"),
                         [](const auto& info) { return info.param; });

TEST_P(ExpertRouting, ByTraits) {
  const std::vector<float> logits = {2, 1, 0, -1, 0.5f, -2};
  const auto sigmoid = [](double x) { return 1 / (1 + std::exp(-x)); };
  ExpectWeights(logits, {.top_k = 2, .traits = {.sigmoid = true}}, {sigmoid(2), sigmoid(1), 0, 0, 0, 0});
  const double sum = sigmoid(2) + sigmoid(1);
  ExpectWeights(logits, {.top_k = 2, .normalised = true, .traits = {.sigmoid = true, .scale = 2.5f}},
                {2.5 * sigmoid(2) / sum, 2.5 * sigmoid(1) / sum, 0, 0, 0, 0});
  // The correction selects; it is no part of the weight.
  const std::vector<float> correction = {-1, 0, 0, 0, 0, 2};
  ExpectWeights(logits, {.top_k = 2, .traits = {.sigmoid = true, .correction = Place(correction)}},
                {0, sigmoid(1), 0, 0, 0, sigmoid(-2)});
  double all = 0;
  for (const float logit : logits) all += std::exp(static_cast<double>(logit));
  ExpectWeights(logits, {.top_k = 2, .traits = {.correction = Place(correction)}},
                {0, std::exp(1) / all, 0, 0, 0, std::exp(-2) / all});
  // Groups (0, 1, 2) and (3, 4, 5): with a correction the second has the larger sum of two.
  const std::vector<float> second = {0, 0, 0, 1, 1, 0};
  ExpectWeights(logits,
                {.top_k = 2, .traits = {.sigmoid = true, .groups = 2, .groups_used = 1, .correction = Place(second)}},
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
  ExpectWeights(logits, {.top_k = 2, .normalised = true, .traits = {.sigmoid = true, .scales = Place(scales)}},
                {3 * sigmoid(2) / sum, sigmoid(1) / sum, 0, 0, 0, 0});
  // The second expert is selected without the first; only logits near the selected one count.
  ExpectWeights({2, 1.9f, 0, -1, 1.7f, -2}, {.top_k = 2, .traits = {.margin = 0.06f}},
                {1 / (1 + std::exp(-0.1)), 1, 0, 0, 0, 0});
  // Equal choices: the lower index.
  ExpectWeights({0, 0, 0, 0, 0, 0}, {.top_k = 2, .traits = {.sigmoid = true}}, {0.5, 0.5, 0, 0, 0, 0});
}

// Up to 1,024 experts, in groups whose sizes are no powers of two.
TEST_P(ExpertRouting, EqualsTheCpu) {
  if (GetParam() == "cpu") GTEST_SKIP() << "it is the reference";
  const auto cpu = std::move(MakeCpuBackend({}).value());
  struct Case {
    int64_t experts, top_k;
    RouterTraits traits;
    bool corrected, shared;
  };
  const Case cases[] = {{40, 3, {.sigmoid = true, .scale = 2.5f}, true, false},
                        {72, 4, {.groups = 3, .groups_used = 1, .group_highest = true, .scale = 16}, false, false},
                        {160, 6, {.groups = 8, .groups_used = 3, .group_highest = true}, false, true},
                        {200, 8, {.sigmoid = true}, true, true},
                        {256, 8, {.sigmoid = true, .groups = 8, .groups_used = 4, .scale = 2.5f}, true, false},
                        {384, 8, {.sigmoid = true, .groups = 32, .groups_used = 5}, true, false},
                        {700, 12, {.scale = 2}, true, false},
                        {1024, 32, {.sigmoid = true, .groups = 16, .groups_used = 2}, true, false},
                        {16, 2, {.margin = 0.2f}, false, false},
                        {100, 5, {.margin = 0.5f}, false, false}};
  for (const Case& c : cases) {
    for (const bool normalised : {false, true}) {
      for (const int64_t rows : {3, 21}) {
        const int64_t count = c.experts + (c.shared ? 1 : 0);
        const std::vector<float> logits = RandomFloats(static_cast<size_t>(rows * count), 3, 2),
                                 correction = RandomFloats(static_cast<size_t>(count), 4, 0.3f);
        ExpertsArgs args{.top_k = c.top_k, .normalised = normalised, .shared = c.shared, .traits = c.traits};
        if (c.corrected) args.traits.correction = correction.data();
        const std::vector<float> want = RoutedWeights(*cpu, logits, count, args);
        if (c.corrected) args.traits.correction = Place(correction);
        const std::vector<float> got = RoutedWeights(*backend_, logits, count, args);
        int wrong = 0;
        for (size_t i = 0; i < got.size(); ++i) {
          if (std::fabs(got[i] - want[i]) <= 2e-6 * std::fabs(want[i]) + 1e-7 || ++wrong > 5) continue;
          ADD_FAILURE() << fmt::format("{} of {} experts, {} groups, row {}, expert {}: {} instead of {}", c.top_k,
                                       c.experts, c.traits.groups, i / static_cast<size_t>(count),
                                       i % static_cast<size_t>(count), got[i], want[i]);
        }
      }
    }
  }
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
