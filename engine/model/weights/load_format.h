// What a model is made from.
#pragma once

#include <string>

namespace ringside {

enum class LoadFormat {
  kAuto,   // weights from the path, whatever its format
  kDummy,  // the shape that a Hugging Face folder's config.json tells, with random weights: only to measure with
};

/// What a model may be asked for with, and the name under which it is.
struct NamedAdapter {
  enum class Kind { kLora, kSoftPrompt };
  std::string name;
  std::string path;  // a folder in PEFT's format; or a GGUF file, of a soft prompt a safetensors file
  Kind kind = Kind::kLora;
  /// As the server's flag for it is called.
  const char* kind_name() const { return kind == Kind::kLora ? "lora" : "soft-prompt"; }
};

}  // namespace ringside
