#include "engine/families/rope_scaling.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

namespace ringside {

Status CheckPositive(const char* what, double value) {
  if (std::isfinite(value) && value > 0) return Status::Ok();
  return InvalidArgument(fmt::format("the model's {} is {}, not a positive number", what, value));
}

namespace {

// Llama 3.1: wavelengths beyond original / low are scaled, those below original / high kept.
double Llama3Frequency(const RopeScaling& scaling, double frequency) {
  const double wavelength = 2 * std::numbers::pi / frequency;
  if (wavelength < scaling.original_context / scaling.high_freq_factor) return frequency;
  if (wavelength > scaling.original_context / scaling.low_freq_factor) return frequency / scaling.factor;
  const double smooth = (scaling.original_context / wavelength - scaling.low_freq_factor) /
                        (scaling.high_freq_factor - scaling.low_freq_factor);
  return (1 - smooth) * frequency / scaling.factor + smooth * frequency;
}

// YaRN: the pair that makes `rotations` turns within the original context.
double YarnDimension(const RopeScaling& scaling, double rotations, double rotary) {
  return rotary * std::log(scaling.original_context / (rotations * 2 * std::numbers::pi)) /
         (2 * std::log(scaling.base));
}

void ApplyYarn(const RopeScaling& scaling, double rotary, Rotation* rotation) {
  double low = YarnDimension(scaling, scaling.beta_fast, rotary);
  double high = YarnDimension(scaling, scaling.beta_slow, rotary);
  if (scaling.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, rotary - 1);
  if (low == high) high += 0.001;
  for (size_t j = 0; j < rotation->inverse_frequencies.size(); ++j) {
    const double kept = 1 - std::clamp((static_cast<double>(j) - low) / (high - low), 0.0, 1.0);
    double& frequency = rotation->inverse_frequencies[j];
    frequency = frequency / scaling.factor * (1 - kept) + frequency * kept;
  }
  rotation->magnitude = scaling.magnitude != 0 ? scaling.magnitude
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
    if (scaling.magnitude != 0) RETURN_IF_ERROR(CheckPositive("rope attention factor", scaling.magnitude));
  }
  return Status::Ok();
}

}  // namespace

int64_t ScaledContext(const RopeScaling& scaling) {
  constexpr double kMost = int64_t{1} << 31;  // ValidateSpec's limit of the trained context
  if (scaling.kind != RopeScaling::Kind::kYarn) return 0;
  return static_cast<int64_t>(std::min(scaling.original_context * scaling.factor, kMost));
}

Result<Rotation> MakeRotation(const RopeScaling& scaling, int64_t rotary) {
  const auto pairs = static_cast<size_t>(rotary / 2);
  RETURN_IF_ERROR(CheckScaling(scaling, pairs));
  Rotation rotation;
  rotation.inverse_frequencies.resize(pairs);
  for (size_t j = 0; j < pairs; ++j) {
    const double plain = std::pow(scaling.base, -2.0 * static_cast<double>(j) / static_cast<double>(rotary));
    double& frequency = rotation.inverse_frequencies[j] = plain;
    if (scaling.kind == RopeScaling::Kind::kLinear) frequency = plain / scaling.factor;
    if (scaling.kind == RopeScaling::Kind::kLlama3) frequency = Llama3Frequency(scaling, plain);
    if (scaling.kind == RopeScaling::Kind::kFactors) frequency = plain / scaling.factors[j];
    if (scaling.kind == RopeScaling::Kind::kPartial) {
      frequency = static_cast<int64_t>(j) < scaling.rotated_pairs ? plain / scaling.factor : 0;
    }
  }
  if (scaling.kind == RopeScaling::Kind::kYarn) ApplyYarn(scaling, static_cast<double>(rotary), &rotation);
  if (scaling.kind == RopeScaling::Kind::kFactors && scaling.magnitude != 0) rotation.magnitude = scaling.magnitude;
  return rotation;
}

void SetAxes(std::span<const int64_t> sections, bool interleaved, Rotation* rotation) {
  const auto pairs = std::ssize(rotation->inverse_frequencies);
  if (sections.size() < 3) return;
  sections = sections.first(3);
  const auto fits = [pairs](int64_t section) { return section >= 0 && section <= pairs; };
  if (!std::ranges::all_of(sections, fits) || sections[0] + sections[1] + sections[2] != pairs) return;
  for (int64_t pair = 0; pair < pairs; ++pair) {
    uint8_t axis = pair < sections[0] ? 0 : pair < sections[0] + sections[1] ? 1 : 2;
    if (interleaved) {
      axis = static_cast<uint8_t>(pair % 3);
      if (pair >= 3 * sections[axis]) axis = 0;
    }
    rotation->axes.push_back(axis);
  }
}

}  // namespace ringside
