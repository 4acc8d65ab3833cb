// The orientation that a camera wrote into a file's EXIF data, and images turned upright. Pure. THREAD: any.
#pragma once

#include <cstdint>
#include <span>

#include "tools/image_decoder/decoded_image.h"

namespace ringside::decoder {

/// 1 to 8, as tag 0x0112 of EXIF 2.32 (section 4.6.4) counts them; 1 (upright) if `exif` has none or is damaged.
/// `exif`: TIFF, with or without the "Exif" before it.
int OrientationOf(std::span<const uint8_t> exif);
/// Turns and mirrors the image as its orientation says. ERRORS: std::bad_alloc: orientations from 5 on need a copy.
void MakeUpright(int orientation, DecodedImage* image);

}  // namespace ringside::decoder
