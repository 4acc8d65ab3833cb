// A picture as the rows of a vision tower: resized, cropped, normalised, and cut into patches. Pure. THREAD: any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/vision/picture.h"
#include "engine/vision/vision_spec.h"
#include "kernels/tensor.h"

namespace ringside {

struct PatchPosition {
  int64_t row = 0, column = 0;
};

/// The patches of each token are consecutive, row by row; so are the tokens of each window, and the windows.
struct Patches {
  int64_t rows = 0, columns = 0;         // of the picture, in patches
  std::vector<std::byte> values;         // [rows * columns, 3 patch^2, padded]: by channel, then row, then column
  std::vector<PatchPosition> positions;  // [rows * columns]
  std::vector<int64_t> windows;          // patches of each window; one without windows
};

/// Replaces `out`, whose memory is reused: touching new memory takes longer than filling it. Each patch has `padded`
/// values of this type; the last ones are 0. REQUIRES: the picture has tokens (ImageFormat::Tokens).
void MakePatches(const VisionSpec& spec, const Picture& picture, DType dtype, int64_t padded, Patches* out);

}  // namespace ringside
