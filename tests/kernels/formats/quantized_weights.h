// The dequantized values of a GPU's quantized weights: as a matrix, and as a backend that stores them in float32, the
// reference of quantized models.
#pragma once

#include <algorithm>
#include <cmath>
#include <memory>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "kernels/formats/file_formats.h"
#include "kernels/formats/row_quantization.h"
#include "tests/kernels/forwarding_backend.h"
#include "tests/kernels/reference.h"

namespace ringside {

namespace testing {

/// A random weight whose values are the dequantized ones.
inline RandomWeight MakeQuantizedWeight(DType dtype, int64_t rows, int64_t cols, uint32_t seed) {
  RandomWeight w = MakeRandomWeight(DType::kF32, rows, cols, seed);
  std::vector<uint8_t> q(static_cast<size_t>(cols));
  for (int64_t r = 0; r < rows; ++r) {
    const auto values = std::span(w.values).subspan(static_cast<size_t>(r * cols), q.size());
    const std::vector<float> row(values.begin(), values.end());
    const double scale = QuantizeRow(dtype, row, q.data());
    for (size_t c = 0; c < q.size(); ++c) values[c] = scale * QuantizedValue(dtype, q[c]);
  }
  return w;
}

}  // namespace testing

class QuantizedWeights : public ForwardingBackend {
 public:
  /// With a seed, weights are not rounded but perturbed by a random fraction, up to a half, of the quantization step
  /// there.
  QuantizedWeights(std::unique_ptr<Backend> inner, DType dtype, uint32_t seed = 0)
      : ForwardingBackend(std::move(inner)), dtype_(dtype), noise_(seed > 0), random_(seed) {}

  Result<Weight> LoadWeight(const HostTensor& host) override {
    RETURN_IF_ERROR(CheckWeight(host));
    const DType dtype = host.table ? DType::kI8 : dtype_;
    const auto cols = static_cast<size_t>(host.cols);
    std::vector<float> values(static_cast<size_t>(host.rows) * cols);
    std::vector<uint8_t> q(cols);
    for (int64_t r = 0; r < host.rows; ++r) {
      const std::span<float> row = std::span(values).subspan(static_cast<size_t>(r) * cols, cols);
      ReadFileRow(host, r, row.data());
      const float scale = QuantizeRow(dtype, row, q.data());
      for (size_t c = 0; c < cols; ++c) {
        row[c] = noise_ ? row[c] + scale * StepAt(dtype, row[c] / scale) * part_(random_)
                        : scale * QuantizedValue(dtype, q[c]);
      }
    }
    return ForwardingBackend::LoadWeight(
        {DType::kF32, host.rows, host.cols, std::as_bytes(std::span(values)), host.table});
  }

 private:
  /// Distance from one number of the type to the next.
  static float StepAt(DType dtype, float x) {
    return dtype == DType::kI8 ? 1 : std::ldexp(1.0f, std::max(x == 0 ? -6 : std::ilogb(x), -6) - 3);
  }

  const DType dtype_;
  const bool noise_;
  std::mt19937 random_;
  std::uniform_real_distribution<float> part_{-0.5f, 0.5f};
};

}  // namespace ringside
