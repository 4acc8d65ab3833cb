// Known architectures that are not supported, and the trait that each one needs.
#pragma once

#include <string_view>

namespace ringside {

/// By the name in config.json or in a GGUF file, for a sentence about the model: "Mamba-1 layers". Empty if the
/// architecture is unknown or supported.
std::string_view UnsupportedTrait(std::string_view architecture);

}  // namespace ringside
