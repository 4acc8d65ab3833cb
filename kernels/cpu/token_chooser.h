// Samples one token from one row of logits, step by step as defined in kernels/token_choice.h. One object per row, kept
// for its scratch memory.
// THREAD: one at a time.
#pragma once

#include <span>
#include <vector>

#include "kernels/cpu/vocabulary_passes.h"
#include "kernels/token_choice.h"

namespace ringside::cpu {

class TokenChooser {
 public:
  /// Modifies `logits` [V].
  ChosenToken Choose(std::span<float> logits, const TokenChoice& params);
  /// The highest logit and its index; NaN if any logit is NaN or +inf.
  Candidate FindBest(std::span<const float> logits);

 private:
  int32_t Draw(std::span<const float> logits, float max, const TokenChoice& params);
  void CutTopK(size_t k);
  void CutTopP(double wanted, float max, float inverse_temperature);
  /// Replaces the logits by log probabilities.
  void TakeLogprobs(std::span<float> logits);
  void FillLogprobs(std::span<const float> logits, double log_sum, int64_t best, ChosenToken& token);

  VocabularyPasses passes_;
  std::vector<Candidate> candidates_, ranked_;  // kept tokens in id order; a copy being ranked
};

}  // namespace ringside::cpu
