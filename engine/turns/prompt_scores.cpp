#include "engine/turns/prompt_scores.h"

#include <utility>

#include "base/check.h"

namespace ringside {

void PromptScores::Begin(const TurnRequest& request) {
  prompt_tokens_ = std::ssize(request.tokens);
  scored_.push_back({.id = request.tokens.front()});
}

RowSamplingParams PromptScores::ParamsAt(int64_t position, const TurnRequest& request) const {
  RowSamplingParams params;
  params.temperature = 0;
  params.logprobs = request.sampling.logprobs;
  if (position < prompt_tokens_) params.scored = request.tokens[static_cast<size_t>(position)];
  return params;
}

Status PromptScores::Store(int64_t position, const SampledToken& token) {
  RETURN_IF_ERROR(StatusOf(token));
  // Others are recomputed, because the turn lost its cache meanwhile.
  if (position == std::ssize(scored_) && position < prompt_tokens_) {
    scored_.push_back({token.id, token.logprob, {token.best().begin(), token.best().end()}});
  }
  return Status::Ok();
}

void PromptScores::Report(TokenSink& sink) {
  if (std::exchange(reported_, true)) return;
  CHECK_EQ(std::ssize(scored_), prompt_tokens_);
  sink.OnScored(std::move(scored_));
}

}  // namespace ringside
