#include "engine/model/model_spec.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

namespace ringside {
namespace {

Status CheckRange(const char* what, int64_t value, int64_t least, int64_t most) {
  if (value >= least && value <= most) return Status::Ok();
  return InvalidArgument(fmt::format("the model's {} is {}, not in {} .. {}", what, value, least, most));
}

Status CheckPositive(const char* what, double value) {
  if (std::isfinite(value) && value > 0) return Status::Ok();
  return InvalidArgument(fmt::format("the model's {} is {}, not a positive number", what, value));
}

// Llama 3.1: wavelengths beyond original / low are stretched, those below original / high kept.
double Llama3Frequency(const RopeScaling& scaling, double frequency) {
  const double wavelength = 2 * std::numbers::pi / frequency;
  if (wavelength < scaling.original_context / scaling.high_freq_factor) return frequency;
  if (wavelength > scaling.original_context / scaling.low_freq_factor) return frequency / scaling.factor;
  const double smooth = (scaling.original_context / wavelength - scaling.low_freq_factor) /
                        (scaling.high_freq_factor - scaling.low_freq_factor);
  return (1 - smooth) * frequency / scaling.factor + smooth * frequency;
}

// YaRN: the pair that turns `rotations` times within the original context.
double YarnDimension(const RopeScaling& scaling, double rotations, double rotary) {
  return rotary * std::log(scaling.original_context / (rotations * 2 * std::numbers::pi)) /
         (2 * std::log(scaling.base));
}

void ApplyYarn(const RopeScaling& scaling, ModelSpec* spec) {
  const auto rotary = static_cast<double>(spec->rotary);
  double low = YarnDimension(scaling, scaling.beta_fast, rotary);
  double high = YarnDimension(scaling, scaling.beta_slow, rotary);
  if (scaling.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, rotary - 1);
  if (low == high) high += 0.001;
  for (size_t j = 0; j < spec->inverse_frequencies.size(); ++j) {
    const double kept = 1 - std::clamp((static_cast<double>(j) - low) / (high - low), 0.0, 1.0);
    double& frequency = spec->inverse_frequencies[j];
    frequency = frequency / scaling.factor * (1 - kept) + frequency * kept;
  }
  spec->rope_magnitude = scaling.magnitude != 0 ? scaling.magnitude
                         : scaling.factor <= 1  ? 1.0
                                                : 1.0 + 0.1 * std::log(scaling.factor);
}

Status CheckScaling(const RopeScaling& scaling, size_t pairs) {
  RETURN_IF_ERROR(CheckPositive("rope base", scaling.base));
  RETURN_IF_ERROR(CheckPositive("rope scaling factor", scaling.factor));
  const bool llama3 = scaling.kind == RopeScaling::Kind::kLlama3, yarn = scaling.kind == RopeScaling::Kind::kYarn;
  if (llama3 || yarn) RETURN_IF_ERROR(CheckPositive("rope original context", scaling.original_context));
  if (llama3) {
    RETURN_IF_ERROR(CheckPositive("rope low_freq_factor", scaling.low_freq_factor));
    RETURN_IF_ERROR(CheckPositive("rope high_freq_factor", scaling.high_freq_factor));
    if (scaling.low_freq_factor >= scaling.high_freq_factor) {
      return InvalidArgument(fmt::format("the model's rope low_freq_factor {} is not below its high_freq_factor {}",
                                         scaling.low_freq_factor, scaling.high_freq_factor));
    }
  }
  if (yarn) {
    RETURN_IF_ERROR(CheckPositive("rope beta_fast", scaling.beta_fast));
    RETURN_IF_ERROR(CheckPositive("rope beta_slow", scaling.beta_slow));
    if (scaling.magnitude != 0) RETURN_IF_ERROR(CheckPositive("rope attention factor", scaling.magnitude));
    if (scaling.base <= 1) return InvalidArgument(fmt::format("the model's rope base is {} with yarn", scaling.base));
  }
  if (scaling.kind == RopeScaling::Kind::kFactors) {
    if (scaling.factors.size() != pairs) {
      return InvalidArgument(fmt::format("the model has {} rope factors, not {}", scaling.factors.size(), pairs));
    }
    for (const double factor : scaling.factors) RETURN_IF_ERROR(CheckPositive("rope factor", factor));
  }
  return Status::Ok();
}

}  // namespace

Status ValidateSpec(const ModelSpec& spec) {
  RETURN_IF_ERROR(CheckRange("number of layers", spec.layers, 1, 1024));
  RETURN_IF_ERROR(CheckRange("hidden size", spec.hidden, 1, 1 << 17));
  RETURN_IF_ERROR(CheckRange("number of heads", spec.heads, 1, 4096));
  RETURN_IF_ERROR(CheckRange("number of key and value heads", spec.kv_heads, 1, spec.heads));
  RETURN_IF_ERROR(CheckRange("head size", spec.head_dim, 1, 256));  // what the kernels have room for
  RETURN_IF_ERROR(CheckRange("feed-forward size", spec.ffn, 1, 1 << 20));
  RETURN_IF_ERROR(CheckRange("vocabulary size", spec.vocab, 1, 1 << 24));
  RETURN_IF_ERROR(CheckRange("trained context", spec.trained_context, 1, int64_t{1} << 31));
  RETURN_IF_ERROR(CheckRange("sliding window", spec.sliding_window, 0, int64_t{1} << 31));
  RETURN_IF_ERROR(CheckPositive("norm epsilon", spec.norm_eps));
  if (spec.heads % spec.kv_heads != 0) {
    return InvalidArgument(
        fmt::format("the model's {} heads are no multiple of its {} key and value heads", spec.heads, spec.kv_heads));
  }
  if (spec.rope_pairs == RopePairs::kNone) {
    RETURN_IF_ERROR(CheckRange("number of rotated dimensions", spec.rotary, 0, 0));
  } else {
    RETURN_IF_ERROR(CheckRange("number of rotated dimensions", spec.rotary, 2, spec.head_dim));
    if (spec.rotary % 2 != 0) {
      return InvalidArgument(fmt::format("the model's number of rotated dimensions is {}, an odd number", spec.rotary));
    }
  }
  return Status::Ok();
}

Status ApplyRopeScaling(const RopeScaling& scaling, ModelSpec* spec) {
  const auto pairs = static_cast<size_t>(spec->rotary / 2);
  RETURN_IF_ERROR(CheckScaling(scaling, pairs));
  spec->rope_magnitude = 1.0;
  spec->inverse_frequencies.resize(pairs);
  for (size_t j = 0; j < pairs; ++j) {
    const double plain = std::pow(scaling.base, -2.0 * static_cast<double>(j) / static_cast<double>(spec->rotary));
    double& frequency = spec->inverse_frequencies[j] = plain;
    if (scaling.kind == RopeScaling::Kind::kLinear) frequency = plain / scaling.factor;
    if (scaling.kind == RopeScaling::Kind::kLlama3) frequency = Llama3Frequency(scaling, plain);
    if (scaling.kind == RopeScaling::Kind::kFactors) frequency = plain / scaling.factors[j];
  }
  if (scaling.kind == RopeScaling::Kind::kYarn) ApplyYarn(scaling, spec);
  return Status::Ok();
}

}  // namespace ringside
