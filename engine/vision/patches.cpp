#include "engine/vision/patches.h"

#include <algorithm>
#include <array>
#include <span>

#include "base/check.h"
#include "engine/vision/resize.h"
#include "kernels/formats/half.h"

namespace ringside {
namespace {

/// The whole picture resized to the fitted size.
std::vector<uint8_t> Stretched(const VisionSpec& spec, const Picture& picture, const PictureSize& size) {
  return Resize(picture.rgb, {picture.width, size.width, 0, size.width}, {picture.height, size.height, 0, size.height},
                spec.preprocessing.resampling);
}

/// The middle of the picture, whose shorter side becomes `edge` pixels.
std::vector<uint8_t> Cropped(const VisionSpec& spec, const Picture& picture) {
  const int64_t edge = spec.preprocessing.edge, shorter = std::min(picture.width, picture.height);
  const auto axis = [&](int64_t side) {
    const int64_t out = edge * side / shorter;
    return ResizeAxis{side, out, (out - edge) / 2, edge};
  };
  return Resize(picture.rgb, axis(picture.width), axis(picture.height), spec.preprocessing.resampling);
}

/// The normalised value of each byte, by channel, in a type of the patches.
template <class T, class Convert>
std::array<std::array<T, 256>, 3> NormalisedValues(const VisionPreprocessing& preprocessing, Convert convert) {
  std::array<std::array<T, 256>, 3> values;
  for (size_t channel = 0; channel < 3; ++channel) {
    for (size_t byte = 0; byte < 256; ++byte) {
      values[channel][byte] =
          convert((static_cast<float>(byte) / 255.0f - preprocessing.mean[channel]) / preprocessing.deviation[channel]);
    }
  }
  return values;
}

/// Cuts a picture of `width` pixels per row into patches of `side` x `side`.
template <class T>
void Cut(std::span<const uint8_t> rgb, int64_t width, int64_t side, const std::array<std::array<T, 256>, 3>& normalised,
         int64_t padded, Patches* out) {
  out->values.resize(out->positions.size() * static_cast<size_t>(padded) * sizeof(T));
  auto* to = reinterpret_cast<T*>(out->values.data());
  for (const PatchPosition& at : out->positions) {
    T* const end = to + padded;
    for (size_t c = 0; c < 3; ++c) {
      for (int64_t y = at.row * side; y < (at.row + 1) * side; ++y) {
        const uint8_t* pixel = rgb.data() + (y * width + at.column * side) * 3 + c;
        for (int64_t x = 0; x < side; ++x, pixel += 3) *to++ = normalised[c][*pixel];
      }
    }
    std::fill(to, end, T());
    to = end;
  }
}

/// The patches' places in a picture, token after token, window after window.
void Place(const VisionSpec& spec, Patches* out) {
  out->positions.clear();
  out->windows.clear();
  const int64_t merge = spec.merge, side_rows = spec.window > 0 ? spec.window * merge : out->rows,
                side_columns = spec.window > 0 ? spec.window * merge : out->columns;
  for (int64_t top = 0; top < out->rows; top += side_rows) {
    for (int64_t left = 0; left < out->columns; left += side_columns) {
      const auto before = std::ssize(out->positions);
      for (int64_t row = top; row < std::min(top + side_rows, out->rows); row += merge) {
        for (int64_t column = left; column < std::min(left + side_columns, out->columns); column += merge) {
          for (int64_t i = 0; i < merge * merge; ++i) out->positions.push_back({row + i / merge, column + i % merge});
        }
      }
      out->windows.push_back(std::ssize(out->positions) - before);
    }
  }
}

}  // namespace

void MakePatches(const VisionSpec& spec, const Picture& picture, DType dtype, int64_t padded, Patches* out) {
  const PictureSize size = FitPicture(spec, picture.width, picture.height);
  const bool crops = spec.preprocessing.fit == PictureFit::kCrop;
  const bool fits = !crops && size == PictureSize{picture.width, picture.height};
  const std::vector<uint8_t> resized = fits    ? std::vector<uint8_t>()
                                       : crops ? Cropped(spec, picture)
                                               : Stretched(spec, picture, size);
  const std::span<const uint8_t> rgb = fits ? picture.rgb : resized;
  CHECK_EQ(std::ssize(rgb), size.width * size.height * 3);
  const int64_t side = spec.patch;
  out->rows = size.height / side, out->columns = size.width / side;
  Place(spec, out);
  const auto cut = [&](const auto& normalised) { Cut(rgb, size.width, side, normalised, padded, out); };
  if (dtype == DType::kF32) return cut(NormalisedValues<float>(spec.preprocessing, [](float x) { return x; }));
  CHECK(dtype == DType::kF16 || dtype == DType::kBF16);
  cut(NormalisedValues<uint16_t>(spec.preprocessing, dtype == DType::kF16 ? FloatToHalf : FloatToBf16));
}

}  // namespace ringside
