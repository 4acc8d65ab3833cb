// Learned positions of a square of patches, interpolated to a picture's patches (Qwen3-VL). Pure. THREAD: any.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/vision/patches.h"

namespace ringside {

/// Replaces `out` by the position embeddings of a picture's patches [patches, columns], in the order of
/// Patches::positions: bilinear, the corners of the picture at those of `table` [side^2, columns].
void InterpolatePositions(std::span<const float> table, int64_t side, const Patches& patches, std::vector<float>* out);

}  // namespace ringside
