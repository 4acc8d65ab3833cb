// What a model is made from.
#pragma once

namespace ringside {

enum class LoadFormat {
  kAuto,   // what the path is: a GGUF file, or a folder of Hugging Face or FasterTransformer
  kDummy,  // the shape that a Hugging Face folder's config.json tells, with random weights: only to measure with
};

}  // namespace ringside
