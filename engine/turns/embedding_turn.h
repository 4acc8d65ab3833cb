// A turn that returns the mean of its prompt's hidden states and has no answer. The sums are kept when it loses its
// cache. THREAD: engine.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/turns/running_turn.h"

namespace ringside {

class EmbeddingTurn final : public RunningTurn {
 public:
  using RunningTurn::RunningTurn;

  int64_t max_reusable() const override { return summed_tokens_; }
  bool needs_results() const override { return sequence()->computed() >= summed_tokens_; }
  void CollectHiddenStates(int64_t first, std::span<const float> states, int64_t width) override;

 protected:
  void FinishPrefill() override;

 private:
  std::vector<double> sums_;  // of the hidden states
  int64_t summed_tokens_ = 0;
};

}  // namespace ringside
