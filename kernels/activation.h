// The functions between the two matrices of an MLP.
#pragma once

namespace ringside {

enum class Activation {
  kSilu,      // x / (1 + e^-x)
  kGeluTanh,  // GELU by its tanh approximation
  kGeluErf,   // GELU (Hendrycks and Gimpel 2016)
  kRelu,
  // Only with a second factor: min(g, 7) / (1 + e^(-1.702 g)) (clamp(u, -7, 7) + 1), g and u as they were clamped
  // (gpt-oss).
  kClampedSilu,
};

}  // namespace ringside
