// How a token is chosen. The order, and every definition, is a contract with the client:
//
//  1. A NaN or +inf logit, or none finite, ends the turn; -inf is a token the model itself excludes.
//  2. Bans: a bad word's last id where the ids before it match the end of the timeline (prompt included); every
//     end-of-turn id while the answer has fewer than min_tokens tokens. A banned token has logit -inf from here on.
//  3. logit_bias is added.
//  4. repetition_penalty r (CTRL): l < 0 ? l * r : l / r, once for every distinct token anywhere in the timeline,
//  inside
//     the ring or not. Then presence_penalty and frequency_penalty as OpenAI defines them: l -= presence + frequency *
//     count, over the tokens generated in this turn. Penalties come before temperature, as in Hugging Face, vLLM and
//     OpenAI (FasterTransformer divides by the temperature first): so a penalty's strength, and the log probabilities,
//     do not change with the temperature, and r divides the logits that the model gave.
//  5. Log probabilities: log softmax of these logits, before temperature and cuts (FasterTransformer mixes
//     conditional and unconditional ones, after temperature). top_logprobs are the best of the same distribution.
//  6. temperature 0, or top_k 1: the highest logit, ties to the lowest id. Nothing below applies.
//  7. Weights w = exp((l - max) / temperature), float, summed in double.
//  8. top_k keeps the k best (ties to the lowest id). top_p then keeps the shortest run of the best tokens whose
//  weights
//     reach top_p of the weights left; the token that crosses the border is kept whole and what is kept is renormalised
//     (FasterTransformer keeps only the part of it inside). min_p then keeps weights of at least min_p of the best.
//  9. The draw walks the kept tokens in id order until the running sum exceeds u times the whole; u comes from
//     Philox4x32-10 with key = seed, counter = position. The same seed and logits give the same token in any batch and
//     after a resume.
// 10. After each token top_p becomes top_p again if it is top_p_reset, else max(top_p_now * top_p_decay, top_p_min)
//     (factual nucleus, Lee et al. 2022), with or without top_k; every turn starts at top_p.

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "engine/philox.h"
#include "engine/sampling.h"

namespace ringside {
namespace {

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

// A hostile combination of penalty and logit must not become an infinity, which would read as a ban or poison the sums.
float Bounded(double logit) {
  constexpr double kLimit = std::numeric_limits<float>::max();
  return static_cast<float>(std::clamp(logit, -kLimit, kLimit));
}

}  // namespace

Sampler::Sampler(SamplingParams params, int64_t vocab, std::span<const TokenId> history,
                 std::span<const TokenId> end_of_turn)
    : params_(std::move(params)),
      vocab_(vocab),
      end_of_turn_(end_of_turn.begin(), end_of_turn.end()),
      top_p_now_(params_.top_p) {
  CHECK_GT(vocab, 0);
  for (const auto& word : params_.bad_words) tail_tokens_ = std::max(tail_tokens_, word.size() - 1);
  const size_t kept = std::min(tail_tokens_, history.size());
  tail_.assign(history.end() - static_cast<std::ptrdiff_t>(kept), history.end());
  if (params_.repetition_penalty != 1.0) {
    seen_.assign(static_cast<size_t>(vocab), 0);
    for (const TokenId id : history) NoteSeen(id);
  }
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
  if (params_.presence_penalty != 0 || params_.frequency_penalty != 0) ++counts_[id];
  top_p_now_ =
      id == params_.top_p_reset ? params_.top_p : std::max(top_p_now_ * params_.top_p_decay, params_.top_p_min);
}

void Sampler::ApplyBans(std::span<float> logits) const {
  for (const auto& word : params_.bad_words) {
    const size_t before = word.size() - 1;
    if (before <= tail_.size() &&
        std::equal(word.begin(), word.end() - 1, tail_.end() - static_cast<std::ptrdiff_t>(before))) {
      logits[word.back()] = kMinusInfinity;
    }
  }
  if (new_tokens_ < params_.min_tokens) {
    for (const TokenId id : end_of_turn_) {
      if (id >= 0 && id < vocab_) logits[id] = kMinusInfinity;
    }
  }
}

void Sampler::ApplyBiasAndPenalties(std::span<float> logits) const {
  for (const auto& [id, bias] : params_.logit_bias) {
    if (logits[id] != kMinusInfinity) logits[id] = Bounded(double{logits[id]} + bias);
  }
  const double r = params_.repetition_penalty;
  for (const TokenId id : distinct_) {
    const double logit = logits[id];
    if (logits[id] != kMinusInfinity) logits[id] = Bounded(logit < 0 ? logit * r : logit / r);
  }
  for (const auto& [id, count] : counts_) {
    if (logits[id] == kMinusInfinity) continue;
    logits[id] = Bounded(logits[id] - params_.presence_penalty - params_.frequency_penalty * count);
  }
}

Result<SampledToken> Sampler::Sample(std::span<float> logits, int64_t position) {
  CHECK_EQ(static_cast<int64_t>(logits.size()), vocab_);
  if (!VocabularyPasses::AllUsable(logits)) return Unavailable("the model produced logits that are not finite");
  ApplyBans(logits);
  ApplyBiasAndPenalties(logits);
  const auto [max, best] = passes_.FindBest(logits);
  if (max == kMinusInfinity) return InvalidArgument("bad_words and min_tokens leave no token to choose", "bad_words");

  SampledToken token;
  const bool greedy = params_.temperature == 0 || params_.top_k == 1;
  token.id = greedy ? best : Draw(logits, max, UniformAt(params_.seed, static_cast<uint64_t>(position)));
  if (params_.logprobs >= 0) FillLogprobs(logits, max, token);
  return token;
}

TokenId Sampler::Draw(std::span<const float> logits, float max, double uniform) {
  // Bounded, so that 0 * inf cannot arise: at 1e30 the weights are those of greedy anyway.
  const float inverse_temperature = static_cast<float>(std::min(1.0 / params_.temperature, 1e30));
  const bool cut_k = params_.top_k > 0 && params_.top_k < vocab_;
  const bool cut_p = top_p_now_ < 1.0;
  const bool cut_min = params_.min_p > 0;
  if (!cut_k && !cut_p && !cut_min) return passes_.Draw(logits, inverse_temperature, uniform);

  // Only tokens that can survive the cuts are gathered; `slack` keeps rounding from dropping one too many.
  candidates_.clear();
  double whole = 0;
  if (cut_k) {
    passes_.GatherAtLeast(logits, passes_.LowerBoundOfTop(params_.top_k), candidates_);
    CutTopK();
    for (const Candidate& c : candidates_) whole += SoftmaxWeight(c.first, max, inverse_temperature);
  } else {
    double least = params_.min_p;
    if (cut_p) {
      // All tokens lighter than this weigh less than 1 - top_p of the whole together, so the nucleus is without them.
      whole = passes_.SumWeights(logits, inverse_temperature);
      least = (1.0 - top_p_now_) * whole / static_cast<double>(vocab_);
    }
    const double slack = 1e-4 * (1 + params_.temperature) + 1e-6 * std::abs(double{max});
    const double threshold = max + params_.temperature * std::log(least) - slack;
    passes_.GatherAtLeast(logits, Bounded(threshold), candidates_);
  }
  if (cut_p) CutTopP(whole, max, inverse_temperature);

  double kept = 0;
  const double least_weight = cut_min ? params_.min_p : 0;
  for (const Candidate& c : candidates_) {
    const double weight = SoftmaxWeight(c.first, max, inverse_temperature);
    if (weight >= least_weight) kept += weight;
  }
  const double target = uniform * kept;
  double sum = 0;
  TokenId chosen = 0;
  for (const auto& [logit, id] : candidates_) {
    const double weight = SoftmaxWeight(logit, max, inverse_temperature);
    if (weight <= 0 || weight < least_weight) continue;
    chosen = id;
    sum += weight;
    if (target < sum) break;
  }
  return chosen;
}

// Keeps the top_k best candidates, in id order.
void Sampler::CutTopK() {
  const size_t k = static_cast<size_t>(params_.top_k);
  if (candidates_.size() <= k) return;
  ranked_ = candidates_;
  std::nth_element(ranked_.begin(), ranked_.begin() + static_cast<std::ptrdiff_t>(k - 1), ranked_.end(), Better);
  const Candidate last = ranked_[k - 1];
  std::erase_if(candidates_, [&](const Candidate& c) { return Better(last, c); });
}

// Keeps the shortest run of best candidates whose weights reach top_p of `whole`, in id order.
void Sampler::CutTopP(double whole, float max, float inverse_temperature) {
  const auto worse = [](const Candidate& a, const Candidate& b) { return Better(b, a); };
  ranked_ = candidates_;
  std::make_heap(ranked_.begin(), ranked_.end(), worse);  // a heap, since the nucleus is most often a small part
  const double wanted = top_p_now_ * whole;
  double sum = 0;
  Candidate last{};
  for (auto end = ranked_.end(); end != ranked_.begin(); --end) {
    std::pop_heap(ranked_.begin(), end, worse);
    last = *(end - 1);
    sum += SoftmaxWeight(last.first, max, inverse_temperature);
    if (sum >= wanted) break;
  }
  std::erase_if(candidates_, [&](const Candidate& c) { return Better(last, c); });
}

void Sampler::FillLogprobs(std::span<const float> logits, float max, SampledToken& token) {
  const double log_sum = max + std::log(passes_.SumWeights(logits, 1.0f));
  token.logprob = static_cast<float>(logits[token.id] - log_sum);
  if (params_.logprobs == 0) return;
  ranked_.clear();
  passes_.GatherAtLeast(logits, passes_.LowerBoundOfTop(std::min(params_.logprobs, vocab_)), ranked_);
  const size_t count = std::min(static_cast<size_t>(params_.logprobs), ranked_.size());
  std::partial_sort(ranked_.begin(), ranked_.begin() + static_cast<std::ptrdiff_t>(count), ranked_.end(), Better);
  for (size_t i = 0; i < count; ++i) {
    token.top.push_back({ranked_[i].second, static_cast<float>(ranked_[i].first - log_sum)});
  }
}

}  // namespace ringside
