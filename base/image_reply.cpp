#include "base/image_reply.h"

#include <algorithm>

namespace ringside {
namespace {

constexpr std::array<uint8_t, 4> kMagic = {'R', 'S', 'I', '1'};
constexpr size_t kStatusAt = 4, kWidthAt = 8, kHeightAt = 12;

void PutLittleEndian(uint32_t value, uint8_t* out) {
  for (int i = 0; i < 4; ++i) out[i] = static_cast<uint8_t>(value >> (8 * i));
}
uint32_t GetLittleEndian(const uint8_t* in) {
  uint32_t value = 0;
  for (int i = 0; i < 4; ++i) value |= static_cast<uint32_t>(in[i]) << (8 * i);
  return value;
}

}  // namespace

std::array<uint8_t, kImageReplyBytes> EncodeImageReply(const ImageReplyHeader& header) {
  std::array<uint8_t, kImageReplyBytes> bytes{};
  std::ranges::copy(kMagic, bytes.begin());
  bytes[kStatusAt] = static_cast<uint8_t>(header.status);
  PutLittleEndian(header.width, &bytes[kWidthAt]);
  PutLittleEndian(header.height, &bytes[kHeightAt]);
  return bytes;
}

std::optional<ImageReplyHeader> ParseImageReply(std::span<const uint8_t> bytes, int64_t max_pixels) {
  if (bytes.size() != kImageReplyBytes || !std::equal(kMagic.begin(), kMagic.end(), bytes.begin())) return std::nullopt;
  if (GetLittleEndian(&bytes[kStatusAt]) > static_cast<uint32_t>(ImageReply::kOutOfMemory)) return std::nullopt;
  const ImageReplyHeader header{static_cast<ImageReply>(bytes[kStatusAt]), GetLittleEndian(&bytes[kWidthAt]),
                                GetLittleEndian(&bytes[kHeightAt])};
  if (header.status != ImageReply::kDecoded) {
    return header.width == 0 && header.height == 0 ? std::optional(header) : std::nullopt;
  }
  const uint64_t pixels = uint64_t{header.width} * header.height;
  if (pixels == 0 || pixels > static_cast<uint64_t>(max_pixels)) return std::nullopt;
  return header;
}

}  // namespace ringside
