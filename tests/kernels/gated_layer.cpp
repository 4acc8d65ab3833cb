#include "tests/kernels/gated_layer.h"

#include <gtest/gtest.h>

#include <cmath>
#include <utility>
#include <vector>

#include "tests/kernels/devices.h"

namespace ringside::testing {
namespace {

constexpr double kSteepestSilu = 1.0999;  // its maximum slope, at 2.4

}  // namespace

void ExpectNormLinearAndActivation(Backend& backend, int64_t rows, const RandomWeight& gate, const RandomWeight& up,
                                   double tolerance, bool in_e4m3) {
  SCOPED_TRACE(std::string(Traits(gate.dtype).name) + ", " + std::to_string(rows) + " x " + std::to_string(gate.rows));
  const DType type = backend.activation_dtype();
  const double unit = Rounding(type);
  const int64_t d = gate.cols, n = gate.rows;
  const std::vector<float> x = RandomFloats(static_cast<size_t>(rows * d), 7),
                           w = RandomFloats(static_cast<size_t>(d), 8);
  const Weight gates = std::move(backend.LoadWeight(gate.host()).value()),
               ups = std::move(backend.LoadWeight(up.host()).value());
  const Weight* const weights[] = {&gates, &ups};
  const DeviceFloats weight(backend, w);
  DeviceMatrix stream(backend, DType::kF32, rows, d, x), normed(backend, type, rows, d, x),
      both(backend, type, rows, 2 * n, RandomFloats(static_cast<size_t>(rows * 2 * n), 1)),
      mid(backend, type, rows, n, RandomFloats(static_cast<size_t>(rows * n), 1));
  const auto error_of = [&](const Product& sum) { return unit * std::fabs(sum.sum) + tolerance * sum.size; };
  // Only up to the sums, and, because these may stay inside a fused kernel, up to their products.
  for (int round = 0; round < 6; ++round) {
    const bool to_sums = round < 3;
    backend.RmsNorm(stream.tensor(), weight.data(), 1e-5f, normed.tensor());
    backend.Linear({.x = normed.tensor(), .weights = weights, .y = both.tensor()});
    if (!to_sums) backend.MultiplyActivated(both.tensor(), Activation::kSilu, mid.tensor());
    backend.Synchronize();
    const std::vector<float> got_normed = normed.Get(), got = to_sums ? both.Get() : mid.Get();
    const std::vector<float> taken = in_e4m3 ? RoundedToE4M3(got_normed, d) : got_normed;
    for (int64_t r = 0; r < rows; ++r) {
      double square = 0;
      for (int64_t i = 0; i < d; ++i) square += std::pow(x[At(r, d, i)], 2) / static_cast<double>(d);
      for (int64_t i = 0; i < d; ++i) {
        const double want = x[At(r, d, i)] / std::sqrt(square + 1e-5) * w[static_cast<size_t>(i)];
        ASSERT_NEAR(got_normed[At(r, d, i)], want, unit * std::fabs(want) + 1e-5);
      }
      for (int64_t i = 0; i < n; ++i) {
        const Product g = Multiply(taken, gate, r, i), u = Multiply(taken, up, r, i);
        if (to_sums) {
          ASSERT_NEAR(got[At(r, 2 * n, i)], g.sum, error_of(g)) << "at " << r << "," << i;
          ASSERT_NEAR(got[At(r, 2 * n, n + i)], u.sum, error_of(u)) << "at " << r << "," << n + i;
          continue;
        }
        const double silu = g.sum / (1 + std::exp(-g.sum)), want = silu * u.sum;
        const double of_silu = kSteepestSilu * error_of(g);  // upper bound of the error caused by g's
        const double error = of_silu * (std::fabs(u.sum) + error_of(u)) + std::fabs(silu) * error_of(u);
        ASSERT_NEAR(got[At(r, n, i)], want, error + unit * (std::fabs(want) + error) + 1e-6) << "at " << r << "," << i;
      }
    }
  }
}

}  // namespace ringside::testing
