// What a turn's next token depends on: its sampling parameters and its sampler, which turns them and the timeline into
// plain data. A backend chooses by that (kernels/token_choice.h, where order and definitions are).
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/status.h"
#include "engine/text/tokenizer.h"
#include "kernels/token_choice.h"

namespace ringside {

/// Beam search in place of drawing: see BeamSearch.
struct BeamParams {
  int64_t width = 1;            // 1 = none; 2 .. limits::kMaxBeamWidth
  double length_penalty = 1.0;  // [-10, 10]; an answer's score is its log probability / tokens^length_penalty
  enum class EarlyStopping { kNo, kYes, kNever } early_stopping = EarlyStopping::kNo;
  double diversity_rate = 0.0;  // [0, 100]; what a token's rank among its beam's costs where beams are chosen

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
  uint64_t seed = 0;                // with the position: the whole state of the generator
  int64_t min_tokens = 0;           // ends of turn and stop rules are off before this many new tokens
  int64_t logprobs = -1;            // -1 = none; n = the chosen token's and the n best (<= 20)
  double top_p_decay = 1.0;         // factual nucleus (Lee et al. 2022): p = max(p * decay, min) after every token,
  double top_p_min = 1e-6;          // back to top_p after top_p_reset
  TokenId top_p_reset = -1;
  std::vector<std::pair<TokenId, float>> logit_bias;
  BeamParams beams;                             // needs temperature 0 and no log probabilities
  std::vector<std::vector<TokenId>> bad_words;  // the last id of a sequence is banned where the ones before it match

  /// kInvalidArgument with `param` (the wire's name) for the first value out of range (NaN included).
  Status Validate(int64_t vocab) const;
};

/// Knows how a turn's tokens are chosen. Everything it depends on is the parameters, the token history and the
/// position, so it is rebuilt after a resume from ids alone: construct it with the history up to the answer, then
/// Append the answer's tokens so far. Engine thread.
class Sampler {
 public:
  /// `params` must have passed Validate(vocab). `history`: every token of the timeline before the answer; read here,
  /// not kept. `end_of_turn`: ids suppressed while under min_tokens.
  Sampler(SamplingParams params, int64_t vocab, std::span<const TokenId> history, std::span<const TokenId> end_of_turn);

  /// How the token for `position` (the new token's own) is chosen. It borrows from the sampler until the next call.
  /// Bad words and penalties apply only in the answer.
  TokenChoice Choice(int64_t position, bool in_answer = true);
  /// Whether the choice after the next token's does not depend on which token that is.
  bool Foresees() const;
  /// Tells the sampler that `id` was appended.
  void Append(TokenId id);
  /// Tells it that a token was appended that is not the answer's: of reasoning, or markup of channels.
  void Skip() { ++new_tokens_; }

 private:
  void MergeBiases();
  void NoteSeen(TokenId id);

  SamplingParams params_;
  int64_t vocab_;
  std::vector<TokenId> end_of_turn_;
  std::vector<TokenId> tail_;      // the last tokens of the timeline, as many as the longest bad word needs
  size_t tail_tokens_ = 0;         // that many
  std::vector<uint8_t> seen_;      // [vocab]: occurs anywhere in the timeline; empty without its penalty
  std::vector<TokenId> distinct_;  // the ids marked in seen_
  std::vector<std::pair<TokenId, int32_t>> counts_;  // times each token occurs in this turn's new tokens
  std::unordered_map<TokenId, size_t> places_;       // in counts_
  std::vector<TokenId> banned_;                      // of the choice at hand
  int64_t new_tokens_ = 0;
  double top_p_now_ = 1.0;
};

/// Why a row of logits gave no token: kUnavailable if a logit is NaN or +inf or none is finite ("NaN or Inf logits end
/// that turn only"), kInvalidArgument if the bans leave no token.
Status StatusOf(const ChosenToken& token);

}  // namespace ringside
