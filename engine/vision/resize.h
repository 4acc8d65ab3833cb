// Resampling of pictures as by Pillow, on which the families' image processors are based: separable filters, widened
// when the picture shrinks, in 8-bit fixed point with a rounding after each direction, the horizontal one first.
// (Pillow 13 exchanges them for some sizes, which changes single levels.) Pure. THREAD: any.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/vision/vision_spec.h"

namespace ringside {

/// One direction: `in` pixels are resized to `out`; the pixels [first, first + count) of the result are computed.
struct ResizeAxis {
  int64_t in = 0, out = 0;
  int64_t first = 0, count = 0;
};

/// rgb: [y.in, x.in, 3]; returns [y.count, x.count, 3].
std::vector<uint8_t> Resize(std::span<const uint8_t> rgb, const ResizeAxis& x, const ResizeAxis& y,
                            Resampling resampling);

}  // namespace ringside
