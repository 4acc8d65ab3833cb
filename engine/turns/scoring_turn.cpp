#include "engine/turns/scoring_turn.h"

#include <utility>

namespace ringside {

void ScoringTurn::Take(const TurnRow& row, const SampledToken& token, int64_t) {
  if (Status status = scores_.Store(row.scored, token); !status.ok()) Finish(FinishReason::kError, std::move(status));
}

void ScoringTurn::FinishPrefill() {
  if (!scores_.complete()) return;
  scores_.Report(sink());
  Finish(FinishReason::kLength);
}

}  // namespace ringside
