// Vocabulary shared by several formats. Pure functions. THREAD: any.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>

#include "kernels/activation.h"
#include "kernels/tensor.h"

namespace ringside {

/// The name in config.json.
inline std::string_view ActivationName(Activation activation) {
  return activation == Activation::kGeluTanh  ? "gelu_new"
         : activation == Activation::kGeluErf ? "gelu"
         : activation == Activation::kRelu    ? "relu"
                                              : "silu";
}

/// The name in FasterTransformer's config.ini.
inline std::string_view FasterTransformerType(DType dtype) {
  return dtype == DType::kF32 ? "fp32" : dtype == DType::kF16 ? "fp16" : "bf16";
}

/// The decimal number that the float rounds: 1e-05, not 9.999999747378752e-06.
inline double Decimal(float value) { return std::stod(fmt::format("{}", value)); }

}  // namespace ringside
