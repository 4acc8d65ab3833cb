// Operations of networks with several residual streams (Gemma 3n), on the CPU. Sums are in float64, in column order.
#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "kernels/cpu/cpu_backend.h"

namespace ringside::cpu {
namespace {

double MeanSquare(const float* x, int64_t n) {
  double sum = 0;
  for (int64_t c = 0; c < n; ++c) sum += static_cast<double>(x[c]) * static_cast<double>(x[c]);
  return sum / static_cast<double>(n);
}

}  // namespace

void CpuBackend::ScaleColumns(Tensor x, const float* factors) {
  EachRow(x.rows, x.cols, [&](int64_t r) {
    for (int64_t c = 0; c < x.cols; ++c) x.f32_row(r)[c] *= factors[c];
  });
}

void CpuBackend::AddScaledRows(Tensor x, Tensor factors, Tensor y) {
  CHECK(x.rows == y.rows && x.cols == y.cols && factors.rows == x.rows && factors.cols == 1);
  EachRow(x.rows, x.cols, [&](int64_t r) {
    const float factor = factors.f32_row(r)[0];
    for (int64_t c = 0; c < x.cols; ++c) y.f32_row(r)[c] += factor * x.f32_row(r)[c];
  });
}

void CpuBackend::MatchMagnitude(Tensor like, Tensor x) {
  CHECK(x.rows == like.rows);
  EachRow(x.rows, 2 * x.cols, [&](int64_t r) {
    const double from = std::sqrt(std::max(MeanSquare(x.f32_row(r), x.cols), 1e-5));
    const auto factor = static_cast<float>(std::sqrt(MeanSquare(like.f32_row(r), like.cols)) / from);
    for (int64_t c = 0; c < x.cols; ++c) x.f32_row(r)[c] *= factor;
  });
}

void CpuBackend::Sparsify(Tensor x, float deviations) {
  EachRow(x.rows, 3 * x.cols, [&](int64_t r) {
    float* row = x.f32_row(r);
    double sum = 0, squares = 0;
    for (int64_t c = 0; c < x.cols; ++c) sum += static_cast<double>(row[c]);
    const double mean = sum / static_cast<double>(x.cols);
    for (int64_t c = 0; c < x.cols; ++c)
      squares += (static_cast<double>(row[c]) - mean) * (static_cast<double>(row[c]) - mean);
    const double deviation = std::sqrt(squares / static_cast<double>(x.cols));
    const auto cutoff = static_cast<float>(mean + deviation * static_cast<double>(deviations));
    for (int64_t c = 0; c < x.cols; ++c) row[c] = std::max(row[c] - cutoff, 0.0f);
  });
}

}  // namespace ringside::cpu
