// The log probabilities of a prompt's tokens, collected over its steps and kept when the turn loses its cache. One per
// turn with TurnRequest::scored. THREAD: engine.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/status.h"
#include "engine/sampling/sampling.h"
#include "engine/token_sink.h"
#include "engine/turn_request.h"

namespace ringside {

class PromptScores {
 public:
  /// Starts with the first token, which has no score. REQUIRES: called once, before the others but max_reusable.
  void Begin(const TurnRequest& request);
  bool reported() const { return reported_; }
  /// True if all tokens have scores.
  bool complete() const { return std::ssize(scored_) >= prompt_tokens_; }
  /// Tokens that may come from a cache: those whose rows score no token without a score.
  int64_t max_reusable() const { return std::max<int64_t>(std::ssize(scored_) - 1, 0); }
  /// True if the rows from `position` on score tokens.
  bool scores_from(int64_t position) const { return position < prompt_tokens_; }
  /// True if they score tokens without a score.
  bool lacks_from(int64_t position) const { return !reported_ && position + 1 >= std::ssize(scored_); }
  /// Parameters of the row that scores the token at `position`, up to the first one after the prompt.
  RowSamplingParams ParamsAt(int64_t position, const TurnRequest& request) const;
  /// Stores a score. ERRORS: the row's.
  Status Store(int64_t position, const SampledToken& token);
  /// Sends all scores to the sink, once. REQUIRES: complete().
  void Report(TokenSink& sink);

 private:
  int64_t prompt_tokens_ = 0;
  std::vector<OutputToken> scored_;  // so far, until reported
  bool reported_ = false;
};

}  // namespace ringside
