// Rotary positions of a timeline with images whose tokens have three of them each (Qwen2-VL, Wang et al. 2024): a text
// token's are equal; an image's tokens share the first one, and the others count rows and columns from there. Text
// continues after the largest. Everything follows from the timeline's ids, so that caches, snapshots, forks and rewinds
// store no positions. Pure. THREAD: any.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/text/tokenizer.h"

namespace ringside {

/// The tokens of an image, row by row.
struct ImageGrid {
  int64_t position = 0;  // of its first token in the timeline
  int64_t rows = 0, columns = 0;
  int64_t saved = 0;  // positions that it and earlier images save: their tokens, less the positions that they advance

  int64_t end() const { return position + rows * columns; }
};

/// The images of a timeline, ascending. REQUIRES: image tokens that mark their rows (ImageFormat of VisionSpec::grids).
std::vector<ImageGrid> FindImageGrids(std::span<const TokenId> timeline);

struct RotaryPosition {
  int64_t time = 0, row = 0, column = 0;

  bool is_text() const { return row == time && column == time; }
  RotaryPosition operator-(int64_t distance) const { return {time - distance, row - distance, column - distance}; }
  friend bool operator==(const RotaryPosition&, const RotaryPosition&) = default;
};

/// Of the token at `position`. `grids`: those of the timeline; images after the token may be missing.
RotaryPosition RotaryPositionOf(std::span<const ImageGrid> grids, int64_t position);

}  // namespace ringside
