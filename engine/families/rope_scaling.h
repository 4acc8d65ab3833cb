// How a model's rotation frequencies come from a base and a way to stretch it to longer texts.
#pragma once

#include <cstdint>
#include <vector>

#include "base/status.h"
#include "engine/families/model_spec.h"

namespace ringside {

/// How a model's rotation frequencies come from base^(-2j / rotary).
struct RopeScaling {
  enum class Kind {
    kNone,
    kLinear,   // all divided by factor (Chen et al. 2023)
    kLlama3,   // long wavelengths divided by factor, short ones kept, a ramp between (Llama 3.1)
    kYarn,     // the same with a ramp over dimensions, and a magnitude (Peng et al. 2023)
    kFactors,  // each divided by its own number from the file
  };
  Kind kind = Kind::kNone;
  double base = 10000.0;
  double factor = 1.0;
  double original_context = 0;                           // llama3, yarn
  double low_freq_factor = 1.0, high_freq_factor = 4.0;  // llama3
  double beta_fast = 32.0, beta_slow = 1.0;              // yarn
  double magnitude = 0;                                  // yarn: 0 = 1 + 0.1 ln(factor); kFactors: 0 = 1
  bool truncate = true;                                  // yarn: whole dimensions bound the ramp
  std::vector<double> factors;                           // [rotary / 2]
};

/// ModelSpec::scaled_context of a model with this rotation; 0 where its file's context counts the stretching already,
/// which only YaRN's leave out (Qwen2.5).
int64_t ScaledContext(const RopeScaling& scaling);

/// The rotation of `rotary` dimensions, in float64. kInvalidArgument, naming it, for a parameter out of range.
Result<Rotation> MakeRotation(const RopeScaling& scaling, int64_t rotary);

}  // namespace ringside
