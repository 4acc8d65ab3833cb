// The sampler's passes over a whole vocabulary of logits: finiteness, the best tokens, sums and draws of exp((l - max)
// / T). Every pass does the same operations in the same order on every machine (no libm exp, no reordering), so a draw
// depends on the logits alone. Used by engine/sampler.cpp only; one object per sampler, one thread at a time.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "engine/tokenizer.h"

namespace ringside {

/// (logit, id). The total order of tokens: higher logit first, equal logits by lower id.
using Candidate = std::pair<float, TokenId>;
inline bool Better(const Candidate& a, const Candidate& b) {
  return a.first != b.first ? a.first > b.first : a.second < b.second;
}

/// exp(x) for x <= 0 in float with relative error under 3e-7; 0 below -87, where a float would lose bits.
/// x = n ln 2 + r with |r| <= ln 2 / 2; exp(r) by its Taylor polynomial of degree 7.
inline float ExpNegative(float x) {
  // Below -87 a mask makes x and the result 0: a mask and no branch, so that loops over it become vector code.
  const int32_t bits = std::bit_cast<int32_t>(x);
  const int32_t keep = -static_cast<int32_t>((bits & 0x7fffffff) <= std::bit_cast<int32_t>(87.0f));
  const float bounded = std::bit_cast<float>(bits & keep);
  constexpr float kRound = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer in the low bits
  const float n = (bounded * 1.44269504f + kRound) - kRound;
  const float r = (bounded - n * 0.693359375f) - n * -2.12194440e-4f;
  float p = 1.0f / 5040;
  p = p * r + 1.0f / 720;
  p = p * r + 1.0f / 120;
  p = p * r + 1.0f / 24;
  p = p * r + 1.0f / 6;
  p = p * r + 0.5f;
  p = p * r + 1.0f;
  p = p * r + 1.0f;
  return p * std::bit_cast<float>(((static_cast<int32_t>(n) + 127) << 23) & keep);
}

/// The unnormalised probability of a logit: exp((logit - max) * inverse_temperature).
inline float SoftmaxWeight(float logit, float max, float inverse_temperature) {
  return ExpNegative((logit - max) * inverse_temperature);
}

class VocabularyPasses {
 public:
  /// No logit is NaN or +inf. -inf is a token that the model itself excludes.
  static bool AllUsable(std::span<const float> logits);

  /// The best token; also remembers the best logit of each block for the passes below, which must get the same logits.
  Candidate FindBest(std::span<const float> logits);

  /// Sum over the vocabulary of SoftmaxWeight(), in double and in a fixed order.
  double SumWeights(std::span<const float> logits, float inverse_temperature);

  /// The token at which the running sum of weights in id order first exceeds `uniform` (in [0, 1)) of the whole.
  TokenId Draw(std::span<const float> logits, float inverse_temperature, double uniform);

  /// Appends to `out`, in id order, every token with logit >= `threshold` and > -inf.
  void GatherAtLeast(std::span<const float> logits, float threshold, std::vector<Candidate>& out) const;

  /// A logit that at least `k` tokens reach, as high as the block maxima can tell; -inf if they cannot.
  float LowerBoundOfTop(int64_t k);

 private:
  static constexpr size_t kBlock = 64;
  std::vector<float> block_best_;
  std::vector<float> bound_scratch_;
  std::vector<double> block_sums_;
  float max_ = -std::numeric_limits<float>::infinity();
};

}  // namespace ringside
