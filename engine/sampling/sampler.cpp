// Computes the sampling parameters from the timeline. kernels/row_sampling_params.h defines how a token is sampled from
// logits and these parameters; their values are part of the contract with the client:
//
//  - A bad word's last id is banned where the ids before it match the end of the timeline (prompt included); every
//    end-of-turn id is banned while the answer has fewer than min_tokens tokens.
//  - repetition_penalty applies once to every distinct token anywhere in the timeline, inside the ring or not;
//    presence_penalty and frequency_penalty apply to the tokens generated in this turn.
//  - `uniform` comes from Philox4x32-10 with key = seed, counter = position: the same seed and logits give the same
//    token in any batch and after a resume.
//  - After each token top_p becomes the initial top_p if the token is top_p_reset, else max(top_p_now * top_p_decay,
//    top_p_min) (factual nucleus, Lee et al. 2022), with or without top_k; every turn starts at top_p.

#include <algorithm>

#include "base/check.h"
#include "base/philox.h"
#include "engine/sampling/sampling.h"
#include "engine/vision/image_tokens.h"

namespace ringside {

Sampler::Sampler(SamplingParams params, int64_t vocab, std::span<const TokenId> history,
                 std::span<const TokenId> end_of_turn)
    : params_(std::move(params)), vocab_(vocab), top_p_now_(params_.top_p) {
  CHECK_GT(vocab, 0);
  for (const TokenId id : end_of_turn) {
    if (id >= 0 && id < vocab) end_of_turn_.push_back(id);
  }
  MergeBiases();
  for (const auto& word : params_.bad_words) tail_tokens_ = std::max(tail_tokens_, word.size() - 1);
  const size_t kept = std::min(tail_tokens_, history.size());
  tail_.assign(history.end() - static_cast<std::ptrdiff_t>(kept), history.end());
  if (params_.repetition_penalty != 1.0) {
    seen_.assign(static_cast<size_t>(vocab), 0);
    for (const TokenId id : history) {
      if (!IsImageToken(id)) NoteSeen(id);
    }
  }
}

// A token that is listed more than once gets the sum.
void Sampler::MergeBiases() {
  auto& biases = params_.logit_bias;
  std::stable_sort(biases.begin(), biases.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  size_t used = 0;
  for (const auto& [id, bias] : biases) {
    if (used > 0 && biases[used - 1].first == id) {
      biases[used - 1].second += bias;
    } else {
      biases[used++] = {id, bias};
    }
  }
  biases.resize(used);
}

void Sampler::NoteSeen(TokenId id) {
  CHECK(id >= 0 && id < vocab_);
  if (seen_[id]) return;
  seen_[id] = 1;
  distinct_.push_back(id);
}

void Sampler::Append(TokenId id) {
  CHECK(id >= 0 && id < vocab_);
  ++new_tokens_;
  if (tail_tokens_ > 0) {
    if (tail_.size() == tail_tokens_) tail_.erase(tail_.begin());
    tail_.push_back(id);
  }
  if (!seen_.empty()) NoteSeen(id);
  if (params_.presence_penalty != 0 || params_.frequency_penalty != 0) {
    const auto [place, added] = places_.try_emplace(id, counts_.size());
    if (added) counts_.emplace_back(id, 0);
    ++counts_[place->second].second;
  }
  top_p_now_ =
      id == params_.top_p_reset ? params_.top_p : std::max(top_p_now_ * params_.top_p_decay, params_.top_p_min);
}

RowSamplingParams Sampler::Choice(int64_t position, bool in_answer) {
  banned_.clear();
  for (const auto& word : params_.bad_words) {
    if (!in_answer) break;
    const size_t before = word.size() - 1;
    if (before <= tail_.size() &&
        std::equal(word.begin(), word.end() - 1, tail_.end() - static_cast<std::ptrdiff_t>(before))) {
      banned_.push_back(word.back());
    }
  }
  if (new_tokens_ < params_.min_tokens) banned_.insert(banned_.end(), end_of_turn_.begin(), end_of_turn_.end());

  RowSamplingParams choice;
  choice.banned = banned_;
  choice.bias = params_.logit_bias;
  if (in_answer) {
    choice.repeated = distinct_;
    choice.counted = counts_;
  }
  choice.repetition_penalty = params_.repetition_penalty;
  choice.presence_penalty = params_.presence_penalty;
  choice.frequency_penalty = params_.frequency_penalty;
  choice.temperature = params_.temperature;
  choice.top_k = params_.top_k;
  choice.top_p = top_p_now_;
  choice.min_p = params_.min_p;
  choice.uniform = choice.greedy() ? 0 : UniformAt(params_.seed, static_cast<uint64_t>(position));
  choice.logprobs = params_.logprobs;
  return choice;
}

bool Sampler::ParamsKnownAhead() const {
  return params_.bad_words.empty() && params_.repetition_penalty == 1.0 && params_.presence_penalty == 0 &&
         params_.frequency_penalty == 0 && params_.top_p_decay == 1.0 && params_.top_p >= params_.top_p_min &&
         new_tokens_ >= params_.min_tokens;
}

Status StatusOf(const SampledToken& token) {
  switch (token.outcome) {
    case SampledToken::Outcome::kNonFinite:
      return Unavailable("the model produced logits that are not finite");
    case SampledToken::Outcome::kNoTokenAllowed:
      return InvalidArgument("bad_words, min_tokens and the format leave no token to choose", "bad_words");
    case SampledToken::Outcome::kChosen:
      break;
  }
  return Status::Ok();
}

}  // namespace ringside
