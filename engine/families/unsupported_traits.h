// Known architectures that are not supported: the trait that each one needs, and the nearest model that loads.
#pragma once

#include <span>
#include <string_view>

namespace ringside {

struct UnsupportedTrait {
  std::string_view trait;    // for a sentence about the model: "Mamba-1 layers"; empty if unknown or supported
  std::string_view nearest;  // a model of the same maker or kind: "GLM-4.7"
};

/// By the name in config.json or in a GGUF file.
UnsupportedTrait FindUnsupportedTrait(std::string_view architecture);

/// The supported name that shares the most letters at both ends with an unknown one ("qwen35moe" for "qwen5moe"), at
/// least three at the start; among several the one nearest in length, and the last. Empty if there is none.
std::string_view NearestArchitecture(std::string_view architecture, std::span<const std::string_view> supported);

}  // namespace ringside
