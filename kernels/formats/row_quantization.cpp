#include "kernels/formats/row_quantization.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "kernels/formats/half.h"

namespace ringside {
namespace {

// For |x| < 127.5: adding 1.5 * 2^23 leaves x, rounded, in the low bits.
inline uint8_t RoundToInt8(float x) { return static_cast<uint8_t>(std::bit_cast<uint32_t>(x + 12582912.0f)); }

}  // namespace

std::optional<DType> QuantizationNamed(std::string_view name) {
  if (name == "int8") return DType::kI8;
  return name == "fp8" ? std::optional(DType::kF8E4M3) : std::nullopt;
}

float QuantizeRow(DType dtype, std::span<const float> row, uint8_t* q) {
  const float max_code = dtype == DType::kI8 ? kLargestInt8 : kLargestE4M3;
  int32_t largest_bits = 0;  // magnitudes compare like their bits; non-finite values compare highest
  for (const float x : row) largest_bits = std::max(largest_bits, std::bit_cast<int32_t>(x) & 0x7fffffff);
  const float largest = std::bit_cast<float>(largest_bits);
  const bool finite = std::isfinite(largest);
  // A subnormal scale has no accurate inverse: such a row is flushed to zero.
  const float scale = largest / max_code;
  if (!finite || scale < std::numeric_limits<float>::min()) {
    std::fill_n(q, row.size(), uint8_t{0});
    return finite ? 0 : std::numeric_limits<float>::quiet_NaN();
  }
  const float inverse = max_code / largest;
  // Rounding may push a product past the type's largest value, but never as far as its next one.
  if (dtype == DType::kI8) {
    for (size_t i = 0; i < row.size(); ++i) q[i] = RoundToInt8(row[i] * inverse);
  } else {
    for (size_t i = 0; i < row.size(); ++i) q[i] = FloatToE4M3(row[i] * inverse);
  }
  return scale;
}

float QuantizedValue(DType dtype, uint8_t q) {
  return dtype == DType::kI8 ? static_cast<float>(static_cast<int8_t>(q)) : E4M3ToFloat(q);
}

}  // namespace ringside
