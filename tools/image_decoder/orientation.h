// The orientation that a camera wrote into a file's EXIF data, and images turned upright. Pure. THREAD: any.
#pragma once

#include <cstdint>
#include <span>

#include "tools/image_decoder/decoded_image.h"

namespace ringside::decoder {

/// 1 to 8, as tag 0x0112 of EXIF 2.32 (section 4.6.4) counts them; 1 (upright) if `exif` has none or is damaged.
/// `exif`: TIFF, with or without the "Exif" before it.
int OrientationOf(std::span<const uint8_t> exif);
/// Turns and mirrors the image by its orientation, which becomes 1. ERRORS: std::bad_alloc (5 to 8 need a copy).
void MakeUpright(DecodedImage* image);

}  // namespace ringside::decoder
