#include "engine/turns/generation_turn.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/defect.h"
#include "engine/vision/image_tokens.h"

namespace ringside {

void GenerationTurn::Start(const Tokenizer& tokenizer, int64_t vocab) {
  if (request().scored) scores_.Begin(request());
  const std::span<const TokenId> tokens = request().tokens;
  sampler_.emplace(request().sampling, vocab, tokens.subspan(static_cast<size_t>(request().virtual_tokens)),
                   request().stop_ids);
  constraint_.emplace(request(), tokenizer, vocab, stream().reader());
  if (Status begun = constraint_->Begin(); !begun.ok()) return Finish(FinishReason::kError, std::move(begun));
  constraint_->CheckBudget(stream().budget_used());
  Follow(constraint_->FindAllowed());
  CheckLimits();
}

int64_t GenerationTurn::max_reusable() const {
  return request().scored && !scores_.reported() ? scores_.max_reusable() : RunningTurn::max_reusable();
}

TurnRows GenerationTurn::NextRows(int64_t limit) {
  if (remaining() != 1 || limit == 1) return PromptRows(limit, scores_next());
  CHECK_LE(limit - 1, std::ssize(draft_));
  verified_from_ = sequence()->computed();
  verified_ = {request().tokens.back()};
  verified_.insert(verified_.end(), draft_.begin(), draft_.begin() + limit - 1);
  TurnRows rows;
  rows.parts.push_back({sequence()->cache(), verified_, StepPart::Logits::kAll, request().adapter});
  for (int64_t row = 0; row < limit; ++row) rows.logits.push_back({.drafted = row});
  return rows;
}

int64_t GenerationTurn::MaxDrafts() const {
  if (scores_next() || IsImageToken(request().tokens.back())) return 0;
  int64_t most = std::min(session_len() - std::ssize(request().tokens) - 1, sequence()->cache()->retractable_rows());
  if (request().max_tokens > 0) most = std::min(most, request().max_tokens - generated() - 1);
  return std::clamp<int64_t>(most, 0, DraftCosts::kMaxDrafts);
}

NgramIndex::Match GenerationTurn::FindMatch() {
  if (MaxDrafts() == 0) return {};
  return ngrams_.Find(std::span(request().tokens).subspan(static_cast<size_t>(request().virtual_tokens)));
}

bool GenerationTurn::ExpectsDraft(const DraftCosts& costs) {
  const int64_t most = MaxDrafts();
  return sequence()->draft_control().Expects({FindMatch().matched, most, most}, costs);
}

std::vector<TokenId> GenerationTurn::Possible(std::vector<TokenId> tokens) const {
  tokens.erase(std::ranges::find_if(tokens, IsImageToken), tokens.end());
  tokens.erase(std::ranges::find_first_of(tokens, request().stop_ids), tokens.end());
  if (!tokens.empty() && !constraint_->allows(tokens.front())) tokens.clear();
  return tokens;
}

int64_t GenerationTurn::PlanDrafts(const DraftCosts& costs) {
  draft_.clear();
  other_draft_.clear();
  wanted_drafts_ = 0;
  if (remaining() != 1) return 0;
  const int64_t most = MaxDrafts();
  const NgramIndex::Match match = FindMatch();
  if (match.matched > 0) {
    const auto tokens = std::span(request().tokens).subspan(static_cast<size_t>(request().virtual_tokens));
    draft_ = Possible(TokensAfter(tokens, match, most));
  }
  const DraftControl::Choice choice =
      sequence()->draft_control().Plan({match.matched, std::ssize(draft_), most}, costs);
  matched_ = choice.by_layer ? 0 : match.matched;
  if (choice.by_layer) wanted_drafts_ = choice.tokens, other_match_ = match.matched, other_draft_ = draft_;
  draft_.resize(choice.by_layer ? 0 : static_cast<size_t>(choice.tokens));
  return std::ssize(draft_);
}

int64_t GenerationTurn::TakeDrafts(std::vector<TokenId> tokens) {
  draft_ = Possible(std::move(tokens));
  return std::ssize(draft_);
}

bool GenerationTurn::IsReached(const TurnRow& row) const {
  const std::span<const TokenId> tokens = request().tokens;
  if (row.drafted == 0 || std::ssize(tokens) != verified_from_ + row.drafted + 1) return row.drafted == 0;
  return tokens.back() == verified_[static_cast<size_t>(row.drafted)] || RINGSIDE_DEFECT("draft_not_compared");
}

int64_t GenerationTurn::SettleDrafts() {
  if (verified_.empty()) return 0;
  const int64_t drafted = std::ssize(verified_) - 1;
  const int64_t accepted = std::max<int64_t>(std::ssize(request().tokens) - verified_from_ - 2, 0);
  sequence()->DropDrafts(verified_from_ + 1 + accepted);
  if (!finished()) sequence()->draft_control().Note(matched_, drafted, accepted);
  // How a draft from the match would have fared, as far as the answer goes.
  const auto answer = std::span(request().tokens).subspan(static_cast<size_t>(verified_from_ + 1));
  const auto known = std::min(std::ssize(other_draft_), std::ssize(answer));
  const auto right = std::ranges::mismatch(other_draft_, answer).in1 - other_draft_.begin();
  if (!finished() && known > 0) sequence()->draft_control().Note(other_match_, known, right);
  draft_report().steps += 1;
  draft_report().drafted += drafted;
  draft_report().accepted += accepted;
  verified_.clear();
  return accepted;
}

void GenerationTurn::OnLaunched(std::span<const TokenId> tokens, bool awaits) {
  if (!verified_.empty()) SetRemaining(std::ssize(tokens));
  awaits ? void(ahead_ = true) : AdvancePosition(tokens);
}

RunningTurn::RunAhead GenerationTurn::run_ahead() const {
  const bool may_continue = remaining() == 0 && !ahead_ && std::ssize(request().tokens) + 1 < session_len() &&
                            (request().max_tokens < 0 || generated() + 1 < request().max_tokens);
  if (!may_continue) return RunAhead::kNo;
  return ParamsKnownAhead(1) ? RunAhead::kYes : RunAhead::kDeferred;
}

bool GenerationTurn::ParamsKnownAhead(int64_t tokens) const {
  return constraint_->is_known_ahead(stream().budget_used(), tokens) && sampler_->ParamsKnownAhead();
}

RowSamplingParams GenerationTurn::Params(const TurnRow& row) {
  if (!row.samples()) return scores_.ParamsAt(row.scored, request());
  const int64_t position = verified_.empty() ? std::ssize(request().tokens) : verified_from_ + 1 + row.drafted;
  if (row.awaits) return sampler_->Choice(position + 1);
  const AnswerReader& reader = stream().reader();
  RowSamplingParams params = sampler_->Choice(position, reader.in_answer() || reader.undecided());
  params.allowed = constraint_->allowed();
  return params;
}

void GenerationTurn::Take(const TurnRow& row, const SampledToken& token, int64_t now_ns) {
  if (row.samples()) NoteToken(now_ns);
  Status status = row.samples() ? StatusOf(token) : scores_.Store(row.scored, token);
  if (!status.ok()) return Finish(FinishReason::kError, std::move(status));
  if (!row.samples()) return;
  if (request().scored) scores_.Report(sink());
  Append({token.id, token.logprob, {token.best().begin(), token.best().end()}});
}

void GenerationTurn::Append(const OutputToken& token) {
  const TokenId id = token.id;
  AppendToTimeline(id);
  if (std::exchange(ahead_, false)) AdvancePosition(std::span(request().tokens).last(1));
  const AnswerConstraint::Before before = constraint_->Expect(id);
  const AnswerReader::Step step = stream().reader().Push(id);
  step.reasoning_token ? sampler_->Skip() : sampler_->Append(id);
  Emit(token, step);
  if (finished()) return;
  Follow(constraint_->Take(id, step, before));
  if (finished()) return;
  constraint_->CheckBudget(stream().budget_used());
  Follow(constraint_->FindAllowed());
  if (finished()) return;
  if (request().ends_repetition) CheckRepetition(id);
  CheckLimits();
}

void GenerationTurn::Follow(const Result<AnswerConstraint::Verdict>& verdict) {
  if (!verdict.ok()) return Finish(FinishReason::kError, verdict.status());
  if (*verdict == AnswerConstraint::Verdict::kComplete) Finish(FinishReason::kStop);
}

void GenerationTurn::CheckRepetition(TokenId id) {
  if (!repetition_.Push(id) || generated() < request().sampling.min_tokens) return;
  if (constraint_->may_end()) Finish(FinishReason::kRepetition);
}

}  // namespace ringside
