#include <webp/decode.h>

#include <algorithm>
#include <cstring>

#include "tools/image_decoder/orientation.h"

namespace ringside::decoder {
namespace {

/// The contents of the chunk "EXIF" of a RIFF file; empty if it has none.
std::span<const uint8_t> FindExif(std::span<const uint8_t> file) {
  constexpr size_t kHeader = 8;
  for (size_t at = 12; at < file.size() && file.size() - at >= kHeader;) {
    const uint8_t* const chunk = &file[at];
    const size_t bytes = chunk[4] | chunk[5] << 8 | chunk[6] << 16 | static_cast<size_t>(chunk[7]) << 24;
    const size_t rest = file.size() - at - kHeader;
    if (std::memcmp(chunk, "EXIF", 4) == 0) return file.subspan(at + kHeader, std::min(bytes, rest));
    if (bytes >= rest) break;
    at += kHeader + bytes + bytes % 2;
  }
  return {};
}

}  // namespace

DecodedImage DecodeWebp(std::span<const uint8_t> file, int64_t max_pixels) {
  WebPBitstreamFeatures features;
  if (WebPGetFeatures(file.data(), file.size(), &features) != VP8_STATUS_OK) return Failed(ImageReply::kMalformed);
  if (features.has_animation != 0) return Failed(ImageReply::kAnimated);
  const int64_t width = features.width, height = features.height;
  if (width <= 0 || height <= 0) return Failed(ImageReply::kMalformed);
  if (width * height > max_pixels) return Failed(ImageReply::kTooLarge);
  const int64_t stride = width * kImageChannels;
  DecodedImage out;
  out.rgb.resize(static_cast<size_t>(stride * height));
  if (WebPDecodeRGBInto(file.data(), file.size(), out.rgb.data(), out.rgb.size(), static_cast<int>(stride)) ==
      nullptr) {
    return Failed(ImageReply::kMalformed);
  }
  out.header = {ImageReply::kDecoded, static_cast<uint32_t>(width), static_cast<uint32_t>(height)};
  out.orientation = OrientationOf(FindExif(file));
  return out;
}

}  // namespace ringside::decoder
