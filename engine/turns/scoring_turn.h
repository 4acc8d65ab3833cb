// A turn that scores its prompt and has no answer. THREAD: engine.
#pragma once

#include "engine/turns/prompt_scores.h"
#include "engine/turns/running_turn.h"

namespace ringside {

class ScoringTurn final : public RunningTurn {
 public:
  using RunningTurn::RunningTurn;

  int64_t max_reusable() const override { return scores_.max_reusable(); }
  TurnRows NextRows(int64_t limit) override { return PromptRows(limit, scores_next()); }
  RowSamplingParams Params(const TurnRow& row) override { return scores_.ParamsAt(row.scored, request()); }
  void Take(const TurnRow& row, const SampledToken& token, int64_t now_ns) override;
  bool scores_next() const override { return scores_.scores_from(sequence()->computed()); }
  bool needs_results() const override { return scores_.lacks_from(sequence()->computed()); }

 protected:
  void Start(const Tokenizer&, int64_t) override { scores_.Begin(request()); }
  void FinishPrefill() override;

 private:
  PromptScores scores_;
};

}  // namespace ringside
