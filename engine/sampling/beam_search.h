// Beam search over answers: selects the beams and their next tokens, and decides when the best answer is found. Works
// on log probabilities only; BeamCaches has the beams' caches. Semantics of Hugging Face's generate(num_beams=...):
//
//  - Bans, biases and penalties edit the log probabilities, which are not renormalized (RowSamplingParams's
//  edits_logprobs):
//    the probability of banned tokens is not redistributed.
//  - A step takes every beam's likeliest tokens and ranks the resulting sequences by the sum of log probabilities,
//    minus diversity_rate times the token's rank within its beam (0 = the likeliest; Li, Monroe and Jurafsky 2016).
//    Ties: the earlier beam first, then the lower id.
//  - Among the first `width`, those that end the answer are finished answers; the first `width` that do not end it are
//    the next beams. An answer of n tokens scores sum / n^length_penalty; the best `width` answers are kept.
//  - The search ends when no beam is left; or, once there are `width` answers, at once (early_stopping kYes), or when
//    the best beam, scored as if it ended at its length (kNever with a positive penalty: at max_tokens), is no better
//    than the worst kept answer.
//
// One per turn. THREAD: engine.
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
    std::vector<TokenId> tokens;  // the answer so far
    double sum = 0;               // of their log probabilities
    Sampler sampler;
    AnswerReader reader;
  };

  /// Starts with one beam, `first`, without tokens. `max_tokens`: limit of an answer, at least 1. `ends`: number of ids
  /// that end one.
  BeamSearch(const BeamParams& params, int64_t max_tokens, size_t ends, Beam first);

  size_t beams() const { return beams_.size(); }
  const Beam& beam(size_t i) const { return beams_[i]; }
  /// Parameters to find a beam's candidates; they borrow from the beam. `position`: the next token's.
  RowSamplingParams Choice(size_t beam, int64_t position);
  /// Processes the candidates of every beam, in order. ERRORS: kUnavailable if a beam's logits are not finite;
  /// kInvalidArgument if no beam can continue.
  Status Advance(std::span<const SampledToken> found);

  // Results of the last Advance.
  /// For each beam, the previous beam that it continues.
  std::span<const size_t> parents() const { return parents_; }
  /// The previous beam that the best answer ends, if it was found in this step.
  std::optional<size_t> parent_of_best() const { return parent_of_best_; }
  /// True once the best answer is found.
  bool done() const { return done_; }
  /// The prefix common to all possible results; the whole answer once it is found.
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

  std::vector<Candidate> Rank(std::span<const SampledToken> found) const;
  double Score(double sum, int64_t tokens) const;
  void AddAnswer(const Candidate& last);
  bool IsDone() const;
  void FindSettled();

  const BeamParams params_;
  const int64_t max_tokens_;
  const int64_t candidates_per_beam_;  // candidates per beam
  std::vector<Beam> beams_;
  std::vector<size_t> parents_;
  std::optional<size_t> parent_of_best_;
  std::vector<Answer> answers_;  // best first
  size_t settled_ = 0;           // number of tokens
  bool done_ = false;
};

}  // namespace ringside
