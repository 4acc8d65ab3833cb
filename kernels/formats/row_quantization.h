// One-byte weights with one float32 scale per row (output channel); an element's value is its stored value times the
// scale. kI8: integers of -127 to 127. kF8E4M3: Micikevicius et al. 2022, "FP8 formats for deep learning" (sign, 4 bits
// of exponent with bias 7, 3 of mantissa; no infinity).
// THREAD: any.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "kernels/tensor.h"

namespace ringside {

constexpr float kLargestInt8 = 127, kLargestE4M3 = 448;

/// Parses the user-visible names "int8" and "fp8"; nullopt for anything else.
std::optional<DType> QuantizationNamed(std::string_view name);

/// q[i] = row[i] / scale, to nearest, ties to even. Returns scale = the largest magnitude of the row / the largest of
/// the type. For a row of zeros returns 0; if a value is not finite, returns NaN with zeros in q.
float QuantizeRow(DType dtype, std::span<const float> row, uint8_t* q);
/// The value of an element before its scale.
float QuantizedValue(DType dtype, uint8_t q);

}  // namespace ringside
