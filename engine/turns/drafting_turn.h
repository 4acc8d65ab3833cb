// A turn that can draft tokens, which its next step verifies. THREAD: engine.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/speculation/draft_control.h"
#include "engine/text/tokenizer.h"

namespace ringside {

struct TurnRow;

class DraftingTurn {
 public:
  virtual ~DraftingTurn() = default;

  /// True if it will probably draft tokens once the one that is being sampled is known. Called at most once per token.
  virtual bool ExpectsDraft(const DraftCosts& costs) = 0;
  /// Drafts tokens that its next step should verify, and returns their number. RunningTurn::NextRows then gets a limit
  /// of 1 + the number that the step has rows for.
  virtual int64_t PlanDrafts(const DraftCosts& costs) = 0;
  /// After PlanDrafts: the tokens that the draft layer should draft. 0 = none; the turn has drafted itself.
  virtual int64_t wanted_drafts() const = 0;
  /// In place of the tokens of PlanDrafts: those of the draft layer. Returns the number to verify.
  virtual int64_t TakeDrafts(std::vector<TokenId> tokens) = 0;
  /// True if the sampling parameters after the next 1 .. `tokens` tokens do not depend on them.
  virtual bool ParamsKnownAhead(int64_t tokens) const = 0;
  /// False for the row of a rejected draft token, or one after it: it is not sampled. Asked after RunningTurn::Take of
  /// the rows before it.
  virtual bool IsReached(const TurnRow& row) const = 0;
  /// After the last row of a step with drafts: drops those that were rejected from the cache. Returns the number of
  /// accepted ones, which are part of the timeline now.
  virtual int64_t SettleDrafts() = 0;
};

}  // namespace ringside
