#include "tools/image_decoder/orientation.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>
#include <utility>

namespace ringside::decoder {
namespace {

constexpr std::string_view kExif("Exif\0\0", 6);
constexpr uint32_t kOrientationTag = 0x0112, kShort = 3, kEntryBytes = 12;

/// Numbers in TIFF's byte order; 0 beyond the end.
class Tiff {
 public:
  Tiff(std::span<const uint8_t> bytes, bool big_endian) : bytes_(bytes), big_endian_(big_endian) {}
  uint32_t Number(size_t at, size_t width) const {
    if (at > bytes_.size() || width > bytes_.size() - at) return 0;
    uint32_t value = 0;
    for (size_t i = 0; i < width; ++i) value = value << 8 | bytes_[big_endian_ ? at + i : at + width - 1 - i];
    return value;
  }

 private:
  const std::span<const uint8_t> bytes_;
  const bool big_endian_;
};

/// How an upright image is read from a stored one: of 5 to 8 first with rows and columns exchanged.
struct Reading {
  bool exchanged, right_to_left, bottom_up;
};
constexpr std::array<Reading, 8> kReadings = {{{false, false, false},
                                               {false, true, false},
                                               {false, true, true},
                                               {false, false, true},
                                               {true, false, false},
                                               {true, true, false},
                                               {true, true, true},
                                               {true, false, true}}};

using Pixel = std::array<uint8_t, kImageChannels>;
Pixel* Pixels(std::vector<uint8_t>& rgb) { return reinterpret_cast<Pixel*>(rgb.data()); }

void ExchangeRowsAndColumns(DecodedImage* image) {
  const size_t width = image->header.width, height = image->header.height;
  std::vector<uint8_t> exchanged(image->rgb.size());
  for (size_t y = 0; y < height; ++y) {
    for (size_t x = 0; x < width; ++x) Pixels(exchanged)[x * height + y] = Pixels(image->rgb)[y * width + x];
  }
  image->rgb = std::move(exchanged);
  std::swap(image->header.width, image->header.height);
}

}  // namespace

int OrientationOf(std::span<const uint8_t> exif) {
  if (exif.size() >= kExif.size() && std::memcmp(exif.data(), kExif.data(), kExif.size()) == 0) {
    exif = exif.subspan(kExif.size());
  }
  if (exif.size() < 8 || exif[0] != exif[1] || (exif[0] != 'I' && exif[0] != 'M')) return 1;
  const Tiff tiff(exif, exif[0] == 'M');
  const size_t directory = tiff.Number(4, 4), entries = tiff.Number(directory, 2);
  for (size_t i = 0; i < entries; ++i) {
    const size_t entry = directory + 2 + i * kEntryBytes;
    if (entry > exif.size()) break;
    if (tiff.Number(entry, 2) != kOrientationTag || tiff.Number(entry + 2, 2) != kShort) continue;
    const uint32_t orientation = tiff.Number(entry + 8, 2);
    return orientation >= 1 && orientation <= kReadings.size() ? static_cast<int>(orientation) : 1;
  }
  return 1;
}

void MakeUpright(DecodedImage* image) {
  const Reading reading = kReadings[static_cast<size_t>(std::exchange(image->orientation, 1) - 1)];
  if (reading.exchanged) ExchangeRowsAndColumns(image);
  const size_t width = image->header.width, height = image->header.height;
  Pixel* const pixels = Pixels(image->rgb);
  if (reading.right_to_left) {
    for (size_t y = 0; y < height; ++y) std::reverse(pixels + y * width, pixels + (y + 1) * width);
  }
  if (reading.bottom_up) {
    for (size_t y = 0; y < height / 2; ++y) {
      std::swap_ranges(pixels + y * width, pixels + (y + 1) * width, pixels + (height - 1 - y) * width);
    }
  }
}

}  // namespace ringside::decoder
