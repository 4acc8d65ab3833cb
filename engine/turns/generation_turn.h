// A turn with a sampled answer, and with scores of its prompt if they are wanted. THREAD: engine.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "engine/sampling/sampling.h"
#include "engine/speculation/draft_control.h"
#include "engine/speculation/ngram_index.h"
#include "engine/text/repetition_guard.h"
#include "engine/turns/answer_constraint.h"
#include "engine/turns/drafting_turn.h"
#include "engine/turns/prompt_scores.h"
#include "engine/turns/running_turn.h"

namespace ringside {

class GenerationTurn final : public RunningTurn, public DraftingTurn {
 public:
  using RunningTurn::RunningTurn;

  int64_t max_reusable() const override;
  TurnRows NextRows(int64_t limit) override;
  void OnLaunched(std::span<const TokenId> tokens, bool awaits) override;
  RunAhead run_ahead() const override;
  RowSamplingParams Params(const TurnRow& row) override;
  void Take(const TurnRow& row, const SampledToken& token, int64_t now_ns) override;
  DraftingTurn* drafting() override { return this; }
  bool ExpectsDraft(const DraftCosts& costs) override;
  int64_t PlanDrafts(const DraftCosts& costs) override;
  int64_t wanted_drafts() const override { return wanted_drafts_; }
  int64_t TakeDrafts(std::vector<TokenId> tokens) override;
  bool ParamsKnownAhead(int64_t tokens) const override;
  bool IsReached(const TurnRow& row) const override;
  int64_t SettleDrafts() override;
  bool scores_next() const override { return request().scored && scores_.scores_from(sequence()->computed()); }
  bool needs_results() const override { return request().scored && scores_.lacks_from(sequence()->computed()); }

 protected:
  void Start(const Tokenizer& tokenizer, int64_t vocab) override;

 private:
  /// Appends a token of the answer and prepares the next one.
  void Append(const OutputToken& token);
  /// Ends the turn if the answer is complete, or if its grammar has failed.
  void Follow(const Result<AnswerConstraint::Verdict>& verdict);
  /// The earlier occurrence of its last tokens that a draft continues; none if it can have no draft.
  NgramIndex::Match FindMatch();
  /// `tokens` up to the first that the answer cannot have.
  std::vector<TokenId> Possible(std::vector<TokenId> tokens) const;
  /// Maximum number of draft tokens: the turn may keep them all, and the cache can drop them all.
  int64_t MaxDrafts() const;
  /// Ends the turn if its answer repeats itself.
  void CheckRepetition(TokenId id);

  PromptScores scores_;             // with TurnRequest::scored
  std::optional<Sampler> sampler_;  // this and the next one from Start on
  std::optional<AnswerConstraint> constraint_;
  RepetitionGuard repetition_;
  bool ahead_ = false;  // the token being sampled has been fed
  NgramIndex ngrams_;
  int64_t matched_ = 0;        // NgramIndex::Match::matched of the draft; 0: it is the draft layer's
  int64_t wanted_drafts_ = 0;  // tokens that the draft layer should draft
  // In that case, what a match would have drafted: to know how often that is right, too.
  int64_t other_match_ = 0;
  std::vector<TokenId> other_draft_;
  std::vector<TokenId> draft_;  // planned for the next step
  // The input of the step in flight if it has drafts: the last token, at position `verified_from_`, and the draft.
  std::vector<TokenId> verified_;
  int64_t verified_from_ = 0;
};

}  // namespace ringside
