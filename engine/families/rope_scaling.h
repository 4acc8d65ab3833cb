// Rotary frequencies from a base and a scaling method for long contexts.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/status.h"
#include "engine/families/model_spec.h"

namespace ringside {

/// Scaling of the frequencies base^(-2j / rotary).
struct RopeScaling {
  enum class Kind {
    kNone,
    kLinear,   // all divided by factor (Chen et al. 2023)
    kLlama3,   // long wavelengths divided by factor, short ones kept, a ramp in between (Llama 3.1)
    kYarn,     // as kLlama3, with a ramp over dimensions, and a magnitude (Peng et al. 2023)
    kFactors,  // each divided by its own factor from the file
    kPartial,  // all divided by factor; pairs from rotated_pairs on are not rotated (Gemma 4's "proportional")
  };
  Kind kind = Kind::kNone;
  double base = 10000.0;
  double factor = 1.0;
  double original_context = 0;                           // llama3, yarn
  double low_freq_factor = 1.0, high_freq_factor = 4.0;  // llama3
  double beta_fast = 32.0, beta_slow = 1.0;              // yarn
  double magnitude = 0;                                  // yarn: 0 = 1 + 0.1 ln(factor); kFactors: 0 = 1
  bool truncate = true;                                  // yarn: round the ramp's borders to whole dimensions
  std::vector<double> factors;                           // [rotary / 2]
  int64_t rotated_pairs = 0;                             // kPartial
};

/// ERRORS: kInvalidArgument, naming `what`, if `value` is not finite or not positive.
Status CheckPositive(const char* what, double value);

/// ModelSpec::scaled_context for this rotation; 0 if the file's context already includes the scaling, which only YaRN's
/// may not (Qwen2.5).
int64_t ScaledContext(const RopeScaling& scaling);

/// The rotation of `rotary` dimensions, in float64. ERRORS: kInvalidArgument, with the parameter, if one is out of
/// range.
Result<Rotation> MakeRotation(const RopeScaling& scaling, int64_t rotary);

/// Sets the axes of a rotation with three positions: a section of the pairs for each, or turn by turn while sections
/// last (Qwen3-VL). Sections that do not fit are ignored, because texts need none.
void SetAxes(std::span<const int64_t> sections, bool interleaved, Rotation* rotation);

}  // namespace ringside
