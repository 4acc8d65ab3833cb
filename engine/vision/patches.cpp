#include "engine/vision/patches.h"

#include <algorithm>
#include <array>

#include "base/check.h"
#include "engine/vision/resize.h"

namespace ringside {
namespace {

/// The whole picture resized to the fitted size.
std::vector<uint8_t> Stretched(const VisionSpec& spec, const Picture& picture, const PictureSize& size) {
  if (size == PictureSize{picture.width, picture.height}) return picture.rgb;
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

/// The normalised value of each byte, by channel.
std::array<std::array<float, 256>, 3> NormalisedValues(const VisionPreprocessing& preprocessing) {
  std::array<std::array<float, 256>, 3> values;
  for (size_t channel = 0; channel < 3; ++channel) {
    for (size_t byte = 0; byte < 256; ++byte) {
      values[channel][byte] =
          (static_cast<float>(byte) / 255.0f - preprocessing.mean[channel]) / preprocessing.deviation[channel];
    }
  }
  return values;
}

}  // namespace

Patches MakePatches(const VisionSpec& spec, const Picture& picture) {
  const PictureSize size = FitPicture(spec, picture.width, picture.height);
  const bool crops = spec.preprocessing.fit == PictureFit::kCrop;
  const std::vector<uint8_t> rgb = crops ? Cropped(spec, picture) : Stretched(spec, picture, size);
  CHECK_EQ(std::ssize(rgb), size.width * size.height * 3);
  const std::array<std::array<float, 256>, 3> normalised = NormalisedValues(spec.preprocessing);
  const int64_t side = spec.patch, merge = spec.merge;
  Patches out{.rows = size.height / side, .columns = size.width / side};
  out.values.resize(static_cast<size_t>(out.rows * out.columns * spec.patch_values()));
  float* to = out.values.data();
  const auto add = [&](int64_t row, int64_t column) {
    out.positions.push_back({row, column});
    for (int64_t c = 0; c < 3; ++c) {
      const std::array<float, 256>& values = normalised[static_cast<size_t>(c)];
      for (int64_t y = row * side; y < (row + 1) * side; ++y) {
        const uint8_t* pixel = rgb.data() + (y * size.width + column * side) * 3 + c;
        for (int64_t x = 0; x < side; ++x, pixel += 3) *to++ = values[*pixel];
      }
    }
  };
  const int64_t side_rows = spec.window > 0 ? spec.window * merge : out.rows,
                side_columns = spec.window > 0 ? spec.window * merge : out.columns;
  for (int64_t top = 0; top < out.rows; top += side_rows) {
    for (int64_t left = 0; left < out.columns; left += side_columns) {
      const auto before = std::ssize(out.positions);
      for (int64_t row = top; row < std::min(top + side_rows, out.rows); row += merge) {
        for (int64_t column = left; column < std::min(left + side_columns, out.columns); column += merge) {
          for (int64_t i = 0; i < merge * merge; ++i) add(row + i / merge, column + i % merge);
        }
      }
      out.windows.push_back(std::ssize(out.positions) - before);
    }
  }
  return out;
}

}  // namespace ringside
