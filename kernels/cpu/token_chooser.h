// Chooses one token from one row of logits: the definition of kernels/token_choice.h, step by step. One object per row,
// kept for its scratch memory; one thread at a time.
#pragma once

#include <span>
#include <vector>

#include "kernels/cpu/vocabulary_passes.h"
#include "kernels/token_choice.h"

namespace ringside::cpu {

class TokenChooser {
 public:
  /// `logits` [V] are changed.
  ChosenToken Choose(std::span<float> logits, const TokenChoice& choice);
  /// The highest of some logits and its place among them; NaN if one of them is NaN or +inf.
  Candidate FindBest(std::span<const float> logits);

 private:
  int32_t Draw(std::span<const float> logits, float max, const TokenChoice& choice);
  void CutTopK(size_t k);
  void CutTopP(double wanted, float max, float inverse_temperature);
  /// Log probabilities in place of the logits.
  void TakeLogprobs(std::span<float> logits);
  void FillLogprobs(std::span<const float> logits, double log_sum, int64_t best, ChosenToken& token);

  VocabularyPasses passes_;
  std::vector<Candidate> candidates_, ranked_;  // kept tokens in id order; the same, being ranked
};

}  // namespace ringside::cpu
