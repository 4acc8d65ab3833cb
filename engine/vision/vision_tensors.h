// The tensors of a vision tower from rules of their names, and the checks of its spec. Used by the readers of each
// format. Pure. THREAD: any.
#pragma once

#include <span>
#include <string_view>

#include "base/status.h"
#include "engine/vision/vision_plan.h"

namespace ringside {

struct VisionRule {
  VisionRole role;
  std::string_view name;  // "{}" is replaced by PlannedVisionTensor::layer, "{layer}" by the number of a deep layer
};

/// Adds the tensors that the plan's tower has. `prefix` comes before all names.
void PlanVisionTensors(std::span<const VisionRule> rules, std::string_view prefix, VisionPlan* plan);

/// What all files of Gemma 3 have in common.
void SetGemma3Traits(VisionSpec* spec);

/// What all files of Qwen2-VL and later have in common.
void SetQwenTraits(VisionSpec* spec);
/// And those of Qwen3-VL and later. ERRORS: kInvalidArgument if the learned positions form no square.
Status SetQwen3Traits(int64_t positions, VisionSpec* spec);

/// Completes and checks the spec. ERRORS: kInvalidArgument, with the name, for inconsistent sizes.
Status FinishVisionSpec(VisionSpec* spec);

}  // namespace ringside
