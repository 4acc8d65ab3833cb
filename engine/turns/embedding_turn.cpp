#include "engine/turns/embedding_turn.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace ringside {

void EmbeddingTurn::CollectHiddenStates(int64_t first, std::span<const float> states, int64_t width) {
  sums_.resize(static_cast<size_t>(width));
  for (; !states.empty(); states = states.subspan(sums_.size()), ++first) {
    if (first != summed_tokens_) continue;  // recomputed, because the turn lost its cache meanwhile
    for (size_t i = 0; i < sums_.size(); ++i) sums_[i] += static_cast<double>(states[i]);
    ++summed_tokens_;
  }
}

void EmbeddingTurn::FinishPrefill() {
  if (summed_tokens_ < prompt_tokens()) return;
  std::vector<float> mean;
  for (const double sum : sums_) mean.push_back(static_cast<float>(sum / static_cast<double>(summed_tokens_)));
  if (!std::ranges::all_of(mean, [](float x) { return std::isfinite(x); })) {
    return Finish(FinishReason::kError, Unavailable("the model produced hidden states that are not finite"));
  }
  sink().OnEmbedded(std::move(mean));
  Finish(FinishReason::kStop);
}

}  // namespace ringside
