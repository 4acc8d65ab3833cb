// Beam search over answers: which of a turn's beams go on with which tokens, and when the best answer is found. It sees
// log probabilities only; the beams' caches are BeamCaches'. As Hugging Face's generate(num_beams=...) does it:
//
//  - Bans, biases and penalties edit the log probabilities, which are not normalised again (TokenChoice's
//    edits_logprobs): what a ban takes is not shared out among the other tokens.
//  - A step looks at every beam's likeliest tokens and ranks what each would make of it by the sum of its log
//    probabilities, minus diversity_rate times the token's rank among its beam's (0 = the likeliest; Li, Monroe and
//    Jurafsky 2016). Equal ones: the earlier beam first, then the lower id.
//  - Of the first `width` those that end the answer are answers; the first `width` that do not end it are the beams
//    from then on. An answer of n tokens has the score sum / n^length_penalty; the best `width` answers are kept.
//  - The search ends when no beam is left, or, with as many answers as beams, at once (early_stopping kYes), or when
//    the best beam, scored as if it ended at its length (kNever and a positive penalty: at max_tokens), is no better
//    than the worst answer kept.
//
// One turn's; engine thread only.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "engine/sampling/sampling.h"
#include "engine/text/channels/answer_reader.h"

namespace ringside {

class BeamSearch {
 public:
  struct Beam {
    std::vector<TokenId> tokens;  // of the answer so far
    double sum = 0;               // of their log probabilities
    Sampler sampler;
    AnswerReader reader;
  };

  /// Begins with one beam, `first`, that has no tokens. `max_tokens`: of an answer, at least 1. `ends`: how many ids
  /// end one.
  BeamSearch(const BeamParams& params, int64_t max_tokens, size_t ends, Beam first);

  size_t beams() const { return beams_.size(); }
  const Beam& beam(size_t i) const { return beams_[i]; }
  /// How a beam's next tokens are looked for; it borrows from the beam. `position` is the next token's.
  TokenChoice Choice(size_t beam, int64_t position);
  /// Takes what was found for every beam, in order. kUnavailable if a beam's logits are not finite; kInvalidArgument
  /// if no beam may go on.
  Status Advance(std::span<const ChosenToken> found);

  // Of the last Advance.
  /// The beam before it of which each of today's was made.
  std::span<const size_t> parents() const { return parents_; }
  /// The beam before it of which the best answer was made, if it was made then.
  std::optional<size_t> parent_of_best() const { return parent_of_best_; }
  /// The best answer is found.
  bool done() const { return done_; }
  /// What the answer begins with, whichever it will be; all of it once it is found.
  std::span<const TokenId> settled() const;

 private:
  struct Candidate {
    size_t beam;
    TokenId token;
    double sum, rank_score;
  };
  struct Answer {
    std::vector<TokenId> tokens;
    double score;
  };

  std::vector<Candidate> Rank(std::span<const ChosenToken> found) const;
  double Score(double sum, int64_t tokens) const;
  void AddAnswer(const Candidate& last);
  bool IsDone() const;
  void FindSettled();

  const BeamParams params_;
  const int64_t max_tokens_;
  const int64_t looked_at_;  // tokens of a beam
  std::vector<Beam> beams_;
  std::vector<size_t> parents_;
  std::optional<size_t> parent_of_best_;
  std::vector<Answer> answers_;  // best first
  size_t settled_ = 0;           // tokens
  bool done_ = false;
};

}  // namespace ringside
