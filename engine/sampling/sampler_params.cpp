// Validation of a turn's sampling parameters, by their wire names.

#include <fmt/format.h>

#include "base/limits.h"
#include "engine/sampling/sampling.h"

namespace ringside {
namespace {

// Written so that NaN fails.
Status CheckRange(double value, double low, double high, const char* param) {
  if (value >= low && value <= high) return Status::Ok();
  return InvalidArgument(fmt::format("{} must be from {} to {}, not {}", param, low, high, value), param);
}

// (0, high]
Status CheckPositive(double value, double high, const char* param) {
  if (value > 0 && value <= high) return Status::Ok();
  return InvalidArgument(fmt::format("{} must be above 0 and at most {}, not {}", param, high, value), param);
}

Status CheckBeams(const BeamParams& beams, const SamplingParams& params) {
  if (beams.width < 1 || beams.width > limits::kMaxBeamWidth) {
    return InvalidArgument(fmt::format("beam_width must be from 1 to {}", limits::kMaxBeamWidth), "beam_width");
  }
  RETURN_IF_ERROR(CheckRange(beams.length_penalty, -10, 10, "length_penalty"));
  RETURN_IF_ERROR(CheckRange(beams.diversity_rate, 0, 100, "beam_search_diversity_rate"));
  if (!beams.searches()) return Status::Ok();
  if (params.temperature != 0) return InvalidArgument("beam search requires temperature 0", "temperature");
  if (params.logprobs >= 0) return InvalidArgument("beam search does not return log probabilities", "top_logprobs");
  return Status::Ok();
}

Status CheckId(TokenId id, int64_t vocab, const char* param) {
  if (id >= 0 && id < vocab) return Status::Ok();
  return InvalidArgument(fmt::format("{}: token {} is not in the vocabulary of {}", param, id, vocab), param);
}

Status CheckBadWords(const std::vector<std::vector<TokenId>>& words, int64_t vocab) {
  if (static_cast<int64_t>(words.size()) > limits::kMaxBadWords) {
    return InvalidArgument(fmt::format("bad_words has more than {} entries", limits::kMaxBadWords), "bad_words");
  }
  for (const auto& word : words) {
    if (word.empty() || static_cast<int64_t>(word.size()) > limits::kMaxStopStringBytes) {
      return InvalidArgument(fmt::format("a bad word has 1 to {} tokens", limits::kMaxStopStringBytes), "bad_words");
    }
    for (const TokenId id : word) RETURN_IF_ERROR(CheckId(id, vocab, "bad_words"));
  }
  return Status::Ok();
}

}  // namespace

Status SamplingParams::Validate(int64_t vocab) const {
  RETURN_IF_ERROR(CheckRange(temperature, 0, 2, "temperature"));
  if (top_k < 0) return InvalidArgument("top_k must not be negative (0 = off)", "top_k");
  RETURN_IF_ERROR(CheckPositive(top_p, 1, "top_p"));
  RETURN_IF_ERROR(CheckRange(min_p, 0, 1, "min_p"));
  RETURN_IF_ERROR(CheckPositive(repetition_penalty, 10, "repetition_penalty"));
  RETURN_IF_ERROR(CheckRange(presence_penalty, -2, 2, "presence_penalty"));
  RETURN_IF_ERROR(CheckRange(frequency_penalty, -2, 2, "frequency_penalty"));
  if (min_tokens < 0) return InvalidArgument("min_tokens must not be negative", "min_tokens");
  if (logprobs < -1 || logprobs > limits::kMaxTopLogprobs) {
    return InvalidArgument(fmt::format("top_logprobs must be from 0 to {}", limits::kMaxTopLogprobs), "top_logprobs");
  }
  RETURN_IF_ERROR(CheckBeams(beams, *this));
  RETURN_IF_ERROR(CheckPositive(top_p_decay, 1, "top_p_decay"));
  RETURN_IF_ERROR(CheckPositive(top_p_min, 1, "top_p_min"));
  if (top_p_reset != -1) RETURN_IF_ERROR(CheckId(top_p_reset, vocab, "top_p_reset"));
  if (static_cast<int64_t>(logit_bias.size()) > limits::kMaxLogitBiasEntries) {
    return InvalidArgument(fmt::format("logit_bias has more than {} entries", limits::kMaxLogitBiasEntries),
                           "logit_bias");
  }
  for (const auto& [id, bias] : logit_bias) {
    RETURN_IF_ERROR(CheckId(id, vocab, "logit_bias"));
    RETURN_IF_ERROR(CheckRange(bias, -100, 100, "logit_bias"));
  }
  return CheckBadWords(bad_words, vocab);
}

}  // namespace ringside
