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

// As computed there too; halves are rounded to even numbers.
PictureSize FitArea(const VisionSpec& spec, int64_t width, int64_t height) {
  const auto unit = static_cast<double>(spec.token_pixels()), w = static_cast<double>(width),
             h = static_cast<double>(height);
  const auto least = static_cast<double>(spec.preprocessing.least_pixels),
             most = static_cast<double>(spec.preprocessing.most_pixels);
  const double columns = std::nearbyint(w / unit), rows = std::nearbyint(h / unit), area = columns * rows * unit * unit;
  const auto size = [&](double across, double down) {
    return PictureSize{static_cast<int64_t>(across * unit), static_cast<int64_t>(down * unit)};
  };
  if (area > most) {
    const double factor = std::sqrt(h * w / most);
    return size(std::max(1.0, std::floor(w / factor / unit)), std::max(1.0, std::floor(h / factor / unit)));
  }
  if (area >= least) return size(columns, rows);
  const double factor = std::sqrt(least / (h * w));
  return size(std::ceil(w * factor / unit), std::ceil(h * factor / unit));
}

}  // namespace

int64_t VisionSpec::most_windows() const {
  if (window == 0) return 1;
  const auto across = [this](int64_t tokens) { return (tokens + window - 1) / window; };
  int64_t most = 0;
  for (int64_t rows = 1; rows <= most_tokens(); ++rows) {
    most = std::max(most, across(rows) * across(most_tokens() / rows));
  }
  return most;
}

bool VisionSpec::HasWindows(int64_t layer) const {
  return window > 0 && std::ranges::find(whole_layers, layer) == whole_layers.end();
}

PictureSize FitPicture(const VisionSpec& spec, int64_t width, int64_t height) {
  if (spec.preprocessing.fit == PictureFit::kLongestEdge) return FitLongestEdge(spec, width, height);
  if (spec.preprocessing.fit == PictureFit::kArea) return FitArea(spec, width, height);
  return {spec.preprocessing.edge, spec.preprocessing.edge};
}

}  // namespace ringside
