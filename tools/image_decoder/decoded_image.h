// One image file to RGB, by the library of its format. Each function reads bytes from outside and runs in the sandbox
// (sandbox.h). Single-threaded.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/image_reply.h"

namespace ringside::decoder {

struct DecodedImage {
  ImageReplyHeader header;
  std::vector<uint8_t> rgb;  // [height, width, 3] with kDecoded
  int orientation = 1;       // OrientationOf; 1 after Decode
};

inline DecodedImage Failed(ImageReply status) { return {{.status = status}, {}}; }

/// The image, turned upright. ERRORS: a status of ImageReply; std::bad_alloc.
DecodedImage Decode(std::span<const uint8_t> file, int64_t max_pixels);

// By format, as stored. Alpha is dropped, as PIL's convert("RGB") drops it.
DecodedImage DecodeJpeg(std::span<const uint8_t> file, int64_t max_pixels);
DecodedImage DecodePng(std::span<const uint8_t> file, int64_t max_pixels);
DecodedImage DecodeWebp(std::span<const uint8_t> file, int64_t max_pixels);

}  // namespace ringside::decoder
