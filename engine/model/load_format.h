// What a model is made from.
#pragma once

namespace ringside {

enum class LoadFormat {
  kAuto,   // weights from the path, whatever its format
  kDummy,  // the shape that a Hugging Face folder's config.json tells, with random weights: only to measure with
};

}  // namespace ringside
