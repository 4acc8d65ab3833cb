// Sources of a model.
#pragma once

#include <string>

namespace ringside {

enum class LoadFormat {
  kAuto,   // weights from the path, in any format
  kDummy,  // the shape from a Hugging Face config.json, with random weights: for benchmarks only
};

/// An adapter that requests can select, by name.
struct NamedAdapter {
  enum class Kind { kLora, kSoftPrompt };
  std::string name;
  std::string path;  // a PEFT folder; or a GGUF file, or for a soft prompt a safetensors file
  Kind kind = Kind::kLora;
  /// The name of the server's flag for it.
  const char* kind_name() const { return kind == Kind::kLora ? "lora" : "soft-prompt"; }
};

}  // namespace ringside
