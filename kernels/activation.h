// Activation functions of an MLP.
#pragma once

namespace ringside {

enum class Activation {
  kSilu,      // x / (1 + e^-x)
  kGeluTanh,  // GELU, tanh approximation
  kGeluErf,   // GELU (Hendrycks and Gimpel 2016)
  kRelu,
  kReluSquared,  // max(x, 0)^2 (Primer, So et al. 2021)
  kXielu,        // with parameters: Backend::Xielu
  // Gated only: min(g, 7) / (1 + e^(-1.702 g)) (clamp(u, -7, 7) + 1), with g clamped in both places (gpt-oss).
  kClampedSilu,
};

/// xIELU (Huang and Schlag 2024), in float32: positive x^2 + beta x for x > 0, else negative (e^min(x, eps) - 1 - x) +
/// beta x.
struct XieluParameters {
  float positive = 0, negative = 0, beta = 0.5f, eps = -1e-6f;

  friend bool operator==(const XieluParameters&, const XieluParameters&) = default;
};

}  // namespace ringside
