// Weights of one byte an element: a row (one output channel) has one float32 scale, an element stands for scale times
// its own value. kI8: integers of -127 to 127. kF8E4M3: Micikevicius et al. 2022, "FP8 formats for deep learning"
// (sign, 4 bits of exponent with bias 7, 3 of fraction; no infinity). Plain functions, any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "kernels/tensor.h"

namespace ringside {

constexpr float kLargestInt8 = 127, kLargestE4M3 = 448;

/// "int8" or "fp8", what users call them; nullopt for anything else.
std::optional<DType> QuantizationNamed(std::string_view name);

/// q[i] = row[i] / scale, to nearest, ties to even; returns scale = the largest magnitude of the row / the largest of
/// the type. 0 for a row of zeros; NaN, and zeros in q, if a value is not finite.
float QuantiseRow(DType dtype, std::span<const float> row, uint8_t* q);
/// What an element is before its scale.
float QuantisedValue(DType dtype, uint8_t q);

}  // namespace ringside
