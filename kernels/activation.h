// Activation functions of an MLP.
#pragma once

namespace ringside {

enum class Activation {
  kSilu,      // x / (1 + e^-x)
  kGeluTanh,  // GELU, tanh approximation
  kGeluErf,   // GELU (Hendrycks and Gimpel 2016)
  kRelu,
  // Gated only: min(g, 7) / (1 + e^(-1.702 g)) (clamp(u, -7, 7) + 1), with g clamped in both places (gpt-oss).
  kClampedSilu,
};

}  // namespace ringside
