#include "engine/vision/vision_spec.h"

#include <algorithm>
#include <cmath>

namespace ringside {
namespace {

// As the image processors compute it, in float64, so that sizes are equal.
PictureSize FitLongestEdge(const VisionSpec& spec, int64_t width, int64_t height) {
  const auto edge = static_cast<double>(spec.preprocessing.edge);
  const double ratio = std::max(static_cast<double>(height) / edge, static_cast<double>(width) / edge);
  const auto fit = [&](int64_t side) {
    if (ratio > 1) side = static_cast<int64_t>(std::floor(static_cast<double>(side) / ratio));
    const int64_t unit = spec.token_pixels();
    return (side + unit - 1) / unit * unit;
  };
  return {fit(width), fit(height)};
}

}  // namespace

PictureSize FitPicture(const VisionSpec& spec, int64_t width, int64_t height) {
  if (spec.preprocessing.fit == PictureFit::kLongestEdge) return FitLongestEdge(spec, width, height);
  return {spec.preprocessing.edge, spec.preprocessing.edge};
}

}  // namespace ringside
