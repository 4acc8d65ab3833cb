// What a model is made from.
#pragma once

#include <string>

namespace ringside {

enum class LoadFormat {
  kAuto,   // weights from the path, whatever its format
  kDummy,  // the shape that a Hugging Face folder's config.json tells, with random weights: only to measure with
};

/// A LoRA adapter, and the name under which it is asked for.
struct NamedAdapter {
  std::string name;
  std::string path;  // a folder in PEFT's format, or a GGUF file
};

}  // namespace ringside
