// Sampling parameters of one row of logits and the sampled token, as plain data: passed from the engine's sampler to a
// backend and back. The order of the steps, and every definition, is a contract with the client:
//
//  1. A NaN or +inf logit, or no finite one, ends the turn; -inf is a token that the model itself excludes.
//  2. Bans: a banned token, and one not in `allowed`, has logit -inf from here on.
//  3. logit_bias is added.
//  4. repetition_penalty r (CTRL, Keskar et al. 2019): l < 0 ? l * r : l / r. Then presence_penalty and
//     frequency_penalty as OpenAI defines them: l -= presence + frequency * count. Penalties come before temperature,
//     as in Hugging Face, vLLM and OpenAI (FasterTransformer divides by the temperature first). So neither a penalty's
//     strength nor the log probabilities change with the temperature, and r divides the model's own logits.
//  5. Log probabilities: log softmax of these logits, before temperature and cuts (FasterTransformer mixes
//     conditional and unconditional ones, after temperature). The top ones are from the same distribution.
//     With `edits_logprobs` steps 2 to 4 edit the log softmax of the model's logits, and the results are the log
//     probabilities without renormalization: the scores of Hugging Face's beam search.
//  6. temperature 0, or top_k 1: the highest logit, ties to the lowest id; for a token that is only scored, that token
//     whatever its logit. Nothing below applies.
//  7. Weights w = exp((l - max) / temperature), in float: SoftmaxWeight.
//  8. top_k keeps the k best (ties to the lowest id). top_p then keeps the shortest run of the best tokens whose
//     weights reach top_p of the weights left. The token that crosses the border is kept as a whole, and the kept
//     weights are renormalized (FasterTransformer keeps only the part inside). min_p then keeps weights of at least
//     min_p of the best.
//  9. The draw walks the kept tokens in id order until the running sum exceeds `uniform` times the total.
//
// Backends agree on every logit, weight and greedy choice bit for bit. They sum weights in different orders (the CPU in
// double, CUDA in 64-bit fixed point), so a cut or a draw may differ if a sum is within 1e-9 of the total of its
// border, and log probabilities may differ in the last digits.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <span>
#include <utility>

#include "base/limits.h"

namespace ringside {

/// Sampling parameters. Host memory borrowed by the spans is read before the operation returns. Ids are below the
/// vocabulary size.
struct RowSamplingParams {
  std::span<const int32_t> banned;
  std::span<const uint32_t> allowed;                // bit id % 32 of word id / 32, for every id; empty: every token
  std::span<const std::pair<int32_t, float>> bias;  // distinct ids
  std::span<const int32_t> repeated;                // distinct ids to which repetition_penalty applies
  std::span<const std::pair<int32_t, int32_t>> counted;  // distinct ids with their number of occurrences
  double repetition_penalty = 1.0;                       // > 0
  double presence_penalty = 0.0, frequency_penalty = 0.0;
  double temperature = 1.0;  // >= 0
  int64_t top_k = 0;         // 0 = off
  double top_p = 1.0;        // (0, 1]
  double min_p = 0.0;        // [0, 1]
  double uniform = 0.0;      // [0, 1)
  int64_t logprobs = -1;     // -1 = none; n = of the sampled token and the n best, <= limits::kMaxBestTokens
  int32_t scored = -1;       // >= 0: only scores this token; requires temperature 0
  bool edits_logprobs = false;

  bool edits() const {
    return !banned.empty() || !allowed.empty() || !bias.empty() || !repeated.empty() || !counted.empty();
  }
  bool greedy() const { return temperature == 0 || top_k == 1; }
  // Bounded, so that 0 * inf cannot occur: at 1e30 the weights equal those of greedy sampling anyway.
  float inverse_temperature() const { return static_cast<float>(std::min(1.0 / temperature, 1e30)); }
};

struct TokenLogprob {
  int32_t id = 0;
  float logprob = 0;
};

struct alignas(16) SampledToken {
  enum class Outcome : int32_t {
    kChosen,
    kNonFinite,       // a logit was NaN or +inf, or none was finite
    kNoTokenAllowed,  // every token was banned or not allowed
  };
  Outcome outcome = Outcome::kChosen;
  int32_t id = 0;
  float logprob = 0;  // 0 unless RowSamplingParams::logprobs >= 0
  int32_t tops = 0;   // length of `top`: min(logprobs, tokens that are not excluded)
  TokenLogprob top[limits::kMaxBestTokens];

  std::span<const TokenLogprob> best() const { return {top, static_cast<size_t>(tops)}; }
};

/// exp(x) for x <= 0 in float with relative error under 3e-7; 0 below -87, where a float would lose bits. x = n ln 2 +
/// r with |r| <= ln 2 / 2; exp(r) by its Taylor polynomial of degree 7. Every machine does the same operations in the
/// same order (no libm exp, no fused operations), so weights are bit-equal everywhere.
constexpr float ExpNegative(float x) {
  // Below -87 a mask zeroes x and the result: a mask instead of a branch, so that loops over this function vectorize.
  const int32_t bits = std::bit_cast<int32_t>(x);
  const int32_t keep = -static_cast<int32_t>((bits & 0x7fffffff) <= std::bit_cast<int32_t>(87.0f));
  const float bounded = std::bit_cast<float>(bits & keep);
  constexpr float kRound = 12582912.0f;  // 1.5 * 2^23: adding it rounds to an integer in the low bits
  const float n = (bounded * 1.44269504f + kRound) - kRound;
  const float r = (bounded - n * 0.693359375f) - n * -2.12194440e-4f;
  float p = 1.0f / 5040;
  p = p * r + 1.0f / 720;
  p = p * r + 1.0f / 120;
  p = p * r + 1.0f / 24;
  p = p * r + 1.0f / 6;
  p = p * r + 0.5f;
  p = p * r + 1.0f;
  p = p * r + 1.0f;
  return p * std::bit_cast<float>(((static_cast<int32_t>(n) + 127) << 23) & keep);
}

/// The unnormalized probability of a logit: exp((logit - max) * inverse_temperature).
constexpr float SoftmaxWeight(float logit, float max, float inverse_temperature) {
  return ExpNegative((logit - max) * inverse_temperature);
}

}  // namespace ringside
