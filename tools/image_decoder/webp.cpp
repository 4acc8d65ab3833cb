#include <webp/decode.h>

#include "tools/image_decoder/decoded_image.h"

namespace ringside::decoder {

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
  return out;
}

}  // namespace ringside::decoder
