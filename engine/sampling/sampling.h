// A turn's sampling parameters, and its sampler, which combines them with the timeline into plain data. The backend
// samples from that data (kernels/row_sampling_params.h defines order and semantics).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/status.h"
#include "engine/text/tokenizer.h"
#include "kernels/row_sampling_params.h"

namespace ringside {

/// Beam search instead of sampling: see BeamSearch.
struct BeamParams {
  int64_t width = 1;            // 1 = off; 2 .. limits::kMaxBeamWidth
  double length_penalty = 1.0;  // [-10, 10]; an answer scores log probability / tokens^length_penalty
  enum class EarlyStopping { kNo, kYes, kNever } early_stopping = EarlyStopping::kNo;
  double diversity_rate = 0.0;  // [0, 100]; penalty per rank of a token within its beam

  bool searches() const { return width > 1; }
  friend bool operator==(const BeamParams&, const BeamParams&) = default;
};

struct SamplingParams {
  double temperature = 1.0;         // 0 = exact greedy, ties to the lowest id
  int64_t top_k = 0;                // 0 = off
  double top_p = 1.0;               // (0, 1]
  double min_p = 0.0;               // [0, 1]
  double repetition_penalty = 1.0;  // > 0; CTRL: l < 0 ? l * r : l / r, once per distinct token
  double presence_penalty = 0.0;    // [-2, 2]
  double frequency_penalty = 0.0;   // [-2, 2]
  uint64_t seed = 0;                // with the position, the whole state of the generator
  int64_t min_tokens = 0;           // end-of-turn ids and stop rules are off before this many new tokens
  int64_t logprobs = -1;            // -1 = none; n = the sampled token and the n best (<= 20)
  double top_p_decay = 1.0;         // factual nucleus (Lee et al. 2022): p = max(p * decay, min) after every token,
  double top_p_min = 1e-6;          // reset to top_p after top_p_reset
  TokenId top_p_reset = -1;
  std::vector<std::pair<TokenId, float>> logit_bias;
  BeamParams beams;                             // requires temperature 0 and no log probabilities
  std::vector<std::vector<TokenId>> bad_words;  // the last id of a sequence is banned where the ones before it match

  /// ERRORS: kInvalidArgument with `param` (the wire name) for the first value out of range (NaN included).
  Status Validate(int64_t vocab) const;
};

/// Computes a turn's sampling parameters token by token. A function of the parameters, the token history and the
/// position, so it can be rebuilt after a resume from ids alone: construct it with the history up to the answer, then
/// Append the answer's tokens so far. THREAD: engine.
class Sampler {
 public:
  /// `history`: every token of the timeline before the answer; not kept. `end_of_turn`: ids suppressed below
  /// min_tokens. REQUIRES: `params` passed Validate(vocab).
  Sampler(SamplingParams params, int64_t vocab, std::span<const TokenId> history, std::span<const TokenId> end_of_turn);

  /// Sampling parameters of the token at `position` (the new token's own), borrowed from the sampler until the next
  /// call. Bad words and penalties apply only in the answer.
  RowSamplingParams Choice(int64_t position, bool in_answer = true);
  /// True if the parameters after the next token do not depend on that token.
  bool ParamsKnownAhead() const;
  /// Records that `id` was appended.
  void Append(TokenId id);
  /// Records an appended token outside the answer: reasoning, or channel markup.
  void Skip() { ++new_tokens_; }

 private:
  void MergeBiases();
  void NoteSeen(TokenId id);

  SamplingParams params_;
  int64_t vocab_;
  std::vector<TokenId> end_of_turn_;
  std::vector<TokenId> tail_;      // end of the timeline, up to the length of the longest bad word
  size_t tail_tokens_ = 0;         // that length
  std::vector<uint8_t> seen_;      // [vocab]: occurs anywhere in the timeline; empty without the penalty
  std::vector<TokenId> distinct_;  // ids marked in seen_
  std::vector<std::pair<TokenId, int32_t>> counts_;  // occurrences of each token among this turn's new tokens
  std::unordered_map<TokenId, size_t> places_;       // index in counts_
  std::vector<TokenId> banned_;                      // of the current choice
  int64_t new_tokens_ = 0;
  double top_p_now_ = 1.0;
};

/// The error of a row of logits without a token: kUnavailable if a logit is NaN or +inf or none is finite (this ends
/// only its own turn), kInvalidArgument if the bans leave no token.
Status StatusOf(const SampledToken& token);

}  // namespace ringside
