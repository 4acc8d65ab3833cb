// What a layer's attention makes of its scores, as plain data. With q a query at t, k a key at p, and D how far apart
// they are: t - p, for pinned keys c - p, their distance in the cache (kernels/backend.h).
//
//   s = scale q . k          then, if soft_cap > 0: s = soft_cap tanh(s / soft_cap)  (Gemma 2, Gemma Team 2024)
//   s = s - slopes[h] D      if there are slopes (ALiBi, Press et al. 2022)
//   s = s + biases[h] of D   if there are biases (T5, Raffel et al. 2020)
//   softmax over s of all keys with D < window, or all if it is 0, and over sinks[h], if there are any, which stands
//   for a key whose value is 0 (gpt-oss, OpenAI 2025)
#pragma once

#include <cstdint>

namespace ringside {

/// Which keys of its sequence a row sees.
enum class KeysSeen {
  kBefore,  // those that are pinned and those of the ring, up to its own
  kRing,    // those of the ring alone, up to its own: a decoder's row, where the pinned ones are the encoder's
  kPinned,  // all that are pinned, those behind its own, too: an encoder's row. A row of the ring asks only: its step
            // has queries alone, and nothing is stored
};

struct ScoreTraits {
  float scale = 0;  // usually 1 / sqrt(d)
  float soft_cap = 0;
  const float* slopes = nullptr;  // [H], on the device
  const float* sinks = nullptr;   // [H], on the device
  // [H, 2 bias_reach + 31], on the device: that of D at bias_reach + 15 - D for D of -bias_reach to bias_reach; beyond
  // them, and in 15 places more on either side, that of the last one.
  const float* biases = nullptr;
  int64_t bias_reach = 0;
  int64_t window = 0;
};

}  // namespace ringside
