// A layer's attention score modifiers, as plain data. With q a query at t, k a key at p, and D their distance: t - p,
// or for pinned keys c - p, the distance in the cache (kernels/backend.h).
//
//   s = scale q . k          then, if soft_cap > 0: s = soft_cap tanh(s / soft_cap)  (Gemma 2, Gemma Team 2024)
//   s = s - slopes[h] D      if there are slopes (ALiBi, Press et al. 2022)
//   s = s + biases[h] of D   if there are biases (T5, Raffel et al. 2020)
//   softmax over s of all keys with D < window, or of all keys if window is 0, and over sinks[h], if there are any;
//   with `chunked`, of the keys in the query's own run of `window` positions, counted from 0 (Llama 4, Meta 2025);
//   a sink acts as a key whose value is 0 (gpt-oss, OpenAI 2025)
#pragma once

#include <cstdint>

namespace ringside {

/// Which keys of its sequence a row sees.
enum class VisibleKeys {
  kBefore,  // the pinned keys and the ring keys, up to its own
  kRing,    // ring keys only, up to its own: a decoder row, where the pinned keys are an encoder's
  kPinned,  // all pinned keys, later ones included: an encoder row. A ring row then has a query alone and stores
            // nothing
};

struct ScoreTraits {
  float scale = 0;  // usually 1 / sqrt(d)
  float soft_cap = 0;
  const float* slopes = nullptr;  // [H], on the device
  const float* sinks = nullptr;   // [H], on the device
  // [H, 2 bias_reach + 31], on the device: the bias of distance D is at bias_reach + 15 - D for -bias_reach <= D <=
  // bias_reach. The last one on either side is repeated in 15 more places and applies to all larger distances.
  const float* biases = nullptr;
  int64_t bias_reach = 0;
  int64_t window = 0;
  bool chunked = false;
};

}  // namespace ringside
