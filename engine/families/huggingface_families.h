// The families that the transformers library writes to config.json and safetensors files: one row each.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "engine/families/config_json.h"
#include "engine/families/network_plan.h"

namespace ringside {

struct HuggingFaceFamily {
  std::string_view type;                                      // config.json's model_type
  Status (*read)(const ConfigJson& config, ModelSpec* spec);  // config.json to a valid spec
  std::string_view prefix;                                    // of all tensors but the head; files may lack some of it
  std::vector<std::span<const TensorRule>> rules;
};

/// All rules of a family.
std::vector<TensorRule> RulesOf(const HuggingFaceFamily& family);

/// Those that name their parts as Llama does.
std::span<const HuggingFaceFamily> LlamaLikeFamilies();
/// Those with an encoder.
std::span<const HuggingFaceFamily> EncoderDecoderFamilies();
/// The others.
std::span<const HuggingFaceFamily> OlderFamilies();
/// The family of this type, of several the one whose norms are among `names`, a file's tensors; null if we know none.
const HuggingFaceFamily* FindHuggingFaceFamily(std::string_view type, std::span<const std::string_view> names);

}  // namespace ringside
