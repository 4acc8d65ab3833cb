#include "tools/image_decoder/decoded_image.h"

#include <algorithm>
#include <string_view>

#include "tools/image_decoder/orientation.h"

namespace ringside::decoder {
namespace {

bool HasAt(std::span<const uint8_t> file, size_t at, std::string_view bytes) {
  return file.size() >= at + bytes.size() && std::equal(bytes.begin(), bytes.end(), file.begin() + at,
                                                        [](char a, uint8_t b) { return static_cast<uint8_t>(a) == b; });
}

DecodedImage DecodeAsStored(std::span<const uint8_t> file, int64_t max_pixels) {
  if (HasAt(file, 0, "\xFF\xD8\xFF")) return DecodeJpeg(file, max_pixels);
  if (HasAt(file, 0, "\x89PNG\r\n\x1A\n")) return DecodePng(file, max_pixels);
  if (HasAt(file, 0, "RIFF") && HasAt(file, 8, "WEBP")) return DecodeWebp(file, max_pixels);
  return Failed(ImageReply::kUnknownFormat);
}

}  // namespace

DecodedImage Decode(std::span<const uint8_t> file, int64_t max_pixels) {
  DecodedImage image = DecodeAsStored(file, max_pixels);
  MakeUpright(&image);
  return image;
}

}  // namespace ringside::decoder
