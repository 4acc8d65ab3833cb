// Samples one token from one row of logits, step by step as defined in kernels/row_sampling_params.h. One object per
// row, kept for its scratch memory. THREAD: one at a time.
#pragma once

#include <span>
#include <vector>

#include "kernels/cpu/vocabulary_passes.h"
#include "kernels/row_sampling_params.h"

namespace ringside::cpu {

class TokenSampler {
 public:
  /// Modifies `logits` [V].
  SampledToken Choose(std::span<float> logits, const RowSamplingParams& params);
  /// The highest logit and its index; NaN if any logit is NaN or +inf.
  Candidate FindBest(std::span<const float> logits);

 private:
  int32_t Draw(std::span<const float> logits, float max, const RowSamplingParams& params);
  void CutTopK(size_t k);
  void CutTopP(double wanted, float max, float inverse_temperature);
  /// Replaces the logits by log probabilities.
  void ReplaceByLogprobs(std::span<float> logits);
  void FillLogprobs(std::span<const float> logits, double log_sum, int64_t best, SampledToken& token);

  VocabularyPasses passes_;
  std::vector<Candidate> candidates_, ranked_;  // kept tokens in id order; a copy being ranked
};

}  // namespace ringside::cpu
