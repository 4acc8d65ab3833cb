#include "engine/turns/generation_turn.h"

#include <utility>

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

void GenerationTurn::OnLaunched(std::span<const TokenId> tokens, bool awaits) {
  awaits ? void(ahead_ = true) : AdvancePosition(tokens);
}

RunningTurn::RunAhead GenerationTurn::run_ahead() const {
  const bool may_continue = remaining() == 0 && !ahead_ && std::ssize(request().tokens) + 1 < session_len() &&
                            (request().max_tokens < 0 || generated() + 1 < request().max_tokens);
  if (!may_continue) return RunAhead::kNo;
  return constraint_->is_known_ahead(stream().budget_used()) && sampler_->ParamsKnownAhead() ? RunAhead::kYes
                                                                                             : RunAhead::kDeferred;
}

RowSamplingParams GenerationTurn::Params(const TurnRow& row) {
  if (!row.samples()) return scores_.ParamsAt(row.scored, request());
  const int64_t position = std::ssize(request().tokens);
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
