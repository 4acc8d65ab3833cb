// A picture as the rows of a vision tower: resized, cropped, normalised, and cut into patches. Pure. THREAD: any.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/vision/picture.h"
#include "engine/vision/vision_spec.h"

namespace ringside {

struct PatchPosition {
  int64_t row = 0, column = 0;
};

/// The patches of each token are consecutive, row by row; so are the tokens of each window, and the windows.
struct Patches {
  int64_t rows = 0, columns = 0;         // of the picture, in patches
  std::vector<float> values;             // [rows * columns, 3 patch^2]: by channel, then row, then column
  std::vector<PatchPosition> positions;  // [rows * columns]
  std::vector<int64_t> windows;          // patches of each window; one without windows
};

/// REQUIRES: the picture has tokens (ImageFormat::Tokens).
Patches MakePatches(const VisionSpec& spec, const Picture& picture);

}  // namespace ringside
