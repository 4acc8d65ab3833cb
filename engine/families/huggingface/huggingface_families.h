// The families of the transformers library (config.json and safetensors files): one row each.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "engine/families/huggingface/config_json.h"
#include "engine/families/network_plan.h"

namespace ringside {

struct HuggingFaceFamily {
  std::string_view type;                                      // config.json's model_type
  Status (*read)(const ConfigJson& config, ModelSpec* spec);  // converts config.json to a valid spec
  std::string_view prefix;                                    // of all tensors except the head; files may omit a part
  std::vector<std::span<const TensorRule>> rules;             // a later rule of a role replaces the earlier one
  DraftRules draft = {};
};

/// All rules of a family.
std::vector<TensorRule> RulesOf(const HuggingFaceFamily& family);

/// Families with Llama's tensor names.
std::span<const HuggingFaceFamily> LlamaLikeFamilies();
/// Those from 2025 on.
std::span<const HuggingFaceFamily> RecentFamilies();
/// Those with multi-head latent attention.
std::span<const HuggingFaceFamily> LatentFamilies();
/// Gemma from 4 on.
std::span<const HuggingFaceFamily> GemmaFamilies();
/// Those with recurrent layers, Mamba-2 apart.
std::span<const HuggingFaceFamily> HybridFamilies();
std::span<const HuggingFaceFamily> MambaFamilies();
/// Those whose layers alternate between windows or chunks and full attention.
std::span<const HuggingFaceFamily> AlternatingFamilies();
/// Encoder-decoder families.
std::span<const HuggingFaceFamily> EncoderDecoderFamilies();
/// The other families.
std::span<const HuggingFaceFamily> OlderFamilies();
/// The family of a model_type; if there are several, the last whose last rules' first tensor is among `names` (the
/// file's tensors, in a wrapper's file with another prefix), or else the first. Null if unknown.
const HuggingFaceFamily* FindHuggingFaceFamily(std::string_view type, std::span<const std::string_view> names);

}  // namespace ringside
