#include "kernels/cpu/token_sampler.h"

#include <cmath>
#include <limits>

#include "base/check.h"

namespace ringside::cpu {
namespace {

constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

// An extreme combination of penalty and logit must not become an infinity, which would act as a ban or corrupt the
// sums.
float Bounded(double logit) {
  constexpr double kLimit = std::numeric_limits<float>::max();
  return static_cast<float>(std::clamp(logit, -kLimit, kLimit));
}

/// True if a ban removed a token that the model allows.
bool ApplyBans(std::span<float> logits, const RowSamplingParams& params) {
  bool any_removed = false;
  const auto ban = [&](size_t id) {
    any_removed |= logits[id] != kMinusInfinity;
    logits[id] = kMinusInfinity;
  };
  for (const int32_t id : params.banned) ban(static_cast<size_t>(id));
  for (size_t word = 0; word < params.allowed.size(); ++word) {
    const uint32_t bits = params.allowed[word];
    if (bits == UINT32_MAX) continue;
    const size_t end = std::min((word + 1) * 32, logits.size());
    for (size_t id = word * 32; id < end; ++id) {
      if ((bits >> (id % 32) & 1) == 0) ban(id);
    }
  }
  return any_removed;
}

void ApplyBiasAndPenalties(std::span<float> logits, const RowSamplingParams& params) {
  for (const auto& [id, bias] : params.bias) {
    if (logits[id] != kMinusInfinity) logits[id] = Bounded(double{logits[id]} + bias);
  }
  const double r = params.repetition_penalty;
  for (const int32_t id : params.repeated) {
    const double logit = logits[id];
    if (logits[id] != kMinusInfinity) logits[id] = Bounded(logit < 0 ? logit * r : logit / r);
  }
  for (const auto& [id, count] : params.counted) {
    if (logits[id] == kMinusInfinity) continue;
    logits[id] = Bounded(logits[id] - params.presence_penalty - params.frequency_penalty * count);
  }
}

}  // namespace

SampledToken TokenSampler::Choose(std::span<float> logits, const RowSamplingParams& params) {
  CHECK(params.allowed.empty() || params.allowed.size() * 32 >= logits.size());
  SampledToken token;
  token.outcome = SampledToken::Outcome::kNonFinite;
  if (!VocabularyPasses::AllUsable(logits)) return token;
  if (params.edits_logprobs) ReplaceByLogprobs(logits);
  const bool banned = ApplyBans(logits, params);
  ApplyBiasAndPenalties(logits, params);
  const auto [max, best] = passes_.FindBest(logits);
  if (max == kMinusInfinity) {
    if (banned) token.outcome = SampledToken::Outcome::kNoTokenAllowed;
    return token;
  }
  token.outcome = SampledToken::Outcome::kChosen;
  token.id = params.scored >= 0 ? params.scored : params.greedy() ? best : Draw(logits, max, params);
  if (params.logprobs >= 0) {
    const double log_sum = params.edits_logprobs ? 0 : max + std::log(passes_.SumWeights(logits, 1.0f));
    FillLogprobs(logits, log_sum, params.logprobs, token);
  }
  return token;
}

void TokenSampler::ReplaceByLogprobs(std::span<float> logits) {
  const float max = passes_.FindBest(logits).first;
  if (max == kMinusInfinity) return;
  const double log_sum = max + std::log(passes_.SumWeights(logits, 1.0f));
  for (float& logit : logits) {
    if (logit != kMinusInfinity) logit = Bounded(logit - log_sum);
  }
}

Candidate TokenSampler::FindBest(std::span<const float> logits) {
  if (!VocabularyPasses::AllUsable(logits)) return {std::numeric_limits<float>::quiet_NaN(), 0};
  return passes_.FindBest(logits);
}

int32_t TokenSampler::Draw(std::span<const float> logits, float max, const RowSamplingParams& params) {
  const float inverse_temperature = params.inverse_temperature();
  const auto vocab = static_cast<int64_t>(logits.size());
  const bool cut_k = params.top_k > 0 && params.top_k < vocab;
  const bool cut_p = params.top_p < 1.0;
  const bool cut_min = params.min_p > 0;
  if (!cut_k && !cut_p && !cut_min) return passes_.Draw(logits, inverse_temperature, params.uniform);

  // Gathers only tokens that can survive the cuts; `slack` keeps rounding from dropping a token that would survive.
  candidates_.clear();
  double whole = 0;
  if (cut_k) {
    passes_.GatherAtLeast(logits, passes_.LowerBoundOfTop(params.top_k), candidates_);
    CutTopK(static_cast<size_t>(params.top_k));
    for (const Candidate& c : candidates_) whole += SoftmaxWeight(c.first, max, inverse_temperature);
  } else {
    double least = params.min_p;
    if (cut_p) {
      // All tokens lighter than this weigh less than 1 - top_p of the total together, so the nucleus excludes them.
      whole = passes_.SumWeights(logits, inverse_temperature);
      least = (1.0 - params.top_p) * whole / static_cast<double>(vocab);
    }
    const double slack = 1e-4 * (1 + params.temperature) + 1e-6 * std::abs(double{max});
    const double threshold = max + params.temperature * std::log(least) - slack;
    passes_.GatherAtLeast(logits, Bounded(threshold), candidates_);
  }
  if (cut_p) CutTopP(params.top_p * whole, max, inverse_temperature);

  double kept = 0;
  const double least_weight = cut_min ? params.min_p : 0;
  for (const Candidate& c : candidates_) {
    const double weight = SoftmaxWeight(c.first, max, inverse_temperature);
    if (weight >= least_weight) kept += weight;
  }
  const double target = params.uniform * kept;
  double sum = 0;
  int32_t sampled = 0;
  for (const auto& [logit, id] : candidates_) {
    const double weight = SoftmaxWeight(logit, max, inverse_temperature);
    if (weight <= 0 || weight < least_weight) continue;
    sampled = id;
    sum += weight;
    if (target < sum) break;
  }
  return sampled;
}

// Keeps the k best candidates, in id order.
void TokenSampler::CutTopK(size_t k) {
  if (candidates_.size() <= k) return;
  ranked_ = candidates_;
  std::nth_element(ranked_.begin(), ranked_.begin() + static_cast<std::ptrdiff_t>(k - 1), ranked_.end(), Better);
  const Candidate last = ranked_[k - 1];
  std::erase_if(candidates_, [&](const Candidate& c) { return Better(last, c); });
}

// Keeps the shortest run of best candidates whose weights reach `wanted`, in id order.
void TokenSampler::CutTopP(double wanted, float max, float inverse_temperature) {
  const auto worse = [](const Candidate& a, const Candidate& b) { return Better(b, a); };
  ranked_ = candidates_;
  std::make_heap(ranked_.begin(), ranked_.end(), worse);  // a heap, because the nucleus is usually a small part
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

void TokenSampler::FillLogprobs(std::span<const float> logits, double log_sum, int64_t best, SampledToken& token) {
  CHECK_LE(best, limits::kMaxBestTokens);
  token.logprob = static_cast<float>(logits[token.id] - log_sum);
  if (best == 0) return;
  ranked_.clear();
  best = std::min(best, static_cast<int64_t>(logits.size()));
  passes_.GatherAtLeast(logits, passes_.LowerBoundOfTop(best), ranked_);
  const size_t count = std::min(static_cast<size_t>(best), ranked_.size());
  std::partial_sort(ranked_.begin(), ranked_.begin() + static_cast<std::ptrdiff_t>(count), ranked_.end(), Better);
  for (const auto& [logit, id] : std::span(ranked_).first(count)) {
    token.top[token.tops++] = {id, static_cast<float>(logit - log_sum)};
  }
}

}  // namespace ringside::cpu
