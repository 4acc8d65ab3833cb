// Mixtures of experts against naive loops in double: who is chosen, with which weight, and that a row's numbers do not
// depend on the others.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "tests/kernels/reference.h"

namespace ringside::testing {
namespace {

constexpr int64_t kRows = 7, kExperts = 5, kInner = 24, kHidden = 32;

struct Mixture {
  explicit Mixture(Backend& backend) {
    for (int64_t e = 0; e < kExperts; ++e) {
      const auto seed = static_cast<uint32_t>(10 * e);
      in_values.push_back(RandomFloats(2 * kInner * kHidden, seed + 1, 0.3f));
      out_values.push_back(RandomFloats(kHidden * kInner, seed + 2, 0.3f));
      in_biases.push_back(RandomFloats(2 * kInner, seed + 3));
      out_biases.push_back(RandomFloats(kHidden, seed + 4));
      in.push_back(Load(backend, in_values.back(), 2 * kInner, kHidden));
      out.push_back(Load(backend, out_values.back(), kHidden, kInner));
    }
    for (const Weight& weight : in) in_pointers.push_back(&weight);
    for (size_t e = 0; e < in.size(); ++e) {
      experts.push_back({{&in_pointers[e], 1}, in_biases[e].data(), &out[e], out_biases[e].data()});
    }
  }
  static Weight Load(Backend& backend, const std::vector<float>& values, int64_t rows, int64_t cols) {
    return std::move(backend.LoadWeight({DType::kF32, rows, cols, std::as_bytes(std::span(values))}).value());
  }
  /// One expert's MLP of one row.
  std::vector<double> Of(size_t e, const float* x) const {
    std::vector<double> both, y(kHidden);
    for (size_t n = 0; n < 2 * kInner; ++n) {
      both.push_back(in_biases[e][n]);
      for (size_t k = 0; k < kHidden; ++k) both[n] += static_cast<double>(in_values[e][n * kHidden + k]) * x[k];
    }
    for (size_t n = 0; n < kHidden; ++n) {
      y[n] = out_biases[e][n];
      for (size_t k = 0; k < kInner; ++k) {
        y[n] += out_values[e][n * kInner + k] * (both[k] / (1 + std::exp(-both[k])) * both[kInner + k]);
      }
    }
    return y;
  }

  std::vector<std::vector<float>> in_values, out_values, in_biases, out_biases;
  std::vector<Weight> in, out;
  std::vector<const Weight*> in_pointers;
  std::vector<Expert> experts;
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

TEST(Experts, MatchNaiveLoopsForEveryWayToChoose) {
  const auto backend = MakeBackend("portable", 2);
  const Mixture mixture(*backend);
  const std::vector<float> x = RandomFloats(kRows * kHidden, 7);
  std::vector<float> router = RandomFloats(kRows * kExperts, 8, 2);
  router[1] = router[0] = router[2];  // equal ones: the first
  for (const int64_t used : {1, 2, 4}) {
    for (const bool normalised : {false, true}) {
      for (const bool shared : {false, true}) {
        std::vector<float> y(x.size(), 0.5f), input = x, logits = router;
        ExpertsArgs args{.x = AsTensor(input, kRows, kHidden),
                         .router = AsTensor(logits, kRows, kExperts),
                         .experts = mixture.experts,
                         .used = used,
                         .normalised = normalised,
                         .shared = shared,
                         .y = AsTensor(y, kRows, kHidden)};
        backend->Experts(args);
        std::vector<float> alone(x.size(), 0.5f);
        for (int64_t r = 0; r < kRows; ++r) {
          const auto row = static_cast<size_t>(r);
          const auto weights = Weights(std::span(router).subspan(row * kExperts, kExperts), used, normalised, shared);
          std::vector<double> want(kHidden, 0.5);
          for (size_t e = 0; e < kExperts; ++e) {
            if (weights[e] == 0) continue;
            const auto of = mixture.Of(e, x.data() + row * kHidden);
            for (size_t c = 0; c < kHidden; ++c) want[c] += weights[e] * of[c];
          }
          for (size_t c = 0; c < kHidden; ++c) ASSERT_NEAR(y[row * kHidden + c], want[c], 1e-4) << r;
          ExpertsArgs one = args;
          one.x = args.x.Rows(r, 1), one.router = args.router.Rows(r, 1);
          one.y = AsTensor(alone, kRows, kHidden).Rows(r, 1);
          backend->Experts(one);
        }
        EXPECT_EQ(alone, y) << "a row alone is the row among others";
      }
    }
  }
}

}  // namespace
}  // namespace ringside::testing
