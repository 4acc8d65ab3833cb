// An image of a timeline: the picture, and its tokens. Plain data.
#pragma once

#include <cstdint>
#include <memory>

#include "engine/vision/picture.h"

namespace ringside {

struct ImageInput {
  int64_t position = 0;  // of its first token in the timeline
  int64_t tokens = 0;    // their number, markers included: ImageFormat::Tokens
  std::shared_ptr<const Picture> picture;
};

}  // namespace ringside
