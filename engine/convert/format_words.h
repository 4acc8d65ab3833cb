// What several formats call the same thing. Pure functions; any thread.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

#include "kernels/activation.h"
#include "kernels/tensor.h"

namespace ringside {

/// As config.json has it.
inline std::string_view ActivationName(Activation activation) {
  return activation == Activation::kGeluTanh  ? "gelu_new"
         : activation == Activation::kGeluErf ? "gelu"
         : activation == Activation::kRelu    ? "relu"
                                              : "silu";
}

/// As FasterTransformer's config.ini has it.
inline std::string_view FasterTransformerType(DType dtype) {
  return dtype == DType::kF32 ? "fp32" : dtype == DType::kF16 ? "fp16" : "bf16";
}

/// The number that its decimal digits stand for: 1e-05, not 9.999999747378752e-06.
inline double Decimal(float value) { return std::stod(fmt::format("{}", value)); }

}  // namespace ringside
