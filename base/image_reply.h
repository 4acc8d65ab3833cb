// The reply of ringside-image-decoder: a header, then width x height x 3 bytes of RGB if the status is kDecoded. Shared
// by the program and by the server, which treats the bytes as hostile: a decoder may have been taken over by its input.
// Pure. THREAD: any.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

namespace ringside {

enum class ImageReply : uint8_t {
  kDecoded = 0,
  kUnknownFormat = 1,  // not JPEG, PNG or WebP
  kMalformed = 2,      // damaged or cut
  kTooLarge = 3,       // more pixels than the limit
  kAnimated = 4,       // more than one frame
  kOutOfMemory = 5,    // of the program's own limit
};

struct ImageReplyHeader {
  ImageReply status = ImageReply::kMalformed;
  uint32_t width = 0, height = 0;  // pixels; 0 without a picture
};

inline constexpr size_t kImageReplyBytes = 16;  // of a header
inline constexpr int64_t kImageChannels = 3;    // bytes of a pixel

std::array<uint8_t, kImageReplyBytes> EncodeImageReply(const ImageReplyHeader& header);
/// nullopt unless `bytes` are a header: with a picture of 1 to `max_pixels` pixels, or with none.
std::optional<ImageReplyHeader> ParseImageReply(std::span<const uint8_t> bytes, int64_t max_pixels);

}  // namespace ringside
