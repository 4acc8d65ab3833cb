// Passes over a vocabulary of logits: finiteness, the best tokens, sums and draws of exp((l - max) / T). Every pass
// does the same operations in the same order on every machine, so a draw depends on the logits alone. One object per
// row.
// THREAD: one at a time.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "kernels/row_sampling_params.h"

namespace ringside::cpu {

/// (logit, id). The total order of tokens: higher logit first, equal logits by lower id.
using Candidate = std::pair<float, int32_t>;
inline bool Better(const Candidate& a, const Candidate& b) {
  return a.first != b.first ? a.first > b.first : a.second < b.second;
}

class VocabularyPasses {
 public:
  /// True if no logit is NaN or +inf. -inf is a token that the model itself excludes.
  static bool AllUsable(std::span<const float> logits);

  /// The best token. Also caches the best logit of each block for the passes below, which must be given the same
  /// logits.
  Candidate FindBest(std::span<const float> logits);

  /// Sum over the vocabulary of SoftmaxWeight(), in double and in a fixed order.
  double SumWeights(std::span<const float> logits, float inverse_temperature);

  /// The token at which the running sum of weights in id order first exceeds `uniform` (in [0, 1)) times the total.
  int32_t Draw(std::span<const float> logits, float inverse_temperature, double uniform);

  /// Appends to `out`, in id order, every token with logit >= `threshold` and > -inf.
  void GatherAtLeast(std::span<const float> logits, float threshold, std::vector<Candidate>& out) const;

  /// A logit that at least `k` tokens reach, the highest that the block maxima prove; -inf if they prove none.
  float LowerBoundOfTop(int64_t k);

 private:
  static constexpr size_t kBlock = 64;
  std::vector<float> block_best_;
  std::vector<float> bound_scratch_;
  std::vector<double> block_sums_;
  float max_ = -std::numeric_limits<float>::infinity();
};

}  // namespace ringside::cpu
